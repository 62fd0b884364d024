// SPDX-License-Identifier: MIT
// Names that other users cannot take. Every user of a host can bind every abstract socket name that
// is free, and see all names. So a name that cannot be taken in advance is random, and processes of
// the user read it from a table in the private directory of the user. The table also says who may
// have a name: the process that has the entry locked. Each network namespace has its own table.
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
  /// False for an entry without a name.
  explicit operator bool() const noexcept { return high != 0 || low != 0; }
  friend bool operator==(const name_token&, const name_token&) = default;
};

/// The entries of the table. Each user of the table has a range.
struct name_entries {
  static constexpr std::uint32_t slots = 0;
  static constexpr std::uint32_t port_blocks = 4096;
  static constexpr std::uint32_t ports = 8192;
};

/// The open table. It holds locks; the kernel frees them when the last copy of the descriptor is
/// closed (at exit, or after a fork by both processes). Threads: reads are thread-safe.
class name_table {
 public:
  /// Errors: those of open_private_directory(); `unavailable` for a table that other users can
  /// change (EACCES), or that the file system cannot lock.
  [[nodiscard]] static result<name_table> open(if_missing what);

  /// Takes an entry. Returns 0, EADDRINUSE if another open table holds it, or an errno.
  [[nodiscard]] int lock(std::uint32_t entry) const noexcept;
  /// Makes the name of a locked entry known. Returns 0 or an errno.
  [[nodiscard]] int publish(std::uint32_t entry, const name_token& name) const noexcept;
  /// The name that the entry had last. Its owner may have exited.
  [[nodiscard]] name_token find(std::uint32_t entry) const noexcept;
  /// Gives up the descriptor, which holds the locks.
  [[nodiscard]] unique_fd release() && noexcept { return std::move(fd_); }

 private:
  explicit name_table(unique_fd fd) noexcept : fd_(std::move(fd)) {}
  unique_fd fd_;
};

}  // namespace verbena::softdev
