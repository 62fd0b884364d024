// SPDX-License-Identifier: MIT
// Which memory requests in flight name: sinks, which overlap nothing, and sources, which may
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

/// The set of them. Threads: one thread at a time.
class range_set {
 public:
  /// A request that names memory which one of kind `how` in `range` must not; nullptr if none.
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
  // Of parts that are at most `longest` long.
  [[nodiscard]] static const posted_request* overlapping(const parts& in, std::uintptr_t longest,
                                                         memory_range range) noexcept;

  parts sinks_;
  parts sources_;
  std::uintptr_t longest_sink_ = 0;
  std::uintptr_t longest_source_ = 0;
};

}  // namespace verbena::inline VERBENA_ABI::detail::in_flight

#endif
