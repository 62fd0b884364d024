// SPDX-License-Identifier: MIT
// Memory is registered by its bytes, not by an object that points to them.
// expect-gcc: no known conversion .* to .std::span<std::byte>
// expect-clang: no matching member function for call to .register_memory
#include <cstdint>
#include <span>
#include <vector>

#include "verbena/verbs/protection_domain.hpp"

bool use(const verbena::protection_domain& pd, std::vector<std::uint64_t>& numbers) {
#ifdef VERBENA_BAD
  return pd.register_memory({&numbers, sizeof(numbers)}, verbena::access::local_write).has_value();
#else
  return pd
      .register_memory(std::as_writable_bytes(std::span(numbers)), verbena::access::local_write)
      .has_value();
#endif
}
