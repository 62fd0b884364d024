// SPDX-License-Identifier: MIT
// Advice about memory regions with on-demand paging. Source: ibv_advise_mr(3).
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <string>

#include "verbena/base/config.hpp"

namespace verbena::inline VERBENA_ABI {

/// Prefetch advice for a memory region with on-demand paging (ODP): access::on_demand. Pages are
/// not pinned; later accesses can still fault. Values as in `ib_uverbs_advise_mr_advice`.
enum class memory_advice : std::uint32_t {
  prefetch = 0,           ///< faults the pages in for reading
  prefetch_write = 1,     ///< also for writing; the region must permit writes
  prefetch_no_fault = 2,  ///< maps pages that are present; does not fault in other pages
};

/// Options of protection_domain::advise().
struct advise_options {
  /// If true, advise() blocks until the device has the translations and reports a failure
  /// (IBV_ADVISE_MR_FLAG_FLUSH). If false, the advice is a hint; later failures are not reported.
  bool wait = false;
};

/// Returns the name of the value, such as `prefetch`; for other values `unknown (7)`. Allocates.
[[nodiscard]] std::string to_string(memory_advice advice);

}  // namespace verbena::inline VERBENA_ABI
