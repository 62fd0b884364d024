// SPDX-License-Identifier: MIT
// A thread that accepts the streams of peers and serves them, several at a time. It sleeps in
// poll(2). Peers that connect and send nothing are replaced by newer ones.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstddef>
#include <functional>
#include <list>
#include <optional>
#include <string>

#include "src/net/accept_pauses.hpp"
#include "verbena/base/deadline.hpp"
#include "verbena/base/fd.hpp"
#include "verbena/base/steps.hpp"
#include "verbena/bringup/listener.hpp"
#include "verbena/bringup/stream.hpp"

namespace verbena::inline VERBENA_ABI::net::detail {

/// Threads: one thread at a time; run() executes on its own thread.
class stream_acceptor {
 public:
  /// Serves a stream until the steps end, on the thread of the acceptor. Sets `is_silent`, which
  /// outlives the steps, to false when a first valid request has arrived.
  using service = std::function<steps<void>(bringup::stream peer, bool& is_silent)>;
  /// The parts of an acceptor.
  struct parts {
    bringup::listener listener;
    unique_fd stop;             ///< an eventfd(2)
    std::size_t most_sessions;  ///< further connections wait in the backlog
    const char* request;        ///< the purpose of the streams, for the log: `a request to …`
    service serve;
  };
  explicit stream_acceptor(parts of) : parts_(std::move(of)) {}
  stream_acceptor(const stream_acceptor&) = delete;
  stream_acceptor& operator=(const stream_acceptor&) = delete;
  /// Stops the thread and abandons connections in progress. Blocks until the thread has ended.
  ~stream_acceptor();

  [[nodiscard]] result<void> start();
  [[nodiscard]] const bringup::address& local_address() const noexcept {
    return parts_.listener.local_address();
  }

 private:
  /// A connection of a peer.
  struct session {
    std::string peer;
    deadline replaceable_from;  ///< if is_silent
    bool is_silent = true;      ///< no request has arrived
    std::optional<steps<void>> serving = {};
  };
  void run();
  void accept();
  void wait();
  void pause();
  void advance();
  [[nodiscard]] std::list<session>::iterator oldest_silent();
  /// Returns true if a connection can be accepted, possibly in place of the oldest silent session.
  [[nodiscard]] bool has_place();
  void add(bringup::stream peer);

  parts parts_;
  std::optional<steps<bringup::stream>> accepting_;
  accept_pauses pauses_;
  std::list<session> sessions_;  // oldest first
  std::atomic<bool> stopping_ = false;
  pthread_t thread_{};
  bool is_started_ = false;
};

}  // namespace verbena::inline VERBENA_ABI::net::detail
