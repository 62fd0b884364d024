// SPDX-License-Identifier: MIT
// The body of a multi_scope is not a coroutine, which would run after the scope has ended.
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
