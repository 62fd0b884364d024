// SPDX-License-Identifier: MIT
#include "verbena/verbs/memory_region.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <string>

#include "src/verbs/in_flight.hpp"
#include "src/verbs/memory_block.hpp"
#include "src/verbs/memory_region_creation.hpp"
#include "verbena/verbs/protection_domain.hpp"

namespace verbena::inline VERBENA_ABI {
namespace detail {

std::string place_of(const void* address, std::size_t length) {
  return fmt::format("{:#x}+{}", reinterpret_cast<std::uintptr_t>(address), length);
}

std::shared_ptr<memory_region_state> make_memory_region_state(ibv_mr* native,
                                                              const protection_domain& pd,
                                                              region_source from, ownership owner) {
  const auto& parent = internals::state_of(pd);
  return std::make_shared<memory_region_state>(memory_region_state::arguments{
      .provider = &parent->provider(),
      .native = native,
      .owner = owner,
      .name = fmt::format("memory region {} of {}", from.place, pd.context().name()),
      .parents = {.pd = parent, .memory = std::move(from.memory)},
  });
}

}  // namespace detail

memory_region::memory_region(std::shared_ptr<detail::memory_region_state> state,
                             const detail::region_attributes& how) noexcept
    : handle(std::move(state)) {
  const ibv_mr& region = *native();
  const auto& state_parents = this->state().parents();
  // The addresses of a zero-based region are offsets from its first byte. Source: ibv_reg_mr(3).
  const auto address = reinterpret_cast<std::uintptr_t>(region.addr);
  view_ = {.base = how.access.contains(access::zero_based) ? 0 : how.iova.value_or(address),
           .length = region.length,
           .memory = how.is_mapped ? static_cast<std::byte*>(region.addr) : nullptr,
           .owned = state_parents.memory != nullptr,
           .lkey = verbena::local_key(region.lkey),
           .rkey = verbena::remote_key(region.rkey),
           .access = how.access};
}

memory_region memory_region::adopt(ibv_mr* region, const protection_domain& pd, access_flags access,
                                   ownership owner, std::optional<std::uint64_t> iova) {
  VERBENA_ASSERT(region != nullptr, "memory_region::adopt() with a null pointer");
  VERBENA_ASSERT(region->pd == pd.native(),
                 "memory_region::adopt() with another protection domain");
  memory_region made(
      detail::make_memory_region_state(
          region, pd, {detail::place_of(region->addr, region->length), nullptr}, owner),
      detail::region_attributes{.access = access, .iova = iova});
  detail::watch(made, region->addr, {});
  return made;
}

protection_domain memory_region::domain() const {
  return detail::internals::make<protection_domain>(state().parents().pd);
}

close_result<memory_region> memory_region::close([[maybe_unused]] call_site where) && {
#ifdef VERBENA_CHECKED
  const detail::closing_place place(where);
#endif
  check_unused();
  auto outcome = close_handle(std::move(*this));
  view_ = {};
  return outcome;
}

}  // namespace verbena::inline VERBENA_ABI
