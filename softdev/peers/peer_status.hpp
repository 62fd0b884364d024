// SPDX-License-Identifier: MIT
// The state of the pairing with a peer, and the reason why it ended.
#pragma once

#include <atomic>
#include <cstdint>

namespace verbena::softdev {

enum class peer_state : std::uint8_t {
  connecting,  ///< link::service() pairs; see is_overdue()
  paired,
  dead,  ///< final; a new process in the slot is a new peer (call link::connect again)
};

/// Why a peer is dead.
enum class peer_end : std::uint8_t {
  none,
  no_process,        ///< no process holds the slot
  exited,            ///< it exited, was killed, or closed its link
  other_user,        ///< the slot is held by another user
  other_version,     ///< its device has another layout version
  broken_protocol,   ///< it sent or wrote malformed data
  out_of_resources,  ///< this process lacks descriptors or memory for the pairing
  too_many_links,    ///< see link_options::links_per_process
  access_timeout,    ///< see link_options::section_timeout
  message_lost,      ///< this process had no memory for one of its messages
};
[[nodiscard]] const char* describe(peer_end why) noexcept;
/// Returns whether the peer may be alive and only this process lacks resources: pairing may succeed
/// later.
[[nodiscard]] constexpr bool is_out_of_reach(peer_end why) noexcept {
  return why == peer_end::out_of_resources;
}

/// Threads: thread-safe. Only the service calls functions that change it, except end().
class peer_status {
 public:
  [[nodiscard]] peer_state state() const noexcept { return state_.load(std::memory_order_acquire); }
  [[nodiscard]] peer_end why() const noexcept { return end_.load(std::memory_order_acquire); }
  [[nodiscard]] bool is_overdue() const noexcept {
    return overdue_.load(std::memory_order_acquire);
  }
  [[nodiscard]] bool takes_records() const noexcept {
    return has_ring_.load(std::memory_order_acquire) && state() != peer_state::dead;
  }

  /// Records that the rings in both directions exist.
  void set_has_ring() noexcept { has_ring_.store(true, std::memory_order_release); }
  void set_paired() noexcept { state_.store(peer_state::paired, std::memory_order_release); }
  /// Marks the peer as overdue. Returns whether it was not overdue before.
  bool set_overdue() noexcept { return !overdue_.exchange(true, std::memory_order_acq_rel); }
  /// Ends the pairing; the first reason is kept.
  void end(peer_end why) noexcept {
    peer_end none = peer_end::none;
    end_.compare_exchange_strong(none, why);
    state_.store(peer_state::dead, std::memory_order_release);
  }

 private:
  std::atomic<peer_state> state_ = peer_state::connecting;
  std::atomic<peer_end> end_ = peer_end::none;
  std::atomic<bool> has_ring_ = false;
  std::atomic<bool> overdue_ = false;
};

}  // namespace verbena::softdev
