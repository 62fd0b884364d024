// SPDX-License-Identifier: MIT
// An operation starts when it is awaited. A discarded one does not compile with -Werror.
// expect-gcc: ignoring return value
// expect-clang: ignoring return value
#include "verbena/async/channel.hpp"
#include "verbena/async/task.hpp"

verbena::async::task<bool> use(verbena::async::channel& channel, const verbena::source& data) {
#ifdef VERBENA_BAD
  channel.send(data);
  co_return true;
#else
  co_return (co_await channel.send(data)).has_value();
#endif
}
