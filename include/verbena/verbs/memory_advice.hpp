// SPDX-License-Identifier: MIT
// Advice about memory regions with on-demand paging. Source: ibv_advise_mr(3).
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <string>

#include "verbena/base/config.hpp"

namespace verbena::inline VERBENA_ABI {

/// Advice for memory that was registered with access::on_demand. Values as in
/// `ib_uverbs_advise_mr_advice`.
enum class memory_advice : std::uint32_t {
  prefetch = 0,           ///< faults the pages in for reading
  prefetch_write = 1,     ///< faults the pages in for reading and writing
  prefetch_no_fault = 2,  ///< maps pages that are present; does not fault in other pages
};

/// Options of protection_domain::advise().
struct advise_options {
  /// Whether to block until the device has updated its translations, and to return its error
  /// (IBV_ADVISE_MR_FLAG_FLUSH). Otherwise the device follows the advice later, or not at all.
  bool wait = false;
};

/// Returns `prefetch` or `unknown (7)`.
[[nodiscard]] std::string to_string(memory_advice advice);

}  // namespace verbena::inline VERBENA_ABI
