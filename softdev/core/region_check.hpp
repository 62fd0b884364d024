// SPDX-License-Identifier: MIT
// The check of an access to a registered memory region. A pure function, used by the table of this
// process and by requesters that access a region of another process themselves.
#pragma once

#include <cstdint>

#include "softdev/core/failure.hpp"
#include "softdev/core/types.hpp"

namespace verbena::softdev {

/// The properties of a memory region on which the check depends. Threads: immutable value.
struct region_view {
  domain_id domain{};
  std::uint64_t iova = 0;
  std::uint64_t length = 0;
  access_flags rights;
};

/// The requirements of an access. `address` and `length` are as in the work request.
struct region_access {
  std::uint32_t key = 0;
  std::uint64_t address = 0;
  std::uint64_t length = 0;
  access_flags needed;
  domain_id domain{};
};

/// Returns whether a region permits an access: protection domain, range, rights. Does not overflow.
/// `Region` has the members of region_view.
template <class Region>
[[nodiscard]] constexpr bool is_permitted(const Region& region,
                                          const region_access& wanted) noexcept {
  return region.domain == wanted.domain && wanted.length <= region.length &&
         wanted.address - region.iova <= region.length - wanted.length &&
         region.rights.contains(wanted.needed);
}

/// The side that accesses: selects the reasons `local_…` or `remote_…`.
enum class access_side : std::uint8_t { local, remote };
[[nodiscard]] reason reason_at(access_side side, reason local) noexcept;

/// Checks an access to the region of its key, `nullptr` if no region has the key: key, protection
/// domain, range, rights, in this order. Returns the first failed check, or reason::none.
/// Does not overflow.
[[nodiscard]] failure check_region(const region_view* region, const region_access& wanted,
                                   access_side side) noexcept;

}  // namespace verbena::softdev
