// SPDX-License-Identifier: MIT
// A set of flags contains flags of one enumeration only.
// expect-gcc: no match for .operator\|.
// expect-clang: invalid operands to binary expression
#include "verbena/base/flags.hpp"

enum class right : unsigned { local_write = 1 };
enum class send_mode : unsigned { fence = 1 };
template <>
inline constexpr bool verbena::enable_flags<right> = true;
template <>
inline constexpr bool verbena::enable_flags<send_mode> = true;

verbena::flags<right> use(verbena::flags<right> set) {
#ifdef VERBENA_BAD
  return set | send_mode::fence;
#else
  return set | right::local_write;
#endif
}
