// SPDX-License-Identifier: MIT
// What one side of a connection can do and wants: the facts that both sides decide on.
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

/// What executes the verbs of a side, as far as it limits whom it reaches.
enum class fabric : std::uint8_t {
  network = 0,    ///< an adapter, or the kernel's rxe: InfiniBand or RoCE
  iwarp = 1,      ///< iWARP: only the connection manager connects it
  this_host = 2,  ///< soft0: processes of one host
};
/// `an adapter`, `iWARP`, `soft0`.
[[nodiscard]] std::string to_string(fabric of);

/// The kind of queue pair that is to be connected. The values cross the wire.
enum class offered_transport : std::uint8_t {
  rc = 2,  ///< a reliable connection
  uc = 3,  ///< an unreliable connection
};
/// `RC`, `UC`.
[[nodiscard]] std::string to_string(offered_transport of);

/// An address of the port.
struct offered_gid {
  verbena::gid gid;                   ///< the address
  gid_type type = gid_type::roce_v2;  ///< what it is used with
  gid_index index;                    ///< its place in the port's table
  /// Leading bits that its subnet has in common; 0: its interface does not say. At most 128, and of
  /// IPv4 addresses at least 96, or 0.
  std::uint8_t prefix_bits = 0;
  bool routed = false;  ///< its interface leads beyond its subnet, too

  friend bool operator==(const offered_gid&, const offered_gid&) noexcept = default;
};

/// The limits of reliable connections.
struct offered_reliability {
  std::uint8_t reads_as_initiator = 0;  ///< reads and atomics that it can have in flight
  std::uint8_t reads_as_target = 0;     ///< and those that it can answer at once
  ack_timeout timeout = {};             ///< how long it wants to wait for an acknowledgement
  /// Its device may take 4.096 µs · 2^n to acknowledge; at most 31.
  std::uint8_t ack_delay_exponent = 0;
  std::uint8_t retry_count = 0;      ///< at most 7
  std::uint8_t rnr_retry_count = 0;  ///< at most 7, which means for ever
  rnr_timer min_rnr_timer = {};      ///< what it asks the peer to wait without a receive

  friend bool operator==(const offered_reliability&, const offered_reliability&) noexcept = default;
};

/// A queue pair that can be connected to.
struct offered_queue_pair {
  queue_pair_number number;          ///< on its device
  packet_sequence_number first_psn;  ///< of the first packet that it sends

  friend bool operator==(offered_queue_pair, offered_queue_pair) noexcept = default;
};

/// One side, before anything is agreed. Threads: one thread at a time.
struct offer {
  /// Addresses beyond these are not offered: the best stay.
  static constexpr std::size_t max_gids = 32;
  /// Characters of a device's name that are told.
  static constexpr std::size_t max_device_name = 64;
  /// The longest encoding.
  static constexpr std::size_t max_encoded_bytes = 72 + max_device_name + 20 * max_gids;

  offered_transport transport = offered_transport::rc;    ///< of the queue pair
  bringup::fabric fabric = fabric::network;               ///< what executes its verbs
  verbena::link_layer link_layer = link_layer::ethernet;  ///< of the port; never `unspecified`
  bool port_up = true;                                    ///< the port is active, or about to be
  bool explicit_gid = false;  ///< the application chose the GID: it is the only one of the list
  std::string device;         ///< its name, printable: `mlx5_0`
  /// Tells hosts apart: the boot's identifier mixed with the network namespace.
  std::array<std::uint8_t, 16> host{};
  verbena::mtu mtu = mtu::bytes_1024;    ///< the largest packet that this side wants
  verbena::lid lid;                      ///< of the port on InfiniBand
  std::uint16_t partition_key = 0xffff;  ///< at the place of the port's table that was chosen
  std::uint32_t inline_bytes = 0;        ///< that a request of its queue pair can carry
  offered_queue_pair queue_pair;         ///< to be connected
  /// A second queue pair, for messages that try the way. Nothing: it is not to be tried.
  std::optional<offered_queue_pair> probe;
  offered_reliability reliability;  ///< zero for a transport without acknowledgements
  std::vector<offered_gid> gids;    ///< of the port

  /// The wire format, version 2 of the bring-up. Precondition: the limits above hold. Allocates.
  [[nodiscard]] std::vector<std::byte> encode() const;
  /// Reads the wire format. Errors: `protocol`, naming what is wrong with which field.
  [[nodiscard]] static result<offer> decode(std::span<const std::byte> bytes);

  friend bool operator==(const offer&, const offer&) = default;
};

}  // namespace verbena::inline VERBENA_ABI::bringup
