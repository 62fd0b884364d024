// SPDX-License-Identifier: MIT
#include "verbena/base/timers.hpp"

namespace verbena::inline VERBENA_ABI {
namespace {

// Formats `count` / 10^digits without trailing zeros.
std::string decimal(std::int64_t count, std::size_t digits) {
  std::string text = std::to_string(count);
  if (text.size() <= digits) text.insert(0, digits + 1 - text.size(), '0');
  text.insert(text.size() - digits, 1, '.');
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

std::string to_text(std::chrono::nanoseconds time) {
  const auto count = time.count();
  if (count >= 1'000'000'000) return decimal(count, 9) + "s";
  if (count >= 1'000'000) return decimal(count, 6) + "ms";
  return decimal(count, 3) + "us";
}

}  // namespace

std::string to_string(ack_timeout timeout) {
  return timeout.is_infinite() ? "infinite" : to_text(timeout.duration());
}
std::string to_string(rnr_timer timer) { return to_text(timer.duration()); }

}  // namespace verbena::inline VERBENA_ABI
