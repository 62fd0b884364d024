// SPDX-License-Identifier: MIT
// A posted buffer is moved into its operation, which returns it.
// expect-gcc: cannot bind rvalue reference
// expect-clang: cannot bind to lvalue
// parity: ibverbs-rs-48, rrddmma-50
#include "verbena/channel/channel.hpp"

verbena::pending_operation use(verbena::channel& channel, verbena::buffer& mine) {
#ifdef VERBENA_BAD
  return channel.post_send(mine);
#else
  return channel.post_send(std::move(mine));
#endif
}
