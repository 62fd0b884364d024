// SPDX-License-Identifier: MIT
// An operation may use the elements of a list after the expression that creates it.
// expect-gcc: use of deleted function
// expect-clang: deleted
#include <vector>

#include "verbena/async/channel.hpp"

auto use(verbena::async::channel& channel, const std::vector<verbena::source>& list) {
#ifdef VERBENA_BAD
  return channel.send(std::vector<verbena::source>(list), {});
#else
  return channel.send(list, {});
#endif
}
