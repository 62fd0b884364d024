// SPDX-License-Identifier: MIT
// A temporary cannot be the memory of an operation in a scope, which would use it after its end.
// expect-gcc: use of deleted function
// expect-clang: deleted
#include "verbena/channel/operation_scope.hpp"
#include "verbena/memory/buffer_pool.hpp"

void use(verbena::operation_scope& scope, const verbena::buffer_pool& pool) {
#ifdef VERBENA_BAD
  (void)scope.send(verbena::source(pool.take(64).value()));
#else
  const auto memory = pool.take(64).value();
  (void)scope.send(verbena::source(memory));
#endif
}
