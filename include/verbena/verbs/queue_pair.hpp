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
#include "verbena/verbs/detail/queue_pair_base.hpp"
#include "verbena/verbs/extended_queue.hpp"
#include "verbena/verbs/receive_batch.hpp"
#include "verbena/verbs/send_batch.hpp"
#include "verbena/verbs/single_operations.hpp"
#include "verbena/verbs/transport.hpp"

namespace verbena::inline VERBENA_ABI {

template <class Transport>
class prepared_queue_pair;

/// A queue pair: a send queue and a receive queue of one transport.
///
/// It comes from `prepared_queue_pair::handshake` and keeps its protection domain and completion
/// queues alive. Its destructor destroys the native object; outstanding requests then end without
/// completions.
///
/// Posting is the expert level: it costs the same as the C API, and the library does not keep the
/// memory of requests alive. The paragraph *Contract* of each function says what must stay valid
/// and until when.
/// Threads: one thread at a time; a queue pair may move from thread to thread.
template <class Transport>
class queue_pair : public detail::queue_pair_base,
                   public single_operations<queue_pair<Transport>, Transport> {
 public:
  /// Takes over or borrows a queue pair that the C API created from `pd`.
  ///
  /// Its completion queues must outlive it. It has no extended() interface. Precondition: its
  /// transport is `Transport`.
  [[nodiscard]] static queue_pair adopt(ibv_qp* native, const protection_domain& pd,
                                        ownership owner)
    requires classic_transport<Transport>
  {
    return queue_pair(
        detail::adopt_queue_pair(native, pd, owner, transport_traits<Transport>::type));
  }
  /// Takes over or borrows a queue pair that ibv_create_qp_ex(3) created with `send_ops_flags`.
  ///
  /// It has the extended() interface. Its completion queues must outlive it. Precondition: its
  /// transport is `Transport`.
  [[nodiscard]] static queue_pair adopt(ibv_qp_ex* native, const protection_domain& pd,
                                        ownership owner) {
    return queue_pair(
        detail::adopt_queue_pair(native, pd, owner, transport_traits<Transport>::type));
  }

  /// Opens a batch of up to `Capacity` send requests of the classic interface.
  ///
  /// If the transport has only the extended interface, use extended() instead.
  ///
  /// *Contract.* The queue pair must outlive the batch. Call it on the thread that uses the queue
  /// pair.
  template <std::size_t Capacity = 16>
  [[nodiscard]] [[gnu::always_inline]] inline send_batch<Transport, Capacity> start_send() &
    requires classic_transport<Transport>
  {
    return send_batch<Transport, Capacity>(qp());
  }

  /// Posts a receive for one message, which fills the slices one after the other.
  ///
  /// Errors: ENOMEM if the receive queue is full; EINVAL if the queue pair is in state RESET or if
  /// the request has too many slices. Does not block or allocate.
  ///
  /// *Contract.* The memory must stay registered with local_write, and the program must not read or
  /// write it, until the completion of the request was polled. Call it on the thread that uses the
  /// queue pair.
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
  /// Returns nullopt if the provider does not implement the interface, or if the queue pair was
  /// created with `.extended = false`. A transport without a classic interface always has it.
  ///
  /// *Contract.* The queue pair must outlive the result.
  [[nodiscard]] std::optional<extended_queue<Transport>> extended() & noexcept {
    ibv_qp_ex* const found = extended_or_null();
    if (found == nullptr) return std::nullopt;
    return extended_queue<Transport>(found);
  }

  /// Attaches the queue pair to a multicast group: ibv_attach_mcast(3).
  ///
  /// The queue pair then receives datagrams to `group` that carry its Q_Key, its own included. On
  /// InfiniBand, `where` is the LID of the group. cm::identifier::join_multicast returns GID and
  /// LID. A queue pair that is attached already stays attached.
  ///
  /// Errors: EINVAL if `group` is not a multicast GID; ENOMEM beyond
  /// device_attributes::max_multicast_groups or max_group_members; `not_supported` if the device
  /// does not support multicast. May block in the kernel.
  [[nodiscard]] result<void> attach(const gid& group, lid where = {})
    requires std::same_as<Transport, ud>
  {
    return detail::attach_to_group(*this, group, where);
  }
  /// Detaches the queue pair from a multicast group: ibv_detach_mcast(3).
  ///
  /// A queue pair that is attached to a group cannot be destroyed. Errors: EINVAL if it is not
  /// attached to `group`.
  [[nodiscard]] result<void> detach(const gid& group, lid where = {})
    requires std::same_as<Transport, ud>
  {
    return detail::detach_from_group(*this, group, where);
  }

  /// Calls `loop(poster)` with the extended interface if the queue pair has it, else the classic.
  ///
  /// Both posters satisfy the concepts of poster.hpp. `loop` is compiled for both; the choice is
  /// made once per call.
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
  /// Calls `loop(poster)` with the extended interface, the only one of the transport.
  template <class Loop>
    requires(!classic_transport<Transport>)
  [[gnu::always_inline]] inline decltype(auto) with_poster(Loop&& loop) & {
    VERBENA_CHECK(extended_or_null() != nullptr, "a moved-from queue pair must not be used");
    extended_queue<Transport> poster(extended_or_null());
    return std::forward<Loop>(loop)(poster);
  }

  /// Destroys the queue pair now; if that fails, returns the queue pair and the error.
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
    VERBENA_CHECK(extended_or_null() != nullptr, "a moved-from queue pair must not be used");
    return extended_batch<Transport, 1>(extended_or_null(), where);
  }
  explicit queue_pair(detail::created_queue_pair made) noexcept
      : queue_pair_base(std::move(made)) {}
  explicit queue_pair(detail::queue_pair_base&& made) noexcept : queue_pair_base(std::move(made)) {}
};

}  // namespace verbena::inline VERBENA_ABI
