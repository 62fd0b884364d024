// SPDX-License-Identifier: MIT
// Brings a queue pair to RTS with the attributes of an identifier and the options of the program.
#pragma once

#include <optional>

#include "verbena/base/steps.hpp"
#include "verbena/cm/connection.hpp"
#include "verbena/cm/event_channel.hpp"

namespace verbena::inline VERBENA_ABI::cm::detail {

/// Returns the parameters for the peer. `asked` is the peer's request on the passive side.
/// Errors: `invalid_argument` for a queue pair of another open device, and for options above a
/// limit.
[[nodiscard]] result<connection_parameters> parameters_for(const identifier& id,
                                                           const prepared_queue_pair<rc>& prepared,
                                                           const connection_options& options,
                                                           const connection_parameters* asked);

/// Brings the queue pair to INIT, with the access flags of the options and `more`. The active side
/// calls initialise() again after the reply, because the reply can change attributes.
[[nodiscard]] result<void> initialise(const identifier& id, prepared_queue_pair<rc>& prepared,
                                      access_flags more = {});
/// Brings the queue pair from INIT to RTS. `agreed` contains the limits of reads in flight. Has no
/// effect on iWARP.
[[nodiscard]] result<void> make_ready(const identifier& id, prepared_queue_pair<rc>& prepared,
                                      const connection_parameters& agreed);

/// A step of connection setup: the events that end it, and the diagnosis of a timeout.
struct step {
  text_argument call;        ///< the function of librdmacm
  event_kind wanted;         ///< ends the step
  event_kind or_else;        ///< also ends the step; equal to `wanted` if there is only one
  text_argument on_timeout;  ///< the diagnosis if the deadline passes
};
/// Waits for the event that ends `what`. Skips other events; failures are errors. Stores a
/// rejection in `refused`.
[[nodiscard]] steps<event> wait(event_channel channel, identifier id, step what, deadline until,
                                std::optional<rejection>* refused = nullptr);
/// Returns the next event of the channel; nullopt if the deadline passes.
[[nodiscard]] steps<std::optional<event>> next_event(event_channel channel, deadline until);

/// Creates a channel of this provider, or of the default one for `nullptr`.
[[nodiscard]] result<event_channel> open_channel(const verbena::provider* from);

/// Checks that the port space has connections.
[[nodiscard]] result<void> check_space(port_space space, const char* call);

}  // namespace verbena::inline VERBENA_ABI::cm::detail
