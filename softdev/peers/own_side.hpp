// SPDX-License-Identifier: MIT
// What this process is to its peers: its slot, what it publishes, and what they may map or signal.
#pragma once

#include <cstdint>
#include <memory>

#include "softdev/ipc/wake_sockets.hpp"
#include "softdev/peers/link_options.hpp"
#include "softdev/peers/peer.hpp"
#include "softdev/peers/slot_claim.hpp"
#include "softdev/peers/slot_set.hpp"
#include "softdev/peers/wake_channels.hpp"
#include "softdev/shm/arena.hpp"
#include "softdev/shm/sealed_memory.hpp"
#include "softdev/shm/segment.hpp"
#include "verbena/base/result.hpp"

namespace verbena::softdev {

/// Threads: its parts are thread-safe; nothing else changes after open().
struct own_side {
  /// Claims a slot and creates the public segment. Errors: those of slot_claim::take(), otherwise
  /// the errno of the failed call.
  [[nodiscard]] static result<std::unique_ptr<own_side>> open(const link_options& options);
  own_side(const own_side&) = delete;
  own_side& operator=(const own_side&) = delete;

  [[nodiscard]] std::uint32_t slot() const noexcept { return claim.slot(); }
  [[nodiscard]] std::shared_ptr<peer> make_peer(std::uint32_t other) const;
  /// Ignores the peer's signals of completion channels from now on.
  void ignore_wakes(const peer& of) noexcept;
  /// Sends the hello over the peer's socket.
  [[nodiscard]] send_status send_hello(const peer_parts& to);
  /// Closes the descriptors. For a child of fork: takes no lock.
  void close_all() noexcept;

  link_options options;
  slot_claim claim;
  std::uint64_t generation;  ///< differs between processes that have the same slot in turn
  std::unique_ptr<public_segment> segment;
  sealed_memory doorbell;
  std::unique_ptr<wake_receiver> wakes;
  arena_registry arenas;
  wake_channels channels;
  std::unique_ptr<peer_marks> marks = std::make_unique<peer_marks>();
  volatile std::uint64_t probe_words[2];  ///< read and written by peers that try their routes

 private:
  own_side(const link_options& how, slot_claim slot);
};

}  // namespace verbena::softdev
