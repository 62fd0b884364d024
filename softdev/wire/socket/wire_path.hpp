// SPDX-License-Identifier: MIT
// The path of queue pairs to other hosts: packets of RoCE v2 over UDP. It owns the sockets and
// decides which packets the engine gets.
//
// Locks: whoever posts holds the send lock of a queue pair and puts packets, under the lock of the
// sender. Whoever receives has the right to receive, for which nobody waits, and takes locks of
// queue pairs for a while; if one stays taken, the packet waits, and those behind it.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "softdev/core/engine.hpp"
#include "softdev/core/remote_path.hpp"
#include "softdev/wire/engine/packet_engine.hpp"
#include "softdev/wire/engine/packet_output.hpp"
#include "softdev/wire/socket/packet_intake.hpp"
#include "softdev/wire/socket/packet_sender.hpp"
#include "softdev/wire/socket/port_share.hpp"
#include "softdev/wire/socket/route_table.hpp"

namespace verbena::softdev::wire {

/// What happened to packets. Snapshot; approximate while packets come.
struct wire_counters {
  intake_counters intake;
  packet_sender_counters output;
};

struct wire_path_options {
  std::uint32_t process_slot = 0;
  engine_observer* observer = nullptr;  ///< woken when `progress` has something to do; outlives it
  /// The addresses at which datagrams arrive; outlives it. nullptr: all.
  own_addresses* addresses = nullptr;
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

  /// Sets the route of a queue pair that is about to become ready to receive, or that it has `any`:
  /// it receives datagrams, and sends each to an address of its own. Waits up to 100 ms
  /// for an owner of the port that is just beginning. Errors: those of port_share::join; EAGAIN if
  /// the owner does not begin.
  [[nodiscard]] result<void> connect(const queue_pair& which, const wire_route& route);

  /// Receives, answers, repeats what is due. True when something was done. Never blocks. Without
  /// connections and without processes to forward to, makes a few system calls each millisecond at
  /// most. Not from inside an access epoch.
  bool progress() noexcept;
  /// True when `progress` should run again soon although nothing arrives.
  [[nodiscard]] bool restless() const noexcept { return restless_.load(std::memory_order_relaxed); }
  /// When `progress` is due if nothing arrives.
  [[nodiscard]] time_ns next_deadline() const noexcept;
  /// Readable when `progress` is due, if it is armed (an epoll descriptor).
  [[nodiscard]] int fd() const noexcept { return share_.fd(); }
  /// Has `fd` be readable when packets come: before a sleep. Two system calls.
  void arm() noexcept { set_armed(true); }
  void disarm() noexcept { set_armed(false); }

  [[nodiscard]] wire_counters counters() noexcept;
  [[nodiscard]] port_share::role role() noexcept;
  /// In a child of fork: closes the sockets. Frees nothing, takes no lock.
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
    bool told = false;
    std::string warning;  ///< to be logged without the lock
  };

  bool has_room() noexcept override { return sender_->has_room(); }
  void put(const queue_pair& from, const packet& what) noexcept override;
  void put_datagram(const datagram_route& by, const packet& what) noexcept override;
  void deadline_changed() noexcept override { wake(); }
  void wake() noexcept {
    if (observer_ != nullptr) observer_->wake();
  }
  [[nodiscard]] result<port_share::role> begin();
  [[nodiscard]] bool serve() noexcept;
  void rejoin() noexcept;
  [[nodiscard]] bool receive(bool at_any_rate) noexcept;
  void set_armed(bool wanted) noexcept;

  engine& home_;
  engine_observer* const observer_;
  packet_engine packets_;
  route_table routes_;
  std::unique_ptr<packet_sender> sender_;
  std::atomic<bool> begun_{false};         ///< the sockets are open
  std::atomic<bool> restless_{false};      ///< something waits for a lock or for room
  std::atomic<time_ns> rejoin_at_{never};  ///< when to look for the port again
  std::atomic<pthread_t> receiving_{};     ///< the thread that receives
  std::atomic<bool> armed_{false};

  std::mutex receive_mutex_;  ///< the right to receive: guards all that follows
  port_share share_;
  lost_port lost_port_;
  time_ns serve_at_ = 0;
  packet_intake intake_;
};

}  // namespace verbena::softdev::wire
