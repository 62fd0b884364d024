// SPDX-License-Identifier: MIT
#include "softdev/host/warn_once.hpp"

#include <unistd.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "verbena/base/log.hpp"

namespace verbena::softdev {
namespace {

constinit std::array<std::atomic<std::uint64_t>, 256> logged{};

// FNV-1a of the process and the line; never 0.
std::uint64_t identity_of(std::string_view line) noexcept {
  std::uint64_t value = 0xcbf29ce484222325U ^ static_cast<std::uint64_t>(::getpid());
  for (const char letter : line)
    value = (value ^ static_cast<unsigned char>(letter)) * 0x100000001b3U;
  return value | 1U;
}

// Returns false if the line is known.
bool remember(std::uint64_t line) noexcept {
  for (std::size_t i = 0; i < logged.size(); ++i) {
    std::uint64_t present = 0;
    auto& entry = logged[(line / 2 + i) % logged.size()];
    if (entry.compare_exchange_strong(present, line)) return true;
    if (present == line) return false;
  }
  return true;
}

}  // namespace

void warn_once(std::string_view line) noexcept {
  if (remember(identity_of(line))) log(log_level::warning, line);
}

}  // namespace verbena::softdev
