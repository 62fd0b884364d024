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

#include "verbena/base/assert.hpp"
#include "verbena/base/deadline.hpp"
#include "verbena/base/result.hpp"
#include "verbena/bringup/detail/negotiation_core.hpp"
#include "verbena/bringup/negotiation_options.hpp"
#include "verbena/verbs/endpoint.hpp"
#include "verbena/verbs/prepared_queue_pair.hpp"
#include "verbena/verbs/queue_pair.hpp"
#include "verbena/verbs/transport.hpp"

namespace verbena::inline VERBENA_ABI::bringup {

/// A connected queue pair, and what was agreed for it. Threads: one thread at a time.
template <connected_transport Transport>
struct negotiated_queue_pair {
  queue_pair<Transport> queue;  ///< connected
  /// The agreement. `nullopt` if the peer speaks version 1, which has no offers.
  std::optional<negotiated> terms;
  /// The message of the peer's program: its negotiation_options::message.
  std::vector<std::byte> message;
};

namespace detail {

template <class Options>
[[nodiscard]] connection_wishes wishes_of(const Options& options) {
  connection_wishes out{
      .transport = offered_transport::uc, .route = options.route, .reliability = {}};
  if constexpr (requires { options.reliability; }) {
    const verbena::reliability& wanted = options.reliability;
    out.transport = offered_transport::rc;
    out.reliability = {.reads_as_initiator = wanted.read_depth,
                       .reads_as_target = wanted.read_depth,
                       .timeout = wanted.timeout,
                       .retry_count = wanted.retry_count,
                       .rnr_retry_count = wanted.rnr_retries(),
                       .min_rnr_timer = wanted.min_rnr_timer};
  }
  return out;
}

/// A prepared queue pair becomes a connected one. Threads: one thread at a time.
template <connected_transport Transport>
class connecting_pair {
 public:
  connecting_pair(prepared_queue_pair<Transport>&& prepared, const negotiation_options& options,
                  negotiation_peer peer)
      : prepared_(std::move(prepared)), core_(side(), options, std::move(peer)) {}
  connecting_pair(const connecting_pair&) = delete;
  connecting_pair& operator=(const connecting_pair&) = delete;
  ~connecting_pair() = default;

  [[nodiscard]] negotiation_core& core() noexcept { return core_; }
  [[nodiscard]] queue_pair<Transport>& queue() {
    if (!connected_) connected_.emplace(std::move(prepared_).into_queue_pair());
    return *connected_;
  }

 private:
  [[nodiscard]] negotiating_side side() {
    return {.pair = prepared_,
            .own_endpoint = prepared_.endpoint(),
            .key = {},
            .init = prepared_.init_attributes(),
            .wishes = wishes_of(prepared_.options()),
            .connect_to_endpoint = [this](const endpoint& theirs) -> result<void> {
              VERBENA_TRY(const auto receiving, prepared_.rtr_attributes(theirs));
              VERBENA_TRY_VOID(prepared_.modify(prepared_.init_attributes()));
              VERBENA_TRY_VOID(prepared_.modify(receiving));
              return prepared_.modify(prepared_.rts_attributes(theirs));
            }};
  }

  prepared_queue_pair<Transport> prepared_;
  std::optional<queue_pair<Transport>> connected_;
  negotiation_core core_;  // borrows the prepared queue pair
};

}  // namespace detail

/// Connects a queue pair with the peer's: offers cross, both sides decide by one rule, connect, and
/// send probe messages. The class has no socket, clock or thread: the program carries the bytes and
/// keeps the deadline. Calls query and modify the device, and do not wait; they allocate.
///
/// Every byte of the peer is validated. The peer can speak to this class over any ordered, reliable
/// byte stream, with this class or a bringup::stream. Both sides send their greeting at once, so
/// there is no active or passive side. A failed negotiation destroys the queue pair when this
/// object is destroyed. Threads: one thread at a time.
template <connected_transport Transport>
class [[nodiscard]] negotiation {
 public:
  /// Begins with `prepared`. The name of `peer` appears in error messages.
  explicit negotiation(prepared_queue_pair<Transport>&& prepared,
                       const negotiation_options& options = {}, negotiation_peer peer = {})
      : pair_(std::make_unique<detail::connecting_pair<Transport>>(std::move(prepared), options,
                                                                   std::move(peer))) {}

  /// Returns what the negotiation waits for. It changes in advance(), set_ready() and the calls
  /// that end the negotiation.
  [[nodiscard]] negotiation_status status() const noexcept { return core().status(); }
  /// Returns whether the negotiation has failed, or has finished and has nothing left to send.
  [[nodiscard]] bool is_done() const noexcept {
    return status() == negotiation_status::failed ||
           (status() == negotiation_status::finished && outgoing().empty());
  }

  /// Performs all steps that are possible now. Call it first, after received(), and no later than
  /// next_advance(). `now` is a point of the steady clock.
  void advance(deadline::clock::time_point now) { core().advance(now); }
  /// Returns when to call advance() again if no bytes arrive; `nullopt`: not needed.
  [[nodiscard]] std::optional<deadline::clock::time_point> next_advance() const noexcept {
    return core().next_advance();
  }

  /// Returns the bytes to send. After a failure they tell the peer the reason: send them if that is
  /// possible without waiting. Valid until the next call that is not const.
  [[nodiscard]] std::span<const std::byte> outgoing() const noexcept { return core().outgoing(); }
  /// Removes the first `count` bytes of outgoing(), which were sent.
  void sent(std::size_t count) { core().sent(count); }
  /// Returns how many bytes may be read from the connection now. A program that reads no more
  /// leaves its own bytes, which follow the negotiation, in the connection.
  [[nodiscard]] std::size_t bytes_wanted() const noexcept { return core().bytes_wanted(); }
  /// Consumes bytes of the peer, in any fragmentation: at most bytes_wanted() of them. Returns how
  /// many were consumed. Call advance(), then pass the rest.
  std::size_t received(std::span<const std::byte> bytes) { return core().received(bytes); }

  /// Returns the connected queue pair, to post receives before the peer sends.
  /// Precondition: status() is waiting_for_receives.
  [[nodiscard]] queue_pair<Transport>& qp() {
    VERBENA_ASSERT(status() == negotiation_status::waiting_for_receives,
                   "qp() of a negotiation that is not waiting for receives: check status() first");
    return pair_->queue();
  }
  /// Notifies the peer that this side can receive. Precondition: status() is waiting_for_receives.
  void set_ready() { core().set_ready(); }

  /// Ends the negotiation with `why`, and notifies the peer.
  void abandon(error why) { core().abandon(std::move(why)); }
  /// Ends the negotiation because the peer closed the connection.
  void peer_closed() { core().peer_closed(); }
  /// Ends the negotiation because the program's deadline passed. failure() names the missing step.
  void time_out() { core().time_out(); }

  /// Returns the reason of the failure. Precondition: status() is failed.
  ///
  /// Errors: those of to_error(), which name the mismatch; EHOSTUNREACH and EMSGSIZE if probe
  /// messages are lost; `protocol` if the peer breaks the format or the order; ECONNABORTED with
  /// the reason of the peer; those of the verbs.
  [[nodiscard]] const error& failure() const { return core().failure(); }
  /// Returns the connected queue pair, or failure(). Precondition: status() is finished or failed.
  [[nodiscard]] result<negotiated_queue_pair<Transport>> finish() && {
    if (status() == negotiation_status::failed) return failure();
    VERBENA_ASSERT(
        status() == negotiation_status::finished,
        "finish() of a negotiation that is neither finished nor failed: check status() first");
    return negotiated_queue_pair<Transport>{.queue = std::move(pair_->queue()),
                                            .terms = core().terms(),
                                            .message = core().take_message()};
  }

 private:
  [[nodiscard]] detail::negotiation_core& core() const noexcept { return pair_->core(); }

  std::unique_ptr<detail::connecting_pair<Transport>> pair_;
};

}  // namespace verbena::inline VERBENA_ABI::bringup
