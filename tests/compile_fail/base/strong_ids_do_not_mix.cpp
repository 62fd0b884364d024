// SPDX-License-Identifier: MIT
// A local key is not a remote key, although both are 32-bit numbers.
// expect-gcc: could not convert|cannot convert
// expect-clang: no known conversion|no matching function|no viable conversion
#include "verbena/base/ids.hpp"

inline std::uint32_t reach(verbena::remote_key key) { return key.value(); }

std::uint32_t use() {
#ifdef VERBENA_BAD
  const verbena::local_key key{7};
#else
  const verbena::remote_key key{7};
#endif
  return reach(key);
}
