// SPDX-License-Identifier: MIT
// A coroutine would run after the scope of all channels has ended.
// expect-gcc: no matching function
// expect-clang: no matching member function
#include "verbena/async/task.hpp"
#include "verbena/net/multi_channel.hpp"

bool use(verbena::net::multi_channel& channels) {
#ifdef VERBENA_BAD
  auto outcome =
      channels.scope([](verbena::net::multi_scope&) -> verbena::async::task<void> { co_return; });
#else
  auto outcome = channels.scope([](verbena::net::multi_scope&) {});
#endif
  return outcome.has_value();
}
