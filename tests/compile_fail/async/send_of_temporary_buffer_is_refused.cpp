// SPDX-License-Identifier: MIT
// The buffer of a message must exist until the operation has ended.
// expect-gcc: cannot bind
// expect-clang: no matching member function
#include <utility>

#include "verbena/async/message_channel.hpp"

auto use(verbena::async::message_channel& channel, verbena::buffer& memory) {
#ifdef VERBENA_BAD
  return channel.send(std::move(memory), {.length = 1});
#else
  return channel.send(memory, {.length = 1});
#endif
}
