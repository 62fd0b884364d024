// SPDX-License-Identifier: MIT
// The memory of requests in flight. Sinks must not overlap other memory in flight; sources may
// overlap each other.
#pragma once

#ifdef VERBENA_CHECKED

#include <cstddef>
#include <cstdint>
#include <map>

#include "verbena/check/detail/in_flight.hpp"

namespace verbena::inline VERBENA_ABI::detail::in_flight {

struct posted_request;

/// Memory of this process. Never empty.
struct memory_range {
  std::uintptr_t begin;
  std::uintptr_t end;
};

/// The memory ranges of all requests in flight. Threads: one thread at a time.
class range_set {
 public:
  /// Returns a request in flight whose memory conflicts with a use `how` of `range`; nullptr if
  /// there is none.
  [[nodiscard]] const posted_request* conflict(memory_range range, use how) const noexcept;
  /// Precondition: there is no conflict.
  void add(memory_range range, use how, const posted_request* owner);
  void remove(memory_range range, use how, const posted_request* owner) noexcept;

 private:
  struct part {
    std::uintptr_t end;
    const posted_request* owner;
  };
  using parts = std::multimap<std::uintptr_t, part>;
  // Returns the owner of a part that overlaps `range`. No part is longer than `longest`.
  [[nodiscard]] static const posted_request* overlapping(const parts& in, std::uintptr_t longest,
                                                         memory_range range) noexcept;

  parts sinks_;
  parts sources_;
  std::uintptr_t longest_sink_ = 0;
  std::uintptr_t longest_source_ = 0;
};

}  // namespace verbena::inline VERBENA_ABI::detail::in_flight

#endif
