// SPDX-License-Identifier: MIT
// An operation can fail: its result cannot be ignored.
// expect-gcc: ignoring return value
// expect-clang: ignoring return value
// parity: ibverbs-rs-51
#include "verbena/channel/channel.hpp"

bool use(verbena::channel& channel, const verbena::source& data) {
#ifdef VERBENA_BAD
  channel.send(data);
  return true;
#else
  return channel.send(data).has_value();
#endif
}
