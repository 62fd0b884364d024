// SPDX-License-Identifier: MIT
// The send side of a queue pair by its transport.
#pragma once

#include <memory>

#include "softdev/core/requester.hpp"

namespace verbena::softdev {

/// Makes the send side of `self`, which outlives it. Allocates.
[[nodiscard]] std::unique_ptr<requester> make_requester(queue_pair& self,
                                                        const queue_pair_options& options);

}  // namespace verbena::softdev
