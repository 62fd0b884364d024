// SPDX-License-Identifier: MIT
#include "verbena/base/log.hpp"

#include <cstdio>
#include <mutex>

namespace verbena::inline VERBENA_ABI {
namespace {

void write_to_standard_error(log_level level, std::string_view line, void* /*user*/) {
  if (level < log_level::warning) return;
  std::fprintf(stderr, "verbena: %s: %.*s\n", level == log_level::error ? "error" : "warning",
               static_cast<int>(line.size()), line.data());
}

struct hook_state {
  log_hook hook = &write_to_standard_error;
  void* user = nullptr;
};

std::mutex hook_mutex;
hook_state current;

}  // namespace

void set_log_hook(log_hook hook, void* user) noexcept {
  const std::lock_guard lock(hook_mutex);
  current = hook != nullptr ? hook_state{hook, user} : hook_state{};
}

void log(log_level level, std::string_view line) noexcept {
  hook_state state;
  {
    const std::lock_guard lock(hook_mutex);
    state = current;
  }
  state.hook(level, line, state.user);
}

}  // namespace verbena::inline VERBENA_ABI
