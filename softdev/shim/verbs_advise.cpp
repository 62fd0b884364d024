// SPDX-License-Identifier: MIT
// Advice about memory regions. The errors are those of the kernel's mlx5 driver.
#include <infiniband/verbs.h>

#include <cerrno>
#include <span>

#include "softdev/host/page_fault.hpp"
#include "softdev/shim/efa.hpp"
#include "softdev/shim/not_supported.hpp"
#include "softdev/shim/operations.hpp"

namespace verbena::softdev {
namespace {

// A checked range of a region.
struct advised {
  std::byte* first = nullptr;
  std::uint64_t bytes = 0;
};

int find_range(const context_object& context, const ibv_pd& pd, ibv_advise_mr_advice advice,
               const ibv_sge& range, advised& out) noexcept {
  const access_epoch::guard inside(context.host->core().epoch());
  const memory_region* const region = context.host->core().regions().find(range.lkey);
  if (region == nullptr || !region->rights.contains(access::on_demand)) return ENOENT;
  if (region->domain != static_cast<domain_id>(pd.handle)) return EPERM;
  if (advice == IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE &&
      !region->rights.contains(access::local_write))
    return EPERM;
  const std::uint64_t offset = range.addr - region->iova;
  if (range.length > region->length || offset > region->length - range.length) return EFAULT;
  out = {region->base + offset, range.length};
  return 0;
}

}  // namespace

// The pages are present when this returns, with or without IBV_ADVISE_MR_FLAG_FLUSH.
// PREFETCH_NO_FAULT only checks its arguments: the device has no translations of present pages to
// prefetch.
int advise_mr(ibv_pd* pd, ibv_advise_mr_advice advice, std::uint32_t flags, ibv_sge* ranges,
              std::uint32_t count) {
  const context_object& context = object_of(pd->context);
  if (!working(context)) return errno;
  if (is_efa(*pd->context)) return refuse(refusals::advice_of_efa);
  if ((flags & ~std::uint32_t{IBV_ADVISE_MR_FLAG_FLUSH}) != 0) return EINVAL;
  if (advice != IBV_ADVISE_MR_ADVICE_PREFETCH && advice != IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE &&
      advice != IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT)
    return refuse(refusals::advice_of_mr);
  if (count == 0 || ranges == nullptr) return EINVAL;
  const std::span<const ibv_sge> list(ranges, count);
  advised found;
  for (const ibv_sge& range : list)
    if (const int refused = find_range(context, *pd, advice, range, found)) return refused;
  if (advice == IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT) return 0;
  for (const ibv_sge& range : list) {
    if (const int refused = find_range(context, *pd, advice, range, found)) return refused;
    if (!fault_in(found.first, found.bytes, advice == IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE))
      return EFAULT;
  }
  return 0;
}

}  // namespace verbena::softdev
