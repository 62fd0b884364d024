// SPDX-License-Identifier: MIT
// The thread of the passive sides of connections over rails. It sleeps in poll(2).
#pragma once

#include <poll.h>
#include <pthread.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "src/net/rail_events.hpp"
#include "src/net/served_rails.hpp"
#include "verbena/base/fd.hpp"
#include "verbena/net/rail.hpp"

namespace verbena::inline VERBENA_ABI::net::detail {

/// Serves the peers that read and write memory of this process over the same rails, and reads the
/// asynchronous events of the rails. An exception, for example of an allocation, ends at most the
/// connection to one peer.
/// Threads: thread-safe; run() executes on its own thread.
class responder_thread {
 public:
  struct parts {
    std::vector<rail_port> rails;
    unique_fd wake;  ///< an eventfd(2)
    /// Receives the events; nullptr: the thread reads no events. Its put() is called by other
    /// threads.
    std::shared_ptr<rail_events> events;
    /// Whether the thread ends when all peers have ended, and then reads no more events.
    bool ends_with_peers;
  };
  explicit responder_thread(parts of) : parts_(std::move(of)) { active_.set(); }
  responder_thread(const responder_thread&) = delete;
  responder_thread& operator=(const responder_thread&) = delete;
  /// Ends all connections and the thread. Blocks.
  ~responder_thread();

  /// Errors: the errno of pthread_create(3).
  [[nodiscard]] result<void> start();
  /// Serves a peer from now on.
  void add(std::unique_ptr<served_rails> peer);
  /// Returns whether the peer that was added before start() can access memory. Precondition: only
  /// this one was added.
  [[nodiscard]] bool is_connected() const noexcept { return added_.front()->is_connected(); }

 private:
  void run();
  void serve_until_the_end();
  void serve_peers();
  void read_events();
  void query_ports();
  [[nodiscard]] bool take_added();
  void list_descriptors();
  void wait();

  parts parts_;
  std::mutex mutex_;                                  // of added_
  std::vector<std::unique_ptr<served_rails>> added_;  // all of them, also after their end
  std::vector<served_rails*> served_;                 // those that the thread serves
  std::size_t taken_ = 0;                             // the number of those of added_ that it knows
  active_ports active_;                               // at the last query
  std::vector<int> event_fds_;
  std::vector<pollfd> polled_;
  std::atomic<bool> is_stopping_{false};
  pthread_t thread_ = {};
  bool is_started_ = false;
};

}  // namespace verbena::inline VERBENA_ABI::net::detail
