// SPDX-License-Identifier: MIT
// An operation that failed without anybody noticing loses data.
// expect-gcc: ignoring return value
// expect-clang: ignoring return value
#include "verbena/channel/channel.hpp"

bool use(verbena::channel& channel, const verbena::source& data) {
#ifdef VERBENA_BAD
  channel.send(data, verbena::deadline::never());
  return true;
#else
  return channel.send(data, verbena::deadline::never()).ok();
#endif
}
