// SPDX-License-Identifier: MIT
// A coroutine would run after the scope has ended.
// expect-gcc: no matching function
// expect-clang: no matching member function
#include "verbena/async/task.hpp"
#include "verbena/channel/channel.hpp"

bool use(verbena::channel& channel) {
#ifdef VERBENA_BAD
  auto outcome =
      channel.scope([](verbena::operation_scope&) -> verbena::async::task<void> { co_return; });
#else
  auto outcome = channel.scope([](verbena::operation_scope&) {});
#endif
  return outcome.has_value();
}
