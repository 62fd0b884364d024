// SPDX-License-Identifier: MIT
// The path of queue pairs to other hosts: RoCE v2 packets over UDP. It owns the sockets and decides
// which packets the engine receives.
//
// Locks: a thread that posts holds the send lock of a queue pair and puts packets under the lock of
// the packet sender. A thread that receives holds the receive right, and tries for a short time to
// take the lock of a queue pair. If the lock remains taken, the packet and later packets for the
// same lock wait. Threads that post or poll never wait for the receive right.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
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

/// Counters of the engine's events. Snapshot.
struct event_counters {
  std::uint64_t retransmitted = 0;     ///< request packets
  std::uint64_t timed_out = 0;         ///< ACK timeouts
  std::uint64_t retries_exceeded = 0;  ///< requests that failed after the last retry
  std::uint64_t rnr_naks_sent = 0;
  std::uint64_t sequence_naks_sent = 0;
  std::uint64_t cnps_sent = 0;     ///< CNPs
  std::uint64_t cnps_handled = 0;  ///< CNPs that reduced a congestion window
  std::uint64_t cnps_ignored = 0;  ///< CNPs without effect
  std::uint64_t selective_acks_sent = 0;
  std::uint64_t selective_acks_received = 0;
};

/// Counters of packets. Snapshot; approximate while packets arrive.
struct wire_counters {
  intake_counters intake;
  packet_sender_counters output;
  event_counters events;
  std::uint64_t bad_pkeys = 0;  ///< messages dropped because of their P_Key
  std::uint64_t bad_qkeys = 0;  ///< messages dropped because of their Q_Key
};

struct wire_path_options {
  std::uint32_t process_slot = 0;
  engine_observer* observer = nullptr;  ///< woken if `progress` has work to do; outlives the path
  fault_rates faults;                   ///< injected into received packets
  std::chrono::milliseconds patience{2000};  ///< how long `connect` waits for the owner of the port
  /// The addresses at which datagrams are received; outlives the path. nullptr: all addresses.
  own_addresses* addresses = nullptr;
  /// Authenticates packets. Packets without a valid trailer are dropped. nullopt: no
  /// authentication.
  std::optional<wire_key> key;
};

/// Threads: thread-safe. Opens its sockets for the first connection, the first UD queue pair, or in
/// `open`. Allocates in these cases, for each connection and UD queue pair, and for each process
/// that receives through this one. Does not allocate per packet, except for
/// buffers of selective repeat (reorder_pool).
class wire_path final : public remote_path, private packet_output {
 public:
  /// `home` outlives the path. The caller sets the path of `home` afterwards. Precondition: `share`
  /// has no role.
  wire_path(engine& home, port_share share, const wire_path_options& options);
  ~wire_path() = default;
  wire_path(const wire_path&) = delete;
  wire_path& operator=(const wire_path&) = delete;

  /// Reports the packets of this process to `by`, which outlives the path and must not call it.
  /// Call it before the sockets are opened.
  void watch(packet_watcher& by) noexcept { intake_.watch(by); }
  /// Opens the sockets, or continues to open them. Does not block. Returns `none` if the owner of
  /// the port has not answered: call again soon. Errors: those of packet_verifier::open,
  /// port_share::join and packet_sender::open.
  [[nodiscard]] result<port_share::role> open_sockets();
  /// Sets the route of a queue pair that is about to become ready to receive. A route with `any` is
  /// for a UD queue pair, whose datagrams have their own addresses. Waits for the answer of the
  /// owner of the port (wire_path_options::patience). Errors: those of open_sockets; EAGAIN if the
  /// owner does not answer.
  [[nodiscard]] result<void> connect(const queue_pair& which, const wire_route& route);
  /// Replaces the interfaces on which packets of arrival::permitted_interfaces may arrive.
  void permit_interfaces(std::vector<std::uint32_t> indexes) {
    routes_.permit_interfaces(std::move(indexes));
  }

  /// Opens the sockets in order to receive management datagrams. Waits like `connect`, and has the
  /// same errors.
  [[nodiscard]] result<void> open();
  /// Sends a management datagram to another host. It can be lost, and is lost if the sockets are
  /// not open. Does not block. Makes one system call.
  void send_message(const management_addresses& ends, management_view message) noexcept {
    if (!begun_.load(std::memory_order_acquire)) return;
    sender_->put_message(ends, message);
    if (!sender_->flush()) wake();
  }
  /// Sets the observer of management datagrams, which outlives the path. Call it before the sockets
  /// are opened.
  void set_management(management_observer* observer) noexcept {
    const std::lock_guard lock(right_);
    intake_.set_management(observer);
  }

  /// Receives packets, and sends responses and retransmissions that are due. Returns true if
  /// packets arrived or if the owner of the port has ended. Does not block. Without connections and
  /// without processes to forward to, makes at most a few system calls per millisecond.
  /// Precondition: the caller is not in an access epoch.
  bool progress(ack_time acks = ack_time::at_once) noexcept;
  /// True if `progress` should run again soon even if no packet arrives.
  [[nodiscard]] bool needs_progress() const noexcept {
    return due_.needs_progress.load(std::memory_order_relaxed);
  }
  /// True if ACKs are postponed (ack_time::later): `progress` must be called again.
  [[nodiscard]] bool has_postponed_acks() const noexcept { return packets_.has_postponed(); }
  /// Returns when `progress` is due if no packet arrives.
  [[nodiscard]] time_ns next_deadline() const noexcept;
  /// Returns an epoll descriptor. It is readable if processes have connected or ended, or, while
  /// armed, if packets have arrived.
  [[nodiscard]] int fd() const noexcept { return share_.fd(); }
  /// Has packets make `fd` readable. Call it before a sleep. Makes one system call.
  void arm() noexcept {
    publish_counters();
    set_armed(true);
  }
  void disarm() noexcept { set_armed(false); }

  /// Sends and forwards all packets that are due, before the process exits. They include the ACK of
  /// a message that another thread is processing. Waits at most one second for that thread.
  void flush_before_exit() noexcept;

  [[nodiscard]] wire_counters counters() noexcept;
  [[nodiscard]] port_share::role role() noexcept;
  // The next three functions are called by fork handlers, one fork at a time.
  /// Before the fork: prevents other threads from changing the connections. Waits for the end of
  /// `progress` in another thread.
  void prepare_fork() noexcept { right_.hold_for_fork(); }
  void continue_after_fork() noexcept { right_.release_after_fork(); }
  /// In the child: closes the sockets. Does not free memory and does not take a lock. If a signal
  /// handler forks in `progress`, the child keeps the connections of the clients open.
  void abandon_after_fork() noexcept;

  // Overrides of remote_path.
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
  /// The state after the loss of the port's owner.
  struct lost_port {
    bool warned = false;
    /// The first attempt to find an owner.
    time_ns since = never;
    /// The time until the next attempt.
    time_ns pause = 0;
    /// Until then, calls do not wait for a port that another program has.
    time_ns no_wait_until = 0;
  };

  /// State that one call of `progress` leaves for a later one.
  struct upkeep {
    time_ns serve_at = 0;  ///< when `serve` is due
    std::string warning;   ///< logged without the receive right
  };

  void before_reset(queue_pair& which) noexcept override {
    packets_.before_reset(which);
    flush_if_open();
  }
  bool has_room() noexcept override { return sender_->has_room(); }
  bool put(const queue_pair& from, const packet& what) noexcept override;
  bool put_datagram(const datagram_route& by, const packet& what) noexcept override;
  void count(packet_event what) noexcept override { ++events_.of(what); }
  void deadline_changed() noexcept override { wake(); }
  void flush_if_open() noexcept {
    if (begun_.load(std::memory_order_acquire)) static_cast<void>(sender_->flush());
  }
  void wake() noexcept {
    if (options_.observer != nullptr) options_.observer->wake();
  }
  [[nodiscard]] bool may_wait(bool is_late);
  [[nodiscard]] error silence() const;
  [[nodiscard]] result<port_share::role> open_with_right();
  [[nodiscard]] result<void> open_sender(const wire_key* key);
  [[nodiscard]] result<void> join();
  [[nodiscard]] result<port_share::role> share_port();
  void send_last() noexcept;
  [[nodiscard]] bool serve(time_ns now) noexcept;
  void rejoin(time_ns now) noexcept;
  void report_key_mismatch() noexcept;
  void warn_of_signing() noexcept;
  void warn(const std::string& text);
  [[nodiscard]] bool receive(time_ns now, bool at_any_rate) noexcept;
  [[nodiscard]] bool awaits_packets() const noexcept;
  void set_armed(bool wanted) noexcept;
  [[nodiscard]] wire_counters count_all() noexcept;
  void publish_counters() noexcept;

  /// When `progress` must run. Only `needs_progress` is written without the receive right.
  struct due_times {
    std::atomic<bool> needs_progress{false};  ///< a packet waits for a lock or for room
    std::atomic<time_ns> rejoin_at{never};    ///< the next attempt to share the port
    std::atomic<time_ns> serve_at{never};     ///< port_share::serve_at
  };
  /// The values of event_counters.
  struct live_events {
    std::array<std::atomic<std::uint64_t>, packet_event_count> of_engine{};
    std::atomic<std::uint64_t> rnr_naks_sent{0};
    std::atomic<std::uint64_t> sequence_naks_sent{0};

    [[nodiscard]] std::atomic<std::uint64_t>& of(packet_event what) noexcept {
      return of_engine[static_cast<std::size_t>(what)];
    }
  };

  engine& home_;
  const wire_path_options options_;
  packet_engine packets_;
  route_table routes_;
  std::unique_ptr<packet_sender> sender_;
  std::atomic<bool> begun_{false};  ///< the sockets have been opened
  due_times due_;
  std::atomic<bool> armed_{false};
  live_events events_;

  receive_right right_;  ///< guards all members below
  port_share share_;
  lost_port lost_port_;
  upkeep upkeep_;
  packet_receiver intake_;
  std::unique_ptr<counter_page> page_;
};

}  // namespace verbena::softdev::wire
