// SPDX-License-Identifier: MIT
// Which queue pairs of this process are attached to which multicast groups.
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

/// Threads: thread-safe. Changes allocate and block until nobody looks at the state before; looking
/// does neither.
class multicast_groups {
 public:
  /// `epoch` is that of those who look, and outlives the groups.
  explicit multicast_groups(access_epoch& epoch) : epoch_(epoch) {}
  ~multicast_groups() { delete now_.load(); }
  multicast_groups(const multicast_groups&) = delete;
  multicast_groups& operator=(const multicast_groups&) = delete;

  enum class change : std::uint8_t {
    none,     ///< it was so already
    member,   ///< of a group with other members
    group,    ///< the first member came, or the last one went
    no_room,  ///< limits::max_groups or limits::max_group_members are reached
  };
  [[nodiscard]] change attach(const gid_bytes& group, std::uint32_t qpn);
  [[nodiscard]] change detach(const gid_bytes& group, std::uint32_t qpn);
  /// True when the queue pair is in a group.
  [[nodiscard]] bool has(std::uint32_t qpn);

  /// The members of a group in ascending order. Wants an access epoch, in which it stays valid.
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
