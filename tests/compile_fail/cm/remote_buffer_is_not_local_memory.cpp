// SPDX-License-Identifier: MIT
// A remote buffer can be read and written, but cannot be the source of a send.
// expect: constraints not satisfied|no matching
// parity: libiwarp-21
#include "verbena/cm/session.hpp"

auto use(verbena::cm::session& session, const verbena::cm::local_buffer& local,
         const verbena::cm::remote_buffer& remote) {
#ifdef VERBENA_BAD
  return session.write({}, remote, remote);
#else
  return session.write({}, local.slice(), remote);
#endif
}
