// SPDX-License-Identifier: MIT
// Received packets: passes packets to the engine, forwards packets of other processes, and drops
// all others.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "softdev/core/types.hpp"
#include "softdev/wire/auth/packet_verifier.hpp"
#include "softdev/wire/engine/packet_engine.hpp"
#include "softdev/wire/network.hpp"
#include "softdev/wire/packet.hpp"
#include "softdev/wire/packet_watcher.hpp"
#include "softdev/wire/socket/datagram_batch.hpp"
#include "softdev/wire/socket/key_mismatches.hpp"
#include "softdev/wire/socket/late_packets.hpp"
#include "softdev/wire/socket/management.hpp"
#include "softdev/wire/socket/packet_faults.hpp"
#include "softdev/wire/socket/port_share.hpp"
#include "softdev/wire/socket/route_table.hpp"
#include "softdev/wire/socket/waiting_packets.hpp"

namespace verbena::softdev::wire {

/// Counters of received packets. Snapshot.
struct intake_counters {
  std::uint64_t received = 0;        ///< delivered to a queue pair
  std::uint64_t received_bytes = 0;  ///< of these packets, from BTH to ICRC
  std::uint64_t forwarded = 0;       ///< to another process of the user
  std::uint64_t forward_full = 0;    ///< dropped: the receive queue of another process is full
  std::uint64_t malformed = 0;       ///< dropped: see packet_fault
  std::uint64_t unknown_qp = 0;      ///< dropped: no queue pair, group member or service for it
  std::uint64_t foreign = 0;  ///< dropped: wrong source host, or an address that is not permitted
  std::uint64_t wrong_interface = 0;  ///< dropped: arrived on an interface that is not permitted
  std::uint64_t damaged = 0;          ///< dropped: wrong ICRC
  std::uint64_t auth_missing = 0;     ///< dropped: no trailer
  std::uint64_t auth_failed = 0;      ///< dropped: another key, forged or damaged
  std::uint64_t auth_replayed = 0;    ///< dropped: authenticated, but received before
  std::uint64_t auth_unexpected = 0;  ///< dropped: has a trailer, but this process has no key
  std::uint64_t busy = 0;             ///< dropped: no room to keep it for a lock or a delay
  std::uint64_t messages = 0;         ///< received management datagrams (queue pair 1)
  std::uint64_t rnr_naks = 0;         ///< received RNR NAKs
  std::uint64_t sequence_naks = 0;    ///< received NAKs for a PSN sequence error
  std::uint64_t marked = 0;           ///< packets of connections with a payload and a CE mark
  std::uint64_t injected = 0;         ///< faults that VERBENA_SOFTDEV_WIRE_FAULTS injected
  std::uint64_t recovered = 0;        ///< received, with a computed IPv4 identification
};

/// Determines at which addresses of this host datagrams are received. Threads: one thread at a
/// time.
class own_addresses {
 public:
  /// Returns whether datagrams to this address are received on the interface. Returns false for
  /// group and broadcast addresses. Called for each datagram, so it is usually fast. Does not
  /// allocate.
  [[nodiscard]] virtual bool receives(const network_address& own,
                                      std::uint32_t interface) noexcept = 0;
  /// Returns whether datagrams to groups are received on the interface. The other properties are
  /// those of `receives`.
  [[nodiscard]] virtual bool receives_groups_at(std::uint32_t interface) noexcept = 0;
  /// Returns the interface of an own address; 0 for other addresses. Thread-safe. Does not
  /// allocate.
  [[nodiscard]] virtual std::uint32_t interface_of(const network_address& own) const noexcept = 0;

 protected:
  ~own_addresses() = default;
};

/// Which packets this process receives.
struct intake_options {
  std::uint32_t process_slot = 0;
  own_addresses* addresses = nullptr;  ///< nullptr: datagrams are received at all addresses
};

/// Threads: one thread at a time, with the receive right. Does not allocate after construction,
/// except in the engine (packet_engine).
class packet_receiver {
 public:
  /// All arguments outlive the intake.
  packet_receiver(const intake_options& options, port_share& share, route_table& routes,
                  packet_engine& packets) noexcept
      : options_(options), share_(share), routes_(routes), packets_(packets) {}
  /// Injects faults into the packets for this process. Call it before the first packet. Allocates.
  void inject(const fault_rates& rates) { injected_.emplace(rates); }
  /// Drops packets that are not authenticated. Call it before the first packet.
  void verify(std::unique_ptr<packet_verifier> by) noexcept { verifier_ = std::move(by); }
  [[nodiscard]] bool verifies() const noexcept { return verifier_ != nullptr; }
  /// Returns a key mismatch to be reported, once.
  [[nodiscard]] std::optional<key_mismatch> take_mismatch() noexcept { return mismatches_.take(); }
  /// Reports the packets for this process to `by`, which outlives the intake. Call it before the
  /// first packet.
  void watch(packet_watcher& by) noexcept { watcher_ = &by; }
  [[nodiscard]] packet_watcher* watcher() const noexcept { return watcher_; }
  packet_receiver(const packet_receiver&) = delete;
  packet_receiver& operator=(const packet_receiver&) = delete;

  enum class outcome : std::uint8_t {
    idle,    ///< no packets arrived
    worked,  ///< all packets that arrived were processed
    go_on,   ///< more packets are available, or a packet waits for a lock: call again soon
    ended,   ///< the owner of the port has ended
  };
  /// Processes the packets that have arrived, up to a few batches. Does not block.
  [[nodiscard]] outcome receive(time_ns now) noexcept;
  /// Sets the observer of management datagrams, which outlives the intake. Call it before the first
  /// packet.
  void set_management(management_observer* observer) noexcept { management_ = observer; }
  /// Has management datagrams received even if there are no connections.
  void listen() noexcept { listens_ = true; }
  [[nodiscard]] bool listens() const noexcept { return listens_; }
  /// Until `end`, keeps packets of processes that have not registered, as far as there is room. For
  /// a new owner that receives from the socket of the previous one: the other clients of that owner
  /// cannot register before this process listens. Allocates.
  void await_clients(time_ns end);
  /// Returns whether packets are kept for processes that have not registered.
  [[nodiscard]] bool keeps_packets() const noexcept {
    return kept_.for_clients != nullptr && !kept_.for_clients->packets.empty();
  }
  [[nodiscard]] const intake_counters& counters() const noexcept { return counters_; }

 private:
  template <class Sort>
  [[nodiscard]] outcome receive_batches(Sort sort) noexcept;
  /// Injected faults, and the packets that they delay.
  struct injection {
    explicit injection(const fault_rates& rates) : faults(rates) {}
    packet_faults faults;
    late_packets late;
    packet_faults::decision last;  ///< for the last packet
  };

  void sort(received_train from, time_ns now) noexcept;
  void sort_rest(received_train from, time_ns now) noexcept;
  [[nodiscard]] outcome receive_watched(time_ns now) noexcept;
  void sort_watched(received_train from, time_ns now) noexcept;
  void forward_watched(std::uint32_t slot, received_train from, time_ns now) noexcept;
  void watch_next(const received_datagram& from, const packet* what, time_ns now) noexcept;
  [[nodiscard]] std::string_view drop_reason_since(const intake_counters& before) const noexcept;
  [[nodiscard]] std::size_t count_for(std::uint32_t slot, received_train from) const noexcept;
  [[nodiscard]] bool is_own(const packet& what) const noexcept;
  [[nodiscard]] std::uint32_t slot_for(const packet& what) const noexcept;
  void take_own(const received_datagram& from, const packet& what, time_ns now) noexcept;
  void inject_faults(const received_datagram& from, const packet& what, time_ns now) noexcept;
  void take(const received_datagram& from, const packet& what) noexcept;
  void take_for_group(const received_datagram& from, const packet& what) noexcept;
  void deliver_or_queue(const packet& what, const wire_route& route, bool marked = false) noexcept;
  [[nodiscard]] bool give(const packet& what, const wire_route& route,
                          bool marked = false) noexcept;
  void take_waiting() noexcept;
  void take_late(time_ns now) noexcept;
  [[nodiscard]] bool some_are_late() const noexcept {
    return injected_ && !injected_->late.empty();
  }
  [[nodiscard]] bool is_permitted(const datagram_addresses& ends) const noexcept;
  [[nodiscard]] bool is_genuine(const received_datagram& from, const wire_route& route) noexcept;
  void take_message(const received_datagram& from, const packet& what, time_ns now) noexcept;
  [[nodiscard]] network_header headers_of(const datagram_addresses& ends) const noexcept;
  [[nodiscard]] std::optional<std::uint16_t> find_identification(
      const received_datagram& from) const noexcept;
  [[nodiscard]] bool is_undamaged(const received_datagram& from) noexcept;
  void forward(std::uint32_t slot, const received_train& from, time_ns now) noexcept;
  [[nodiscard]] bool keep_for_client(received_train from) noexcept;
  void forward_kept() noexcept;
  void end_wait_for_clients() noexcept;
  [[nodiscard]] std::span<const std::byte> packet_of(
      std::span<const std::byte> datagram) const noexcept {
    return verifier_ == nullptr ? datagram : without_trailer(datagram);
  }
  [[nodiscard]] bool admits(const received_datagram& from) noexcept;
  [[nodiscard]] bool count(authenticity what, const received_datagram& from) noexcept;
  [[nodiscard]] bool is_unexpected(const received_datagram& from) noexcept;
  void note_mismatch(authenticity what, const received_datagram& from) noexcept;
  void drop_malformed(const received_datagram& from) noexcept;
  void sort_for_group(const received_datagram& from, const packet& what, time_ns now) noexcept;

  /// Packets of processes that have not registered.
  struct unclaimed {
    late_packets packets;
    time_ns end;
  };
  /// Packets that are kept for another reason than an injected delay.
  struct kept_packets {
    waiting_packets locked;
    std::unique_ptr<unclaimed> for_clients;  ///< nullptr: such packets are dropped
  };

  const intake_options options_;
  port_share& share_;
  route_table& routes_;
  packet_engine& packets_;
  management_observer* management_ = nullptr;
  packet_watcher* watcher_ = nullptr;
  bool listens_ = false;
  std::uint16_t identification_ = 0;  ///< expected in the current packet, from its position
  datagram_batch batch_;
  kept_packets kept_;
  std::optional<injection> injected_;
  std::unique_ptr<packet_verifier> verifier_;  ///< nullptr: packets are not authenticated
  key_mismatches mismatches_;
  time_ns now_ = 0;  ///< the time of the last call of `receive`
  intake_counters counters_;
};

}  // namespace verbena::softdev::wire
