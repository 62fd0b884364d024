// SPDX-License-Identifier: MIT
// The multicast groups of this process, and the queue pairs attached to them.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "softdev/core/access_epoch.hpp"
#include "softdev/core/datagram.hpp"
#include "softdev/core/types.hpp"

namespace verbena::softdev {

/// Attaches queue pairs to multicast groups. Threads: thread-safe. Changes allocate, and block
/// until no thread reads the old state; members() does neither.
class multicast_groups {
 public:
  /// `epoch` is the epoch of readers, and outlives the groups.
  explicit multicast_groups(access_epoch& epoch) : epoch_(epoch) {}
  ~multicast_groups() { delete now_.load(); }
  multicast_groups(const multicast_groups&) = delete;
  multicast_groups& operator=(const multicast_groups&) = delete;

  enum class change : std::uint8_t {
    none,     ///< no change
    member,   ///< a member of a group with other members
    group,    ///< the first member was attached, or the last one detached
    no_room,  ///< limits::max_groups or limits::max_group_members are reached
  };
  [[nodiscard]] change attach(const gid_bytes& group, std::uint32_t qpn);
  [[nodiscard]] change detach(const gid_bytes& group, std::uint32_t qpn);
  /// Returns whether the queue pair is in a group.
  [[nodiscard]] bool has(std::uint32_t qpn);

  /// Returns the members of a group in ascending order. The caller must be inside the access epoch;
  /// the result is valid until it leaves the epoch.
  [[nodiscard]] std::span<const std::uint32_t> members(const gid_bytes& group) const noexcept;

 private:
  struct entry {
    gid_bytes group{};
    std::vector<std::uint32_t> members;
  };
  using table = std::vector<entry>;
  void replace(const table* next);

  access_epoch& epoch_;
  std::mutex changes_;
  std::atomic<const table*> now_{nullptr};
};

}  // namespace verbena::softdev
