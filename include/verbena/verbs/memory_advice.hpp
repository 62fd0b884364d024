// SPDX-License-Identifier: MIT
// What a program intends to do with registered memory, told to the device.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <string>

#include "verbena/base/config.hpp"

namespace verbena::inline VERBENA_ABI {

/// Advice for memory that was registered with access::on_demand. Values as in
/// `ib_uverbs_advise_mr_advice`. Source: ibv_advise_mr(3).
enum class memory_advice : std::uint32_t {
  prefetch = 0,           ///< bring the pages in, to be read
  prefetch_write = 1,     ///< bring the pages in, to be written
  prefetch_no_fault = 2,  ///< let the device know the pages that are in; bring in no others
};

/// How advice is given.
struct advise_options {
  /// Return when the advice was followed, and say whether it was; else it is followed later, or
  /// not.
  bool wait = false;
};

/// `prefetch`; `unknown (7)`.
[[nodiscard]] std::string to_string(memory_advice advice);

}  // namespace verbena::inline VERBENA_ABI
