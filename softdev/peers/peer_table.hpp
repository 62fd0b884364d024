// SPDX-License-Identifier: MIT
// The peers of this process: one living peer per slot, and dead peers that may still be in an
// active section.
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
  /// Returns the live peer of the slot, or makes a new one.
  [[nodiscard]] entry find_or_make(std::uint32_t slot);
  /// Does the same; the next take_new() includes a new peer.
  [[nodiscard]] entry connect(std::uint32_t slot);
  /// The slots in which there is or was a peer.
  [[nodiscard]] const slot_set& slots_ever_used() const noexcept { return used_; }
  /// Appends the peers that connect() has made since the last call to `out`.
  void take_new(std::vector<std::shared_ptr<peer>>& out);
  /// Returns the live peer of the slot, or nullptr.
  [[nodiscard]] std::shared_ptr<peer> find(std::uint32_t slot) const;
  /// Returns all peers, including dead ones that may be in an active section.
  [[nodiscard]] std::vector<std::shared_ptr<peer>> all() const;
  /// Calls `visit(peer)` for each peer that all() returns, with the lock of the table held.
  template <class Visitor>
  void for_each(Visitor&& visit) const {
    const std::lock_guard lock(mutex_);
    known_.for_each([&](std::uint32_t slot) {
      if (by_slot_[slot]) visit(by_slot_[slot]);
    });
    for (const auto& each : departed_) visit(each);
  }
  /// Copies the peers that take records and may have a queue pair in the group to `out`, at most
  /// out.size(). Returns their number. No allocation.
  [[nodiscard]] std::size_t find_group(const gid_bytes& group,
                                       std::span<std::shared_ptr<peer>> out) const noexcept;

  /// Removes a dead peer from its slot, and keeps it until sweep() drops it. Returns false if it is
  /// not in its slot.
  bool remove_ended(const std::shared_ptr<peer>& dead);
  /// Drops the dead peers that can neither be in an active section nor write late. Returns whether
  /// some are left.
  bool sweep();

  /// Closes the descriptors of all peers in a child of fork. Waits for no lock: what another thread
  /// of the parent was changing stays open. `queued`: no thread was changing the queued messages.
  void close_all(bool queued) noexcept;

 private:
  [[nodiscard]] entry find_or_make_locked(std::uint32_t slot);

  own_side& own_;
  mutable std::mutex mutex_;
  std::array<std::shared_ptr<peer>, slot_count> by_slot_;
  slot_set known_;  ///< slots with a peer
  slot_set used_;   ///< slots with a present or former peer
  std::vector<std::shared_ptr<peer>> new_;
  std::vector<std::shared_ptr<peer>> departed_;
};

}  // namespace verbena::softdev
