// SPDX-License-Identifier: MIT
// Detects that a program passes an object of the software device to the system's libibverbs. That
// library has a private table of functions behind each context and device. In objects of soft0,
// each entry of the table is a function that reports the mistake and aborts.
#pragma once

namespace verbena::softdev {

/// Returns a table of functions, each of which reports the mistake and aborts. It is larger than
/// the private context of any known rdma-core. Lives as long as the process. Thread-safe.
[[nodiscard]] void* trap_table() noexcept;

/// Returns a block of zeros, in place of rdma-core's private description of a device. Thread-safe.
[[nodiscard]] void* empty_description() noexcept;

}  // namespace verbena::softdev
