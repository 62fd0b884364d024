// SPDX-License-Identifier: MIT
#include "verbena/verbs/protection_domain.hpp"

#include <string>
#include <string_view>

#include "src/verbs/diagnosis.hpp"
#include "src/verbs/memory_block.hpp"
#include "src/verbs/memory_region_creation.hpp"
#include "src/verbs/protection_domain_creation.hpp"

namespace verbena::inline VERBENA_ABI {
namespace {

result<void> check_rights(std::string_view call, const std::string& object, access_flags rights) {
  const bool writes_from_outside =
      rights.contains(access::remote_write) || rights.contains(access::remote_atomic);
  if (writes_from_outside && !rights.contains(access::local_write))
    return error::invalid_argument(call, object,
                                   "remote_write and remote_atomic need local_write as well: a "
                                   "peer may not do what the device itself may not");
  return {};
}

// A region of `memory`, which `block` owns if it is not null.
result<memory_region> make_region(const protection_domain& pd, std::span<std::byte> memory,
                                  access_flags rights,
                                  std::shared_ptr<const detail::memory_block> block) {
  const auto& verbs = pd.provider().verbs;
  // Rights that old kernels do not know are optional: only the newer verb leaves them out there.
  constexpr auto optional = std::uint32_t{IBV_ACCESS_OPTIONAL_RANGE};
  const bool newer = (rights.mask() & optional) != 0 && verbs.reg_mr_iova2.available();
  void* const address = memory.data();
  const auto made =
      newer ? detail::call_create(verbs.reg_mr_iova2, pd.native(), address, memory.size(),
                                  reinterpret_cast<std::uintptr_t>(address),
                                  static_cast<unsigned>(rights.mask()))
            : detail::call_create(verbs.reg_mr, pd.native(), address, memory.size(),
                                  static_cast<int>(rights.mask() & ~optional));
  if (!made)
    return error::from_errno(
        made.code, newer ? verbs.reg_mr_iova2.name() : verbs.reg_mr.name(), pd.name(),
        detail::explain_registration(made.code, {&pd.provider(), pd.native()->context},
                                     {address, memory.size(), rights}));
  return detail::internals::make<memory_region>(
      detail::make_memory_region_state(made.native, pd, std::move(block), ownership::take), rights);
}

}  // namespace

namespace detail {

std::shared_ptr<protection_domain_state> make_protection_domain_state(
    ibv_pd* native, std::shared_ptr<context_state> of, ownership owner) {
  return std::make_shared<protection_domain_state>(protection_domain_state::arguments{
      .provider = &of->provider(),
      .native = native,
      .owner = owner,
      .name = "protection domain of " + of->name(),
      .parents = {.context = of},
  });
}

}  // namespace detail

protection_domain protection_domain::adopt(ibv_pd* native, const verbena::context& of,
                                           ownership owner) {
  VERBENA_ASSERT(native != nullptr, "a protection domain to adopt is not null");
  VERBENA_ASSERT(native->context == of.native(),
                 "a protection domain is adopted with its own context");
  return protection_domain(
      detail::make_protection_domain_state(native, detail::internals::state_of(of), owner));
}

verbena::context protection_domain::context() const {
  return detail::internals::make<verbena::context>(state().parents().context);
}

result<memory_region> protection_domain::allocate(std::size_t bytes, access_flags rights,
                                                  allocate_options options) const {
  if (bytes == 0)
    return error::invalid_argument("allocate", name(), "a memory region has at least one byte");
  VERBENA_TRY_VOID(check_rights("allocate", name(), rights));
  VERBENA_TRY(auto block, detail::memory_block::allocate(provider(), bytes, options));
  const std::span memory(block->data(), bytes);
  return make_region(*this, memory, rights, std::move(block));
}

result<memory_region> protection_domain::register_memory(std::span<std::byte> memory,
                                                         access_flags rights) const {
  if (memory.empty())
    return error::invalid_argument("register_memory", name(),
                                   "there is nothing to register: the memory is empty");
  VERBENA_TRY_VOID(check_rights("register_memory", name(), rights));
  return make_region(*this, memory, rights, nullptr);
}

}  // namespace verbena::inline VERBENA_ABI
