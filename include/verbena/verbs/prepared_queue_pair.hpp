// SPDX-License-Identifier: MIT
// Prepared queue pairs: created, and not connected yet. To connect a queue pair:
//
//   auto prepared = pd.create_qp<rc>(cq, cq, {.queues = {.max_send_wr = 8}}).value();
//   send_to_peer(prepared.endpoint().encode());
//   auto qp = std::move(prepared).handshake(endpoint::decode(from_peer()).value()).value();
//
// To activate a datagram queue pair, which has no peer:
//
//   auto prepared = pd.create_qp<ud>(cq, cq).value();
//   auto qp = std::move(prepared).activate(queue_key(0x1234)).value();
//
// init_attributes(), rtr_attributes() and rts_attributes() return the attributes of each
// transition, for programs that apply them with modify().
#pragma once

#include "verbena/base/result.hpp"
#include "verbena/verbs/completion_queue.hpp"
#include "verbena/verbs/detail/prepared_base.hpp"
#include "verbena/verbs/detail/queue_pair_request.hpp"
#include "verbena/verbs/endpoint.hpp"
#include "verbena/verbs/protection_domain.hpp"
#include "verbena/verbs/queue_pair.hpp"
#include "verbena/verbs/queue_pair_attributes.hpp"
#include "verbena/verbs/queue_pair_options.hpp"
#include "verbena/verbs/shared_receive_queue.hpp"
#include "verbena/verbs/transport.hpp"

namespace verbena::inline VERBENA_ABI {

/// A queue pair in the state RESET. Its destructor destroys the queue pair, also if bringing it up
/// fails.
/// Threads: one thread at a time.
template <class Transport>
class prepared_queue_pair;

/// A prepared queue pair of a connected transport. handshake() connects it.
/// Threads: one thread at a time.
template <connected_transport Transport>
class [[nodiscard]] prepared_queue_pair<Transport> : public detail::prepared_base {
 public:
  /// Returns the options that the queue pair was created with.
  [[nodiscard]] const queue_pair_options<Transport>& options() const noexcept { return options_; }

  /// Connects the queue pair to the peer: RESET, INIT, RTR, RTS. May block in the kernel while the
  /// address of the peer is resolved.
  ///
  /// The peer may not be ready yet. If the first message arrives too early, a reliable connection
  /// retries as `reliability` permits; an unreliable connection loses the message.
  ///
  /// Errors: `invalid_argument` if one side has a GID and the other one has none; otherwise those
  /// of modify(). The queue pair is destroyed.
  [[nodiscard]] result<queue_pair<Transport>> handshake(const verbena::endpoint& remote) && {
    // From here on the queue pair is destroyed if a step fails.
    prepared_queue_pair self = std::move(*this);
    VERBENA_TRY_VOID(self.connect(remote));
    return std::move(self).into_queue_pair();
  }

  /// Returns the attributes that handshake() sets for INIT.
  [[nodiscard]] queue_pair_attributes init_attributes() const { return connected_init(); }
  /// Returns the attributes that handshake() sets for RTR. Errors: those of address_of().
  [[nodiscard]] result<queue_pair_attributes> rtr_attributes(
      const verbena::endpoint& remote) const {
    return connected_rtr(remote);
  }
  /// Returns the attributes that handshake() sets for RTS.
  [[nodiscard]] queue_pair_attributes rts_attributes(const verbena::endpoint& remote) const {
    return connected_rts(remote);
  }

  /// Converts to a queue pair in its current state.
  [[nodiscard]] queue_pair<Transport> into_queue_pair() && {
    return queue_pair<Transport>(static_cast<detail::queue_pair_base&&>(*this));
  }

  /// Destroys the queue pair. If the verb fails, returns the queue pair with the error.
  [[nodiscard]] close_result<prepared_queue_pair> close() && {
    return close_handle(std::move(*this));
  }

 private:
  friend class protection_domain;
  prepared_queue_pair(detail::prepared_parts parts,
                      const queue_pair_options<Transport>& options) noexcept
      : prepared_base(std::move(parts)), options_(options) {}

  queue_pair_options<Transport> options_;
};

/// A prepared queue pair of a datagram transport. activate() brings it up.
/// Threads: one thread at a time.
template <datagram_transport Transport>
class [[nodiscard]] prepared_queue_pair<Transport> : public detail::prepared_base {
 public:
  /// Returns the options that the queue pair was created with.
  [[nodiscard]] const queue_pair_options<Transport>& options() const noexcept { return options_; }

  /// Brings the queue pair to RTS. It accepts datagrams with the Q_Key `key` and drops others.
  ///
  /// Errors: those of modify(); the queue pair is destroyed.
  [[nodiscard]] result<queue_pair<Transport>> activate(queue_key key) && {
    prepared_queue_pair self = std::move(*this);
    VERBENA_TRY_VOID(self.open(key));
    return std::move(self).into_queue_pair();
  }

  /// Returns the attributes that activate() sets for INIT.
  [[nodiscard]] queue_pair_attributes init_attributes(queue_key key) const {
    return datagram_init(key);
  }
  /// Returns the attributes that activate() sets for RTR.
  [[nodiscard]] queue_pair_attributes rtr_attributes() const { return datagram_rtr(); }
  /// Returns the attributes that activate() sets for RTS.
  [[nodiscard]] queue_pair_attributes rts_attributes() const { return datagram_rts(); }

  /// Converts to a queue pair in its current state.
  [[nodiscard]] queue_pair<Transport> into_queue_pair() && {
    return queue_pair<Transport>(static_cast<detail::queue_pair_base&&>(*this));
  }

  /// Destroys the queue pair. If the verb fails, returns the queue pair with the error.
  [[nodiscard]] close_result<prepared_queue_pair> close() && {
    return close_handle(std::move(*this));
  }

 private:
  friend class protection_domain;
  prepared_queue_pair(detail::prepared_parts parts,
                      const queue_pair_options<Transport>& options) noexcept
      : prepared_base(std::move(parts)), options_(options) {}

  queue_pair_options<Transport> options_;
};

/// Creates a queue pair with completions in `send` and `receive`, which may be one queue and may be
/// extended completion queues. The queue pair keeps them alive. Allocates; may block in the kernel.
///
/// Errors: `invalid_argument` for options out of range, operations that the transport does not
/// support, and completion queues of another context; `unavailable` if the port is down or has no
/// GID; otherwise the errno of ibv_create_qp(3); the message has the exceeded limit of the device.
template <transport Transport>
result<prepared_queue_pair<Transport>> protection_domain::create_qp(
    const completion_queue& send, const completion_queue& receive,
    queue_pair_options<Transport> options) const {
  VERBENA_TRY(auto parts, detail::prepare_queue_pair(*this, {.send = send, .receive = receive},
                                                     detail::request_of<Transport>(options)));
  return prepared_queue_pair<Transport>(std::move(parts), options);
}

template <shared_receive_transport Transport>
result<prepared_queue_pair<Transport>> protection_domain::create_qp(
    const completion_queue& send, const completion_queue& receive,
    const shared_receive_queue& shared, queue_pair_options<Transport> options) const {
  VERBENA_TRY(auto parts, detail::prepare_queue_pair(
                              *this, {.send = send, .receive = receive, .shared = &shared},
                              detail::request_of<Transport>(options)));
  return prepared_queue_pair<Transport>(std::move(parts), options);
}

}  // namespace verbena::inline VERBENA_ABI
