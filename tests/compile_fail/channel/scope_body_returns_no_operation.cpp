// SPDX-License-Identifier: MIT
// A handle that leaves its scope cannot be waited for.
// expect-gcc: no matching function
// expect-clang: no matching member function
#include "verbena/channel/channel.hpp"

verbena::operation_result use(verbena::channel& channel, const verbena::source& data) {
#ifdef VERBENA_BAD
  return channel.manual_scope([&](verbena::operation_scope& scope) { return scope.send(data); })
      .wait();
#else
  return channel.manual_scope(
      [&](verbena::operation_scope& scope) { return scope.send(data).wait(); });
#endif
}
