// SPDX-License-Identifier: MIT
// Two offers become one choice, or the reason why there is none. Pure: both sides compute it from
// the same two offers and come to the same result. docs/guide/connect.md has the table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "verbena/base/error.hpp"
#include "verbena/base/timers.hpp"
#include "verbena/bringup/offer.hpp"
#include "verbena/verbs/mtu.hpp"

namespace verbena::inline VERBENA_ABI::bringup {

/// Why two addresses are expected to reach each other; better ones first.
enum class reach : std::uint8_t {
  same_subnet_ipv4,  ///< IPv4 addresses of one subnet
  same_subnet_ipv6,  ///< IPv6 addresses of one subnet
  routed_ipv4,       ///< IPv4 addresses of two subnets that lead beyond themselves (RoCE v2)
  routed_ipv6,       ///< the same of IPv6
  loopback,          ///< loopback addresses of one host
  link_local,        ///< link-local addresses, when a side has no others
  as_told,           ///< the application chose one of them, and nothing speaks against it
  lid,               ///< LIDs of one InfiniBand subnet
};
/// `same subnet`, `routed`, `loopback`, `link-local`, `as told`, `by LID`.
[[nodiscard]] std::string to_string(reach of);

/// The limits of one direction: of what one side sends.
struct agreed_direction {
  /// Reads and atomics in flight: the lesser of what it can have and what the other can answer.
  std::uint8_t reads = 0;
  /// What it wanted, or longer if the other's device needs longer to acknowledge; not beyond
  /// `longest_raised_timeout`, so that no peer can make it wait for ever.
  ack_timeout timeout = {};

  friend bool operator==(agreed_direction, agreed_direction) noexcept = default;
};

/// A peer's device raises an ACK timeout to 4.3 seconds at most.
inline constexpr std::uint8_t longest_raised_timeout_exponent = 20;

/// What both sides use. Threads: immutable value.
struct agreement {
  bringup::reach reach = reach::same_subnet_ipv4;  ///< why it is expected to work
  /// Positions in the lists of GIDs of the offers; nothing: addressed by LID alone.
  /// @{
  std::optional<std::size_t> our_gid;
  std::optional<std::size_t> their_gid;
  /// @}
  verbena::mtu mtu = mtu::bytes_1024;  ///< the lesser of both
  std::uint32_t inline_bytes = 0;      ///< that requests of both queue pairs can carry
  agreed_direction ours;               ///< of what this side sends
  agreed_direction theirs;             ///< of what the peer sends
  bool probe = false;                  ///< both sides have a queue pair to try the way with

  friend bool operator==(const agreement&, const agreement&) noexcept = default;
};

/// Why two offers do not go together, the first that holds.
enum class obstacle : std::uint8_t {
  transport,         ///< RC here and UC there
  iwarp,             ///< a side is iWARP's, which the connection manager connects
  port_down,         ///< a port is down
  link_layer,        ///< InfiniBand here and Ethernet there
  fabric,            ///< soft0 here and an adapter there
  host,              ///< soft0 on two hosts
  partition,         ///< P_Keys of different partitions, or of two limited members
  no_lid,            ///< no subnet manager gave a port a LID
  no_gid,            ///< a port has no address
  gid_type,          ///< one side has RoCE v1 only, the other has none
  same_address,      ///< what would fit are addresses that both hosts have
  no_common_subnet,  ///< no two addresses are in one subnet or routed
};

/// Whose fault it is.
enum class side : std::uint8_t {
  ours,    ///< this side's
  theirs,  ///< the peer's
  both,    ///< neither's alone
};

/// Why there is no choice. Threads: one thread at a time.
struct disagreement {
  obstacle reason = obstacle::transport;  ///< what stands in the way
  side whose = side::both;                ///< who would have to change
  std::string text;                       ///< what is wrong and what to do, seen from this side
};

/// What both sides use, or why they cannot.
using decision = std::variant<agreement, disagreement>;

/// Decides. Explicitly chosen GIDs win; RoCE v2 comes before v1, then the order of `reach`.
/// Allocates.
[[nodiscard]] decision decide(const offer& ours, const offer& theirs);

/// `RoCE v2 ::ffff:192.0.2.1 to ::ffff:192.0.2.2 (same subnet), MTU 1024, reads 16 and 16`.
[[nodiscard]] std::string to_string(const agreement& made, const offer& ours, const offer& theirs);

/// As an error of a call on `object`: ENETDOWN for a port, ENETUNREACH for addresses, EPROTOTYPE
/// for transports, EACCES for partitions; `not_supported` for iWARP and for worlds that never meet.
[[nodiscard]] error to_error(const disagreement& why, std::string_view object);

}  // namespace verbena::inline VERBENA_ABI::bringup
