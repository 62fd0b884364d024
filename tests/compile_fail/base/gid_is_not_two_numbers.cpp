// SPDX-License-Identifier: MIT
// A GID is constructed from its bytes in network order, not from two numbers.
// expect-gcc: no matching function for call to .*gid::gid
// expect-clang: no matching constructor for initialization of .*gid
#include <array>
#include <cstdint>

#include "verbena/base/guid.hpp"

verbena::gid use(std::uint64_t prefix, std::uint64_t identifier) {
#ifdef VERBENA_BAD
  return verbena::gid(prefix, identifier);
#else
  std::array<std::uint8_t, 16> bytes{};
  for (std::size_t i = 0; i < 8; ++i) {
    bytes[i] = static_cast<std::uint8_t>(prefix >> (56 - 8 * i));
    bytes[8 + i] = static_cast<std::uint8_t>(identifier >> (56 - 8 * i));
  }
  return verbena::gid(bytes);
#endif
}
