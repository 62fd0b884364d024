// SPDX-License-Identifier: MIT
// A set of flags takes flags of its own kind only.
// expect-gcc: no match for .operator\|.
// expect-clang: invalid operands to binary expression
#include "verbena/base/flags.hpp"

enum class access : unsigned { local_write = 1 };
enum class send : unsigned { fence = 1 };
template <>
inline constexpr bool verbena::enable_flags<access> = true;
template <>
inline constexpr bool verbena::enable_flags<send> = true;

verbena::flags<access> use(verbena::flags<access> set) {
#ifdef VERBENA_BAD
  return set | send::fence;
#else
  return set | access::local_write;
#endif
}
