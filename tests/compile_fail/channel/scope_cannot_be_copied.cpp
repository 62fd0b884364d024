// SPDX-License-Identifier: MIT
// A scope ends with its function: the body gets a reference and can neither copy nor keep the
// scope.
// expect-gcc: use of deleted function
// expect-clang: call to deleted constructor
// parity: ibverbs-rs-38
#include "verbena/channel/channel.hpp"

std::uint32_t use(verbena::channel& channel) {
  return channel
      .scope(
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
