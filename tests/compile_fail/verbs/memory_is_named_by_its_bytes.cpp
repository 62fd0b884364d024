// SPDX-License-Identifier: MIT
// What is registered is bytes: the address of an object that has them elsewhere is refused.
// expect-gcc: cannot convert .* to .std::span<std::byte>
// expect-clang: no matching constructor for initialization of 'std::span<std::byte>'
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
