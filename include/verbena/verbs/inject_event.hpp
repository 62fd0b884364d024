// SPDX-License-Identifier: MIT
// Events and faults that the software device injects into the calling process, for tests:
//
//   inject_event(context, "port 1 down; 200ms port 1 up").value();
//   inject_failure(context, completion_status::retries_exceeded, {.at = 1000}).value();
//   inject_faults(context, {{.kind = fault_kind::port_down},
//                           {.kind = fault_kind::port_up, .after = 200ms}}).value();
//
// All effects are limited to this process, except those that peers observe. docs/guide/faults.md
// lists the commands.
#pragma once

#include <chrono>
#include <initializer_list>
#include <span>
#include <string>

#include "verbena/base/result.hpp"
#include "verbena/verbs/completion_status.hpp"
#include "verbena/verbs/context.hpp"
#include "verbena/verbs/injected_fault.hpp"
#include "verbena/verbs/request_selection.hpp"

namespace verbena::inline VERBENA_ABI {

/// Injects events and faults into the software device of this process: `port 1 down; 1s port 1 up`.
///
/// The calling thread executes the commands before the first duration. A thread of the device
/// executes all later commands. Errors: `not_supported` for other devices; EINVAL with line, column
/// and the permitted values if the text is invalid; ENOENT if an object of a command does not
/// exist; ENODEV in a child of fork(2). Thread-safe. Precondition: the calling thread has no open
/// batch.
[[nodiscard]] result<void> inject_event(const context& device, const std::string& commands);

/// Injects faults and events in their order.
///
/// If one of the faults is invalid, no fault is injected. Errors: those of inject_event(); EINVAL
/// for a value that a fault does not permit. Thread-safe. Precondition: see inject_event().
[[nodiscard]] result<void> inject_faults(const context& device,
                                         std::span<const injected_fault> faults);
/// Injects faults and events in their order.
[[nodiscard]] result<void> inject_faults(const context& device,
                                         std::initializer_list<injected_fault> faults);

/// Completes the selected requests with `status` instead of sending them.
///
/// The peer is not informed. Errors: those of inject_event(); EINVAL for a status that the device
/// does not generate. Thread-safe. Precondition: see inject_event().
[[nodiscard]] result<void> inject_failure(const context& device, completion_status status,
                                          const request_selection& which = {});

/// Completes the selected requests with `retries_exceeded` although the peer executes them.
///
/// Errors: those of inject_event(). Does not support SRD. Thread-safe. Precondition: see
/// inject_event().
[[nodiscard]] result<void> inject_lost_acknowledgement(const context& device,
                                                       const request_selection& which = {});

/// Simulates a receiver that is not ready for the first `times` attempts of requests.
///
/// `which` selects the requests. Only operations that consume a receive can be selected; by default
/// all such operations are selected. Errors: those of inject_event(); EINVAL if `times` is 0 or
/// another operation is selected. Thread-safe. Precondition: see inject_event().
[[nodiscard]] result<void> inject_rnr(const context& device, unsigned times,
                                      const request_selection& which = {});

/// Delays the completion of the selected requests until `delay` after their start.
///
/// Errors: those of inject_event(); EINVAL for a negative delay and for a delay of more than a day.
/// Thread-safe. Precondition: see inject_event().
[[nodiscard]] result<void> inject_delay(const context& device, std::chrono::microseconds delay,
                                        const request_selection& which = {});

}  // namespace verbena::inline VERBENA_ABI
