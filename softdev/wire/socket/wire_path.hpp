// SPDX-License-Identifier: MIT
// The path of queue pairs to other hosts: packets of RoCE v2 over UDP. It owns the sockets and
// decides which packets the engine gets.
//
// Locks: whoever posts holds the send lock of a queue pair and puts packets, under the lock of the
// sender. Whoever receives has the right to receive, for which nobody who posts or polls waits, and
// takes locks of queue pairs for a while; if one stays taken, the packet waits, and those behind it
// for the same lock.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "softdev/core/engine.hpp"
#include "softdev/core/remote_path.hpp"
#include "softdev/wire/auth/wire_key.hpp"
#include "softdev/wire/engine/packet_engine.hpp"
#include "softdev/wire/engine/packet_output.hpp"
#include "softdev/wire/packet_watcher.hpp"
#include "softdev/wire/socket/counter_page.hpp"
#include "softdev/wire/socket/management.hpp"
#include "softdev/wire/socket/packet_faults.hpp"
#include "softdev/wire/socket/packet_receiver.hpp"
#include "softdev/wire/socket/packet_sender.hpp"
#include "softdev/wire/socket/port_share.hpp"
#include "softdev/wire/socket/receive_right.hpp"
#include "softdev/wire/socket/route_table.hpp"

namespace verbena::softdev::wire {

/// What the engine did. Snapshot.
struct event_counters {
  std::uint64_t retransmitted = 0;     ///< packets of requests
  std::uint64_t timed_out = 0;         ///< ACK timeouts
  std::uint64_t retries_exceeded = 0;  ///< requests that failed after the last retry
  std::uint64_t rnr_naks_sent = 0;
  std::uint64_t sequence_naks_sent = 0;
  std::uint64_t cnps_sent = 0;     ///< CNPs
  std::uint64_t cnps_handled = 0;  ///< CNPs that reduced a window
  std::uint64_t cnps_ignored = 0;  ///< CNPs without effect
};

/// What happened to packets. Snapshot; approximate while packets come.
struct wire_counters {
  intake_counters intake;
  packet_sender_counters output;
  event_counters events;
  std::uint64_t bad_pkeys = 0;  ///< messages dropped for their P_Key
  std::uint64_t bad_qkeys = 0;  ///< the same for their Q_Key
};

struct wire_path_options {
  std::uint32_t process_slot = 0;
  engine_observer* observer = nullptr;  ///< woken when `progress` has something to do; outlives it
  fault_rates faults;                   ///< of received packets
  std::chrono::milliseconds patience{2000};  ///< how long `connect` waits for the port's owner
  /// The addresses at which datagrams arrive; outlives it. nullptr: all.
  own_addresses* addresses = nullptr;
  /// Authenticates packets. Packets without a valid trailer are dropped. nullopt: no
  /// authentication.
  std::optional<wire_key> key;
};

/// Threads: thread-safe. Opens sockets with the first connection or queue pair of UD, and none
/// before. Allocates then, for each of them, and for each process that receives by this one; not
/// for packets.
class wire_path final : public remote_path, private packet_output {
 public:
  /// `home` outlives the path. The caller sets the path of `home` afterwards. `share` has no role.
  wire_path(engine& home, port_share share, const wire_path_options& options);
  ~wire_path() = default;
  wire_path(const wire_path&) = delete;
  wire_path& operator=(const wire_path&) = delete;

  /// Shows the packets of this process. Before the sockets are opened. `by` outlives the path, and
  /// must not call it.
  void watch(packet_watcher& by) noexcept { intake_.watch(by); }
  /// Opens the sockets, or continues to open them. Does not block. Returns `none` if the owner of
  /// the port has not answered: try again soon. Errors: those of port_share::join.
  [[nodiscard]] result<port_share::role> open_sockets();
  /// Sets the route of a queue pair that is about to become ready to receive, or that it has `any`:
  /// it receives datagrams, and sends each to an address of its own. Waits for the
  /// answer of the port's owner (wire_path_options::patience). Errors: those of port_share::join;
  /// EAGAIN if the owner does not answer.
  [[nodiscard]] result<void> connect(const queue_pair& which, const wire_route& route);
  /// Replaces the interfaces at which packets of arrival::permitted_interfaces may arrive.
  void permit_interfaces(std::vector<std::uint32_t> indexes) {
    routes_.permit_interfaces(std::move(indexes));
  }

  /// Opens the sockets, to receive messages of the general services. Waits and errors as `connect`.
  [[nodiscard]] result<void> open();
  /// Sends a message to queue pair 1 of another host. It can be lost, and is lost unless the
  /// sockets are open. Never blocks; one system call.
  void send_message(const management_addresses& ends, management_view message) noexcept {
    if (!begun_.load(std::memory_order_acquire)) return;
    sender_->put_message(ends, message);
    if (!sender_->flush()) wake();
  }
  /// Who learns of such messages: before the sockets are opened. Outlives the path.
  void set_management(management_observer* observer) noexcept {
    const std::lock_guard lock(right_);
    intake_.set_management(observer);
  }

  /// Receives, answers, repeats what is due. True when something was done. Never blocks. Without
  /// connections and without processes to forward to, makes a few system calls each millisecond at
  /// most. Not from inside an access epoch.
  bool progress() noexcept;
  /// True when `progress` should run again soon although nothing arrives.
  [[nodiscard]] bool needs_progress() const noexcept {
    return due_.needs_progress.load(std::memory_order_relaxed);
  }
  /// When `progress` is due if nothing arrives.
  [[nodiscard]] time_ns next_deadline() const noexcept;
  /// Readable when `progress` is due, if it is armed (an epoll descriptor).
  [[nodiscard]] int fd() const noexcept { return share_.fd(); }
  /// Has `fd` be readable when packets come: before a sleep. Two system calls.
  void arm() noexcept {
    publish_counters();
    set_armed(true);
  }
  void disarm() noexcept { set_armed(false); }

  /// Sends the packets that are due, before the process exits: another thread may have received a
  /// message whose acknowledgment it has not sent yet. Waits at most one second for that thread.
  void flush_before_exit() noexcept;

  [[nodiscard]] wire_counters counters() noexcept;
  [[nodiscard]] port_share::role role() noexcept;
  // The next three are called by the handlers of a fork, one fork at a time.
  /// Before: has no other thread change the connections. Waits for the end of `progress` in another
  /// thread.
  void prepare_fork() noexcept { right_.hold_for_fork(); }
  void continue_after_fork() noexcept { right_.release_after_fork(); }
  /// In the child: closes the sockets. Frees nothing, and takes no lock. If a signal handler forks
  /// within `progress`, the child keeps the connections of the clients.
  void abandon_after_fork() noexcept;

  // As a path.
  response submit(queue_pair& sender, const message& what, std::span<const segment> local,
                  bool earlier_done) noexcept override {
    return packets_.submit(sender, what, local, earlier_done);
  }
  void end_run(queue_pair& sender) noexcept override;
  void prepare(queue_pair& which, const queue_pair_attributes& next) override {
    packets_.prepare(which, next);
  }
  void changed(queue_pair& which, bool gone) noexcept override;
  void fence() noexcept override {}

 private:
  /// The port was lost to another program.
  struct lost_port {
    bool warned = false;
    time_ns since = never;  ///< the first attempt to find an owner
    time_ns pause = 0;      ///< until the next attempt
  };

  /// What one call of `progress` leaves to a later one.
  struct upkeep {
    time_ns serve_at = 0;  ///< when serve() has to do its work again
    std::string warning;   ///< to be logged without the right to receive
  };

  bool has_room() noexcept override { return sender_->has_room(); }
  bool put(const queue_pair& from, const packet& what) noexcept override;
  bool put_datagram(const datagram_route& by, const packet& what) noexcept override;
  void count(packet_event what) noexcept override;
  void deadline_changed() noexcept override { wake(); }
  void wake() noexcept {
    if (options_.observer != nullptr) options_.observer->wake();
  }
  [[nodiscard]] error silence() const;
  [[nodiscard]] result<void> join();
  [[nodiscard]] bool serve(time_ns now) noexcept;
  void rejoin(time_ns now) noexcept;
  void report_key_mismatch() noexcept;
  void warn(const std::string& text);
  [[nodiscard]] bool receive(time_ns now, bool at_any_rate) noexcept;
  [[nodiscard]] bool awaits_packets() const noexcept;
  void set_armed(bool wanted) noexcept;
  [[nodiscard]] wire_counters count_all() noexcept;
  void publish_counters() noexcept;

  /// When `progress` has to run. Written with the right to receive, except for `needs_progress`.
  struct due_times {
    std::atomic<bool> needs_progress{false};  ///< something waits for a lock or for room
    std::atomic<time_ns> rejoin_at{never};    ///< when to look for the port again
    std::atomic<time_ns> serve_at{never};     ///< port_share::serve_at
  };
  /// The counters of event_counters.
  struct live_events {
    std::atomic<std::uint64_t> retransmitted{0};
    std::atomic<std::uint64_t> timed_out{0};
    std::atomic<std::uint64_t> retries_exceeded{0};
    std::atomic<std::uint64_t> rnr_naks_sent{0};
    std::atomic<std::uint64_t> sequence_naks_sent{0};
    std::atomic<std::uint64_t> cnps_sent{0};
    std::atomic<std::uint64_t> cnps_handled{0};
    std::atomic<std::uint64_t> cnps_ignored{0};
  };

  engine& home_;
  const wire_path_options options_;
  packet_engine packets_;
  route_table routes_;
  std::unique_ptr<packet_sender> sender_;
  std::atomic<bool> begun_{false};  ///< the sockets are open
  due_times due_;
  std::atomic<bool> armed_{false};
  live_events events_;

  receive_right right_;  ///< guards all that follows
  port_share share_;
  lost_port lost_port_;
  upkeep upkeep_;
  packet_receiver intake_;
  std::unique_ptr<counter_page> page_;
};

}  // namespace verbena::softdev::wire
