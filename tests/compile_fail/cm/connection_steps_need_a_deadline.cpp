// SPDX-License-Identifier: MIT
// A call that waits for a peer has a deadline.
// expect-gcc: no matching function|too few arguments
// expect-clang: no matching|too few arguments
#include "verbena/cm/connector.hpp"

auto use(const verbena::bringup::address& peer) {
#ifdef VERBENA_BAD
  return verbena::cm::connector::resolve(peer);
#else
  return verbena::cm::connector::resolve(peer, verbena::deadline::never());
#endif
}
