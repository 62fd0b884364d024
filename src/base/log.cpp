// SPDX-License-Identifier: MIT
#include "verbena/base/log.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>

namespace verbena::inline VERBENA_ABI {
namespace {

constexpr std::array<const char*, 5> level_names = {"debug", "info", "warning", "error", "off"};

void write_to_standard_error(log_level level, std::string_view line, void* /*user*/) {
  std::fprintf(stderr, "verbena: %s: %.*s\n", level_names[static_cast<std::size_t>(level)],
               static_cast<int>(line.size()), line.data());
}

log_level default_level() noexcept {
  const char* const wanted = std::getenv("VERBENA_LOG");
  if (wanted == nullptr) return log_level::warning;
  const auto* const found =
      std::ranges::find(level_names, std::string_view(wanted),
                        [](const char* name) { return std::string_view(name); });
  return found == level_names.end() ? log_level::warning
                                    : static_cast<log_level>(found - level_names.begin());
}

std::atomic<log_level>& threshold() noexcept {
  static std::atomic<log_level> level{default_level()};
  return level;
}

struct hook_state {
  log_hook hook = &write_to_standard_error;
  void* user = nullptr;
};

std::mutex hook_mutex;
hook_state current;

}  // namespace

void set_log_hook(log_hook hook, void* user, log_level lowest) noexcept {
  const std::lock_guard lock(hook_mutex);
  current = hook != nullptr ? hook_state{hook, user} : hook_state{};
  threshold().store(hook != nullptr ? lowest : default_level(), std::memory_order_relaxed);
}

void set_log_level(log_level lowest) noexcept {
  threshold().store(lowest, std::memory_order_relaxed);
}

bool is_logged(log_level level) noexcept {
  return level >= threshold().load(std::memory_order_relaxed);
}

void log(log_level level, std::string_view line) noexcept {
  if (!is_logged(level)) return;
  hook_state state;
  {
    const std::lock_guard lock(hook_mutex);
    state = current;
  }
  state.hook(level, line, state.user);
}

}  // namespace verbena::inline VERBENA_ABI
