// SPDX-License-Identifier: MIT
// A deadline of a blocking call aborts the connection: the call takes abort_at, not a deadline.
// expect-gcc: no matching function
// expect-clang: no matching member function
#include "verbena/channel/channel.hpp"

verbena::operation_result use(verbena::channel& channel, const verbena::sink& into,
                              verbena::deadline until) {
#ifdef VERBENA_BAD
  return channel.receive(into, until);
#else
  return channel.receive(into, verbena::abort_at(until));
#endif
}
