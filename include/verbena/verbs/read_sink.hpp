// SPDX-License-Identifier: MIT
// Where the bytes of an RDMA read go: what that memory, and the request, must be like on each
// transport.
#pragma once

#include <cstddef>

#include "verbena/base/result.hpp"
#include "verbena/verbs/access.hpp"
#include "verbena/verbs/context.hpp"

namespace verbena::inline VERBENA_ABI {

/// The rights that memory needs to be read into: `local_write`, and on iWARP `remote_write` too,
/// since there the peer answers a read by writing. Its key goes to the peer with each read.
/// Source: RFC 5040. Does not block.
[[nodiscard]] access_flags read_sink_access(const context& device);

/// That memory with these rights can be read into in so many slices by one request. Posting does
/// not look: devices refuse such a request in its completion, if they do, and the connection ends.
///
/// Errors: `invalid_argument` for a right that is missing, and for more slices than the device
/// takes, which on iWARP is one; those of context::query(). May block shortly.
[[nodiscard]] result<void> check_read_sink(const context& device, access_flags rights,
                                           std::size_t slices = 1);

}  // namespace verbena::inline VERBENA_ABI
