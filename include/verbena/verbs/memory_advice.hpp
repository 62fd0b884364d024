// SPDX-License-Identifier: MIT
// Advice about memory regions with on-demand paging. Source: ibv_advise_mr(3).
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <string>

#include "verbena/base/config.hpp"

namespace verbena::inline VERBENA_ABI {

/// Prefetch advice for a memory region that is registered for on-demand paging (access::on_demand).
/// Pages are not pinned; later accesses can still fault. The values are those of
/// `ib_uverbs_advise_mr_advice`. See protection_domain::advise().
enum class memory_advice : std::uint32_t {
  prefetch = 0,           ///< faults the pages in for reading
  prefetch_write = 1,     ///< also for writing; needs access::local_write
  prefetch_no_fault = 2,  ///< maps pages that are present; does not fault in other pages
};

/// Options of protection_domain::advise().
struct advise_options {
  /// If true (IBV_ADVISE_MR_FLAG_FLUSH), advise() blocks until the device has the translations, and
  /// returns an error if a page cannot be prefetched. If false, advise() may return before the
  /// prefetch completes, and does not return failures of the prefetch.
  bool wait = false;
};

/// Returns the name of the value, such as `prefetch`; for an unknown value such as 7, returns
/// `unknown (7)`. Allocates.
[[nodiscard]] std::string to_string(memory_advice advice);

}  // namespace verbena::inline VERBENA_ABI
