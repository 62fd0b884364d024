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
class rail_meeting;
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
  /// Returns `done`, `not_done` or `unknown`. `unknown`: the write may have been applied in part or
  /// in full, and the peer's memory may still change after the call has returned, until the next
  /// operation of the channel posts its first request. A failed read is always `not_done`.
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
/// An operation below rail_options::stripe_threshold uses one active rail; short operations use the
/// rails in turn. Longer operations are divided into pieces, which all active rails share.
///
/// If a rail fails, the pieces in flight on it are posted again on other rails, but only after the
/// peer has confirmed that its queue pair of the rail is in the error state (the *rail fence*,
/// which is not IBV_SEND_FENCE). Otherwise a delayed packet could overwrite newer data. A failed
/// rail is connected again when its ports have been active for rail_options::hold_down. The channel
/// has no thread: it detects failures and connects rails only in write(), read() and progress().
///
/// Operations execute in the order of the calls: an operation posts nothing until all earlier
/// operations have ended, including those that returned `unknown`. Within an operation, bytes can
/// arrive in any order.
///
/// The connection ends if the stream ends, if the peer violates the protocol, or, over TCP, 25 s
/// after the host of the peer failed.
///
/// If a device neither flushes nor destroys a queue pair with requests in flight, the process ends,
/// because the device may still access memory of the program. After the removal of a device, this
/// happens unless the variable RDMAV_ALLOW_DISASSOC_DESTROY of libibverbs is set.
///
/// Give each multi_rail_channel and rail_responder contexts of its own: an asynchronous event is
/// returned to one reader only. Otherwise see rail_options::reads_async_events, and group_rails for
/// the ranks of a group.
///
/// Threads: one thread at a time.
class [[nodiscard]] multi_rail_channel {
 public:
  /// Connects to a rail_responder at the other end of `control`. Rail i of this side is connected
  /// to rail i of the peer. Returns when the first attempt of each rail has ended or `until` has
  /// passed, and at least one rail is active; status() shows the others.
  ///
  /// The stream should use a network that does not depend on the rails: while it does not work,
  /// lost pieces are not posted again, and no operation begins after a failure.
  ///
  /// Errors: `invalid_argument` for no rails, more than `max_rails`, and options out of range;
  /// `protocol` if the peer has another number of rails or called connect(), too; `timed_out` with
  /// the states of the rails if none is active; those of the stream and of
  /// completion_hub::create(). Blocks and allocates.
  [[nodiscard]] static result<multi_rail_channel> connect(bringup::stream control,
                                                          std::span<const rail_port> rails,
                                                          deadline until,
                                                          const rail_options& options = {});

  /// Writes to the beginning of `to`, and waits until the peer has acknowledged all requests. To
  /// notify the program of the peer, send it a message by other means: bytes arrive in any order,
  /// and a flag written by a second write() can arrive over another adapter.
  ///
  /// Errors: `timed_out` if `until` passes: the queue pairs of rails with pieces in flight are then
  /// destroyed, so that the local memory is free, and connected again; `invalid_argument` if the
  /// memory has another number of rails, is registered in other protection domains, or exceeds the
  /// region; the failure of a piece that the peer rejected, that failed locally (protection,
  /// length) or that could not be posted; the error of the stream.
  ///
  /// If an exception, for example of an allocation, leaves the call, all queue pairs are destroyed
  /// first and connected again later. The outcome of a write is then unknown.
  ///
  /// Blocks; polls, but sleeps while no rail is active. While a stream does not work or a device
  /// does not flush, can exceed `until` by 5 s. Does not allocate unless a rail fails or is
  /// connected. Makes system calls at most once per millisecond: one for the stream, one for each
  /// context, and queries of the ports of rails that are not active.
  [[nodiscard]] rail_result write(const rail_source& data, const rail_region& to, deadline until);
  /// Reads the beginning of `from`. After a failure, the contents of the local memory are
  /// unspecified. Errors and blocking: as write().
  [[nodiscard]] rail_result read(const rail_sink& into, const rail_region& from, deadline until);

  /// Handles events of the ports and messages of the peer, and connects failed rails again when
  /// they are due. Does not wait for completions; can block for 5 s if the peer does not read.
  /// While no operation runs, call it more often than rail_options::hold_down.
  void progress();
  /// Handles an event that the program has read from the context of rail `rail`, for all rails of
  /// this context. Precondition: rail < rails().
  void take(std::uint32_t rail, const async_event& event);

  /// Returns the number of rails.
  [[nodiscard]] std::uint32_t rails() const noexcept;
  /// Returns state and counters of a rail, as of the last write(), read(), progress() or take().
  /// Precondition: rail < rails().
  [[nodiscard]] rail_status status(std::uint32_t rail) const;
  /// Returns why the connection ended. Returns nullptr until a write(), read() or progress() has
  /// detected the end.
  [[nodiscard]] const error* failure() const noexcept;

 private:
  friend class detail::rail_meeting;
  explicit multi_rail_channel(detail::rail_set* set) noexcept : set_(set) {}

  verbena::detail::sole_owner<detail::rail_set> set_;
};

}  // namespace verbena::inline VERBENA_ABI::net
