// SPDX-License-Identifier: MIT
// Protection domains, memory regions and shareable memory.
#include <infiniband/verbs.h>

#include <sys/mman.h>

#include <atomic>
#include <cerrno>
#include <memory>
#include <mutex>
#include <new>

#include "softdev/core/reason_table.hpp"
#include "softdev/host/page_fault.hpp"
#include "softdev/shim/answers.hpp"
#include "softdev/shim/efa.hpp"
#include "softdev/shim/functions.hpp"
#include "softdev/shim/not_supported.hpp"
#include "softdev/shim/objects.hpp"
#include "softdev/shim/registration.hpp"

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

namespace verbena::softdev {
namespace {

std::atomic<std::uint32_t> last_domain{0};

constexpr unsigned known_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                  IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
                                  IBV_ACCESS_ZERO_BASED | IBV_ACCESS_ON_DEMAND | IBV_ACCESS_HUGETLB;

// Checks the range of a region. Returns 0 or an errno. Checks only the first and the last page, so
// that the time of registration does not depend on the length. With on-demand paging, pages are
// checked when they are used. A region at address 0 with the maximum length is implicit: all
// memory.
int check_range(const memory_region& wanted) noexcept {
  const auto first = reinterpret_cast<std::uintptr_t>(wanted.base);
  if (wanted.length == 0 || wanted.length - 1 > ~std::uintptr_t{0} - first) return EINVAL;
  const bool everything = first == 0 && wanted.length == ~std::uint64_t{0};
  if (wanted.fault_in != nullptr) return everything && wanted.iova != 0 ? EINVAL : 0;
  const bool for_writing = wanted.rights.contains(access::local_write);
  return ends_are_accessible(wanted.base, wanted.length, for_writing) ? 0 : EFAULT;
}

// Sets the rights and the members that depend on them.
void set_access(memory_region& region, unsigned access) noexcept {
  region.rights = access_flags::from_mask(access & known_access);
  region.fault_in = (access & IBV_ACCESS_ON_DEMAND) != 0 ? &fault_in : nullptr;
}

ibv_mr* register_memory(ibv_pd* pd, void* address, std::size_t length, std::uint64_t iova,
                        unsigned access) {
  if (!working(object_of(pd->context))) return nullptr;
  if (const int refused = check_access(*pd->context, access)) return fail(refused);
  memory_region described{.base = static_cast<std::byte*>(address),
                          .length = length,
                          .iova = (access & IBV_ACCESS_ZERO_BASED) != 0 ? 0 : iova,
                          .domain = static_cast<domain_id>(pd->handle)};
  set_access(described, access);
  if (const int refused = check_range(described)) return fail(refused);
  return make_region(pd, described);
}

// The arguments of ibv_rereg_mr(3).
struct change {
  int flags = 0;
  ibv_pd* pd = nullptr;
  void* address = nullptr;
  std::size_t length = 0;
  unsigned access = 0;

  [[nodiscard]] bool of(int flag) const noexcept { return (flags & flag) != 0; }
};

// Checks a change. Returns 0 or an errno.
int check_change(const ibv_mr& mr, const change& wanted) noexcept {
  if (wanted.flags == 0 || (wanted.flags & ~IBV_REREG_MR_FLAGS_SUPPORTED) != 0) return EINVAL;
  if (wanted.of(IBV_REREG_MR_CHANGE_PD) &&
      (wanted.pd == nullptr || wanted.pd->context != mr.context))
    return EINVAL;
  if (wanted.of(IBV_REREG_MR_CHANGE_ACCESS)) {
    if (const int refused = check_access(*mr.context, wanted.access)) return refused;
  }
  return 0;
}

memory_region changed(const memory_region& now, const change& wanted) noexcept {
  memory_region next = now;
  if (wanted.of(IBV_REREG_MR_CHANGE_ACCESS)) set_access(next, wanted.access);
  if (wanted.of(IBV_REREG_MR_CHANGE_PD)) next.domain = static_cast<domain_id>(wanted.pd->handle);
  if (wanted.of(IBV_REREG_MR_CHANGE_TRANSLATION)) {
    next.base = static_cast<std::byte*>(wanted.address);
    next.length = wanted.length;
    next.iova = next.rights.contains(access::zero_based)
                    ? 0
                    : reinterpret_cast<std::uint64_t>(wanted.address);
  }
  return next;
}

}  // namespace

int check_access(ibv_context& context, unsigned access) noexcept {
  constexpr unsigned not_of_efa = IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_ON_DEMAND;
  if ((access & not_of_efa) != 0 && is_efa(context)) return refuse(refusals::access_of_efa);
  if (const int refused = refuse_access(access)) return refused;
  if ((access & IBV_ACCESS_ON_DEMAND) != 0 && !can_fault_in())
    return refuse(refusals::paging_of_mr);
  // Flags of the optional range are hints; unknown ones are ignored.
  if ((access & ~(known_access | IBV_ACCESS_OPTIONAL_RANGE)) != 0) return EINVAL;
  return 0;
}

mr_object* make_region(ibv_pd* pd, const memory_region& described) {
  context_object& context = object_of(pd->context);
  auto made = std::make_unique<mr_object>();
  mr_object* const object = made.get();
  auto region = context.host->register_region(described);
  if (!region) {
    errno = region.error().code();
    return nullptr;
  }
  object->index = context.host->next_region_index();
  object->described = described;
  object->context = pd->context;
  object->pd = pd;
  object->addr = described.base;
  object->length = described.length;
  object->handle = region->key;
  object->lkey = region->key;
  object->rkey = region->key;
  object->region = *region;
  try {
    const std::lock_guard lock(context.working.lock);
    context.working.regions.insert(object);
  } catch (const std::bad_alloc&) {
    context.host->deregister_region(*region);
    throw;
  }
  object_of(pd).children.add();
  return made.release();
}

}  // namespace verbena::softdev

using namespace verbena::softdev;

extern "C" {

ibv_pd* ibv_alloc_pd(ibv_context* context) {
  context_object& owner = object_of(context);
  if (!working(owner)) return nullptr;
  std::atomic<int>& domains = owner.host->adapter().counts().domains;
  if (domains.fetch_add(1) >= object_limits::max_pd) {
    domains.fetch_sub(1);
    errno = ENOMEM;
    return nullptr;
  }
  auto* const object = new (std::nothrow) pd_object{};
  if (object == nullptr) {
    domains.fetch_sub(1);
    errno = ENOMEM;
    return nullptr;
  }
  object->context = context;
  object->handle = last_domain.fetch_add(1) + 1;
  owner.users.add();
  return object;
}

int ibv_dealloc_pd(ibv_pd* pd) {
  context_object& owner = object_of(pd->context);
  if (!usable(owner)) return ENODEV;
  pd_object& object = object_of(pd);
  if (object.children.any()) return EBUSY;
  delete &object;
  owner.host->adapter().counts().domains.fetch_sub(1);
  leave(owner);
  return 0;
}

ibv_mr* ibv_reg_mr(ibv_pd* pd, void* addr, std::size_t length, int access) {
  return register_memory(pd, addr, length, reinterpret_cast<std::uint64_t>(addr),
                         static_cast<unsigned>(access));
}

ibv_mr* ibv_reg_mr_iova(ibv_pd* pd, void* addr, std::size_t length, std::uint64_t iova,
                        int access) {
  return register_memory(pd, addr, length, iova, static_cast<unsigned>(access));
}

ibv_mr* ibv_reg_mr_iova2(ibv_pd* pd, void* addr, std::size_t length, std::uint64_t iova,
                         unsigned int access) {
  return register_memory(pd, addr, length, iova, access);
}

// The key does not change. A refused change leaves the region as it was.
int ibv_rereg_mr(ibv_mr* mr, int flags, ibv_pd* pd, void* addr, std::size_t length, int access) {
  context_object& context = object_of(mr->context);
  mr_object& object = object_of(mr);
  const auto refuse = [](int code) {
    errno = code;
    return int{IBV_REREG_MR_ERR_INPUT};
  };
  if (!working(context)) return refuse(errno);
  if (object.region.key == 0 || object.mapped != nullptr) return refuse(EINVAL);
  const change wanted{flags, pd, addr, length, static_cast<unsigned>(access)};
  if (const int refused = check_change(*mr, wanted)) return refuse(refused);
  const std::lock_guard lock(context.working.lock);
  const memory_region next = changed(object.described, wanted);
  if (const int refused = check_range(next)) return refuse(refused);
  const auto region = context.host->reregister_region(object.region, next);
  if (!region) return refuse(region.error().code());
  object.region = *region;
  object.described = next;
  mr->addr = next.base;
  mr->length = next.length;
  if (wanted.of(IBV_REREG_MR_CHANGE_PD)) {
    object_of(pd).children.add();
    object_of(mr->pd).children.remove();
    mr->pd = pd;
  }
  return 0;
}

int ibv_dereg_mr(ibv_mr* mr) {
  context_object& context = object_of(mr->context);
  if (!usable(context)) return ENODEV;
  mr_object& object = object_of(mr);
  {
    const std::lock_guard lock(context.working.lock);
    context.working.regions.erase(&object);
  }
  if (object.region.key != 0) context.host->deregister_region(object.region);
  if (object.mapped != nullptr) munmap(object.mapped, object.mapped_bytes);
  object_of(mr->pd).children.remove();
  delete &object;
  return 0;
}

void* verbena_soft_allocate(std::size_t bytes, int huge_pages) {
  auto host = host::instance();
  if (!host) {
    errno = host.error().code() != 0 ? host.error().code() : ENODEV;
    return nullptr;
  }
  auto memory = (*host)->shareable_memory().allocate(
      bytes, huge_pages != 0 ? arena_registry::pages::huge : arena_registry::pages::normal);
  if (memory) return *memory;
  errno = memory.error().code() != 0 ? memory.error().code() : ENOMEM;
  return nullptr;
}

int verbena_soft_free(void* memory) {
  auto host = host::instance();
  return host ? (*host)->shareable_memory().free(memory) : EINVAL;
}

std::size_t verbena_soft_explain(std::uint32_t qp_num, std::uint64_t wr_id,
                                 std::uint32_t vendor_err, char* text, std::size_t capacity) {
  if (qp_num == 0 && vendor_err == EOPNOTSUPP) return describe_refusal(text, capacity);
  if (qp_num == 0) return describe_code(vendor_err, text, capacity);
  auto host = host::instance();
  return host ? (*host)->core().explain(qp_num, wr_id, vendor_err, text, capacity) : 0;
}

}  // extern "C"
