// SPDX-License-Identifier: MIT
// The other processes that this process knows: one living peer per slot, and those that died but
// may still be inside an active section.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "softdev/core/types.hpp"
#include "softdev/peers/own_side.hpp"
#include "softdev/peers/peer.hpp"
#include "softdev/peers/slot_set.hpp"

namespace verbena::softdev {

/// Threads: thread-safe; its lock is taken last.
class peer_table {
 public:
  explicit peer_table(own_side& own) noexcept : own_(own) {}
  peer_table(const peer_table&) = delete;
  peer_table& operator=(const peer_table&) = delete;

  struct entry {
    std::shared_ptr<peer> of;
    bool is_new = false;
  };
  /// The peer of the slot that is not dead, else a new one in its place.
  [[nodiscard]] entry find_or_make(std::uint32_t slot);
  /// The same; a new one is also among the next take_new().
  [[nodiscard]] entry connect(std::uint32_t slot);
  /// The slots in which there is or was a peer.
  [[nodiscard]] const slot_set& slots_ever_used() const noexcept { return used_; }
  /// Appends those that connect() made since the last call to `out`.
  void take_new(std::vector<std::shared_ptr<peer>>& out);
  /// The peer of the slot that is not dead, if any.
  [[nodiscard]] std::shared_ptr<peer> find(std::uint32_t slot) const;
  /// Every one, also those that died and may be inside an active section.
  [[nodiscard]] std::vector<std::shared_ptr<peer>> all() const;
  /// Calls `visit(peer)` for every one, with the lock of the table.
  template <class Visitor>
  void for_each(Visitor&& visit) const {
    const std::lock_guard lock(mutex_);
    known_.for_each([&](std::uint32_t slot) {
      if (by_slot_[slot]) visit(by_slot_[slot]);
    });
    for (const auto& each : departed_) visit(each);
  }
  /// Puts the peers that may have a queue pair in the group into `out`, as far as there is room;
  /// returns how many. No allocation.
  [[nodiscard]] std::size_t find_group(const gid_bytes& group,
                                       std::span<std::shared_ptr<peer>> out) const noexcept;

  /// Removes a dead peer from its slot and remembers it while it may be inside. False when it was
  /// not there.
  bool bury(const std::shared_ptr<peer>& dead);
  /// Forgets the dead that are not inside. Returns whether some are left.
  bool sweep();

  /// Closes the descriptors of all peers. For a child of fork: takes no lock.
  void close_all() noexcept;

 private:
  [[nodiscard]] entry find_or_make_locked(std::uint32_t slot);

  own_side& own_;
  mutable std::mutex mutex_;
  std::array<std::shared_ptr<peer>, slot_count> by_slot_;
  slot_set known_;  ///< where there is one
  slot_set used_;   ///< where there is or was one
  std::vector<std::shared_ptr<peer>> new_;
  std::vector<std::shared_ptr<peer>> departed_;
};

}  // namespace verbena::softdev
