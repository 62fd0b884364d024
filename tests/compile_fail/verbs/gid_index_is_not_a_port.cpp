// SPDX-License-Identifier: MIT
// Port numbers and GID indexes are different types and cannot be swapped.
// expect-gcc: cannot convert|could not convert
// expect-clang: no viable conversion|no known conversion
#include "verbena/verbs/context.hpp"

verbena::result<verbena::gid_entry> use(const verbena::context& context) {
  const verbena::port_number port(1);
  const verbena::gid_index index(0);
#ifdef VERBENA_BAD
  return context.query_gid(index, port);
#else
  return context.query_gid(port, index);
#endif
}
