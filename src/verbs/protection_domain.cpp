// SPDX-License-Identifier: MIT
#include "verbena/verbs/protection_domain.hpp"

#include <fmt/format.h>

#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "src/verbs/creation.hpp"
#include "src/verbs/diagnosis.hpp"
#include "src/verbs/in_flight.hpp"
#include "src/verbs/memory_block.hpp"
#include "src/verbs/memory_region_creation.hpp"
#include "src/verbs/protection_domain_creation.hpp"

namespace verbena::inline VERBENA_ABI {
namespace {

result<void> check_access(std::string_view call, const std::string& object, access_flags access) {
  const bool peers_write =
      access.contains(access::remote_write) || access.contains(access::remote_atomic);
  if (peers_write && !access.contains(access::local_write))
    return error::invalid_argument(
        call, object,
        fmt::format("remote_write and remote_atomic need local_write, the access flags are {}",
                    to_string(access)));
  return {};
}

// Checks that a region of `length` bytes can begin at the base address.
result<void> check_base(std::string_view call, const std::string& object,
                        std::pair<std::uint64_t, std::size_t> range, access_flags access) {
  const auto [base, length] = range;
  if (base != 0 && access.contains(access::zero_based))
    return error::invalid_argument(
        call, object,
        fmt::format("iova is {:#x}; the addresses of a zero-based region begin at 0", base));
  if (length > std::numeric_limits<std::uint64_t>::max() - base)
    return error::invalid_argument(
        call, object,
        fmt::format("a region of {} bytes at {:#x} exceeds the 64-bit address space", length,
                    base));
  return {};
}

// Memory to be registered, and its options.
struct wanted_region {
  std::span<std::byte> memory;
  access_flags access;
  std::optional<std::uint64_t> iova;
  std::optional<call_site> registered = {};
};

result<memory_region> make_region(const protection_domain& pd, const wanted_region& wanted,
                                  std::shared_ptr<const detail::memory_block> block) {
  const auto& verbs = pd.provider().verbs;
  const auto memory = wanted.memory;
  const auto access = wanted.access;
  const auto base = wanted.iova;
  // Old kernels reject optional access flags. On these kernels only ibv_reg_mr_iova2 removes the
  // flags.
  constexpr auto optional = std::uint32_t{IBV_ACCESS_OPTIONAL_RANGE};
  const bool newer =
      base.has_value() || ((access.mask() & optional) != 0 && verbs.reg_mr_iova2.available());
  void* const address = memory.data();
  if (newer && !verbs.reg_mr_iova2.available())
    return error::not_supported(
        verbs.reg_mr_iova2.name(), pd.name(),
        "the loaded libibverbs does not have this function, which iova needs: omit "
        "iova");
  const auto made =
      newer ? detail::call_create(verbs.reg_mr_iova2, pd.native(), address, memory.size(),
                                  base.value_or(reinterpret_cast<std::uintptr_t>(address)),
                                  static_cast<unsigned>(access.mask()))
            : detail::call_create(verbs.reg_mr, pd.native(), address, memory.size(),
                                  static_cast<int>(access.mask() & ~optional));
  if (!made)
    return error::from_errno(
        made.code, newer ? verbs.reg_mr_iova2.name() : verbs.reg_mr.name(), pd.name(),
        detail::explain_registration(
            made.code, {&pd.provider(), pd.native()->context},
            {.memory = address,
             .bytes = memory.size(),
             .access = access,
             .offset_in_page_differs =
                 base &&
                 detail::differ_in_page(*base, reinterpret_cast<std::uintptr_t>(address))}));
  auto region = detail::internals::make<memory_region>(
      detail::make_owner(verbs, made.native,
                         [&](ibv_mr* owned) {
                           // A copy: the memory must exist until the region is deregistered.
                           return detail::make_memory_region_state(
                               owned, pd, {detail::place_of(address, memory.size()), block},
                               ownership::take);
                         }),
      detail::region_attributes{.access = access, .iova = base});
  detail::watch(region, address, wanted.registered);
  return region;
}

}  // namespace

namespace detail {

std::shared_ptr<protection_domain_state> make_protection_domain_state(
    ibv_pd* native, const std::shared_ptr<context_state>& of, ownership owner) {
  return std::make_shared<protection_domain_state>(protection_domain_state::arguments{
      .provider = &of->provider(),
      .native = native,
      .owner = owner,
      .name = "protection domain of " + of->name(),
      .parents = {.context = of},
  });
}

result<memory_region> register_part(const protection_domain& pd, std::span<std::byte> part,
                                    access_flags access, std::shared_ptr<const memory_block> of) {
  if (part.empty())
    return error::invalid_argument("register_part", pd.name(),
                                   "there is nothing to register: the part is empty");
  VERBENA_TRY_VOID(check_access("register_part", pd.name(), access));
  return make_region(pd, {part, access, {}}, std::move(of));
}

}  // namespace detail

protection_domain protection_domain::adopt(ibv_pd* native, const verbena::context& of,
                                           ownership owner) {
  VERBENA_ASSERT(native != nullptr, "protection_domain::adopt() with a null pointer");
  VERBENA_ASSERT(native->context == of.native(), "protection_domain::adopt() with another context");
  return protection_domain(
      detail::make_protection_domain_state(native, detail::internals::state_of(of), owner));
}

verbena::context protection_domain::context() const {
  return detail::internals::make<verbena::context>(state().parents().context);
}

result<memory_region> protection_domain::allocate(std::size_t bytes, access_flags access,
                                                  allocate_options options) const {
  if (bytes == 0)
    return error::invalid_argument("allocate", name(), "a memory region has at least one byte");
  VERBENA_TRY_VOID(check_access("allocate", name(), access));
  VERBENA_TRY(auto block, detail::memory_block::allocate(provider(), bytes, options));
  const std::span memory(block->data(), bytes);
  return make_region(*this, {memory, access, {}}, std::move(block));
}

result<memory_region> protection_domain::register_memory(std::span<std::byte> memory,
                                                         access_flags access,
                                                         register_options options,
                                                         call_site where) const {
  if (memory.empty())
    return error::invalid_argument("register_memory", name(),
                                   "there is nothing to register: the memory is empty");
  VERBENA_TRY_VOID(check_access("register_memory", name(), access));
  VERBENA_TRY_VOID(
      check_base("register_memory", name(), {options.iova.value_or(0), memory.size()}, access));
  return make_region(*this, {memory, access, options.iova, where}, nullptr);
}

result<memory_region> protection_domain::register_constant(std::span<const std::byte> memory,
                                                           access_flags access,
                                                           register_options options,
                                                           call_site where) const {
  const access_flags writing =
      access & (access::local_write | access::remote_write | access::remote_atomic);
  if (!writing.empty())
    return error::invalid_argument("register_memory", name(),
                                   fmt::format("constant memory cannot be registered with {}; pass "
                                               "a std::span<std::byte>",
                                               to_string(writing)));
  // Without an access flag for writing, neither the verb nor the adapter writes.
  return register_memory(std::span(const_cast<std::byte*>(memory.data()), memory.size()), access,
                         options, where);
}

result<memory_region> protection_domain::register_dmabuf(const dmabuf& memory,
                                                         access_flags access) const {
  if (memory.length == 0)
    return error::invalid_argument("register_dmabuf", name(),
                                   "a memory region has at least one byte");
  VERBENA_TRY_VOID(check_access("register_dmabuf", name(), access));
  VERBENA_TRY_VOID(check_base("register_dmabuf", name(), {memory.iova, memory.length}, access));
  VERBENA_TRY_VOID(check_base("register_dmabuf", name(), {memory.offset, memory.length}, {}));
  const auto& verb = provider().verbs.reg_dmabuf_mr;
  const auto made = detail::call_create(verb, native(), memory.offset, memory.length, memory.iova,
                                        memory.fd, static_cast<int>(access.mask()));
  const std::string place =
      fmt::format("dma-buf {} at {:#x}+{}", memory.fd, memory.offset, memory.length);
  if (!made)
    return error::from_errno(
        made.code, verb.name(), fmt::format("{} of {}", place, name()),
        detail::explain_dmabuf(
            made.code, {&provider(), native()->context},
            {.memory = nullptr,
             .bytes = memory.length,
             .access = access,
             .offset_in_page_differs = detail::differ_in_page(memory.iova, memory.offset)}));
  // The verb stores the offset in ibv_mr::addr. Source: libibverbs/verbs.c.
  auto region = detail::internals::make<memory_region>(
      detail::make_owner(provider().verbs, made.native,
                         [&](ibv_mr* owned) {
                           return detail::make_memory_region_state(owned, *this, {place, nullptr},
                                                                   ownership::take);
                         }),
      detail::region_attributes{.access = access, .iova = memory.iova, .is_mapped = false});
  detail::watch(region, nullptr, {});
  return region;
}

result<void> protection_domain::advise(memory_advice advice, std::span<const local_slice> parts,
                                       advise_options options) const {
  if (parts.empty()) return {};
  const auto& verb = provider().verbs.advise_mr;
  // The verb does not write; slices have the layout of ibv_sge.
  auto* const slices = const_cast<ibv_sge*>(reinterpret_cast<const ibv_sge*>(parts.data()));
  const auto status =
      detail::call(verb, native(), static_cast<ib_uverbs_advise_mr_advice>(advice),
                   static_cast<std::uint32_t>(options.wait ? IBV_ADVISE_MR_FLAG_FLUSH : 0), slices,
                   static_cast<std::uint32_t>(parts.size()));
  if (!status.failed) return {};
  return error::from_errno(status.code, verb.name(), name(),
                           detail::explain_advice(status.code, advice));
}

close_result<protection_domain> protection_domain::close() && {
  return close_handle(std::move(*this));
}

}  // namespace verbena::inline VERBENA_ABI
