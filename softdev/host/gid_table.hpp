// SPDX-License-Identifier: MIT
// The GID table of the port. As in the kernel, an entry keeps its index as long as its address
// exists. The index of a removed address is free for the next new one.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>

namespace verbena::softdev {

/// One entry of the table; all zero if it is empty.
struct gid_entry {
  std::array<std::uint8_t, 16> gid{};
  std::uint32_t interface_index = 0;

  [[nodiscard]] bool empty() const noexcept { return gid == std::array<std::uint8_t, 16>{}; }
  bool operator==(const gid_entry&) const = default;
};

/// Threads: thread-safe. Never allocates.
class gid_table {
 public:
  static constexpr std::size_t length = 64;
  using entries = std::array<gid_entry, length>;

  explicit gid_table(std::span<const gid_entry> begin) noexcept { static_cast<void>(set(begin)); }
  gid_table(const gid_table&) = delete;
  gid_table& operator=(const gid_table&) = delete;

  /// Returns the entry at an index; an empty one for an index beyond the table.
  [[nodiscard]] gid_entry at(std::size_t index) const noexcept;
  [[nodiscard]] entries all() const noexcept;
  /// Returns a number that differs after each change and is never 0.
  [[nodiscard]] std::uint64_t version() const noexcept {
    return version_.load(std::memory_order_acquire);
  }
  [[nodiscard]] bool contains(std::span<const std::uint8_t, 16> gid) const noexcept;

  /// Sets the addresses of the table to `now`, as far as there is room. Returns whether it changed.
  bool set(std::span<const gid_entry> now) noexcept;
  /// Moves every entry to the next index, and the last entry to the first. They stay there.
  void move() noexcept;

 private:
  mutable std::mutex mutex_;
  entries entries_;
  std::atomic<std::uint64_t> version_{1};
};

}  // namespace verbena::softdev
