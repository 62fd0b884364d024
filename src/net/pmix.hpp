// SPDX-License-Identifier: MIT
// PMIx, the interface between processes and launchers such as mpirun and prte. libpmix.so.2 is
// loaded at the first use. The connection is closed when the process ends, because a launcher
// treats a process that ends without PMIx_Finalize as failed.
#pragma once

#include <cstdint>
#include <string>

#include "verbena/base/deadline.hpp"
#include "verbena/base/result.hpp"

namespace verbena::inline VERBENA_ABI::net::detail {

/// The rank of this process in the job of the launcher.
struct pmix_job {
  std::uint32_t rank = 0;
  std::uint32_t size = 1;
  bool is_local = true;  ///< all processes are on this host
  std::string host;      ///< the name of this host, `localhost` if unknown
};

/// Returns the rank of this process and the size of its job. Blocks. Thread-safe. Errors:
/// `not_supported` if the library was built without PMIx; `unavailable` if libpmix.so.2 is not
/// installed, or if PMIx fails.
[[nodiscard]] result<pmix_job> ask_pmix();

/// Returns `of_rank_0` of rank 0 on all ranks. All ranks of the job must make the same calls in the
/// same order. Blocks. Thread-safe. Errors: those of ask_pmix(); `timed_out` if a rank does not
/// call the function in time; `invalid_argument` if the key is too long.
[[nodiscard]] result<std::string> share_by_pmix(const std::string& key,
                                                const std::string& of_rank_0, deadline until);

}  // namespace verbena::inline VERBENA_ABI::net::detail
