// SPDX-License-Identifier: MIT
// The limit of an operation is an abort_at, which ends the connection, not a plain deadline.
// expect-gcc: no matching function
// expect-clang: no matching member function
#include "verbena/async/channel.hpp"

auto use(verbena::async::channel& channel, const verbena::sink& into, verbena::deadline until) {
#ifdef VERBENA_BAD
  return channel.receive(into, until);
#else
  return channel.receive(into, verbena::abort_at(until));
#endif
}
