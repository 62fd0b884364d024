// SPDX-License-Identifier: MIT
// A scope ends where its function ends: it is lent to the body, and neither copied nor kept.
// expect-gcc: use of deleted function
// expect-clang: call to deleted constructor
#include "verbena/channel/channel.hpp"

std::uint32_t use(verbena::channel& channel) {
  return channel
      .scope(verbena::deadline::never(),
#ifdef VERBENA_BAD
             [](verbena::operation_scope& lent) {
               verbena::operation_scope kept = lent;
               return kept.in_flight();
             })
#else
             [](verbena::operation_scope& lent) { return lent.in_flight(); })
#endif
      .value();
}
