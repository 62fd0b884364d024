// SPDX-License-Identifier: MIT
// The adapter that the device presents to the program: its persona, the addresses and attributes of
// its port, and the observers of changes. The state that decides whether messages pass is in
// softdev/core/port_state.hpp.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include "softdev/core/types.hpp"
#include "softdev/host/address_watch.hpp"
#include "softdev/host/device_events.hpp"
#include "softdev/host/gid_table.hpp"
#include "softdev/host/persona.hpp"

namespace verbena::softdev {

/// Threads: thread-safe.
class soft_adapter {
 public:
  soft_adapter(softdev::persona presented, address_watch addresses);
  soft_adapter(const soft_adapter&) = delete;
  soft_adapter& operator=(const soft_adapter&) = delete;

  /// The persona of the device in this process.
  [[nodiscard]] const softdev::persona& persona() const noexcept { return persona_; }

  /// The addresses of the port, as they were read last. The progress thread reads them when they
  /// change.
  [[nodiscard]] const gid_table& gids() const noexcept { return gids_; }
  /// Reads the addresses of the host again. If they have changed, reports an event and returns
  /// true. The addresses remain as they are if they cannot be read, or if this thread has left the
  /// network namespace in which the device was opened. Asks the kernel; allocates.
  bool refresh_gids();
  /// Moves the addresses to other indexes, and reports an event.
  void move_gids();
  /// Returns a descriptor that is readable when addresses of the host have changed; -1 if the
  /// device does not follow them.
  [[nodiscard]] int address_fd() const noexcept { return addresses_.fd(); }
  /// Handles a readable address_fd(), or the time of next_read(). One thread at a time.
  void addresses_changed();
  /// Returns when the addresses have to be read again because they could not be read, for example
  /// for lack of descriptors; `never` if they were read. The interval between two attempts grows
  /// from 0.1 s to 60 s. On CLOCK_MONOTONIC.
  [[nodiscard]] time_ns next_read() const noexcept { return next_read_.load(); }

  /// The LID of the subnet manager; 0 on Ethernet.
  [[nodiscard]] std::uint16_t sm_lid() const noexcept { return sm_lid_.load(); }
  void set_sm_lid(std::uint16_t lid) noexcept { sm_lid_.store(lid); }
  /// The speed of the port (ibv_port_attr::active_speed).
  [[nodiscard]] std::uint8_t speed() const noexcept { return speed_.load(); }
  void set_speed(std::uint8_t speed) noexcept { speed_.store(speed); }

  /// Counts the objects of the program. A child of fork() starts with none.
  [[nodiscard]] object_counts& counts() noexcept { return counts_; }

  /// The listeners to events of the device.
  [[nodiscard]] device_listeners& listeners() noexcept { return listeners_; }

 private:
  /// If the time of next_read() has come: doubles the interval, up to 60 s.
  void postpone_due_read();

  const softdev::persona persona_;
  const address_watch addresses_;
  const std::uint64_t network_;  ///< see find_network_namespace()
  std::mutex refresh_;           ///< held from reading the addresses to changing the table
  std::atomic<time_ns> next_read_;
  time_ns interval_;  ///< between two attempts to read the addresses; guarded by `refresh_`
  gid_table gids_;
  std::atomic<std::uint16_t> sm_lid_;
  std::atomic<std::uint8_t> speed_{port_speed::edr};
  device_listeners listeners_;
  object_counts counts_;
};

}  // namespace verbena::softdev
