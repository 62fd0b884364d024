// SPDX-License-Identifier: MIT
// Bringing a queue pair up with what an identifier knows and what its options say.
#pragma once

#include <chrono>
#include <optional>

#include "verbena/cm/connection.hpp"
#include "verbena/cm/event_channel.hpp"

namespace verbena::inline VERBENA_ABI::cm::detail {

/// What will be told the peer about `prepared`. `asked` is the peer's request on the passive side.
/// Errors: `invalid_argument` for a queue pair of another open device.
[[nodiscard]] result<connection_parameters> parameters_for(const identifier& id,
                                                           const prepared_queue_pair<rc>& prepared,
                                                           const connection_options& options,
                                                           const connection_parameters* asked);

/// To INIT; again when the connection is known, since attributes change then. With `more` rights
/// than the options say.
[[nodiscard]] result<void> initialise(const identifier& id, prepared_queue_pair<rc>& prepared,
                                      access_flags more = {});
/// Beyond INIT, to RTS. Reads in flight are those of `agreed`. Nothing on iWARP.
[[nodiscard]] result<void> make_ready(const identifier& id, prepared_queue_pair<rc>& prepared,
                                      const connection_parameters& agreed);

/// A step of bringing a connection up: what ends it, and what is said when nothing does.
struct step {
  const char* call;        ///< the function of librdmacm
  event_kind wanted;       ///< ends the step
  event_kind or_else;      ///< this, too; the same for none
  const char* on_silence;  ///< the diagnosis when the deadline passes
};
/// Waits for the event that ends `what`. Others are skipped, and failures are errors; what a
/// rejection said is left in `refused`.
[[nodiscard]] result<event> await(const event_channel& channel, const identifier& id,
                                  const step& what, deadline until,
                                  std::optional<rejection>* refused = nullptr);

/// A channel of that provider, or of the default one for nullptr.
[[nodiscard]] result<event_channel> open_channel(const verbena::provider* from);

/// The time left, for calls that take a timeout of their own; at least 1 ms.
[[nodiscard]] std::chrono::milliseconds time_left(deadline until) noexcept;

/// That the port space has connections.
[[nodiscard]] result<void> check_space(port_space space, const char* call);

}  // namespace verbena::inline VERBENA_ABI::cm::detail
