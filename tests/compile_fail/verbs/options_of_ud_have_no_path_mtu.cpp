// SPDX-License-Identifier: MIT
// The route of a datagram is in its address handle: the options of the queue pair have no path MTU.
// expect-gcc: could not convert|has no (non-static )?data member
// expect-clang: does not refer to any field
#include "verbena/verbs/queue_pair_options.hpp"

verbena::queue_pair_options<verbena::ud> use() {
#ifdef VERBENA_BAD
  return {.route = {.path_mtu = verbena::mtu::bytes_1024}};
#else
  return {.route = {.port = verbena::port_number(1)}};
#endif
}
