// SPDX-License-Identifier: MIT
// Requirements for the local memory of RDMA READs.
#pragma once

#include <cstddef>

#include "verbena/base/result.hpp"
#include "verbena/verbs/access.hpp"
#include "verbena/verbs/context.hpp"

namespace verbena::inline VERBENA_ABI {

/// Returns the access flags that the local memory of an RDMA READ needs: `local_write`, and on
/// iWARP also `remote_write`, because the peer's response is a write with the rkey of this memory.
/// Source: RFC 5040. Does not block.
[[nodiscard]] access_flags read_sink_access(const context& device);

/// Checks that an RDMA READ can write to `slices` slices of memory with the flags `access`. Posting
/// does not check this: the request fails later, and with it the connection.
///
/// Errors: `invalid_argument` for missing access flags, and for more slices than
/// device_attributes::max_read_sge(); otherwise those of context::query(). May block in the
/// kernel.
[[nodiscard]] result<void> check_read_sink(const context& device, access_flags access,
                                           std::size_t slices = 1);

}  // namespace verbena::inline VERBENA_ABI
