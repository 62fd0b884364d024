// SPDX-License-Identifier: MIT
// The negotiation of two queue pairs without I/O, for connections that the program already has:
//
//   bringup::negotiation<rc> steps(pd.create_qp<rc>(cq, cq).value());
//   while (!steps.is_done()) {
//     steps.advance(std::chrono::steady_clock::now());
//     ... send steps.outgoing(), report it by steps.sent(count)
//     ... read at most steps.bytes_wanted() bytes, pass them to steps.received(bytes)
//     ... if steps.status() is waiting_for_receives: post them to steps.qp(), call set_ready()
//   }
//   auto made = std::move(steps).finish().value();
//
// connect_queue_pair.hpp does this over a TCP connection in one blocking call.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "verbena/base/deadline.hpp"
#include "verbena/base/detail/sole_owner.hpp"
#include "verbena/base/result.hpp"
#include "verbena/base/steps.hpp"
#include "verbena/bringup/detail/negotiating_side.hpp"
#include "verbena/bringup/negotiation_options.hpp"
#include "verbena/verbs/endpoint.hpp"
#include "verbena/verbs/prepared_queue_pair.hpp"
#include "verbena/verbs/queue_pair.hpp"
#include "verbena/verbs/transport.hpp"

namespace verbena::inline VERBENA_ABI::bringup {

/// A connected queue pair and its negotiated terms. Threads: one thread at a time.
template <connected_transport Transport>
struct negotiated_queue_pair {
  queue_pair<Transport> queue;  ///< connected
  /// The agreement. `nullopt` if the peer speaks version 1, which has no offers.
  std::optional<negotiated> terms;
  /// The message of the peer's program: its negotiation_options::message.
  std::vector<std::byte> message;
};

class negotiation_base;
class stream;

namespace detail {

class negotiation_core;
void destroy(negotiation_core& core) noexcept;

/// Carries the bytes of a negotiation over a stream, until the negotiation waits for the program's
/// receives or is finished.
[[nodiscard]] steps<void> run(negotiation_base& of, stream& peer, deadline until);

template <class Options>
[[nodiscard]] connection_wishes wishes_of(const Options& options) {
  connection_wishes out{
      .transport = offered_transport::uc, .route = options.route, .reliability = {}};
  if constexpr (requires { options.reliability; }) {
    const verbena::reliability& wanted = options.reliability;
    out.transport = offered_transport::rc;
    out.reliability = {.initiator_depth = wanted.read_depth,
                       .responder_resources = wanted.read_depth,
                       .timeout = wanted.timeout,
                       .retry_count = wanted.retry_count,
                       .rnr_retry_count = wanted.rnr_retries(),
                       .min_rnr_timer = wanted.min_rnr_timer};
  }
  return out;
}

template <connected_transport Transport>
[[nodiscard]] result<void> connect_to_endpoint(queue_pair_base& pair, const endpoint& theirs) {
  auto& prepared = static_cast<prepared_queue_pair<Transport>&>(pair);
  VERBENA_TRY(const auto receiving, prepared.rtr_attributes(theirs));
  VERBENA_TRY_VOID(prepared.modify(prepared.init_attributes()));
  VERBENA_TRY_VOID(prepared.modify(receiving));
  return prepared.modify(prepared.rts_attributes(theirs));
}

/// A prepared queue pair becomes a connected one. Threads: one thread at a time.
template <connected_transport Transport>
struct connecting_pair {
  prepared_queue_pair<Transport> prepared;
  std::optional<queue_pair<Transport>> connected = {};

  [[nodiscard]] queue_pair<Transport>& queue() {
    if (!connected) connected.emplace(std::move(prepared).into_queue_pair());
    return *connected;
  }
};

/// Describes `prepared`, which the side refers to.
template <connected_transport Transport>
[[nodiscard]] negotiating_side side_of(prepared_queue_pair<Transport>& prepared) {
  return {.pair = prepared,
          .own_endpoint = prepared.endpoint(),
          .key = {},
          .init = prepared.init_attributes(),
          .wishes = wishes_of(prepared.options()),
          .connect_to_endpoint = &connect_to_endpoint<Transport>};
}

}  // namespace detail

/// The functions of a negotiation that do not depend on the transport; base of negotiation.
/// Threads: one thread at a time.
class negotiation_base {
 public:
  /// Returns the event that the negotiation waits for. The status changes only in advance(),
  /// set_ready() and the calls that end the negotiation.
  [[nodiscard]] negotiation_status status() const noexcept;
  /// Returns whether the negotiation has failed, or has finished and has nothing left to send.
  [[nodiscard]] bool is_done() const noexcept;

  /// Performs all steps that are possible now. Call it first, after received(), and no later than
  /// next_advance(). `now` is a point of the steady clock.
  void advance(deadline::clock::time_point now);
  /// Returns the time of the next call of advance() if no bytes arrive; `nullopt`: not needed.
  [[nodiscard]] std::optional<deadline::clock::time_point> next_advance() const noexcept;

  /// Returns the bytes to send. After abandon() and time_out() they contain the error for the peer:
  /// send them if that is possible without waiting. Valid until the next call that is not const.
  [[nodiscard]] std::span<const std::byte> outgoing() const noexcept;
  /// Removes the first `count` bytes of outgoing(), which were sent.
  void sent(std::size_t count);
  /// Returns how many bytes may be read from the connection now. If the program reads at most this
  /// number, the bytes that follow the negotiation remain in the connection.
  [[nodiscard]] std::size_t bytes_wanted() const noexcept;
  /// Consumes at most bytes_wanted() bytes of the peer, in any fragmentation. Returns the number of
  /// consumed bytes. Call advance() before you pass the rest.
  std::size_t received(std::span<const std::byte> bytes);

  /// Notifies the peer that this side can receive. Precondition: status() is waiting_for_receives.
  void set_ready();

  /// Ends the negotiation with `why`, and notifies the peer.
  void abandon(error why);
  /// Ends the negotiation because the peer closed the connection.
  void peer_closed();
  /// Ends the negotiation because the program's deadline expired, and notifies the peer. failure()
  /// names the missing step.
  void time_out();

  /// Returns the error that ended the negotiation. Precondition: status() is failed.
  ///
  /// Errors: those of to_error(), which name the mismatch; EHOSTUNREACH and EMSGSIZE if probe
  /// messages are lost; `protocol` if the peer violates the format or the order of frames;
  /// `timed_out` after time_out(), or if a port changed in each of five attempts; ECONNABORTED with
  /// the reason of the peer; those of the verbs.
  [[nodiscard]] const error& failure() const;

 protected:
  negotiation_base() noexcept = default;
  negotiation_base(negotiation_base&& other) noexcept = default;
  negotiation_base& operator=(negotiation_base&& other) noexcept = default;
  ~negotiation_base() = default;

  void begin(const detail::negotiating_side& side, const negotiation_options& options,
             negotiation_peer peer);
  // Destroys everything except the queue pair, to which the negotiation no longer refers.
  void end() noexcept { core_ = {}; }
  void check_waiting_for_receives() const;
  void check_finished() const;
  [[nodiscard]] const std::optional<negotiated>& terms() const noexcept;
  [[nodiscard]] std::vector<std::byte> take_message() noexcept;

 private:
  friend steps<void> detail::run(negotiation_base& of, stream& peer, deadline until);
  [[nodiscard]] detail::negotiation_core& core() const noexcept;

  verbena::detail::sole_owner<detail::negotiation_core> core_;
};

/// Connects a queue pair with the peer's. The sides exchange offers, compute the same agreement,
/// connect, and send probe messages. The class has no socket, clock or thread: the program
/// transfers the bytes and enforces the deadline. The calls query and modify the device and
/// allocate. They do not wait for the peer. On RoCE the transition to RTR may block in the kernel
/// while the peer's address is resolved.
///
/// Every byte of the peer is validated. The peer can use this class or a bringup::stream, over any
/// ordered, reliable byte stream. Both sides send their greeting at once, so there is no active or
/// passive side. If the negotiation fails, the destructor destroys the queue pair. Threads: one
/// thread at a time.
template <connected_transport Transport>
class [[nodiscard]] negotiation : public negotiation_base {
 public:
  /// Begins with `prepared`. The name of `peer` appears in error messages.
  explicit negotiation(prepared_queue_pair<Transport>&& prepared,
                       const negotiation_options& options = {}, negotiation_peer peer = {})
      : pair_(new detail::connecting_pair<Transport>{.prepared = std::move(prepared)}) {
    begin(detail::side_of(pair_->prepared), options, std::move(peer));
  }
  /// Moves the negotiation; the other object must not be used afterwards.
  negotiation(negotiation&&) noexcept = default;
  /// Ends this negotiation and moves the other one.
  negotiation& operator=(negotiation&&) noexcept = default;
  ~negotiation() { end(); }

  /// Returns the connected queue pair, to post receives before the peer sends.
  /// Precondition: status() is waiting_for_receives.
  [[nodiscard]] queue_pair<Transport>& qp() {
    check_waiting_for_receives();
    return pair_->queue();
  }
  /// Returns the connected queue pair, or failure(). Precondition: is_done(). Bytes that are
  /// left to send contain the message that the peer waits for.
  [[nodiscard]] result<negotiated_queue_pair<Transport>> finish() && {
    if (status() == negotiation_status::failed) return failure();
    check_finished();
    return negotiated_queue_pair<Transport>{
        .queue = std::move(pair_->queue()), .terms = terms(), .message = take_message()};
  }

 private:
  std::unique_ptr<detail::connecting_pair<Transport>> pair_;
};

}  // namespace verbena::inline VERBENA_ABI::bringup
