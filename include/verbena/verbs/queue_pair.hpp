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
/// and SRQ. The destructor calls ibv_destroy_qp(3), unless the queue pair was adopted with
/// ownership::borrow. After ibv_destroy_qp(3), outstanding requests generate no completions; the
/// provider may keep or remove completions that are already in a completion queue.
///
/// Posting costs the same as in the C API. The library does not keep the buffers of a request
/// alive. The *Contract* paragraph of each function states which objects must stay valid, and for
/// how long. A query on a moved-from queue pair stops the program in all builds. A post on one
/// stops the program in checked builds; in other builds its behavior is undefined.
///
/// Threads: one thread at a time, not necessarily always the same thread.
template <class Transport>
class queue_pair : public queue_pair_base,
                   public single_operations<queue_pair<Transport>, Transport> {
 public:
  /// Adopts an `ibv_qp`. The result does not have the extended interface, even if `native` has it.
  ///
  /// `owner` selects whether the destructor destroys `native`. The completion queues and the SRQ
  /// must outlive the queue pair. Preconditions: `native` belongs to `pd` and has the type of
  /// `Transport`. If not, the library stops the program.
  [[nodiscard]] static queue_pair adopt(ibv_qp* native, const protection_domain& pd,
                                        ownership owner)
    requires classic_transport<Transport>
  {
    return queue_pair(
        detail::adopt_queue_pair(native, pd, owner, transport_traits<Transport>::type));
  }
  /// Adopts a queue pair that ibv_create_qp_ex(3) created with `send_ops_flags`.
  ///
  /// The queue pair has the extended interface. `owner` selects whether the destructor destroys
  /// `native`. The completion queues and the SRQ must outlive the queue pair.
  /// Preconditions: `native` belongs to `pd` and has the type of `Transport`. If not, the library
  /// stops the program.
  [[nodiscard]] static queue_pair adopt(ibv_qp_ex* native, const protection_domain& pd,
                                        ownership owner) {
    return queue_pair(
        detail::adopt_queue_pair(native, pd, owner, transport_traits<Transport>::type));
  }

  /// Opens a batch of up to `Capacity` send requests of the classic interface. send_batch::submit()
  /// posts the batch. Does not allocate.
  ///
  /// *Contract.* The queue pair must outlive the batch. Call the function on the thread that uses
  /// the queue pair.
  template <std::size_t Capacity = 16>
  [[nodiscard]] [[gnu::always_inline]] inline send_batch<Transport, Capacity> start_send() &
    requires classic_transport<Transport>
  {
    return send_batch<Transport, Capacity>(qp());
  }

  /// Posts a receive for one message. The message fills the slices in order.
  /// UD: the message begins at byte 40; the first 40 bytes are reserved for the GRH.
  ///
  /// Preconditions: the queue pair is not in the RESET state (some providers return EINVAL, others
  /// do not detect it), and has no SRQ (checked builds stop the program). Errors: ENOMEM if the
  /// receive queue is full; EINVAL if the request has too many slices. Does not block or allocate.
  ///
  /// *Contract.* The memory must stay registered with local_write, and the program must not read or
  /// write it, until the completion of the request has been polled, or the queue pair has been
  /// destroyed or reset. Call the function on the thread that uses the queue pair.
  template <memory_slices Data>
  [[gnu::always_inline]] inline post_status post_receive(receive_request request, Data&& into,
                                                         call_site where = call_site::here()) {
    return detail::post_one_receive(qp(), request, into, where);
  }
  /// Opens a batch of up to `Capacity` receive requests. receive_batch::submit() posts the batch.
  ///
  /// *Contract.* The queue pair must outlive the batch. Call the function on the thread that uses
  /// the queue pair.
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
  /// The queue pair then receives datagrams that are sent to `group` with its Q_Key, including the
  /// datagrams that it sends itself. On InfiniBand, `group_lid` is the LID of the group; on other
  /// link layers it is ignored. The network delivers datagrams from other hosts only after the port
  /// has joined the group. cm::identifier::join_multicast() joins the group and returns its GID and
  /// LID. Attaching the queue pair to the same group again has no effect.
  ///
  /// Errors: EINVAL if `group` is not a multicast GID, or if on InfiniBand `group_lid` is not a
  /// multicast LID; ENOMEM if device_attributes::max_multicast_groups or max_group_members would be
  /// exceeded; `not_supported` if the device does not support multicast. May block in the kernel.
  [[nodiscard]] result<void> attach(const gid& group, lid group_lid = {})
    requires std::same_as<Transport, ud>
  {
    return detail::attach_to_group(*this, group, group_lid);
  }
  /// Detaches the queue pair from a multicast group: ibv_detach_mcast(3). May block in the kernel.
  ///
  /// Detach a queue pair before you destroy it. While the queue pair is attached, close() returns
  /// EBUSY. The destructor then logs the error, and the native object, its protection domain, its
  /// completion queues and its SRQ are kept until the process ends.
  ///
  /// Errors: EINVAL if the queue pair is not attached to `group`; otherwise the errno of
  /// ibv_detach_mcast(3).
  [[nodiscard]] result<void> detach(const gid& group, lid group_lid = {})
    requires std::same_as<Transport, ud>
  {
    return detail::detach_from_group(*this, group, group_lid);
  }

  /// Calls `loop(poster)` with the extended interface if the queue pair has it, otherwise with the
  /// classic interface. On rxe always uses the classic interface, because the extended interface of
  /// its provider computes wrong lengths of lists (rdma-core pull request 1744).
  ///
  /// `poster` is an extended_queue or a classic_poster. `loop` must compile with both types, and
  /// return the same type for both. The interface is selected once per call.
  ///
  /// *Contract.* The poster must not outlive the call of `loop`.
  template <class Loop>
    requires classic_transport<Transport>
  [[gnu::always_inline]] inline decltype(auto) with_poster(Loop&& loop) & {
    if (ibv_qp_ex* const found = extended_poster_or_null(); found != nullptr) {
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

  /// Destroys the queue pair. If ibv_destroy_qp(3) fails, returns the queue pair with the error.
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
