// SPDX-License-Identifier: MIT
// The counters of the wire with the names that users see. If the kernel's rxe counts the same
// event, the name is that of `rdma statistic` for rxe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace verbena::softdev::wire {

struct wire_counters;

/// A counter. Threads: immutable value.
struct named_counter {
  std::string_view name;
  std::uint64_t value = 0;
};

inline constexpr std::size_t named_counter_count = 36;

/// Returns all counters in a fixed order.
[[nodiscard]] std::array<named_counter, named_counter_count> name_counters(
    const wire_counters& from) noexcept;

}  // namespace verbena::softdev::wire
