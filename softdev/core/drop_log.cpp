// SPDX-License-Identifier: MIT
#include "softdev/core/drop_log.hpp"

#include <cinttypes>
#include <cstdio>
#include <mutex>

namespace verbena::softdev {

void drop_log::note(const failure& why) noexcept {
  const std::lock_guard lock(lock_);
  std::size_t place = 0;
  while (place + 1 < kinds_.size() && kinds_[place].count != 0 && kinds_[place].last.why != why.why)
    ++place;
  kinds_[place].last = why;
  ++kinds_[place].count;
}

std::uint64_t drop_log::count() const noexcept {
  const std::lock_guard lock(lock_);
  std::uint64_t all = 0;
  for (const kind& one : kinds_) all += one.count;
  return all;
}

std::uint64_t drop_log::count(reason why) const noexcept {
  const std::lock_guard lock(lock_);
  for (const kind& one : kinds_)
    if (one.count != 0 && one.last.why == why) return one.count;
  return 0;
}

std::size_t drop_log::describe(char* text, std::size_t capacity) const noexcept {
  std::array<kind, 8> now;
  {
    const std::lock_guard lock(lock_);
    now = kinds_;
  }
  std::size_t length = 0;
  const auto rest = [&] { return length < capacity ? capacity - length : 0; };
  const auto place = [&] { return length < capacity ? text + length : nullptr; };
  for (const kind& one : now) {
    if (one.count == 0) break;
    const int more = std::snprintf(place(), rest(),
                                   "%s%" PRIu64 " dropped: ", length == 0 ? "" : "; ", one.count);
    if (more > 0) length += static_cast<std::size_t>(more);
    length += softdev::describe(one.last, place(), rest());
  }
  return length;
}

}  // namespace verbena::softdev
