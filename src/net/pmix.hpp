// SPDX-License-Identifier: MIT
// PMIx, the interface between processes and launchers such as mpirun and prte. libpmix.so.2 is
// loaded at the first use, and the connection ends with the process: a launcher regards a process
// that ends without it as failed.
#pragma once

#include <cstdint>
#include <string>

#include "verbena/base/deadline.hpp"
#include "verbena/base/result.hpp"

namespace verbena::inline VERBENA_ABI::net::detail {

/// The place of this process in the job of the launcher.
struct pmix_job {
  std::uint32_t rank = 0;
  std::uint32_t size = 1;
  bool is_local = true;  ///< all processes are on this host
  std::string host;      ///< the name of this host
};

/// Returns the place of this process. Blocks. Thread-safe.
[[nodiscard]] result<pmix_job> ask_pmix();

/// Returns the text of rank 0 on all ranks. All ranks of the job must call it in the same order.
/// Blocks.
[[nodiscard]] result<std::string> share_by_pmix(const std::string& key,
                                                const std::string& of_rank_0, deadline until);

}  // namespace verbena::inline VERBENA_ABI::net::detail
