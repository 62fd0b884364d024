// SPDX-License-Identifier: MIT
// The state of the connections of a rank on first use, shared by two threads: the thread of the
// group requests and uses connections, and the thread of the acceptor connects pairs at the request
// of peers. Operations on connected channels do not use the table.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "src/net/connection_message.hpp"
#include "src/net/queue_pair_share.hpp"
#include "verbena/base/deadline.hpp"
#include "verbena/net/connect_mode.hpp"
#include "verbena/verbs/queue_pair.hpp"

namespace verbena::inline VERBENA_ABI::net::detail {

/// A connected queue pair. Threads: one thread at a time.
struct made_pair {
  queue_pair_share share;  // declared first: returned after the queue pair is destroyed
  queue_pair<rc> queue;
};

class pair_table;

/// The right to connect a pair at the request of the peer. The destructor releases the right.
/// Threads: one thread at a time.
class pair_claim {
 public:
  pair_claim(pair_table& of, std::uint32_t peer, std::uint32_t epoch) noexcept
      : of_(&of), peer_(peer), epoch_(epoch) {}
  pair_claim(pair_claim&& other) noexcept
      : of_(std::exchange(other.of_, nullptr)), peer_(other.peer_), epoch_(other.epoch_) {}
  pair_claim& operator=(pair_claim&&) = delete;
  ~pair_claim();

  /// Makes the queue pair available to the thread of the group. Returns false, and destroys the
  /// queue pair, if the table is closed, the epoch has changed, the peer is not a member, or the
  /// pair is connected already.
  [[nodiscard]] bool publish(made_pair made);
  /// Destroys the queue pair unless a channel already owns it.
  void withdraw();

 private:
  pair_table* of_;
  std::uint32_t peer_;
  std::uint32_t epoch_;
};

/// The right of this rank to request the connection of a pair. The destructor releases the right.
/// While it exists, requests of the peer are rejected if the rank of the peer is higher. Threads:
/// one thread at a time.
class pair_request {
 public:
  pair_request(pair_table& of, std::uint32_t peer) noexcept : of_(&of), peer_(peer) {}
  pair_request(pair_request&& other) noexcept
      : of_(std::exchange(other.of_, nullptr)),
        peer_(other.peer_),
        has_connected_(other.has_connected_) {}
  pair_request& operator=(pair_request&&) = delete;
  ~pair_request();

  /// Increments the number of requests sent.
  void count() const;
  /// Records that this rank has connected the pair.
  void succeed() noexcept { has_connected_ = true; }

 private:
  pair_table* of_;
  std::uint32_t peer_;
  bool has_connected_ = false;
};

/// The right to connect, or the answer if the request is rejected.
struct claim_or_answer {
  std::optional<pair_claim> claim;
  connection_answer why_not = connection_answer::busy;
};

/// Threads: thread-safe. Only the thread of the group calls wait_for_turn(), end_asking() and
/// pause().
class pair_table {
 public:
  pair_table(std::uint32_t rank, std::uint32_t size, std::uint32_t max_accepting)
      : rank_(rank), max_accepting_(max_accepting), pairs_(size) {}

  /// Accepts requests of the members in epoch `epoch` from now on.
  void open(std::uint32_t epoch, std::span<const std::uint32_t> members);
  /// Rejects requests until the next open().
  void close();
  /// Marks the pair as not connected, and destroys its queue pair unless a channel already owns it.
  void forget(std::uint32_t peer);
  /// Does the same as forget(), and rejects requests of the peer until the next open().
  void remove(std::uint32_t peer);

  /// The result of wait_for_turn().
  struct turn {
    std::optional<pair_request> request = {};  ///< this rank may request the connection
    bool is_member = true;                     ///< false: the pair cannot be connected
    std::optional<made_pair> made = {};        ///< connected at the request of the peer
  };
  /// Blocks while a request of the peer is in progress, at most until `until`. Returns the queue
  /// pair that the peer has connected, or the right to request the connection. Returns neither if
  /// `until` passes or the peer is not a member.
  [[nodiscard]] turn wait_for_turn(std::uint32_t peer, deadline until);
  /// Ends a request of this rank. `has_connected`: the request has connected the pair.
  void end_asking(std::uint32_t peer, bool has_connected);
  /// Returns true if another request than one of this rank to `peer` is in progress. Such a request
  /// may fail and return its share of the budget.
  [[nodiscard]] bool has_other_requests(std::uint32_t peer) const;
  /// Blocks until the peer has connected the pair, or `until` passes.
  void pause(std::uint32_t peer, deadline until);

  [[nodiscard]] std::size_t size() const noexcept { return pairs_.size(); }
  [[nodiscard]] claim_or_answer claim(std::uint32_t peer, std::uint32_t epoch);
  void count_malformed();
  [[nodiscard]] first_use_statistics statistics() const;

 private:
  friend class pair_claim;
  friend class pair_request;
  struct pair {
    bool is_member = false;
    bool asks = false;                   // a pair_request exists
    bool is_accepting = false;           // a pair_claim exists
    bool is_used = false;                // its queue pair was taken, or connected by this rank
    std::optional<made_pair> made = {};  // connected by the peer, not taken yet
  };

  /// Marks a pair as not connected and returns its queue pair, which the caller destroys after it
  /// has released the lock. Precondition: the lock is held.
  [[nodiscard]] std::optional<made_pair> take_made(std::uint32_t peer);

  const std::uint32_t rank_;
  const std::uint32_t max_accepting_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_:
  std::vector<pair> pairs_;
  std::uint32_t epoch_ = 0;
  bool is_open_ = false;
  std::uint32_t accepting_ = 0;
  first_use_statistics counts_ = {};
};

}  // namespace verbena::inline VERBENA_ABI::net::detail
