// SPDX-License-Identifier: MIT
// Protection domains, memory regions and shareable memory.
#include <infiniband/verbs.h>

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <mutex>
#include <new>

#include "softdev/shim/functions.hpp"
#include "softdev/shim/not_supported.hpp"
#include "softdev/shim/objects.hpp"

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

namespace verbena::softdev {
namespace {

std::atomic<int> domains{0};
std::atomic<std::uint32_t> last_domain{0};

constexpr unsigned known_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                  IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
                                  IBV_ACCESS_ZERO_BASED | IBV_ACCESS_HUGETLB;

ibv_mr* fail(int code) noexcept {
  errno = code;
  return nullptr;
}

// True when the page at `address` is mapped. One system call.
bool is_mapped(std::uintptr_t address, std::uintptr_t page) noexcept {
  unsigned char resident = 0;
  return mincore(reinterpret_cast<void*>(address & ~(page - 1)), 1, &resident) == 0 ||
         errno != ENOMEM;
}

// True when madvise(2) brings in the page at `address` for writing, as registration in the kernel
// does when it pins pages.
bool populates(std::uintptr_t address, std::uintptr_t page) noexcept {
  constexpr int populate_write = 23;  // MADV_POPULATE_WRITE
  return madvise(reinterpret_cast<void*>(address & ~(page - 1)), page, populate_write) == 0;
}

// True unless the page at `address` is known to be read-only. One system call.
bool may_be_written(std::uintptr_t address, std::uintptr_t page) noexcept {
  if (populates(address, page) || errno != EINVAL) return true;
  // Kernels before 5.14 say EINVAL of every page, also of this one.
  static unsigned char writable = 0;
  static const bool known = populates(reinterpret_cast<std::uintptr_t>(&writable), page);
  return !known;
}

// The errno that refuses a range for these rights, or 0. Looks at its first and last page only:
// registration takes the same time for any length.
int check_range(const void* address, std::size_t length, bool for_writing) noexcept {
  const auto first = reinterpret_cast<std::uintptr_t>(address);
  if (length == 0 || length - 1 > ~std::uintptr_t{0} - first) return EINVAL;
  static const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const std::uintptr_t last = first + (length - 1);
  for (const std::uintptr_t end : {first, last}) {
    if (!is_mapped(end, page) || (for_writing && !may_be_written(end, page))) return EFAULT;
    if ((first ^ last) < page) break;  // they are one page
  }
  return 0;
}

int check_access(unsigned access) noexcept {
  if (has_unsupported_access(access)) return EOPNOTSUPP;
  // Flags of the optional range are hints: those that mean nothing here are ignored.
  if ((access & ~(known_access | IBV_ACCESS_OPTIONAL_RANGE)) != 0) return EINVAL;
  return 0;
}

ibv_mr* register_memory(ibv_pd* pd, void* address, std::size_t length, std::uint64_t iova,
                        unsigned access) {
  context_object& context = object_of(pd->context);
  if (!working(context)) return nullptr;
  if (const int refused = check_access(access)) return fail(refused);
  const bool for_writing = (access & IBV_ACCESS_LOCAL_WRITE) != 0;
  if (const int refused = check_range(address, length, for_writing)) return fail(refused);
  auto* const object = new (std::nothrow) mr_object{};
  if (object == nullptr) return fail(ENOMEM);
  object->described = {
      .base = static_cast<std::byte*>(address),
      .length = length,
      .iova = (access & IBV_ACCESS_ZERO_BASED) != 0 ? 0 : iova,
      .rights = access_flags::from_mask(access & known_access),
      .domain = static_cast<domain_id>(pd->handle),
  };
  auto region = context.host->register_region(object->described);
  if (!region) {
    delete object;
    return fail(region.error().code());
  }
  object->context = pd->context;
  object->pd = pd;
  object->addr = address;
  object->length = length;
  object->handle = region->key;
  object->lkey = region->key;
  object->rkey = region->key;
  object->region = *region;
  object_of(pd).children.add();
  const std::lock_guard lock(context.working.lock);
  context.working.regions.insert(object);
  return object;
}

// What ibv_rereg_mr(3) is asked for.
struct change {
  int flags = 0;
  ibv_pd* pd = nullptr;
  void* address = nullptr;
  std::size_t length = 0;
  unsigned access = 0;

  [[nodiscard]] bool of(int flag) const noexcept { return (flags & flag) != 0; }
};

// The errno that refuses a change, or 0.
int check_change(const ibv_mr& mr, const change& wanted) noexcept {
  if (wanted.flags == 0 || (wanted.flags & ~IBV_REREG_MR_FLAGS_SUPPORTED) != 0) return EINVAL;
  if (wanted.of(IBV_REREG_MR_CHANGE_PD) &&
      (wanted.pd == nullptr || wanted.pd->context != mr.context))
    return EINVAL;
  if (wanted.of(IBV_REREG_MR_CHANGE_ACCESS)) {
    if (const int refused = check_access(wanted.access)) return refused;
  }
  return 0;
}

memory_region changed(const memory_region& now, const change& wanted) noexcept {
  memory_region next = now;
  if (wanted.of(IBV_REREG_MR_CHANGE_ACCESS))
    next.rights = access_flags::from_mask(wanted.access & known_access);
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
}  // namespace verbena::softdev

using namespace verbena::softdev;

extern "C" {

ibv_pd* ibv_alloc_pd(ibv_context* context) {
  context_object& owner = object_of(context);
  if (!working(owner)) return nullptr;
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
  domains.fetch_sub(1);
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

// The key stays. What refuses the change leaves everything as it was.
int ibv_rereg_mr(ibv_mr* mr, int flags, ibv_pd* pd, void* addr, std::size_t length, int access) {
  context_object& context = object_of(mr->context);
  mr_object& object = object_of(mr);
  const auto refuse = [](int code) {
    errno = code;
    return int{IBV_REREG_MR_ERR_INPUT};
  };
  if (!working(context)) return refuse(errno);
  if (object.region.key == 0) return refuse(EINVAL);
  const change wanted{flags, pd, addr, length, static_cast<unsigned>(access)};
  if (const int refused = check_change(*mr, wanted)) return refuse(refused);
  const memory_region next = changed(object.described, wanted);
  const bool for_writing = next.rights.contains(access::local_write);
  if (const int refused = check_range(next.base, next.length, for_writing)) return refuse(refused);
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
  auto host = host::instance();
  return host ? (*host)->core().explain(qp_num, wr_id, vendor_err, text, capacity) : 0;
}

}  // extern "C"
