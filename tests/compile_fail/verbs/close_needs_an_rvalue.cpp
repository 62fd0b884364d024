// SPDX-License-Identifier: MIT
// close() consumes its object and is called on an rvalue.
// expect-gcc: discards qualifiers|as 'this' argument|cannot bind rvalue|passing .* as .this. argument
// expect-clang: is an lvalue, but function has rvalue ref-qualifier
#include <utility>

#include "verbena/verbs/context.hpp"

bool use(verbena::context context) {
#ifdef VERBENA_BAD
  return context.close().has_value();
#else
  return std::move(context).close().has_value();
#endif
}
