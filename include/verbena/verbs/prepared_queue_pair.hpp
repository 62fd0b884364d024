// SPDX-License-Identifier: MIT
// Bringing queue pairs up: created, then connected. The usual way is
//
//   auto prepared = pd.create_queue_pair<rc>(cq, cq, {.max_send_wr = 8}).value();
//   send_to_peer(prepared.endpoint().encode());
//   auto qp = std::move(prepared).handshake(endpoint::decode(from_peer()).value()).value();
//
// The attributes of each step are there to be looked at, or changed and applied by hand.
#pragma once

#include "verbena/base/result.hpp"
#include "verbena/verbs/completion_queue.hpp"
#include "verbena/verbs/detail/queue_pair_base.hpp"
#include "verbena/verbs/endpoint.hpp"
#include "verbena/verbs/protection_domain.hpp"
#include "verbena/verbs/queue_pair.hpp"
#include "verbena/verbs/queue_pair_attributes.hpp"
#include "verbena/verbs/queue_pair_options.hpp"
#include "verbena/verbs/transport.hpp"

namespace verbena::inline VERBENA_ABI {

namespace detail {

/// What creation found out about this side.
struct local_side {
  verbena::endpoint endpoint;
  gid_index source_gid;
  std::uint8_t reads_as_initiator = 0;  ///< the lesser of what was asked and what the device can
};

struct creation {
  ibv_qp_type type;
  std::uint64_t send_operations;
};

/// Creates the native queue pair in the state RESET.
[[nodiscard]] result<created_queue_pair> create_queue_pair(const protection_domain& pd,
                                                           const completion_queue& send,
                                                           const completion_queue& receive,
                                                           const queue_pair_options<rc>& options,
                                                           const creation& kind);
/// Asks the device about its port, its GID and its limits.
[[nodiscard]] result<local_side> find_local_side(const protection_domain& pd,
                                                 const queue_pair_options<rc>& options);

}  // namespace detail

/// A queue pair that is not connected yet, in the state RESET. When it is dropped, or when the
/// handshake fails, the queue pair is destroyed.
/// Threads: one thread at a time.
template <class Transport>
class prepared_queue_pair;

template <>
class [[nodiscard]] prepared_queue_pair<rc> : public detail::queue_pair_base {
 public:
  /// What the peer has to know: its bytes go to the peer's handshake().
  [[nodiscard]] const verbena::endpoint& endpoint() const noexcept { return local_.endpoint; }
  /// The options that it was created with.
  [[nodiscard]] const queue_pair_options<rc>& options() const noexcept { return options_; }

  /// Connects to the peer: RESET, INIT, RTR, RTS. Afterwards it sends and receives. The peer may
  /// not be ready by then: a first message that finds it not ready is sent again, by the limits of
  /// the options. May block in the kernel while the peer's address is resolved.
  ///
  /// Errors: `invalid_argument` when one side has a GID and the other has none; otherwise those of
  /// modify(). The queue pair is then destroyed.
  [[nodiscard]] result<queue_pair<rc>> handshake(const verbena::endpoint& remote) &&;

  /// What handshake() sets to go to INIT, to RTR and to RTS.
  [[nodiscard]] queue_pair_attributes init_attributes() const;
  [[nodiscard]] result<queue_pair_attributes> rtr_attributes(const verbena::endpoint& remote) const;
  [[nodiscard]] queue_pair_attributes rts_attributes(const verbena::endpoint& remote) const;

  /// The queue pair as it is, in the state that modify() has brought it to.
  [[nodiscard]] queue_pair<rc> into_queue_pair() && {
    return queue_pair<rc>(static_cast<queue_pair_base&&>(*this));
  }

  /// Destroys the queue pair now, or hands it back with the reason.
  [[nodiscard]] close_result<prepared_queue_pair> close() && {
    return close_handle(std::move(*this));
  }

 private:
  friend class protection_domain;
  prepared_queue_pair(detail::created_queue_pair made, detail::local_side local,
                      const queue_pair_options<rc>& options) noexcept
      : queue_pair_base(std::move(made)), local_(local), options_(options) {}

  detail::local_side local_;
  queue_pair_options<rc> options_;
};

/// Creates a queue pair that completes into `send` and `receive`, which may be the same and may be
/// extended ones; the queue pair keeps them alive. Allocates; may block in the kernel.
///
/// Errors: `invalid_argument` for options out of range and for queues of another context;
/// `unavailable` when the port is down or has no GID; otherwise the errno of ibv_create_qp(3), with
/// the device's limit that was exceeded.
template <>
result<prepared_queue_pair<rc>> protection_domain::create_queue_pair<rc>(
    const completion_queue& send, const completion_queue& receive,
    queue_pair_options<rc> options) const;

}  // namespace verbena::inline VERBENA_ABI
