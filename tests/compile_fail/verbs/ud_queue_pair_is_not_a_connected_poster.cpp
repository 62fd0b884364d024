// SPDX-License-Identifier: MIT
// A function for connected transports does not accept a UD queue pair, because datagrams need a
// destination.
// expect: connected_poster
#include "verbena/verbs/poster.hpp"
#include "verbena/verbs/queue_pair.hpp"

void greet(verbena::connected_poster auto& poster, const verbena::local_slice& slice) {
  auto batch = poster.start_send();
  batch.send({}, slice);
  static_cast<void>(batch.submit());
}

void use(verbena::queue_pair<verbena::ud>& datagrams, verbena::queue_pair<verbena::uc>& connection,
         const verbena::local_slice& slice) {
#ifdef VERBENA_BAD
  static_cast<void>(connection);
  greet(datagrams, slice);
#else
  static_cast<void>(datagrams);
  greet(connection, slice);
#endif
}
