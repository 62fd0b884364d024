// SPDX-License-Identifier: MIT
// Received packets: which of them the engine gets, which belong to other processes, which are
// dropped.
#pragma once

#include <cstdint>

#include "softdev/core/types.hpp"
#include "softdev/wire/engine/packet_engine.hpp"
#include "softdev/wire/network.hpp"
#include "softdev/wire/packet.hpp"
#include "softdev/wire/socket/datagram_batch.hpp"
#include "softdev/wire/socket/port_share.hpp"
#include "softdev/wire/socket/route_table.hpp"

namespace verbena::softdev::wire {

/// What happened to received packets. Snapshot.
struct intake_counters {
  std::uint64_t received = 0;      ///< given to a queue pair
  std::uint64_t forwarded = 0;     ///< to another process of the user
  std::uint64_t malformed = 0;     ///< dropped: see packet_fault
  std::uint64_t unknown_pair = 0;  ///< dropped: no queue pair that is connected by packets
  std::uint64_t foreign = 0;       ///< dropped: not from the host of the peer, or to an address
                                   ///< that does not receive
  std::uint64_t damaged = 0;       ///< dropped: wrong ICRC
  std::uint64_t busy = 0;          ///< dropped: a lock was taken for long
  std::uint64_t solved = 0;        ///< received, with an IPv4 identification that was deduced
};

/// Says at which addresses of this host datagrams arrive. Threads: one thread at a time.
class own_addresses {
 public:
  /// True if datagrams to this address are received; false for those of groups and broadcasts.
  /// Called for each of them: cheap as a rule. Does not allocate.
  [[nodiscard]] virtual bool receives(const network_address& own) noexcept = 0;

 protected:
  ~own_addresses() = default;
};

/// Which packets belong to this process.
struct intake_options {
  std::uint32_t process_slot = 0;
  own_addresses* addresses = nullptr;  ///< nullptr: datagrams arrive at all addresses
};

/// Threads: one thread at a time, with the right to receive. Does not allocate after it was made.
class packet_intake {
 public:
  /// All outlive this.
  packet_intake(const intake_options& options, port_share& share, route_table& routes,
                packet_engine& packets) noexcept
      : options_(options), share_(share), routes_(routes), packets_(packets) {}
  packet_intake(const packet_intake&) = delete;
  packet_intake& operator=(const packet_intake&) = delete;

  enum class outcome : std::uint8_t {
    idle,    ///< nothing came
    worked,  ///< all that came was taken
    go_on,   ///< there is more, or a packet waits for a lock: call again soon
    ended,   ///< the owner of the port ended
  };
  /// Takes what has come, some batches at most. Does not block.
  [[nodiscard]] outcome receive(time_ns now) noexcept;
  [[nodiscard]] const intake_counters& counters() const noexcept { return counters_; }

 private:
  [[nodiscard]] bool take(const received_datagram& from, time_ns now) noexcept;
  [[nodiscard]] bool is_genuine(const received_datagram& from, const network_header& around,
                                const packet& what) noexcept;
  [[nodiscard]] bool fits(const wire_route& route, const network_header& around) const noexcept;
  [[nodiscard]] bool give(const packet& what, const network_header& around) noexcept;
  void forward(std::uint32_t slot, const received_datagram& from) noexcept;

  const intake_options options_;
  port_share& share_;
  route_table& routes_;
  packet_engine& packets_;
  datagram_batch batch_;
  time_ns stalled_since_ = never;  ///< the first packet of the batch waits for a lock
  intake_counters counters_;
};

}  // namespace verbena::softdev::wire
