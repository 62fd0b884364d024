// SPDX-License-Identifier: MIT
// The service of a link, which does everything except the transfer of records: pairs, answers
// messages of peers, detects their exit, and drops mappings that are no longer needed.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "softdev/peers/own_side.hpp"
#include "softdev/peers/pairing.hpp"
#include "softdev/peers/peer_table.hpp"
#include "softdev/peers/ring_receiver.hpp"
#include "softdev/peers/service_descriptors.hpp"
#include "softdev/peers/service_requests.hpp"
#include "verbena/base/result.hpp"

namespace verbena::softdev {

/// Threads: thread-safe; one thread at a time does the work.
class peer_service final : private pairing_observer {
 public:
  using time_point = pairing::time_point;
  struct options {
    own_side& own;
    peer_table& peers;
    ring_receiver& receiver;
    service_requests& requests;
  };
  explicit peer_service(const options& how);
  peer_service(const peer_service&) = delete;
  peer_service& operator=(const peer_service&) = delete;

  /// Begins to watch the listening socket. Errors: the errno of epoll_create1(2) or epoll_ctl(2).
  [[nodiscard]] result<void> open();
  [[nodiscard]] int fd() const noexcept { return watch_.fd(); }

  struct outcome {
    std::uint32_t events = 0;        ///< changes (a peer paired or died, a grant arrived)
    std::optional<time_point> next;  ///< when to call again at the latest, if nothing arrives
  };
  /// Runs one turn; see link::service().
  outcome run(time_point now);
  /// Reads the answers of peers that have our hello: they may access memory before that.
  void finish_hellos();

  /// Closes the descriptor in a child of fork. Returns whether no thread was in the service, so
  /// that what belongs to it is not half changed.
  [[nodiscard]] bool close_all() noexcept {
    watch_.close();
    const std::unique_lock lock(mutex_, std::try_to_lock);
    return lock.owns_lock();
  }

 private:
  void serve(time_point now);
  void dispatch(reactor::source what, time_point now);
  void read_peer(const std::shared_ptr<peer>& from, time_point now) override;
  void read_messages(const std::shared_ptr<peer>& from, time_point now);
  void watch_socket_of(peer& which);
  void send_delayed();
  [[nodiscard]] bool handle(peer& from, received_message& got);
  [[nodiscard]] bool give_arena(peer& to, std::uint64_t arena);
  void close_down(const std::shared_ptr<peer>& from, time_point now);
  void end_closing(time_point now);
  void remove_ended_peers();
  void announce_retired_arenas();
  void drop_retired_mappings();
  [[nodiscard]] std::optional<time_point> next_deadline(time_point now) const;

  const options how_;
  std::mutex mutex_;
  service_descriptors watch_;
  pairing pairing_;
  std::vector<std::shared_ptr<peer>> closing_;
  std::vector<std::shared_ptr<peer>> retiring_;  ///< peers with mappings that must be dropped
  slot_set delayed_;  ///< peers whose queued messages must be tried again later
  bool any_delayed_ = false;
  bool watch_departed_ = false;
  time_point next_full_scan_{};
};

}  // namespace verbena::softdev
