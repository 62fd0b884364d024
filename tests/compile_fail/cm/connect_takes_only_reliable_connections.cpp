// SPDX-License-Identifier: MIT
// The connection manager connects only reliable queue pairs; datagrams use services.
// expect-gcc: could not convert|cannot convert|cannot bind
// expect-clang: no viable conversion|cannot bind|no known conversion
#include <utility>

#include "verbena/cm/connector.hpp"

auto use(verbena::cm::connector& peer, verbena::prepared_queue_pair<verbena::rc>& reliable,
         verbena::prepared_queue_pair<verbena::ud>& datagrams) {
  const auto until = verbena::deadline::never();
#ifdef VERBENA_BAD
  static_cast<void>(reliable);
  return peer.connect(std::move(datagrams), {}, until);
#else
  static_cast<void>(datagrams);
  return peer.connect(std::move(reliable), {}, until);
#endif
}
