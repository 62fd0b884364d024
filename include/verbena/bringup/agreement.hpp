// SPDX-License-Identifier: MIT
// The decision about two offers: an agreement or a mismatch. Both sides compute it from the two
// offers, with equal results. docs/guide/connect.md has a table of situations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "verbena/base/error.hpp"
#include "verbena/base/timers.hpp"
#include "verbena/bringup/offer.hpp"
#include "verbena/verbs/mtu.hpp"

namespace verbena::inline VERBENA_ABI::bringup {

/// The reason why two addresses are expected to reach each other, in order of preference.
enum class reach : std::uint8_t {
  same_subnet_ipv4,  ///< IPv4 addresses of one subnet
  same_subnet_ipv6,  ///< IPv6 addresses of one subnet
  routed_ipv4,       ///< IPv4 addresses of two subnets with routes beyond them (RoCE v2)
  routed_ipv6,       ///< IPv6 addresses of two subnets with routes beyond them (RoCE v2)
  loopback,          ///< loopback addresses of one host
  link_local,        ///< link-local addresses, if a side has no others
  user_selected,     ///< a program chose one of the two addresses, and no other reason applies
  lid,               ///< LIDs of one InfiniBand subnet
};
/// Returns `same subnet`, `routed`, `loopback`, `link-local`, `user-selected` or `LID`.
[[nodiscard]] std::string to_string(reach of);

/// The limits of the requests that one side sends. Threads: immutable value.
struct agreed_direction {
  /// Reads and atomics in flight: the lesser of the sender's initiator depth and the receiver's
  /// responder resources.
  std::uint8_t reads = 0;
  /// The requested ACK timeout. If the receiver's device acknowledges later, the timeout is raised
  /// to its ACK delay, but to at most `longest_raised_timeout_exponent`.
  ack_timeout timeout = {};

  friend bool operator==(agreed_direction, agreed_direction) noexcept = default;
};

/// The limit to which a peer's device can raise an ACK timeout: 4.3 seconds.
inline constexpr std::uint8_t longest_raised_timeout_exponent = 20;

/// The values that both sides use. Threads: immutable value.
struct agreement {
  bringup::reach reach = reach::same_subnet_ipv4;  ///< why the addresses reach each other
  /// Positions in the lists of GIDs of the offers; `nullopt`: addressed by LID only.
  /// @{
  std::optional<std::size_t> our_gid;
  std::optional<std::size_t> their_gid;
  /// @}
  verbena::mtu mtu = mtu::bytes_1024;  ///< the lesser of both
  std::uint32_t inline_bytes = 0;      ///< inline data that both queue pairs support
  agreed_direction ours;               ///< requests of this side
  agreed_direction theirs;             ///< requests of the peer
  bool probe = false;                  ///< both sides offered a probe queue pair

  friend bool operator==(const agreement&, const agreement&) noexcept = default;
};

/// The mismatch of two offers. If several apply, the first one is reported.
enum class mismatch : std::uint8_t {
  transport,         ///< the queue pairs have different transports
  iwarp,             ///< a side is iWARP, which only the connection manager connects
  port_down,         ///< a port is down
  link_layer,        ///< one port is InfiniBand, the other Ethernet
  fabric,            ///< one side is soft0 without VERBENA_SOFTDEV_WIRE, the other an adapter
  host,              ///< soft0 on two hosts, at least once without VERBENA_SOFTDEV_WIRE
  partition,         ///< P_Keys of two partitions, or of two limited members
  no_lid,            ///< a port has no LID: no subnet manager assigned one
  no_gid,            ///< a port has no address
  gid_type,          ///< one side has RoCE v1 only, the other has no RoCE v1
  same_address,      ///< the only matching addresses exist on both hosts
  no_common_subnet,  ///< no two addresses are in one subnet or routed
};

/// The side that causes a mismatch.
enum class side : std::uint8_t {
  ours,    ///< this side
  theirs,  ///< the peer
  both,    ///< both together
};

/// The reason why two sides cannot be connected. Threads: one thread at a time.
struct disagreement {
  mismatch reason = mismatch::transport;  ///< the mismatch
  side whose = side::both;                ///< the side that has to change
  std::string text;                       ///< fault and remedy, seen from this side
};

/// An agreement or a disagreement. Threads: one thread at a time.
class decision {
 public:
  /// Creates a decision from its content.
  /// @{
  decision(agreement made) noexcept;    // NOLINT(google-explicit-constructor): as result<T>
  decision(disagreement why) noexcept;  // NOLINT(google-explicit-constructor): as result<T>
  /// @}

  /// Returns whether it is an agreement.
  [[nodiscard]] bool has_value() const noexcept { return agreed_; }
  /// Returns whether it is an agreement.
  explicit operator bool() const noexcept { return agreed_; }

  /// Returns the agreement. Precondition: has_value().
  /// @{
  [[nodiscard]] const agreement& value() const;
  [[nodiscard]] const agreement& operator*() const { return value(); }
  [[nodiscard]] const agreement* operator->() const { return &value(); }
  /// @}
  /// Returns the disagreement. Precondition: !has_value().
  [[nodiscard]] const disagreement& error() const;

 private:
  bool agreed_;
  agreement made_;
  disagreement why_;
};

/// Decides about two offers. A GID that a program chose takes precedence. RoCE v2 precedes RoCE v1;
/// then the order of `reach` applies. Allocates.
[[nodiscard]] decision decide(const offer& ours, const offer& theirs);

/// Returns the agreement in words, for example
/// `RoCE v2 ::ffff:192.0.2.1 to ::ffff:192.0.2.2 (same subnet), MTU 1024, reads 16 and 16`.
[[nodiscard]] std::string to_string(const agreement& made, const offer& ours, const offer& theirs);

/// Returns the error of a call on `object`: ENETDOWN for a port, ENETUNREACH for addresses,
/// EPROTOTYPE for transports, EACCES for partitions; `not_supported` for iWARP and for link layers
/// and fabrics that have no common network.
[[nodiscard]] error to_error(const disagreement& why, std::string_view object);

}  // namespace verbena::inline VERBENA_ABI::bringup
