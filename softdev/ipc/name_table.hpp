// SPDX-License-Identifier: MIT
// Names that other users cannot take. Any user of a host can bind any free abstract socket name and
// list the names in use. Names that must not be taken in advance are therefore random, and the
// user's processes read them from a table in the private directory. Only the process that has
// locked an entry may use the entry's name. Each network namespace has its own table.
#pragma once

#include <cstdint>
#include <utility>

#include "softdev/ipc/private_directory.hpp"
#include "verbena/base/fd.hpp"
#include "verbena/base/result.hpp"

namespace verbena::softdev {

/// The random part of a name.
struct name_token {
  std::uint64_t high = 0;
  std::uint64_t low = 0;

  [[nodiscard]] static name_token draw();
  /// Returns false for the token of an entry without a name.
  explicit operator bool() const noexcept { return high != 0 || low != 0; }
  friend bool operator==(const name_token&, const name_token&) = default;
};

/// The first entries of the table's ranges. Each kind of name has a range.
struct name_entries {
  static constexpr std::uint32_t slots = 0;
  static constexpr std::uint32_t port_blocks = 4096;
  static constexpr std::uint32_t ports = 8192;
};

/// Accesses the open table and holds its locks. The kernel releases the locks when the last copy of
/// the descriptor is closed (at exit, or after a fork by both processes). Threads: reads are
/// thread-safe.
class name_table {
 public:
  /// Opens the table. Errors: those of open_private_directory(); `unavailable` if the table cannot
  /// be opened, or if other users can change it (EACCES).
  [[nodiscard]] static result<name_table> open(if_missing what);

  /// Locks an entry. Returns 0, EADDRINUSE if another open table has locked it, or another errno.
  [[nodiscard]] int lock(std::uint32_t entry) const noexcept;
  /// Writes the name of a locked entry to the table. Returns 0 or an errno.
  [[nodiscard]] int publish(std::uint32_t entry, const name_token& name) const noexcept;
  /// Returns the last name of the entry. The process that wrote the name may have exited.
  [[nodiscard]] name_token find(std::uint32_t entry) const noexcept;
  /// Gives the caller the descriptor, which holds the locks.
  [[nodiscard]] unique_fd release() && noexcept { return std::move(fd_); }

 private:
  explicit name_table(unique_fd fd) noexcept : fd_(std::move(fd)) {}
  unique_fd fd_;
};

}  // namespace verbena::softdev
