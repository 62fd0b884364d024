// SPDX-License-Identifier: MIT
// Queue pairs that are created and not connected yet. To connect a queue pair:
//
//   auto prepared = pd.create_qp<rc>(cq, cq, {.queues = {.max_send_wr = 8}}).value();
//   send_to_peer(prepared.endpoint().encode());
//   auto qp = std::move(prepared).handshake(endpoint::decode(from_peer()).value()).value();
//
// To activate a datagram queue pair, which does not have a peer:
//
//   auto prepared = pd.create_qp<ud>(cq, cq).value();
//   auto qp = std::move(prepared).activate(queue_key(0x1234)).value();
//
// Programs that make the transitions themselves pass init_attributes(), rtr_attributes() and
// rts_attributes() to modify().
#pragma once

#include "verbena/base/attributes.hpp"
#include "verbena/base/result.hpp"
#include "verbena/verbs/completion_queue.hpp"
#include "verbena/verbs/detail/queue_pair_request.hpp"
#include "verbena/verbs/endpoint.hpp"
#include "verbena/verbs/prepared_queue_pair_base.hpp"
#include "verbena/verbs/protection_domain.hpp"
#include "verbena/verbs/queue_pair.hpp"
#include "verbena/verbs/queue_pair_attributes.hpp"
#include "verbena/verbs/queue_pair_options.hpp"
#include "verbena/verbs/shared_receive_queue.hpp"
#include "verbena/verbs/transport.hpp"

namespace verbena::inline VERBENA_ABI {

/// A queue pair that is not connected yet. The destructor destroys the queue pair.
/// Threads: one thread at a time.
template <class Transport>
class prepared_queue_pair;

/// A prepared queue pair of a connected transport. handshake() connects it.
/// Threads: one thread at a time.
template <connected_transport Transport>
class [[nodiscard]] prepared_queue_pair<Transport> : public prepared_queue_pair_base {
 public:
  /// Returns the options that the queue pair was created with.
  [[nodiscard]] const queue_pair_options<Transport>& options() const noexcept
      VERBENA_LIFETIMEBOUND {
    return options_;
  }

  /// Connects the queue pair to `remote`: RESET, INIT, RTR, RTS. May block in the kernel while the
  /// address of the peer is resolved.
  ///
  /// Does not wait for the peer. If a message arrives before the peer is in RTR, a reliable
  /// connection retransmits it (reliability::retry_count); an unreliable connection loses it.
  ///
  /// Errors: `invalid_argument` if only one side has a GID; otherwise those of modify(). After an
  /// error the queue pair is destroyed.
  [[nodiscard]] result<queue_pair<Transport>> handshake(const verbena::endpoint& remote) && {
    // If a step fails, `self` destroys the queue pair.
    prepared_queue_pair self = std::move(*this);
    VERBENA_TRY_VOID(self.connect(remote));
    return std::move(self).into_queue_pair();
  }

  /// Returns the attributes that handshake() sets for the transition to INIT.
  [[nodiscard]] queue_pair_attributes init_attributes() const { return connected_init(); }
  /// Returns the attributes that handshake() sets for the transition to RTR. Errors: those of
  /// address_of().
  [[nodiscard]] result<queue_pair_attributes> rtr_attributes(
      const verbena::endpoint& remote) const {
    return connected_rtr(remote);
  }
  /// Returns the attributes that handshake() sets for the transition to RTS.
  [[nodiscard]] queue_pair_attributes rts_attributes(const verbena::endpoint& remote) const {
    return connected_rts(remote);
  }

  /// Converts to a queue pair in its current state.
  [[nodiscard]] queue_pair<Transport> into_queue_pair() && {
    return queue_pair<Transport>(static_cast<queue_pair_base&&>(*this));
  }

  /// Destroys the queue pair. If the verb fails, returns the queue pair with the error.
  [[nodiscard]] close_result<prepared_queue_pair> close() && {
    return close_handle(std::move(*this));
  }

 private:
  friend class protection_domain;
  prepared_queue_pair(detail::prepared_parts parts,
                      const queue_pair_options<Transport>& options) noexcept
      : prepared_queue_pair_base(std::move(parts)), options_(options) {}

  queue_pair_options<Transport> options_;
};

/// A prepared queue pair of a datagram transport. activate() brings it to RTS.
/// Threads: one thread at a time.
template <datagram_transport Transport>
class [[nodiscard]] prepared_queue_pair<Transport> : public prepared_queue_pair_base {
 public:
  /// Returns the options that the queue pair was created with.
  [[nodiscard]] const queue_pair_options<Transport>& options() const noexcept
      VERBENA_LIFETIMEBOUND {
    return options_;
  }

  /// Brings the queue pair to RTS: RESET, INIT, RTR, RTS. The queue pair drops datagrams with a
  /// Q_Key other than `key`.
  ///
  /// Errors: those of modify(). After an error the queue pair is destroyed.
  [[nodiscard]] result<queue_pair<Transport>> activate(queue_key key) && {
    prepared_queue_pair self = std::move(*this);
    VERBENA_TRY_VOID(self.open(key));
    return std::move(self).into_queue_pair();
  }

  /// Returns the attributes that activate() sets for the transition to INIT.
  [[nodiscard]] queue_pair_attributes init_attributes(queue_key key) const {
    return datagram_init(key);
  }
  /// Returns the attributes that activate() sets for the transition to RTR.
  [[nodiscard]] queue_pair_attributes rtr_attributes() const { return datagram_rtr(); }
  /// Returns the attributes that activate() sets for the transition to RTS.
  [[nodiscard]] queue_pair_attributes rts_attributes() const { return datagram_rts(); }

  /// Converts to a queue pair in its current state.
  [[nodiscard]] queue_pair<Transport> into_queue_pair() && {
    return queue_pair<Transport>(static_cast<queue_pair_base&&>(*this));
  }

  /// Destroys the queue pair. If the verb fails, returns the queue pair with the error.
  [[nodiscard]] close_result<prepared_queue_pair> close() && {
    return close_handle(std::move(*this));
  }

 private:
  friend class protection_domain;
  prepared_queue_pair(detail::prepared_parts parts,
                      const queue_pair_options<Transport>& options) noexcept
      : prepared_queue_pair_base(std::move(parts)), options_(options) {}

  queue_pair_options<Transport> options_;
};

/// Creates a queue pair in the state RESET: ibv_create_qp_ex(3), or ibv_create_qp(3) without the
/// extended interface. Allocates; may block in the kernel.
///
/// Sends complete into `send`, receives into `receive`. Both may be the same queue, and each may be
/// an extended completion queue. The queue pair keeps the queues alive.
///
/// Errors: `invalid_argument` for options out of range, operations that the transport does not
/// support, and queues of another context; `unavailable` if the port is neither active nor armed,
/// or has no GID; `not_supported` if the transport needs the extended interface and the device does
/// not have it; otherwise the errno of the verb, with the exceeded limit of the device in the
/// message.
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
