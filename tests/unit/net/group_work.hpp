// SPDX-License-Identifier: MIT
// The operations that the ranks of random_kills_test.cpp perform until one of them is killed.
#pragma once

#include <cstdint>
#include <span>

#include "verbena/base/bytes.hpp"
#include "verbena/net/group.hpp"
#include "verbena/net/reduction.hpp"

namespace verbena::test {

inline constexpr std::size_t work_bytes = 32 * 1024;

/// Performs an exchange and collective operations. Returns true if a member passed a `last` other
/// than 0. Precondition: `memory` has work_bytes bytes.
inline result<bool> work(net::group& with, memory_region& memory, std::uint64_t last,
                         deadline until) {
  VERBENA_TRY(const auto parts, with.exchange("work", bytes_of("part"), until));
  for (const std::uint32_t each : with.members())
    if (parts[each].size() != 4) return error::protocol("work", {}, "a part is missing");
  VERBENA_TRY_VOID(with.barrier(until));
  auto* const value = reinterpret_cast<std::uint64_t*>(memory.bytes().data());
  // The sum has one byte per rank, which shows that each member took part once.
  value[0] = last;
  value[1] = std::uint64_t{1} << with.rank() * 8U;
  VERBENA_TRY_VOID(with.all_reduce<std::uint64_t>(sink(memory, 0, 16), std::plus<>(), until));
  std::uint64_t all = 0;
  for (const std::uint32_t each : with.members()) all += std::uint64_t{1} << each * 8U;
  if (value[1] != all) return error::protocol("work", {}, "a sum is wrong");
  const bool is_last = value[0] != 0;
  VERBENA_TRY_VOID(with.broadcast(sink(memory, 0, work_bytes), with.members().front(), until));
  VERBENA_TRY_VOID(with.barrier(until));  // a member may leave now
  return is_last;
}

}  // namespace verbena::test
