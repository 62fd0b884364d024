// SPDX-License-Identifier: MIT
// Traps for the one mistake that raw handles invite: giving an object of the software device to the
// system's libibverbs. That library keeps a private table of functions behind each context and
// device; ours is filled with a function that says what happened and aborts.
#pragma once

namespace verbena::softdev {

/// A block that reads as a table of functions, each of which names the mistake and aborts. Larger
/// than the private context of any known rdma-core. Lives as long as the process. Thread-safe.
[[nodiscard]] void* trap_table() noexcept;

/// A block of zeros where rdma-core keeps a device's private description. Thread-safe.
[[nodiscard]] void* empty_description() noexcept;

}  // namespace verbena::softdev
