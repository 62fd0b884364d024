// SPDX-License-Identifier: MIT
// Advice about registered memory.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <string>

#include "verbena/base/config.hpp"

namespace verbena::inline VERBENA_ABI {

/// Advice for memory that was registered with access::on_demand. Values as in
/// `ib_uverbs_advise_mr_advice`. Source: ibv_advise_mr(3).
enum class memory_advice : std::uint32_t {
  prefetch = 0,           ///< fault the pages in for reading
  prefetch_write = 1,     ///< fault the pages in for writing
  prefetch_no_fault = 2,  ///< map the pages that are present; fault in no others
};

/// Options of protection_domain::advise().
struct advise_options {
  /// Whether to wait until the device has followed the advice, and to return its error. Otherwise
  /// the device may follow the advice later, or not at all.
  bool wait = false;
};

/// Returns `prefetch` or `unknown (7)`.
[[nodiscard]] std::string to_string(memory_advice advice);

}  // namespace verbena::inline VERBENA_ABI
