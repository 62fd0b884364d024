// SPDX-License-Identifier: MIT
// The thread of a rank that connects and closes queue pairs at the request of peers. The thread
// does not use channels, and sleeps in poll(2).
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "src/net/pair_maker.hpp"
#include "src/net/pair_table.hpp"
#include "src/net/stream_acceptor.hpp"
#include "verbena/base/fd.hpp"
#include "verbena/base/steps.hpp"
#include "verbena/bringup/listener.hpp"

namespace verbena::inline VERBENA_ABI::net::detail {

/// Threads: one thread at a time; serve() executes on the thread of the stream_acceptor.
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
  ~connection_acceptor() = default;

  [[nodiscard]] result<void> start() { return acceptor_.start(); }
  [[nodiscard]] const bringup::address& local_address() const noexcept {
    return acceptor_.local_address();
  }

 private:
  [[nodiscard]] steps<void> serve(bringup::stream peer, bool& is_silent);
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

  pair_maker maker_;
  pair_table& pairs_;
  connection_token token_;
  std::chrono::nanoseconds time_for_request_;
  stream_acceptor acceptor_;  // its thread uses the other members, so it is destroyed first
};

}  // namespace verbena::inline VERBENA_ABI::net::detail
