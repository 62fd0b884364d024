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
#include "verbena/base/ids.hpp"
#include "verbena/net/connect_mode.hpp"
#include "verbena/verbs/endpoint.hpp"
#include "verbena/verbs/queue_pair.hpp"

namespace verbena::inline VERBENA_ABI::net::detail {

/// The endpoints of a connection. They contain random packet sequence numbers, so those of two
/// connections differ. Threads: immutable value.
struct pair_endpoints {
  endpoint local = {};
  endpoint remote = {};
};

/// A connected queue pair. Threads: one thread at a time.
struct made_pair {
  queue_pair_share share;  // declared first: returned after the queue pair is destroyed
  queue_pair<rc> queue;
  pair_endpoints ends = {};
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
  std::optional<endpoint> published_ = {};
};

/// The right of this rank to request the connection of a pair. The destructor releases the right.
/// While it exists, requests of the peer are rejected if the rank of the peer is higher. Threads:
/// one thread at a time.
class pair_request {
 public:
  pair_request(pair_table& of, std::uint32_t peer) noexcept : of_(&of), peer_(peer) {}
  pair_request(pair_request&& other) noexcept
      : of_(std::exchange(other.of_, nullptr)), peer_(other.peer_), connected_(other.connected_) {}
  pair_request& operator=(pair_request&&) = delete;
  ~pair_request();

  /// Increments the number of requests sent.
  void count() const;
  /// Records that this rank has connected the pair.
  void succeed(const pair_endpoints& ends) noexcept { connected_ = ends; }

 private:
  pair_table* of_;
  std::uint32_t peer_;
  std::optional<pair_endpoints> connected_ = {};
};

/// The right to ask the peer to close a pair that this rank does not use, with the queue pair.
/// Meanwhile, this rank accepts no request to connect the pair. If a request was sent and not
/// answered, the destructor puts the queue pair back as doubtful. Threads: one thread at a time.
class pair_closing {
 public:
  pair_closing(pair_table& of, std::uint32_t peer, made_pair made, std::uint32_t number) noexcept
      : of_(&of), peer_(peer), made_(std::move(made)), number_(number) {}
  pair_closing(pair_closing&& other) noexcept
      : of_(std::exchange(other.of_, nullptr)),
        peer_(other.peer_),
        made_(std::move(other.made_)),
        number_(other.number_),
        is_unanswered_(other.is_unanswered_) {}
  pair_closing& operator=(pair_closing&&) = delete;
  ~pair_closing();

  /// Returns the endpoint of this side, which identifies the connection.
  [[nodiscard]] const endpoint& local() const noexcept { return made_->ends.local; }
  /// Returns the number of the request among those for this connection.
  [[nodiscard]] std::uint32_t number() const noexcept { return number_; }
  /// Records that the request is about to be sent: the peer may close its side from now on.
  void send() noexcept { is_unanswered_ = true; }
  /// Handles the answer of the peer: destroys the queue pair or puts it back.
  void end(close_answer answer);

 private:
  pair_table* of_;
  std::uint32_t peer_;
  std::optional<made_pair> made_;
  std::uint32_t number_;
  bool is_unanswered_ = false;
};

/// A pair that is connected on this side.
struct connected_pair {
  std::uint32_t peer;
  queue_pair_number queue;     ///< number of the queue pair of this side
  bool is_used;                ///< the channel has the queue pair
  bool is_doubtful = false;    ///< the peer has not answered a request to close the connection
  bool peer_uses = false;      ///< the peer used the connection when it last reported its state
  bool is_marked = false;      ///< not used since mark()
  std::uint64_t last_use = 0;  ///< increases with each connection or use
};

/// The right to connect, or the answer if the request is rejected.
struct claim_or_answer {
  std::optional<pair_claim> claim;
  connection_answer why_not = connection_answer::busy;
};

/// Threads: thread-safe. Only the thread of the group calls wait_for_turn(), end_asking(), pause(),
/// detach(), mark() and begin_closing().
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
    /// Connected at the request of the peer, or detached from its channel.
    std::optional<made_pair> made = {};
    bool was_used = false;     ///< detach() returned `made` to the table
    bool is_doubtful = false;  ///< the peer must be asked first whether it has closed the pair
  };
  /// Blocks while a request of the peer is in progress, at most until `until`. Returns the queue
  /// pair that the peer has connected, or the right to request the connection. Returns neither if
  /// `until` passes or the peer is not a member.
  [[nodiscard]] turn wait_for_turn(std::uint32_t peer, deadline until);
  /// Ends a request of this rank. `connected` has the endpoints if it has connected the pair.
  void end_asking(std::uint32_t peer, const std::optional<pair_endpoints>& connected);
  /// Returns true if another request than one of this rank to `peer` is in progress. Such a request
  /// may fail and return its share of the budget.
  [[nodiscard]] bool has_other_requests(std::uint32_t peer) const;
  /// Blocks until the peer has connected the pair, or `until` passes.
  void pause(std::uint32_t peer, deadline until);

  [[nodiscard]] std::size_t size() const noexcept { return pairs_.size(); }
  /// Returns the pairs that are connected on this side.
  [[nodiscard]] std::vector<connected_pair> connected() const;
  /// Returns true if the table has a connected queue pair for `peer` that no channel owns.
  [[nodiscard]] bool has_made(std::uint32_t peer) const;
  /// Takes the queue pair of a channel that has no operation in flight. The next operation attaches
  /// it by wait_for_turn(). Meanwhile, it serves the reads and writes of the peer.
  void detach(std::uint32_t peer, made_pair made);
  /// Marks a pair until it is used or connected again.
  void mark(std::uint32_t peer);
  /// Takes the queue pair out of the table in order to ask the peer to close the connection.
  /// Returns nullopt if the table has no queue pair, or a request of the peer is in progress.
  [[nodiscard]] std::optional<pair_closing> begin_closing(std::uint32_t peer);
  /// Answers the request of a peer to close a connection. Destroys the queue pair of this side
  /// unless a channel owns it.
  [[nodiscard]] close_answer answer_close(const close_request& wanted);

  [[nodiscard]] claim_or_answer claim(std::uint32_t peer, std::uint32_t epoch);
  void count_malformed();
  [[nodiscard]] first_use_statistics statistics() const;

 private:
  friend class pair_claim;
  friend class pair_request;
  friend class pair_closing;
  /// A connection of a pair.
  struct connection {
    pair_endpoints ends = {};
    bool is_new = false;             // connected by the peer, and not used since
    bool is_doubtful = false;        // a request to close it was not answered
    bool is_closed_by_peer = false;  // during a pair_closing
    bool peer_uses = false;          // when the peer last reported its state
    bool is_marked = false;
    std::uint32_t closes_sent = 0;  // number of the last request to close it
    std::uint32_t closes_seen = 0;  // number of the last request of the peer
    std::uint64_t last_use = 0;
  };
  struct pair {
    bool is_member = false;
    bool asks = false;                   // a pair_request exists
    bool is_accepting = false;           // a pair_claim exists
    bool is_published = false;           // by that claim, which still confirms the connection
    bool is_used = false;                // the channel has its queue pair
    bool is_closing = false;             // a pair_closing exists, which has its queue pair
    std::optional<made_pair> made = {};  // no channel has it
    connection now = {};                 // if it is connected

    [[nodiscard]] bool is_ready() const noexcept { return made && !now.is_doubtful; }
  };

  /// Marks a pair as not connected and returns its queue pair, which the caller destroys after it
  /// has released the lock. Precondition: the lock is held.
  [[nodiscard]] std::optional<made_pair> take_made(std::uint32_t peer);
  /// Begins a connection. Precondition: the lock is held.
  void begin(pair& with, const pair_endpoints& ends) {
    with.now = {.ends = ends, .last_use = ++uses_};
  }

  const std::uint32_t rank_;
  const std::uint32_t max_accepting_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_:
  std::vector<pair> pairs_;
  std::uint32_t epoch_ = 0;
  bool is_open_ = false;
  std::uint32_t accepting_ = 0;
  std::uint64_t uses_ = 0;
  first_use_statistics counts_ = {};
};

}  // namespace verbena::inline VERBENA_ABI::net::detail
