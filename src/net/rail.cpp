// SPDX-License-Identifier: MIT
#include "verbena/net/rail.hpp"

#include <fmt/format.h>

#include "src/net/rail_checks.hpp"
#include "verbena/verbs/context.hpp"
#include "verbena/verbs/port_attributes.hpp"

namespace verbena::inline VERBENA_ABI::net {

std::string to_string(rail_state of) {
  switch (of) {
    case rail_state::connecting:
      return "connecting";
    case rail_state::active:
      return "active";
    case rail_state::down:
      return "down";
    case rail_state::held_down:
      return "held down";
  }
  return "unknown";
}

std::string to_string(rail_cause of) {
  switch (of) {
    case rail_cause::none:
      return "no failure";
    case rail_cause::port_error:
      return "the local port is down";
    case rail_cause::peer_port_error:
      return "the port of the peer is down";
    case rail_cause::operation:
      return "an operation failed";
    case rail_cause::device:
      return "the device failed";
    case rail_cause::deadline:
      return "the deadline of an operation passed";
    case rail_cause::connection:
      return "it could not be connected";
    case rail_cause::stream:
      return "the stream of the peer ended";
  }
  return "unknown";
}

std::string to_string(const rail_status& of) {
  const rail_counters& count = of.counters;
  const std::string last =
      of.cause == rail_cause::none ? "" : " (last failure: " + to_string(of.cause) + ")";
  return fmt::format("{}{}; {} bytes written, {} read, {} {}", to_string(of.state), last,
                     count.bytes_written, count.bytes_read, count.failures,
                     count.failures == 1 ? "failure" : "failures");
}

namespace detail {
namespace {

constexpr std::uint32_t most_pieces_in_flight = 32767;

}  // namespace

result<void> check_rails(const char* call, std::span<const rail_port> rails) {
  if (!rails.empty() && rails.size() <= max_rails) return {};
  return error::invalid_argument(
      call, {}, fmt::format("{} rails, which are not 1 to {}", rails.size(), max_rails));
}

result<void> check_options(const char* call, const rail_options& options) {
  if (options.piece_bytes == 0 || options.pieces_in_flight == 0 ||
      options.pieces_in_flight > most_pieces_in_flight)
    return error::invalid_argument(
        call, {},
        fmt::format("rail_options with pieces of {} bytes, of which {} can be in flight; pass at "
                    "least 1 byte and 1 to {} pieces",
                    options.piece_bytes, options.pieces_in_flight, most_pieces_in_flight));
  if (options.hold_down < std::chrono::nanoseconds(0))
    return error::invalid_argument(call, {}, "rail_options with a negative hold_down");
  return {};
}

bool is_port_active(const rail_port& of) {
  const auto port = of.domain.context().query_port(of.route.port);
  return port && port->state() == port_state::active;
}

}  // namespace detail

}  // namespace verbena::inline VERBENA_ABI::net
