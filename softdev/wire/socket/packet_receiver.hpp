// SPDX-License-Identifier: MIT
// Received packets: which of them the engine gets, which belong to other processes, which are
// dropped.
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

/// What happened to received packets. Snapshot.
struct intake_counters {
  std::uint64_t received = 0;        ///< given to a queue pair
  std::uint64_t received_bytes = 0;  ///< of these packets, from BTH to ICRC
  std::uint64_t forwarded = 0;       ///< to another process of the user
  std::uint64_t forward_full = 0;    ///< dropped: another process receives too slowly
  std::uint64_t malformed = 0;       ///< dropped: see packet_fault
  std::uint64_t unknown_qp = 0;      ///< dropped: no queue pair that is connected by packets
  std::uint64_t foreign = 0;  ///< dropped: not from the host of the peer, or not to an own address
  std::uint64_t wrong_interface = 0;  ///< dropped: arrived at an interface that is not permitted
  std::uint64_t damaged = 0;          ///< dropped: wrong ICRC
  std::uint64_t auth_missing = 0;     ///< dropped: not authenticated
  std::uint64_t auth_failed = 0;    ///< dropped: authenticated with another key, forged or damaged
  std::uint64_t auth_replayed = 0;  ///< dropped: authenticated, and received before
  std::uint64_t auth_unexpected = 0;  ///< dropped: authenticated, and this process has no key
  std::uint64_t busy = 0;             ///< dropped: a lock was taken for long, and no room to wait
  std::uint64_t messages = 0;         ///< received: to queue pair 1
  std::uint64_t rnr_naks = 0;         ///< received RNR NAKs
  std::uint64_t sequence_naks = 0;    ///< received NAKs for a PSN sequence error
  std::uint64_t marked = 0;           ///< packets of connections with a payload and CE
  std::uint64_t injected = 0;         ///< faults that the setting asked for
  std::uint64_t recovered = 0;        ///< received, with an IPv4 identification that was deduced
};

/// Says at which addresses of this host datagrams arrive. Threads: one thread at a time.
class own_addresses {
 public:
  /// True if datagrams to this address that arrive at the interface are received; false for those
  /// of groups and broadcasts. Called for each of them: cheap as a rule. Does not allocate.
  [[nodiscard]] virtual bool receives(const network_address& own,
                                      std::uint32_t interface) noexcept = 0;
  /// True if datagrams to groups that arrive at the interface are received. As `receives`.
  [[nodiscard]] virtual bool receives_groups_at(std::uint32_t interface) noexcept = 0;
  /// The interface of an own address; 0 if the address is another one. Thread-safe. Does not
  /// allocate.
  [[nodiscard]] virtual std::uint32_t interface_of(const network_address& own) const noexcept = 0;

 protected:
  ~own_addresses() = default;
};

/// Which packets belong to this process.
struct intake_options {
  std::uint32_t process_slot = 0;
  own_addresses* addresses = nullptr;  ///< nullptr: datagrams arrive at all addresses
};

/// Threads: one thread at a time, with the right to receive. Does not allocate after it was made.
class packet_receiver {
 public:
  /// All outlive this.
  packet_receiver(const intake_options& options, port_share& share, route_table& routes,
                  packet_engine& packets) noexcept
      : options_(options), share_(share), routes_(routes), packets_(packets) {}
  /// Has packets for this process suffer faults. Before the first packet. Allocates.
  void inject(const fault_rates& rates) { injected_.emplace(rates); }
  /// Makes the intake drop packets that are not authenticated. Call it before the first packet.
  void verify(std::unique_ptr<packet_verifier> by) noexcept { verifier_ = std::move(by); }
  [[nodiscard]] bool verifies() const noexcept { return verifier_ != nullptr; }
  /// Returns a mismatch to be reported, once.
  [[nodiscard]] std::optional<key_mismatch> take_mismatch() noexcept { return mismatches_.take(); }
  /// Shows the packets for this process. Before the first packet. `by` outlives the intake.
  void watch(packet_watcher& by) noexcept { watcher_ = &by; }
  [[nodiscard]] packet_watcher* watcher() const noexcept { return watcher_; }
  packet_receiver(const packet_receiver&) = delete;
  packet_receiver& operator=(const packet_receiver&) = delete;

  enum class outcome : std::uint8_t {
    idle,    ///< nothing came
    worked,  ///< all that came was taken
    go_on,   ///< there is more, or a packet waits for a lock: call again soon
    ended,   ///< the owner of the port ended
  };
  /// Takes what has come, some batches at most. Does not block.
  [[nodiscard]] outcome receive(time_ns now) noexcept;
  /// Who learns of messages of the general services: before the first packet. Outlives the intake.
  void set_management(management_observer* observer) noexcept { management_ = observer; }
  /// From now on messages come although there is no connection.
  void listen() noexcept { listens_ = true; }
  [[nodiscard]] bool listens() const noexcept { return listens_; }
  [[nodiscard]] const intake_counters& counters() const noexcept { return counters_; }

 private:
  template <class Sort>
  [[nodiscard]] outcome receive_batches(Sort sort) noexcept;
  /// Faults, and the packets that they delay.
  struct injection {
    explicit injection(const fault_rates& rates) : faults(rates) {}
    packet_faults faults;
    late_packets late;
    packet_faults::decision last;  ///< of the last packet
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

  const intake_options options_;
  port_share& share_;
  route_table& routes_;
  packet_engine& packets_;
  management_observer* management_ = nullptr;
  packet_watcher* watcher_ = nullptr;
  bool listens_ = false;
  std::uint16_t identification_ = 0;  ///< of the packet that is taken, as its place suggests
  datagram_batch batch_;
  waiting_packets waiting_;
  std::optional<injection> injected_;
  std::unique_ptr<packet_verifier> verifier_;  ///< nullptr: packets are not authenticated
  key_mismatches mismatches_;
  time_ns now_ = 0;  ///< of the last call of `receive`
  intake_counters counters_;
};

}  // namespace verbena::softdev::wire
