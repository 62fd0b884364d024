// SPDX-License-Identifier: MIT
#pragma once

#include <infiniband/verbs.h>

#include <concepts>
#include <cstddef>
#include <optional>
#include <utility>

#include "verbena/base/call_site.hpp"
#include "verbena/base/guid.hpp"
#include "verbena/base/ids.hpp"
#include "verbena/verbs/classic_poster.hpp"
#include "verbena/verbs/extended_queue.hpp"
#include "verbena/verbs/queue_pair_base.hpp"
#include "verbena/verbs/receive_batch.hpp"
#include "verbena/verbs/send_batch.hpp"
#include "verbena/verbs/single_operations.hpp"
#include "verbena/verbs/transport.hpp"

namespace verbena::inline VERBENA_ABI {

template <class Transport>
class prepared_queue_pair;

/// A send queue and a receive queue of one transport, usually from `prepared_queue_pair::handshake`
/// or `activate`. Move-only.
///
/// A queue pair keeps its protection domain alive and, unless it was adopted, its completion queues
/// and SRQ. The destructor destroys the object of the C API, unless it was borrowed. After that, no
/// completion of an outstanding request arrives.
///
/// Posting has the cost of the C API, and the library does not keep the memory of requests alive.
/// The paragraph *Contract* of each function defines which objects must stay valid, and until when.
/// Threads: one thread at a time; a queue pair may move from thread to thread.
template <class Transport>
class queue_pair : public queue_pair_base,
                   public single_operations<queue_pair<Transport>, Transport> {
 public:
  /// Adopts a queue pair of the C API, without the extended interface.
  ///
  /// The completion queues and the SRQ must outlive the queue pair. Preconditions: `native` belongs
  /// to `pd` and has the type of `Transport`.
  [[nodiscard]] static queue_pair adopt(ibv_qp* native, const protection_domain& pd,
                                        ownership owner)
    requires classic_transport<Transport>
  {
    return queue_pair(
        detail::adopt_queue_pair(native, pd, owner, transport_traits<Transport>::type));
  }
  /// Adopts a queue pair that ibv_create_qp_ex(3) created with `send_ops_flags`.
  ///
  /// The queue pair has the extended interface. The completion queues and the SRQ must outlive it.
  /// Preconditions: `native` belongs to `pd` and has the type of `Transport`.
  [[nodiscard]] static queue_pair adopt(ibv_qp_ex* native, const protection_domain& pd,
                                        ownership owner) {
    return queue_pair(
        detail::adopt_queue_pair(native, pd, owner, transport_traits<Transport>::type));
  }

  /// Opens a batch of up to `Capacity` send requests of the classic interface. Does not allocate.
  ///
  /// *Contract.* The queue pair must outlive the batch. Call it on the thread that uses the queue
  /// pair.
  template <std::size_t Capacity = 16>
  [[nodiscard]] [[gnu::always_inline]] inline send_batch<Transport, Capacity> start_send() &
    requires classic_transport<Transport>
  {
    return send_batch<Transport, Capacity>(qp());
  }

  /// Posts a receive for one message. The message fills the slices in order.
  ///
  /// Preconditions: the queue pair is not in the state RESET, and it has no SRQ. Errors: ENOMEM if
  /// the receive queue is full; EINVAL if the request has too many slices and, with some providers,
  /// in the state RESET. Does not block or allocate.
  ///
  /// *Contract.* The memory must stay registered with local_write, and the program must not read or
  /// write it, until the completion of the request was polled or the queue pair is destroyed or
  /// reset. Call it on the thread that uses the queue pair.
  template <memory_slices Data>
  [[gnu::always_inline]] inline post_status post_receive(receive_request request, Data&& into,
                                                         call_site where = call_site::here()) {
    return detail::post_one_receive(qp(), request, into, where);
  }
  /// Opens a batch of up to `Capacity` receive requests.
  ///
  /// *Contract.* The queue pair must outlive the batch. Call it on the thread that uses the queue
  /// pair.
  template <std::size_t Capacity = 16>
  [[nodiscard]] [[gnu::always_inline]] inline receive_batch<Capacity> start_receive() & {
    return receive_batch<Capacity>(qp());
  }

  /// Returns the extended interface of the queue pair.
  ///
  /// If the provider does not implement the interface, or if the queue pair was created with
  /// `.extended = false` or adopted without it, returns `nullopt`. A transport without a classic
  /// interface always has the extended interface.
  ///
  /// *Contract.* The queue pair must outlive the result.
  [[nodiscard]] std::optional<extended_queue<Transport>> extended() & noexcept {
    ibv_qp_ex* const found = extended_or_null();
    if (found == nullptr) return std::nullopt;
    return extended_queue<Transport>(found);
  }

  /// Attaches the queue pair to a multicast group: ibv_attach_mcast(3).
  ///
  /// The queue pair then receives datagrams that are sent to `group` with the Q_Key of this queue
  /// pair, including those that it sends itself. `where`
  /// is the LID of the group on InfiniBand; otherwise it is ignored. The network delivers datagrams
  /// of other hosts only after the port joined the group: cm::identifier::join_multicast() does
  /// that, and returns GID and LID. Attaching again has no effect.
  ///
  /// Errors: EINVAL if `group` is not a multicast GID, or if on InfiniBand `where` is not a
  /// multicast LID; ENOMEM beyond device_attributes::max_multicast_groups or max_group_members;
  /// `not_supported` if the device does not support multicast. May block in the kernel.
  [[nodiscard]] result<void> attach(const gid& group, lid where = {})
    requires std::same_as<Transport, ud>
  {
    return detail::attach_to_group(*this, group, where);
  }
  /// Detaches the queue pair from a multicast group: ibv_detach_mcast(3). May block in the kernel.
  ///
  /// Detach a queue pair before its destruction: while it is attached, close() returns EBUSY, and
  /// the destructor logs the error and leaves the native object. Errors: EINVAL if the queue pair
  /// is not attached to `group`; otherwise the errno of the verb.
  [[nodiscard]] result<void> detach(const gid& group, lid where = {})
    requires std::same_as<Transport, ud>
  {
    return detail::detach_from_group(*this, group, where);
  }

  /// Calls `loop(poster)` with the extended interface if the queue pair has it, else with the
  /// classic interface.
  ///
  /// `poster` is an extended_queue or a classic_poster; `loop` is compiled for both. The interface
  /// is selected once per call.
  ///
  /// *Contract.* The poster must not outlive the call of `loop`.
  template <class Loop>
    requires classic_transport<Transport>
  [[gnu::always_inline]] inline decltype(auto) with_poster(Loop&& loop) & {
    if (ibv_qp_ex* const found = extended_or_null(); found != nullptr) {
      extended_queue<Transport> poster(found);
      return std::forward<Loop>(loop)(poster);
    }
    typename classic_poster<Transport>::lists lists;
    classic_poster<Transport> poster(qp(), lists);
    return std::forward<Loop>(loop)(poster);
  }
  /// Calls `loop(poster)` with the extended interface, the only interface of the transport.
  ///
  /// *Contract.* The poster must not outlive the call of `loop`.
  template <class Loop>
    requires(!classic_transport<Transport>)
  [[gnu::always_inline]] inline decltype(auto) with_poster(Loop&& loop) & {
    VERBENA_CHECK(extended_or_null() != nullptr, "a moved-from queue pair was used");
    extended_queue<Transport> poster(extended_or_null());
    return std::forward<Loop>(loop)(poster);
  }

  /// Destroys the queue pair: ibv_destroy_qp(3). If the verb fails, returns the queue pair with the
  /// error.
  [[nodiscard]] close_result<queue_pair> close() && { return close_handle(std::move(*this)); }

 private:
  friend struct detail::internals;
  friend class prepared_queue_pair<Transport>;
  friend class single_operations<queue_pair<Transport>, Transport>;
  using storage_of_one = detail::send_storage<1, 16>;

  [[gnu::always_inline]] inline auto start_one(call_site /*where*/)
    requires classic_transport<Transport>
  {
    return send_batch<Transport, 1, storage_of_one>(qp());
  }
  [[gnu::always_inline]] inline auto start_one(call_site where)
    requires(!classic_transport<Transport>)
  {
    VERBENA_CHECK(extended_or_null() != nullptr, "a moved-from queue pair was used");
    return extended_batch<Transport, 1>(extended_or_null(), where);
  }
  explicit queue_pair(detail::created_queue_pair made) noexcept
      : queue_pair_base(std::move(made)) {}
  explicit queue_pair(queue_pair_base&& made) noexcept : queue_pair_base(std::move(made)) {}
};

}  // namespace verbena::inline VERBENA_ABI
