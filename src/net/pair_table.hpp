// SPDX-License-Identifier: MIT
// The connections of a rank on first use, as its two threads see them: the thread of the group asks
// peers and uses connections, and the acceptor connects at the request of peers. No operation on a
// connected channel uses the table.
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
  queue_pair_share share;  // ends after the queue pair
  queue_pair<rc> queue;
};

class pair_table;

/// The right to connect a pair at the request of the peer, which ends with the object.
/// Threads: one thread at a time.
class pair_claim {
 public:
  pair_claim(pair_table& of, std::uint32_t peer, std::uint32_t epoch) noexcept
      : of_(&of), peer_(peer), epoch_(epoch) {}
  pair_claim(pair_claim&& other) noexcept
      : of_(std::exchange(other.of_, nullptr)), peer_(other.peer_), epoch_(other.epoch_) {}
  pair_claim& operator=(pair_claim&&) = delete;
  ~pair_claim();

  /// Makes the queue pair available to the thread of the group. Returns false if the members of the
  /// group have changed.
  [[nodiscard]] bool publish(made_pair made);
  /// Destroys the queue pair unless a channel already owns it.
  void withdraw();

 private:
  pair_table* of_;
  std::uint32_t peer_;
  std::uint32_t epoch_;
};

/// The right of this rank to request the connection of a pair, which ends with the object. Until
/// then, requests of the peer are rejected if its rank is higher. Threads: one thread at a time.
class pair_request {
 public:
  pair_request(pair_table& of, std::uint32_t peer) noexcept : of_(&of), peer_(peer) {}
  pair_request(pair_request&& other) noexcept
      : of_(std::exchange(other.of_, nullptr)),
        peer_(other.peer_),
        has_connected_(other.has_connected_) {}
  pair_request& operator=(pair_request&&) = delete;
  ~pair_request();

  /// Counts a request that was sent.
  void count() const;
  /// Records that this rank has connected the pair.
  void succeed() noexcept { has_connected_ = true; }

 private:
  pair_table* of_;
  std::uint32_t peer_;
  bool has_connected_ = false;
};

/// The answer to a request, and the right to connect if it is accepted.
struct claim_or_answer {
  std::optional<pair_claim> claim;
  connection_answer why_not = connection_answer::busy;
};

/// Threads: thread-safe. wait_for_turn(), end_asking() and pause() are for the thread of the group.
class pair_table {
 public:
  pair_table(std::uint32_t rank, std::uint32_t size, std::uint32_t max_accepting)
      : rank_(rank), max_accepting_(max_accepting), pairs_(size) {}

  /// Accepts requests of an epoch from now on.
  void open(std::uint32_t epoch, std::span<const std::uint32_t> members);
  /// Refuses requests until the next open().
  void close();
  /// Marks the pair as not connected, and destroys its queue pair unless a channel already owns it.
  void forget(std::uint32_t peer);
  /// Calls forget(), and refuses the peer until the next open().
  void remove(std::uint32_t peer);

  /// The next action of the thread of the group for a pair.
  struct turn {
    std::optional<pair_request> request = {};  ///< this rank may request the connection
    bool is_member = true;                     ///< otherwise the pair cannot be connected
    std::optional<made_pair> made = {};        ///< at the request of the peer
  };
  /// Waits while the peer's request is in progress, at most until `until`.
  [[nodiscard]] turn wait_for_turn(std::uint32_t peer, deadline until);
  /// Ends a request of this rank, which has connected the pair or not.
  void end_asking(std::uint32_t peer, bool has_connected);
  /// Returns whether a request is in progress in addition to one with `peer`: it can end without a
  /// connection, and return its share of the budget.
  [[nodiscard]] bool has_other_requests(std::uint32_t peer) const;
  /// Waits until the peer has connected the pair, or `until` passes.
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
    bool asks = false;                   // there is a pair_request
    bool is_accepting = false;           // there is a claim
    bool is_used = false;                // its queue pair was taken, or connected by this rank
    std::optional<made_pair> made = {};  // not taken yet
  };

  /// Marks a pair as not connected, and returns its queue pair, to be destroyed without the lock.
  /// Precondition: the lock is held.
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
