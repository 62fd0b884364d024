// SPDX-License-Identifier: MIT
// An operation that failed without anybody noticing loses data.
// expect-gcc: an operation can fail
// expect-clang: an operation can fail
#include "verbena/channel/channel.hpp"

bool use(verbena::channel& channel, const verbena::source& data) {
#ifdef VERBENA_BAD
  channel.send(data, verbena::deadline::never());
  return true;
#else
  return channel.send(data, verbena::deadline::never()).ok();
#endif
}
