// SPDX-License-Identifier: MIT
// A buffer is given up to the operation, and comes back from it.
// expect-gcc: cannot bind rvalue reference
// expect-clang: cannot bind to lvalue
#include "verbena/channel/channel.hpp"

verbena::pending_operation use(verbena::channel& channel, verbena::buffer& mine) {
#ifdef VERBENA_BAD
  return channel.post_send(mine);
#else
  return channel.post_send(std::move(mine));
#endif
}
