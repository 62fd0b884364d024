// SPDX-License-Identifier: MIT
// The requests of a batch point to each other: a batch cannot be copied.
// expect: use of deleted function|deleted (copy )?constructor
// parity: ibverbs-310
#include "verbena/verbs/send_batch.hpp"

void use(verbena::send_batch<verbena::rc>& batch) {
#ifdef VERBENA_BAD
  auto other = batch;
#else
  auto& other = batch;
#endif
  static_cast<void>(other.submit());
}
