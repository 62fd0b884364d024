// SPDX-License-Identifier: MIT
// Barriers and collective operations, as messages of a rank_board.
#pragma once

#include <cstdint>
#include <span>

#include "src/net/rank_board.hpp"
#include "verbena/net/barrier_algorithm.hpp"

namespace verbena::inline VERBENA_ABI::net::detail {

// See the functions of group.
[[nodiscard]] result<void> barrier(const participants& of, barrier_algorithm algorithm);
[[nodiscard]] result<void> broadcast(const participants& of, const registered_bytes& data,
                                     std::uint32_t root);
[[nodiscard]] result<void> all_gather(const participants& of, const registered_bytes& data);
[[nodiscard]] result<void> reduce(const participants& of, const registered_bytes& data,
                                  std::uint32_t root, const combination& with);
[[nodiscard]] result<void> all_reduce(const participants& of, const registered_bytes& data,
                                      const combination& with);
[[nodiscard]] result<void> all_to_all(const participants& of, const registered_bytes& out,
                                      const registered_bytes& in);

}  // namespace verbena::inline VERBENA_ABI::net::detail
