// SPDX-License-Identifier: MIT
// An enumeration whose values are not single bits cannot be used as a set of flags.
// expect: constraint
#include "verbena/base/flags.hpp"

enum class state { idle, busy };
enum class option : unsigned { one = 1, two = 2 };
template <>
inline constexpr bool verbena::enable_flags<option> = true;

#ifdef VERBENA_BAD
using set = verbena::flags<state>;
#else
using set = verbena::flags<option>;
#endif

bool use(set value) { return value.empty(); }
