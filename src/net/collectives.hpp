// SPDX-License-Identifier: MIT
// Barriers and collective operations, as messages of a rank_board.
#pragma once

#include <cstdint>
#include <span>

#include "src/net/rank_board.hpp"
#include "verbena/net/barrier_algorithm.hpp"

namespace verbena::inline VERBENA_ABI::net::detail {

// Each function begins an operation, which rank_board::run() or poll() completes. `with` and the
// ranks must exist until then. See the functions of group with the same names.
[[nodiscard]] result<collective> begin_barrier(const participants& of, barrier_algorithm algorithm);
[[nodiscard]] result<collective> begin_broadcast(const participants& of,
                                                 const registered_bytes& data, std::uint32_t root);
[[nodiscard]] result<collective> begin_all_gather(const participants& of,
                                                  const registered_bytes& data);
[[nodiscard]] result<collective> begin_reduce(const participants& of, const registered_bytes& data,
                                              std::uint32_t root, const combination& with);
[[nodiscard]] result<collective> begin_all_reduce(const participants& of,
                                                  const registered_bytes& data,
                                                  const combination& with);
[[nodiscard]] result<collective> begin_all_to_all(const participants& of,
                                                  const registered_bytes& out,
                                                  const registered_bytes& into);

}  // namespace verbena::inline VERBENA_ABI::net::detail
