// SPDX-License-Identifier: MIT
// A post can fail: the result of submit() cannot be ignored.
// expect: a post can fail
#include "verbena/verbs/send_batch.hpp"

void use(verbena::send_batch<verbena::rc>& batch) {
#ifdef VERBENA_BAD
  batch.submit();
#else
  batch.submit().value();
#endif
}
