// SPDX-License-Identifier: MIT
// Bringing queue pairs up: created, then connected. The usual way is
//
//   auto prepared = pd.create_queue_pair<rc>(cq, cq, {.max_send_wr = 8}).value();
//   send_to_peer(prepared.endpoint().encode());
//   auto qp = std::move(prepared).handshake(endpoint::decode(from_peer()).value()).value();
//
// and of datagrams, which have no peer,
//
//   auto prepared = pd.create_queue_pair<ud>(cq, cq).value();
//   auto qp = std::move(prepared).activate(queue_key(0x1234)).value();
//
// The attributes of each step are there to be looked at, or changed and applied by hand.
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

/// A queue pair that is not in use yet, in the state RESET. When it is dropped, or when bringing it
/// up fails, the queue pair is destroyed.
/// Threads: one thread at a time.
template <class Transport>
class prepared_queue_pair;

/// Of a connected transport: it gets its peer by handshake().
/// Threads: one thread at a time.
template <connected_transport Transport>
class [[nodiscard]] prepared_queue_pair<Transport> : public detail::prepared_base {
 public:
  /// The options that it was created with.
  [[nodiscard]] const queue_pair_options<Transport>& options() const noexcept { return options_; }

  /// Connects to the peer: RESET, INIT, RTR, RTS. Afterwards it sends and receives. The peer may
  /// not be ready by then: a first message that finds it not ready is sent again by a reliable
  /// connection, by the limits of the options, and is lost on an unreliable one. May block in the
  /// kernel while the peer's address is resolved.
  ///
  /// Errors: `invalid_argument` when one side has a GID and the other has none; otherwise those of
  /// modify(). The queue pair is then destroyed.
  [[nodiscard]] result<queue_pair<Transport>> handshake(const verbena::endpoint& remote) && {
    // From here on the queue pair is destroyed if a step fails.
    prepared_queue_pair self = std::move(*this);
    VERBENA_TRY_VOID(self.connect(remote));
    return std::move(self).into_queue_pair();
  }

  /// What handshake() sets to go to INIT, to RTR and to RTS.
  [[nodiscard]] queue_pair_attributes init_attributes() const { return connected_init(); }
  /// What handshake() sets to go to RTR. Errors: as address_of().
  [[nodiscard]] result<queue_pair_attributes> rtr_attributes(
      const verbena::endpoint& remote) const {
    return connected_rtr(remote);
  }
  /// What handshake() sets to go to RTS.
  [[nodiscard]] queue_pair_attributes rts_attributes(const verbena::endpoint& remote) const {
    return connected_rts(remote);
  }

  /// The queue pair as it is, in the state that modify() has brought it to.
  [[nodiscard]] queue_pair<Transport> into_queue_pair() && {
    return queue_pair<Transport>(static_cast<detail::queue_pair_base&&>(*this));
  }

  /// Destroys the queue pair now, or hands it back with the reason.
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

/// Of a transport of datagrams: it needs no peer, and is brought up by activate().
/// Threads: one thread at a time.
template <datagram_transport Transport>
class [[nodiscard]] prepared_queue_pair<Transport> : public detail::prepared_base {
 public:
  /// The options that it was created with.
  [[nodiscard]] const queue_pair_options<Transport>& options() const noexcept { return options_; }

  /// Makes it send and receive: RESET, INIT, RTR, RTS. It lets in what carries `key`, and drops the
  /// rest; senders of unreliable datagrams do not hear of it.
  ///
  /// Errors: those of modify(). The queue pair is then destroyed.
  [[nodiscard]] result<queue_pair<Transport>> activate(queue_key key) && {
    prepared_queue_pair self = std::move(*this);
    VERBENA_TRY_VOID(self.open(key));
    return std::move(self).into_queue_pair();
  }

  /// What activate() sets to go to INIT, to RTR and to RTS.
  [[nodiscard]] queue_pair_attributes init_attributes(queue_key key) const {
    return datagram_init(key);
  }
  /// What activate() sets to go to RTR.
  [[nodiscard]] queue_pair_attributes rtr_attributes() const { return datagram_rtr(); }
  /// What activate() sets to go to RTS.
  [[nodiscard]] queue_pair_attributes rts_attributes() const { return datagram_rts(); }

  /// The queue pair as it is, in the state that modify() has brought it to.
  [[nodiscard]] queue_pair<Transport> into_queue_pair() && {
    return queue_pair<Transport>(static_cast<detail::queue_pair_base&&>(*this));
  }

  /// Destroys the queue pair now, or hands it back with the reason.
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

/// Creates a queue pair that completes into `send` and `receive`, which may be the same and may be
/// extended ones; the queue pair keeps them alive. Allocates; may block in the kernel.
///
/// Errors: `invalid_argument` for options out of range, for operations that the transport has not,
/// and for queues of another context; `unavailable` when the port is down or has no GID; otherwise
/// the errno of ibv_create_qp(3), with the device's limit that was exceeded.
template <transport Transport>
result<prepared_queue_pair<Transport>> protection_domain::create_queue_pair(
    const completion_queue& send, const completion_queue& receive,
    queue_pair_options<Transport> options) const {
  VERBENA_TRY(auto parts, detail::prepare_queue_pair(*this, {.send = send, .receive = receive},
                                                     detail::request_of<Transport>(options)));
  return prepared_queue_pair<Transport>(std::move(parts), options);
}

template <shared_receive_transport Transport>
result<prepared_queue_pair<Transport>> protection_domain::create_queue_pair(
    const completion_queue& send, const completion_queue& receive,
    const shared_receive_queue& shared, queue_pair_options<Transport> options) const {
  VERBENA_TRY(auto parts, detail::prepare_queue_pair(
                              *this, {.send = send, .receive = receive, .shared = &shared},
                              detail::request_of<Transport>(options)));
  return prepared_queue_pair<Transport>(std::move(parts), options);
}

}  // namespace verbena::inline VERBENA_ABI
