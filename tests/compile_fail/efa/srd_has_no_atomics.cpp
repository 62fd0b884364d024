// SPDX-License-Identifier: MIT
// SRD has no atomic operations.
// expect: atomic_transport
#include "verbena/efa/srd.hpp"

void use(verbena::extended_batch<verbena::efa::srd>& datagrams,
         verbena::extended_batch<verbena::rc>& connection, const verbena::local_slice& word,
         const verbena::remote_region& target) {
#ifdef VERBENA_BAD
  static_cast<void>(connection);
  datagrams.fetch_and_add({}, word, target, 1);
#else
  static_cast<void>(datagrams);
  connection.fetch_and_add({}, word, target, 1);
#endif
}
