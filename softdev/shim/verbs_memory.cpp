// SPDX-License-Identifier: MIT
// Protection domains, memory regions and shareable memory.
#include <infiniband/verbs.h>

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
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

// The errno that refuses a range, or 0. Looks at its first and last page only: registration takes
// the same time for any length.
int check_range(const void* address, std::size_t length) noexcept {
  const auto first = reinterpret_cast<std::uintptr_t>(address);
  if (length == 0 || length - 1 > ~std::uintptr_t{0} - first) return EINVAL;
  static const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const std::uintptr_t last = first + (length - 1);
  if (!is_mapped(first, page)) return EFAULT;
  if ((first ^ last) >= page && !is_mapped(last, page)) return EFAULT;
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
  if (!usable(context)) return nullptr;
  if (const int refused = check_access(access)) return fail(refused);
  if (const int refused = check_range(address, length)) return fail(refused);
  auto* const object = new (std::nothrow) mr_object{};
  if (object == nullptr) return fail(ENOMEM);
  auto region = context.host->register_region({
      .base = static_cast<std::byte*>(address),
      .length = length,
      .iova = (access & IBV_ACCESS_ZERO_BASED) != 0 ? 0 : iova,
      .rights = access_flags::from_mask(access & known_access),
      .domain = static_cast<domain_id>(pd->handle),
  });
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
  return object;
}

}  // namespace
}  // namespace verbena::softdev

using namespace verbena::softdev;

extern "C" {

ibv_pd* ibv_alloc_pd(ibv_context* context) {
  context_object& owner = object_of(context);
  if (!usable(owner)) return nullptr;
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
  owner.children.add();
  return object;
}

int ibv_dealloc_pd(ibv_pd* pd) {
  context_object& owner = object_of(pd->context);
  if (!usable(owner)) return ENODEV;
  pd_object& object = object_of(pd);
  if (object.children.any()) return EBUSY;
  delete &object;
  domains.fetch_sub(1);
  owner.children.remove();
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

int ibv_dereg_mr(ibv_mr* mr) {
  context_object& context = object_of(mr->context);
  if (!usable(context)) return ENODEV;
  mr_object& object = object_of(mr);
  context.host->deregister_region(object.region);
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
