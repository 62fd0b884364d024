// SPDX-License-Identifier: MIT
#include "softdev/core/atomic.hpp"

#include "softdev/core/copy.hpp"

namespace verbena::softdev {

atomic_outcome execute_atomic(std::byte* where, const message& what,
                              std::uint64_t& original) noexcept {
  // The address in the request is aligned. The address here is not if the iova of the region has
  // another alignment.
  if (reinterpret_cast<std::uintptr_t>(where) % sizeof(std::uint64_t) != 0)
    return atomic_outcome::misaligned;
  const bool executed =
      what.opcode == opcode::fetch_add
          ? fetch_add_word(where, what.compare_or_add, original)
          : compare_exchange_word(where, what.compare_or_add, what.swap, original);
  return executed ? atomic_outcome::done : atomic_outcome::not_mapped;
}

}  // namespace verbena::softdev
