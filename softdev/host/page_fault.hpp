// SPDX-License-Identifier: MIT
// Checks of memory when it is used instead of when it is registered: for on-demand registrations
// and mappings of files that may shrink.
#pragma once

#include <cstddef>
#include <cstdint>

namespace verbena::softdev {

/// Faults in the pages of a range for reading or for writing. Returns false if an access would
/// raise a signal: a page is not mapped, not permitted, or beyond the end of a file. If the program
/// unmaps the pages afterwards, an access raises the signal. Thread-safe; one system call, which
/// blocks while pages are read from a disk.
[[nodiscard]] bool fault_in(std::byte* first, std::uint64_t bytes, bool for_writing) noexcept;

/// Returns whether the kernel supports fault_in() (madvise(2): MADV_POPULATE_WRITE, since 5.14).
/// Without this support, memory that needs it is not registered. Thread-safe.
[[nodiscard]] bool can_fault_in() noexcept;

/// Returns whether both ends of a range are mapped and readable, or writable with `for_writing`.
/// Faults in their pages, as registration in the kernel does when it pins pages. Precondition:
/// `bytes` is not 0, and the range does not wrap. Thread-safe; two system calls, or more if memory
/// faults are not caught.
[[nodiscard]] bool ends_are_accessible(std::byte* first, std::uint64_t bytes,
                                       bool for_writing) noexcept;

}  // namespace verbena::softdev
