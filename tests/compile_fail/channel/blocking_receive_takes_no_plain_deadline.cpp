// SPDX-License-Identifier: MIT
// A blocking call takes an abort_at, which aborts the connection, not a plain deadline.
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
