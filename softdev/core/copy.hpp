// SPDX-License-Identifier: MIT
// The functions that access payload. They are not instrumented by sanitizers and do not call
// memcpy, which sanitizers intercept: to the program, its memory changes as if an adapter had
// written it.
//
// The memory belongs to the program, which may unmap it while a request uses it. Each instruction
// that accesses it is therefore in a table, with the address at which its function continues if the
// access raises SIGSEGV or SIGBUS (softdev/host/memory_faults.hpp has the handler).
#pragma once

#include <cstddef>
#include <cstdint>

namespace verbena::softdev {

/// The side of a copy that is not accessible.
enum class copy_fault : std::uint8_t { none, source, sink };

/// Copies payload. Eight aligned bytes at the destination are one store, and the last bytes are
/// stored last, after all others are visible. In long copies, the order of the others is undefined.
/// Ranges must not overlap unless `to` <= `from`. After a fault, part of the bytes may be copied.
/// Thread-safe; does not allocate.
[[nodiscard]] copy_fault copy_payload(std::byte* to, const std::byte* from,
                                      std::size_t bytes) noexcept;

/// Adds to an aligned word atomically. Returns false if the word is not accessible. Thread-safe.
[[nodiscard]] bool fetch_add_word(std::byte* word, std::uint64_t addend,
                                  std::uint64_t& original) noexcept;
/// Replaces an aligned word by `desired` if it is equal to `expected`, atomically. Returns false if
/// the word is not accessible. Thread-safe.
[[nodiscard]] bool compare_exchange_word(std::byte* word, std::uint64_t expected,
                                         std::uint64_t desired, std::uint64_t& original) noexcept;

#if defined(__x86_64__)
/// Reads a byte. Returns false if the byte is not accessible. Thread-safe.
[[nodiscard]] bool touch_to_read(const std::byte* byte) noexcept;
/// Writes a byte atomically without changing its value. Returns false if the byte is not
/// accessible. Thread-safe.
[[nodiscard]] bool touch_to_write(std::byte* byte) noexcept;
#endif

/// Returns the address at which to continue after a fault of `instruction`; 0 if no function above
/// contains it. For signal handlers: takes no lock and does not allocate.
[[nodiscard]] std::uintptr_t continuation_of(std::uintptr_t instruction) noexcept;

}  // namespace verbena::softdev
