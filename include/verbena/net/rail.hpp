// SPDX-License-Identifier: MIT
// Rails: the paths of one connection to one peer, each over a port of its own.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "verbena/base/config.hpp"
#include "verbena/verbs/protection_domain.hpp"
#include "verbena/verbs/reliability.hpp"
#include "verbena/verbs/route.hpp"

namespace verbena::inline VERBENA_ABI::net {

/// The largest number of rails of a connection.
inline constexpr std::uint32_t max_rails = 8;

/// The local port of a rail. Threads: immutable value.
struct rail_port {
  protection_domain domain;   ///< of the device; rails of one device may share it
  verbena::route route = {};  ///< port, GID and path MTU
};

/// Options of a connection over several rails. Threads: immutable value.
struct rail_options {
  /// Operations of at least this many bytes are striped over all active rails.
  std::uint64_t stripe_threshold = std::uint64_t{256} * 1024;
  /// The length of the pieces of a striped operation, at least 1; pieces of more than 1 GiB have
  /// 1 GiB. An operation below the threshold is one piece.
  std::uint32_t piece_bytes = 64U * 1024;
  /// The number of pieces that can be in flight on a rail, from 1 to 32767.
  std::uint32_t pieces_in_flight = 16;
  /// How long the ports of a failed rail must be active before the rail is connected again. The
  /// time begins when this side detects that they are active.
  std::chrono::nanoseconds hold_down = std::chrono::seconds(1);
  /// Whether the connection reads all asynchronous events of the contexts. If false, the program
  /// reads them and passes them to multi_rail_channel::take().
  bool reads_async_events = true;
  /// Timeouts and retries of each rail. Without a port event, a failure is detected after about
  /// retry_count + 1 timeouts: by default half a second, on some adapters longer. Timeouts and
  /// retries of the passive side have no effect.
  verbena::reliability reliability = {};
};

/// The state of a rail.
enum class rail_state : std::uint8_t {
  connecting,  ///< its queue pairs are being connected
  active,      ///< carries operations
  down,        ///< a port of the rail is down
  held_down,   ///< its ports are active, but not yet for rail_options::hold_down
};
/// Returns `connecting`, `active`, `down` or `held down`.
[[nodiscard]] std::string to_string(rail_state of);

/// Why a rail failed last.
enum class rail_cause : std::uint8_t {
  none,             ///< it has not failed
  port_error,       ///< IBV_EVENT_PORT_ERR of the local port, or the port is not active
  peer_port_error,  ///< the peer reports that its port is not active
  operation,        ///< an operation failed, for example because its retries were exceeded
  device,           ///< IBV_EVENT_DEVICE_FATAL, or the device cannot be polled
  deadline,         ///< the deadline of an operation passed while its requests were in flight
  connection,       ///< its queue pairs could not be connected
  stream,           ///< the stream of the peer ended while requests were in flight
};
/// Returns the cause in words: `the local port is down`, `an operation failed`, …
[[nodiscard]] std::string to_string(rail_cause of);

/// Counters of a rail since the connection was established. Threads: immutable value.
struct rail_counters {
  std::uint64_t bytes_written = 0;  ///< bytes of acknowledged pieces
  std::uint64_t bytes_read = 0;     ///< bytes of pieces that were read
  std::uint64_t pieces = 0;         ///< pieces that have succeeded
  std::uint64_t lost_pieces = 0;    ///< pieces whose outcome was unknown when the rail failed
  std::uint64_t port_errors = 0;    ///< changes of the local or the remote port to down
  std::uint64_t failures = 0;       ///< changes from active to another state
  std::uint64_t connections = 0;    ///< times that the rail became active

  friend bool operator==(const rail_counters&, const rail_counters&) noexcept = default;
};

/// State and counters of a rail. Threads: immutable value.
struct rail_status {
  rail_state state = rail_state::connecting;  ///< the present state
  rail_cause cause = rail_cause::none;        ///< of the last failure
  rail_counters counters = {};                ///< since the connection was established
};

/// Returns `active (last failure: an operation failed); 65536 bytes written, 0 read, 1 failure`.
[[nodiscard]] std::string to_string(const rail_status& of);

}  // namespace verbena::inline VERBENA_ABI::net
