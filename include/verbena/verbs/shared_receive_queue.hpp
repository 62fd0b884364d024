// SPDX-License-Identifier: MIT
// Shared receive queues (SRQ): receives for several queue pairs. The number of receives depends on
// the number of arriving messages, not on the number of peers.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "verbena/base/call_site.hpp"
#include "verbena/base/post_status.hpp"
#include "verbena/base/result.hpp"
#include "verbena/verbs/detail/native_pointer.hpp"
#include "verbena/verbs/detail/queue_states.hpp"
#include "verbena/verbs/handle.hpp"
#include "verbena/verbs/ownership.hpp"
#include "verbena/verbs/receive_batch.hpp"

namespace verbena::inline VERBENA_ABI {

class protection_domain;

/// Options of protection_domain::create_srq(). Source: ibv_create_srq(3).
struct shared_receive_queue_options {
  std::uint32_t max_wr = 64;  ///< maximum number of outstanding receives; at least 1
  std::uint32_t max_sge = 1;  ///< maximum number of scatter/gather elements of one receive
};

/// The result of shared_receive_queue::query(). Source: ibv_query_srq(3).
struct shared_receive_queue_attributes {
  std::uint32_t max_wr = 0;   ///< maximum number of outstanding receives
  std::uint32_t max_sge = 0;  ///< maximum number of scatter/gather elements of one receive
  std::uint32_t limit = 0;    ///< the armed limit; 0 if it is not armed
};

/// A batch of receive requests of a shared receive queue.
template <std::size_t Capacity = 16>
using shared_receive_batch =
    receive_batch<Capacity, detail::request_storage<ibv_recv_wr, Capacity>, ibv_srq>;

/// A shared receive queue (SRQ), created by protection_domain::create_srq(). Copies share the
/// queue. The queue is destroyed when its last copy and all queue pairs that use it have been
/// destroyed.
///
/// A receive completes into the completion queue of the queue pair whose message consumed it.
/// Receives that are outstanding when the queue is destroyed do not complete.
///
/// Threads: one thread at a time uses each handle. Different threads may use copies concurrently,
/// also to post.
class shared_receive_queue : public handle<detail::shared_receive_queue_state> {
 public:
  /// Adopts a shared receive queue of the C API. Precondition: it belongs to `pd`.
  [[nodiscard]] static shared_receive_queue adopt(ibv_srq* native, const protection_domain& pd,
                                                  ownership owner);

  /// Posts a receive for one message: ibv_post_srq_recv(3). The message fills the slices in order.
  /// UD: the message begins at byte 40; the first 40 bytes are reserved for the GRH.
  ///
  /// Errors: ENOMEM if the queue is full; EINVAL if the request has too many slices. Does not block
  /// or allocate.
  ///
  /// *Contract.* The memory must stay registered with local_write, and the program must not read or
  /// write it, until the completion of the request has been polled, or the queue has been
  /// destroyed.
  template <memory_slices Data>
  [[gnu::always_inline]] inline post_status post_receive(
      receive_request request, Data&& into, call_site where = call_site::here()) const {
    return detail::post_one_receive(queue(), request, into, where);
  }
  /// Opens a batch of up to `Capacity` receive requests.
  ///
  /// *Contract.* The queue must outlive the batch.
  template <std::size_t Capacity = 16>
  [[nodiscard]] [[gnu::always_inline]] inline shared_receive_batch<Capacity> start_receive()
      const& {
    return shared_receive_batch<Capacity>(queue());
  }

  /// Deleted: a temporary handle does not keep the queue alive.
  template <std::size_t Capacity = 16>
  shared_receive_batch<Capacity> start_receive() const&& = delete;

  /// Queries the attributes of the queue: ibv_query_srq(3). May block in the kernel.
  ///
  /// Errors: the errno of the verb.
  [[nodiscard]] result<shared_receive_queue_attributes> query() const;
  /// Arms the limit: ibv_modify_srq(3). 0 disarms it. May block in the kernel.
  ///
  /// When the number of outstanding receives falls below `limit`, the device raises one event
  /// async_event_kind::srq_limit_reached and disarms the limit.
  ///
  /// Errors: EINVAL if `limit` exceeds `max_wr`; otherwise the errno of the verb.
  [[nodiscard]] result<void> arm_limit(std::uint32_t limit) const;
  /// Changes the maximum number of outstanding receives to at least `max_wr`: ibv_modify_srq(3).
  /// Keeps the posted receives. May block in the kernel.
  ///
  /// Errors: `not_supported` or EINVAL if the device cannot resize (device_capability::srq_resize);
  /// EINVAL if `max_wr` exceeds the limit of the device, or is less than the number of outstanding
  /// receives or the armed limit; otherwise the errno of the verb.
  [[nodiscard]] result<void> resize(std::uint32_t max_wr) const;

  /// Destroys the queue: ibv_destroy_srq(3). If copies or queue pairs share it, or if the verb
  /// fails, returns the queue with the error.
  [[nodiscard]] close_result<shared_receive_queue> close() &&;

 private:
  friend struct detail::internals;
  explicit shared_receive_queue(std::shared_ptr<detail::shared_receive_queue_state> state) noexcept
      : handle(std::move(state)), queue_(handle::native()) {}

  [[nodiscard]] ibv_srq* queue() const noexcept {
    VERBENA_CHECK(queue_.get() != nullptr, "a moved-from shared receive queue was used");
    return queue_.get();
  }

  detail::native_pointer<ibv_srq> queue_;
};

}  // namespace verbena::inline VERBENA_ABI
