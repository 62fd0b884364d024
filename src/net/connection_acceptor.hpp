// SPDX-License-Identifier: MIT
// The thread of a rank that connects and closes queue pairs at the request of peers. The thread
// does not use channels, and sleeps in poll(2).
#pragma once

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <list>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/net/accept_pauses.hpp"
#include "src/net/pair_maker.hpp"
#include "src/net/pair_table.hpp"
#include "verbena/base/fd.hpp"
#include "verbena/base/steps.hpp"
#include "verbena/bringup/listener.hpp"

namespace verbena::inline VERBENA_ABI::net::detail {

/// Threads: one thread at a time; run() executes on its own thread.
class connection_acceptor {
 public:
  /// The parts of an acceptor.
  struct parts {
    bringup::listener listener;
    unique_fd stop;
    pair_maker maker;
    pair_table& pairs;
    connection_token token;
    std::uint32_t max_accepting;
    /// The time limit for the request and the confirmation of a peer.
    std::chrono::nanoseconds time_for_request = std::chrono::seconds(5);
  };
  explicit connection_acceptor(parts of);
  connection_acceptor(const connection_acceptor&) = delete;
  connection_acceptor& operator=(const connection_acceptor&) = delete;
  /// Stops the thread and abandons connections in progress. Blocks until the thread has ended.
  ~connection_acceptor();

  [[nodiscard]] result<void> start();
  [[nodiscard]] const bringup::address& local_address() const noexcept {
    return listener_.local_address();
  }

 private:
  void run();
  void accept();
  void wait();
  void pause();
  void advance();
  /// A connection of a peer.
  struct session {
    std::string peer;
    deadline replaceable_from;  ///< if is_silent
    bool is_silent = true;      ///< no request has arrived
    std::optional<steps<void>> serving = {};
  };
  [[nodiscard]] std::list<session>::iterator oldest_silent();
  /// Returns true if a connection can be accepted, possibly in place of the oldest silent session.
  [[nodiscard]] bool has_place();
  void add(bringup::stream peer);
  [[nodiscard]] steps<void> serve(bringup::stream peer, session& as);
  /// The answer to a request. The claim and the queue pair are set if the request is accepted.
  struct accepted_request {
    connect_answer answer = {};
    std::optional<pair_claim> claim = {};
    std::optional<made_pair> made = {};
  };
  [[nodiscard]] result<accepted_request> take(std::span<const std::byte> request);
  /// Counts a malformed request, and returns the error with the name of its sender.
  [[nodiscard]] error malformed(error why, const bringup::stream& peer);
  /// Closes a connection at the request of the peer, and returns the answer.
  [[nodiscard]] result<std::vector<std::byte>> close(std::span<const std::byte> request);
  [[nodiscard]] result<void> check_sender(const connection_token& token, std::uint32_t rank) const;

  bringup::listener listener_;
  unique_fd stop_;
  pair_maker maker_;
  pair_table& pairs_;
  connection_token token_;
  std::size_t most_sessions_;
  std::chrono::nanoseconds time_for_request_;
  std::optional<steps<bringup::stream>> accepting_;
  accept_pauses pauses_;
  std::list<session> sessions_;  // oldest first
  std::atomic<bool> stopping_ = false;
  pthread_t thread_{};
  bool is_started_ = false;
};

}  // namespace verbena::inline VERBENA_ABI::net::detail
