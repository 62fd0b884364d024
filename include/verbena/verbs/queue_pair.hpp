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
#include "verbena/verbs/transport.hpp"

namespace verbena::inline VERBENA_ABI {

template <class Transport>
class prepared_queue_pair;

/// A queue pair: a send and a receive queue of one transport. It comes from
/// `prepared_queue_pair::handshake`, keeps its protection domain and completion queues alive and
/// destroys the native object when it goes; requests that are then outstanding end without
/// completions.
///
/// Posting is the expert level: it costs what the C API costs, and nothing holds the memory that
/// requests name. What must stay valid, and until when, stands under *Contract*.
/// Threads: one thread at a time; it may move from thread to thread.
template <class Transport>
class queue_pair : public detail::queue_pair_base {
 public:
  /// Takes over or borrows a queue pair that the C API made from `pd`. Its completion queues must
  /// outlive it. It has no extended() interface. Precondition: it is of this transport.
  [[nodiscard]] static queue_pair adopt(ibv_qp* native, const protection_domain& pd,
                                        ownership owner)
    requires classic_transport<Transport>
  {
    return queue_pair(
        detail::adopt_queue_pair(native, pd, owner, transport_traits<Transport>::type));
  }
  /// The same for one that ibv_create_qp_ex(3) made with `send_ops_flags`: with extended().
  [[nodiscard]] static queue_pair adopt(ibv_qp_ex* native, const protection_domain& pd,
                                        ownership owner) {
    return queue_pair(
        detail::adopt_queue_pair(native, pd, owner, transport_traits<Transport>::type));
  }

  /// Opens a batch of up to `Capacity` send requests, of the classic interface: transports without
  /// it are posted to by extended().
  ///
  /// *Contract.* The queue pair must outlive the batch. On the thread that uses the queue pair.
  template <std::size_t Capacity = 16>
  [[nodiscard]] [[gnu::always_inline]] inline send_batch<Transport, Capacity> start_send() &
    requires classic_transport<Transport>
  {
    return send_batch<Transport, Capacity>(queue());
  }

  /// Posts one receive request: room for one message, in a slice or in a list of slices that are
  /// filled one after the other. Never blocks, never allocates. Errors: ENOMEM when the queue is
  /// full, EINVAL before the queue pair is initialised or when it has too many slices.
  ///
  /// *Contract.* The memory must stay registered with local_write, and must be neither read nor
  /// written, until the request's completion was polled. On the thread that uses the queue pair.
  template <memory_slices Data>
  [[gnu::always_inline]] inline post_status post_receive(receive_request request, Data&& into,
                                                         call_site where = call_site::here()) {
    return detail::post_one_receive(queue(), request, into, where);
  }
  /// Opens a batch of up to `Capacity` receive requests.
  ///
  /// *Contract.* The queue pair must outlive the batch. On the thread that uses the queue pair.
  template <std::size_t Capacity = 16>
  [[nodiscard]] [[gnu::always_inline]] inline receive_batch<Capacity> start_receive() & {
    return receive_batch<Capacity>(queue());
  }

  /// The same queue pair by its extended interface; nothing where the provider has none, or when
  /// `.extended = false` was asked. A transport without a classic interface always has it.
  ///
  /// *Contract.* The queue pair must outlive what is returned.
  [[nodiscard]] std::optional<extended_queue<Transport>> extended() & noexcept {
    ibv_qp_ex* const found = extended_or_null();
    if (found == nullptr) return std::nullopt;
    return extended_queue<Transport>(found);
  }

  /// Attaches the queue pair to a multicast group: from then on it gets what is sent to `group`
  /// with its queue key, what it sends itself too. `where` is the group's LID on InfiniBand, as the
  /// subnet manager gave it; cm::identifier::join_multicast tells both. A queue pair that is
  /// attached already stays so. Source: ibv_attach_mcast(3).
  ///
  /// Errors: EINVAL where `group` is no multicast GID, ENOMEM beyond
  /// device_attributes::max_multicast_groups or max_group_members, `not_supported` where the device
  /// has no groups. May block in the kernel.
  [[nodiscard]] result<void> attach(const gid& group, lid where = {})
    requires std::same_as<Transport, ud>
  {
    return detail::attach_to_group(*this, group, where);
  }
  /// Ends that. Until then the queue pair cannot be destroyed. Errors: EINVAL when it is not
  /// attached.
  [[nodiscard]] result<void> detach(const gid& group, lid where = {})
    requires std::same_as<Transport, ud>
  {
    return detail::detach_from_group(*this, group, where);
  }

  /// Calls `loop(poster)` with whatever posts best: the extended interface where the queue pair has
  /// it, else the classic one. Both speak the vocabulary of poster.hpp; `loop` is compiled
  /// for both, and the choice is made once, here.
  ///
  /// *Contract.* The poster must not leave `loop`.
  template <class Loop>
    requires classic_transport<Transport>
  [[gnu::always_inline]] inline decltype(auto) with_poster(Loop&& loop) & {
    if (ibv_qp_ex* const found = extended_or_null(); found != nullptr) {
      extended_queue<Transport> poster(found);
      return std::forward<Loop>(loop)(poster);
    }
    typename classic_poster<Transport>::lists lists;
    classic_poster<Transport> poster(queue(), lists);
    return std::forward<Loop>(loop)(poster);
  }
  /// The same for a transport that has the extended interface alone.
  template <class Loop>
    requires(!classic_transport<Transport>)
  [[gnu::always_inline]] inline decltype(auto) with_poster(Loop&& loop) & {
    VERBENA_CHECK(extended_or_null() != nullptr, "a moved-from queue pair must not be used");
    extended_queue<Transport> poster(extended_or_null());
    return std::forward<Loop>(loop)(poster);
  }

  /// Destroys the queue pair now, or hands it back with the reason.
  [[nodiscard]] close_result<queue_pair> close() && { return close_handle(std::move(*this)); }

 private:
  friend struct detail::internals;
  friend class prepared_queue_pair<Transport>;
  explicit queue_pair(detail::created_queue_pair made) noexcept
      : queue_pair_base(std::move(made)) {}
  explicit queue_pair(detail::queue_pair_base&& made) noexcept : queue_pair_base(std::move(made)) {}
};

}  // namespace verbena::inline VERBENA_ABI
