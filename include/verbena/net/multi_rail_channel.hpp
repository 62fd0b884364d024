// SPDX-License-Identifier: MIT
// A connection to the memory of one peer over several ports or devices:
//
//   auto peer = net::multi_rail_channel::connect(std::move(stream), rails, until).value();
//   peer.write(net::rail_source(block), theirs, until).value();
//
// The peer calls net::rail_responder::accept() with its end of the stream.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "verbena/base/deadline.hpp"
#include "verbena/base/detail/sole_owner.hpp"
#include "verbena/base/result.hpp"
#include "verbena/bringup/stream.hpp"
#include "verbena/channel/operation_result.hpp"
#include "verbena/net/rail.hpp"
#include "verbena/net/rail_memory.hpp"
#include "verbena/verbs/async_event.hpp"

namespace verbena::inline VERBENA_ABI::net {

namespace detail {
class rail_set;
void destroy(rail_set& of) noexcept;
}  // namespace detail

/// The result of an operation over rails. Threads: one thread at a time.
class [[nodiscard("an operation can fail: check the result, or call value()")]] rail_result {
 public:
  /// Creates the result of a success.
  rail_result() noexcept = default;
  /// Creates the result of a failure. Precondition: `how` is not `done`.
  rail_result(verbena::delivery how, verbena::error why) noexcept
      : error_(std::move(why)), delivery_(how) {}

  /// Returns whether the operation succeeded.
  [[nodiscard]] bool has_value() const noexcept { return !error_; }
  /// Returns whether the operation succeeded.
  explicit operator bool() const noexcept { return has_value(); }
  /// Returns whether the operation took effect. `unknown`: some of its pieces did, or may have.
  /// They have no effect after a later operation has begun.
  [[nodiscard]] verbena::delivery delivery() const noexcept { return delivery_; }
  /// Returns the failure, with the states of all rails and their causes. Precondition:
  /// !has_value().
  [[nodiscard]] const verbena::error& error() const;
  /// Raises error() if the operation failed.
  void value() const {
    if (error_) raise(*error_);
  }

 private:
  std::optional<verbena::error> error_;
  verbena::delivery delivery_ = verbena::delivery::done;
};

/// The active side of a connection over rails.
///
/// An operation below rail_options::stripe_threshold uses the active rail with the fewest bytes in
/// flight. Longer ones are divided into pieces, which all active rails share. If a rail fails, its
/// pieces in flight are repeated over the others: first the peer confirms that the queue pair of
/// the rail executes no more requests (the fence), because requests that failed here can still be
/// in the network. A failed rail is connected again when its ports have been active for
/// rail_options::hold_down. All this happens during operations and in progress().
///
/// Operations have no order among the pieces of each other, but an operation begins after all
/// earlier ones have ended, also those whose result is `unknown`.
///
/// The connection ends if the stream ends, or if the peer violates the protocol.
///
/// Threads: one thread at a time.
class [[nodiscard]] multi_rail_channel {
 public:
  /// Connects to a rail_responder at the other end of `control`. Rail i of this side and rail i of
  /// the peer belong together. Returns when at least one rail is active and no other one is being
  /// connected.
  ///
  /// The stream should not use the ports of the rails: if it does not work, failed operations wait.
  ///
  /// Errors: `invalid_argument` for no rails, more than `max_rails`, and options of 0; `protocol`
  /// if the peer has another number of rails; `timed_out` with the states of the rails; those of
  /// the stream and of completion_hub::create(). Blocks and allocates.
  [[nodiscard]] static result<multi_rail_channel> connect(bringup::stream control,
                                                          std::span<const rail_port> rails,
                                                          deadline until,
                                                          const rail_options& options = {});

  /// Writes to the beginning of `to`, and waits until the peer's memory has all bytes.
  ///
  /// The result fails if `until` passes. The connections of rails with pieces in flight then end,
  /// to release the memory. Other errors: `invalid_argument` if the memory has another number of
  /// rails or exceeds the region; the failure of a piece that the peer refused; the error of the
  /// stream. Blocks; polls, but sleeps while no rail is active. Does not allocate unless a rail
  /// fails or is connected. At most once per millisecond, it makes a system call for the stream and
  /// for each device.
  [[nodiscard]] rail_result write(const rail_source& data, const rail_region& to, deadline until);
  /// Reads the beginning of `from`. A read that fails is never `unknown`, but the contents of the
  /// memory are unspecified. Errors: as write().
  [[nodiscard]] rail_result read(const rail_sink& into, const rail_region& from, deadline until);

  /// Handles events of the ports and messages of the peer, and connects failed rails again when
  /// they are due. Never waits for the peer. Programs with long pauses between operations call it.
  void progress();
  /// Handles an event that the program has read from the context of rail `rail`. Precondition: rail
  /// < rails().
  void take(std::uint32_t rail, const async_event& event);

  /// Returns the number of rails.
  [[nodiscard]] std::uint32_t rails() const noexcept;
  /// Returns state and counters of a rail. Precondition: rail < rails().
  [[nodiscard]] rail_status status(std::uint32_t rail) const;
  /// Returns why the connection ended; nullptr while it exists.
  [[nodiscard]] const error* failure() const noexcept;

 private:
  explicit multi_rail_channel(detail::rail_set* set) noexcept : set_(set) {}

  verbena::detail::sole_owner<detail::rail_set> set_;
};

}  // namespace verbena::inline VERBENA_ABI::net
