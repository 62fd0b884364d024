// SPDX-License-Identifier: MIT
// Memory that is looked at when it is used, not when it is registered: registrations on demand and
// mappings of files that may shrink.
#pragma once

#include <cstddef>
#include <cstdint>

namespace verbena::softdev {

/// Brings in the pages of a range for reading or for writing, as an access would, but answers false
/// where an access would raise a signal: not mapped, not allowed, beyond the end of a file. Who
/// unmaps them after the answer gets the signal. Thread-safe; one system call, which blocks while
/// pages are read from a disk.
[[nodiscard]] bool fault_in(std::byte* first, std::uint64_t bytes, bool for_writing) noexcept;

/// True when the kernel can do that (madvise(2): MADV_POPULATE_WRITE, since 5.14). Without it
/// nothing is registered that needs it. Thread-safe.
[[nodiscard]] bool can_fault_in() noexcept;

/// Whether both ends of a range are mapped and readable, with `for_writing` writable. Brings their
/// pages in, as registration in the kernel does when it pins pages. Precondition: 0 < `bytes`, and
/// the range does not wrap. Thread-safe; two system calls, or up to four if a signal would be the
/// answer to an access.
[[nodiscard]] bool ends_are_accessible(std::byte* first, std::uint64_t bytes,
                                       bool for_writing) noexcept;

}  // namespace verbena::softdev
