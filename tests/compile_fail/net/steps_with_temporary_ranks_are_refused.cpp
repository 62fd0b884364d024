// SPDX-License-Identifier: MIT
// Operations in steps take no temporary list of ranks, which would be destroyed before they end.
// expect-gcc: use of deleted function
// expect-clang: deleted
#include <cstdint>
#include <vector>

#include "verbena/net/group.hpp"

verbena::steps<void> use(verbena::net::group& group, verbena::deadline until) {
#ifdef VERBENA_BAD
  return group.in_steps().barrier(until, verbena::net::barrier_algorithm::central,
                                  std::vector<std::uint32_t>{0, 2});
#else
  static const std::vector<std::uint32_t> even{0, 2};
  return group.in_steps().barrier(until, verbena::net::barrier_algorithm::central, even);
#endif
}
