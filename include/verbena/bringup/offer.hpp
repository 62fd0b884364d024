// SPDX-License-Identifier: MIT
// The capabilities and requests of one side of a connection: the input of decide().
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "verbena/base/guid.hpp"
#include "verbena/base/ids.hpp"
#include "verbena/base/result.hpp"
#include "verbena/base/timers.hpp"
#include "verbena/verbs/gid_table.hpp"
#include "verbena/verbs/mtu.hpp"
#include "verbena/verbs/port_attributes.hpp"

namespace verbena::inline VERBENA_ABI::bringup {

/// The network that a device is connected to, as far as it limits the reachable peers.
enum class fabric : std::uint8_t {
  network = 0,       ///< an adapter, or the kernel's rxe: InfiniBand or RoCE
  iwarp = 1,         ///< iWARP: only the connection manager connects its queue pairs
  this_host = 2,     ///< soft0: processes of one host
  soft_network = 3,  ///< soft0 with `VERBENA_SOFTDEV_WIRE`: processes of one host, and RoCE
};
/// Returns `an adapter`, `iWARP`, `soft0` or `soft0 with VERBENA_SOFTDEV_WIRE`.
[[nodiscard]] std::string to_string(fabric of);

/// The transport of the queue pair. The values are part of the wire format.
enum class offered_transport : std::uint8_t {
  rc = 2,  ///< reliable connection
  uc = 3,  ///< unreliable connection
  ud = 4,  ///< unreliable datagrams
};
/// Returns `RC`, `UC` or `UD`.
[[nodiscard]] std::string to_string(offered_transport of);

/// An entry of the port's GID table. Threads: immutable value.
struct offered_gid {
  verbena::gid gid;                   ///< the address
  gid_type type = gid_type::roce_v2;  ///< type of the GID
  gid_index index;                    ///< index in the port's GID table
  /// Prefix length of the subnet, at most 128; for IPv4 addresses at least 96. 0: unknown.
  std::uint8_t prefix_bits = 0;
  bool routed = false;  ///< its interface has a route beyond the subnet

  friend bool operator==(const offered_gid&, const offered_gid&) noexcept = default;
};

/// Timeouts, retries and limits of a reliable connection. Threads: immutable value.
struct offered_reliability {
  std::uint8_t initiator_depth = 0;      ///< outstanding reads and atomics of this side
  std::uint8_t responder_resources = 0;  ///< outstanding reads and atomics of the peer
  ack_timeout timeout = {};              ///< requested ACK timeout
  /// The device acknowledges within 4.096 µs · 2^n; at most 31.
  std::uint8_t ack_delay_exponent = 0;
  std::uint8_t retry_count = 0;      ///< at most 7
  std::uint8_t rnr_retry_count = 0;  ///< at most 7; 7: no limit
  rnr_timer min_rnr_timer = {};      ///< requested RNR delay of the peer

  friend bool operator==(const offered_reliability&, const offered_reliability&) noexcept = default;
};

/// A queue pair of an offer. Threads: immutable value.
struct offered_queue_pair {
  queue_pair_number number;          ///< queue pair number
  packet_sequence_number first_psn;  ///< of the first packet that it sends

  friend bool operator==(offered_queue_pair, offered_queue_pair) noexcept = default;
};

/// The offer of one side. Threads: one thread at a time.
struct offer {
  /// The largest number of GIDs; an offer keeps the preferred ones.
  static constexpr std::size_t max_gids = 32;
  /// The largest length of the device's name.
  static constexpr std::size_t max_device_name = 64;
  /// The largest size of an encoded offer.
  static constexpr std::size_t max_encoded_bytes = 72 + max_device_name + 20 * max_gids;

  offered_transport transport = offered_transport::rc;    ///< transport of the queue pair
  bringup::fabric fabric = fabric::network;               ///< network of the device
  verbena::link_layer link_layer = link_layer::ethernet;  ///< of the port; never `unspecified`
  bool port_up = true;                                    ///< the port is active or armed
  bool explicit_gid = false;  ///< the program chose the GID; it is the only one in the list
  std::string device;         ///< printable name: `mlx5_0`
  /// Identifies the host and the network namespace.
  std::array<std::uint8_t, 16> host{};
  verbena::mtu mtu = mtu::bytes_1024;    ///< largest path MTU of this side
  verbena::lid lid;                      ///< of the port on InfiniBand
  std::uint16_t partition_key = 0xffff;  ///< the P_Key at the chosen index
  std::uint32_t inline_bytes = 0;        ///< largest inline data of the queue pair
  offered_queue_pair queue_pair;         ///< to be connected
  queue_key key;                         ///< of a UD queue pair
  /// The probe queue pair. `nullopt`: this side sends no probe messages.
  std::optional<offered_queue_pair> probe;
  offered_reliability reliability;  ///< zero for UC and UD
  std::vector<offered_gid> gids;    ///< of the port

  /// Encodes the offer. Precondition: at most max_gids and max_device_name are used. Allocates.
  [[nodiscard]] std::vector<std::byte> encode() const;
  /// Decodes an offer. Errors: `protocol`, with the invalid field.
  [[nodiscard]] static result<offer> decode(std::span<const std::byte> bytes);

  friend bool operator==(const offer&, const offer&) = default;
};

}  // namespace verbena::inline VERBENA_ABI::bringup
