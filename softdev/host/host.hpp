// SPDX-License-Identifier: MIT
// The device in this process: the engine, the link to other processes, the progress thread, and the
// adapter that the program sees. Each process that opens the device has one host. It is never
// destroyed, because threads of the program may use it while the program exits.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "softdev/capture/recorder.hpp"
#include "softdev/core/engine.hpp"
#include "softdev/fabric/endpoint.hpp"
#include "softdev/host/address_watch.hpp"
#include "softdev/host/event_delays.hpp"
#include "softdev/host/group_membership.hpp"
#include "softdev/host/persona.hpp"
#include "softdev/host/progress_thread.hpp"
#include "softdev/host/remote_paths.hpp"
#include "softdev/host/settings.hpp"
#include "softdev/host/soft_adapter.hpp"
#include "softdev/host/wire_access.hpp"
#include "softdev/ipc/fork_generation.hpp"
#include "softdev/peers/link.hpp"
#include "softdev/wire/socket/wire_path.hpp"
#include "verbena/base/result.hpp"

namespace verbena::softdev {

/// A registered memory region, with the data for its deregistration. Threads: immutable value.
struct registered_region {
  std::uint32_t key = 0;
  const void* memory = nullptr;
  bool shareable = false;  ///< lies in memory that peers can map
};

/// The handlers of a process: those of fork(2), see pthread_atfork(3), and that of exit(3).
enum class process_event : std::uint8_t { before_fork, fork_in_parent, fork_in_child, exit };

/// The device in a process. Threads: thread-safe.
class host final : private engine_observer, private progress_work {
 public:
  /// Returns the host of this process, which the first call makes. A child of fork has a host that
  /// is separate from its parent's. Errors: those of link::open(), EMFILE if a peer's descriptors
  /// are missing, and those of the capture and of the port of the wire. Allocates; blocks only
  /// while another thread makes the host.
  [[nodiscard]] static result<host*> instance();

  host(const host&) = delete;
  host& operator=(const host&) = delete;

  [[nodiscard]] engine& core() noexcept { return *engine_; }
  /// Returns false in a child of fork: then neither the host nor objects that it made may be used.
  [[nodiscard]] bool usable() const noexcept { return is_current_generation(generation_); }

  /// Who calls progress().
  enum class caller : std::uint8_t {
    any,
    /// A poll that found its completion queue empty. It may postpone the ACK of a message from
    /// another host (wire::ack_time::later). A later call or the thread sends it, at most about 4
    /// ms after the last poll.
    poll,
  };
  /// Does the work that is due, on a thread that polls, arms or waits for an event. Never blocks or
  /// allocates; no system call unless peers arrive, leave or sleep.
  void progress(caller from = caller::any) noexcept;
  /// Starts the thread unless it runs. Call it when the first queue pair leaves RESET, or when the
  /// program requests asynchronous events. Returns 0 or an errno.
  [[nodiscard]] int start_thread() noexcept { return thread_.start(); }

  /// Delayed events of completion queues.
  [[nodiscard]] event_delays& delays() noexcept { return delays_; }
  /// Wakes the thread: a deadline is earlier now, or there may be new work.
  void look_again() noexcept { thread_.wake(); }

  /// Count armed completion queues: while there are any, the thread does not park. Call
  /// note_armed() after count_armed(), without the lock of a queue.
  void count_armed(bool armed) noexcept {
    armed ? thread_.expect_sleep() : thread_.expect_no_sleep();
  }
  void note_armed() noexcept { thread_.end_parking(); }

  /// Registers memory with the engine and makes it visible to peers. O(1). Errors: as the engine's.
  [[nodiscard]] result<registered_region> register_region(const memory_region& region);
  /// Assigns another region to the key of a registration. O(1); waits like deregister_region().
  /// Errors: the engine's `invalid_argument`; then nothing has changed.
  [[nodiscard]] result<registered_region> reregister_region(const registered_region& old,
                                                            const memory_region& region);
  /// Ends a registration. After the return, neither this process nor a peer accesses the memory
  /// through it. Blocks while there is such an access.
  void deregister_region(const registered_region& region) noexcept;

  /// Number memory regions and completion queues in the order of their creation, from 1.
  [[nodiscard]] std::uint32_t next_region_index() noexcept { return ++regions_created_; }
  [[nodiscard]] std::uint32_t next_queue_index() noexcept { return ++queues_created_; }

  /// Ends the pairing with all processes, or only with process `pid`; see link::lose_peers().
  std::size_t lose_peers(std::optional<pid_t> pid);

  /// Memory that peers can map, for verbena_soft_allocate.
  [[nodiscard]] arena_registry& shareable_memory() noexcept { return link_->arenas(); }
  [[nodiscard]] link& peer_link() noexcept { return *link_; }
  /// The public segment of this process, which peers read.
  [[nodiscard]] public_segment& segment() noexcept { return link_->segment(); }

  /// The device and its port as the program sees them.
  [[nodiscard]] soft_adapter& adapter() noexcept { return adapter_; }
  [[nodiscard]] const soft_adapter& adapter() const noexcept { return adapter_; }
  [[nodiscard]] const softdev::persona& persona() const noexcept { return adapter_.persona(); }
  /// Returns the recorder of this process's packets; nullptr if they are not captured.
  [[nodiscard]] capture::recorder* recorder() noexcept { return recorder_.get(); }
  /// Connections to other hosts.
  [[nodiscard]] const wire_access& wire() const noexcept { return wire_access_; }
  /// For the handlers of the process. In the child of a fork, closes the sockets of the wire. At
  /// exit, sends the packets that are due, and waits at most one second for another thread.
  void handle(process_event what) noexcept;
  /// The multicast groups of this process.
  [[nodiscard]] group_membership& groups() noexcept { return groups_; }

 private:
  struct parts {
    std::unique_ptr<link> peer_link;
    address_watch addresses;
    std::optional<capture::capture_file> packets;
    std::size_t captured_bytes = 0;
    std::uint8_t ports = 1;
    std::optional<wire::port_share> port;
    wire_setting wire;
    std::optional<wire::wire_key> key;
  };
  host(parts made, softdev::persona presented);
  [[nodiscard]] remote_path& outward() noexcept;
  static result<host*> make();
  static result<void> open_wire(const wire_setting& wanted, parts& made);
  void wake() override { thread_.wake(); }
  void tend() noexcept override;
  void run() noexcept override { run(wire::ack_time::at_once); }
  void run(wire::ack_time acks) noexcept;
  [[nodiscard]] time_ns next_deadline() const noexcept override;
  [[nodiscard]] bool fall_asleep() noexcept override {
    if (wire_) wire_->arm();
    const auto now = link::time_point::clock::now();
    return link_->sleeper().announce_sleep(now, link_->sleeper().next_sleep(now));
  }
  void sleep_on() noexcept override {
    // The wait of a parked thread is shorter than the interval of the checks.
    link_->sleeper().announce_sleep_unseen(link_->sleeper().last_sleep());
    if (wire_) wire_->arm();
  }
  void awake() noexcept override {
    link_->sleeper().announce_awake();
    if (wire_) wire_->disarm();
  }
  void watched() noexcept override {
    adapter_.addresses_changed();
    wire_access_.addresses_changed();
  }
  [[nodiscard]] time_ns next_watch() const noexcept override { return adapter_.next_read(); }
  struct published {
    registered_region region;
    bool visible = false;  ///< the public table had room
  };
  [[nodiscard]] published publish(std::uint32_t key, const memory_region& region);

  const std::uint32_t generation_;
  std::unique_ptr<link> link_;
  std::unique_ptr<engine> engine_;
  fabric_endpoint path_;
  soft_adapter adapter_;
  wire_access wire_access_;
  std::unique_ptr<capture::recorder> recorder_;
  std::unique_ptr<wire::wire_path> wire_;  ///< nullptr if the wire is off
  std::optional<remote_paths> paths_;      ///< empty if the wire is off
  std::atomic<time_ns> tend_at_{never};
  std::atomic<std::uint32_t> regions_created_{0};
  std::atomic<std::uint32_t> queues_created_{0};
  progress_thread thread_;
  group_membership groups_;
  event_delays delays_;
};

/// Returns the attributes of the device on this host that do not depend on its persona: its GUID.
/// The first call computes them. Thread-safe.
[[nodiscard]] const persona& process_persona();

}  // namespace verbena::softdev
