// SPDX-License-Identifier: MIT
#include "softdev/core/region_check.hpp"

namespace verbena::softdev {

reason reason_at(access_side side, reason local) noexcept {
  constexpr auto distance = static_cast<std::uint32_t>(reason::remote_key_unknown) -
                            static_cast<std::uint32_t>(reason::local_key_unknown);
  if (side == access_side::local) return local;
  return static_cast<reason>(static_cast<std::uint32_t>(local) + distance);
}

failure check_region(const region_view* region, const region_access& wanted,
                     access_side side) noexcept {
  if (region != nullptr && is_permitted(*region, wanted)) return {};
  failure why{.key = wanted.key, .address = wanted.address, .length = wanted.length};
  const auto refuse = [&](reason local) {
    why.why = reason_at(side, local);
    return why;
  };
  if (region == nullptr) return refuse(reason::local_key_unknown);
  why.base = region->iova;
  why.limit = region->length;
  if (region->domain != wanted.domain) {
    why.detail = static_cast<std::uint32_t>(region->domain);
    why.extra = static_cast<std::uint32_t>(wanted.domain);
    return refuse(reason::local_key_other_domain);
  }
  const std::uint64_t offset = wanted.address - region->iova;
  if (wanted.length > region->length || offset > region->length - wanted.length)
    return refuse(reason::local_range);
  why.detail = region->rights.mask();
  why.extra = wanted.needed.mask();
  return refuse(reason::local_access_denied);
}

}  // namespace verbena::softdev
