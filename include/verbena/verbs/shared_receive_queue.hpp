// SPDX-License-Identifier: MIT
// A receive queue that many queue pairs take from, so that memory is needed for the messages that
// come, and not for every peer that might send one.
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

/// What protection_domain::create_srq can be told. Source: ibv_create_srq(3).
struct shared_receive_queue_options {
  std::uint32_t max_wr = 64;  ///< receives that may be outstanding
  std::uint32_t max_sge = 1;  ///< slices that one receive may have
};

/// What a shared receive queue is like now. Source: ibv_query_srq(3).
struct shared_receive_queue_attributes {
  std::uint32_t max_wr = 0;   ///< receives that may be outstanding
  std::uint32_t max_sge = 0;  ///< slices that one receive may have
  std::uint32_t limit = 0;    ///< as armed; 0 when it is not armed
};

/// A batch of receives of a shared receive queue.
template <std::size_t Capacity = 16>
using shared_receive_batch =
    receive_batch<Capacity, detail::request_storage<ibv_recv_wr, Capacity>, ibv_srq>;

/// A shared receive queue, made by protection_domain::create_srq. A cheap handle:
/// copies share the queue, which is destroyed when the last handle and the last queue pair that
/// takes from it are gone; receives that are then outstanding end without completions. A receive
/// completes into the completion queue of the queue pair that took it.
/// Threads: one handle by one thread at a time; copies may post at the same time, the device locks.
class shared_receive_queue : public handle<detail::shared_receive_queue_state> {
 public:
  /// Takes over or borrows a queue that the C API made from `pd`.
  [[nodiscard]] static shared_receive_queue adopt(ibv_srq* native, const protection_domain& pd,
                                                  ownership owner);

  /// Posts one receive request: room for one message, in a slice or in a list of slices that are
  /// filled one after the other. Never blocks, never allocates. Errors: ENOMEM when the queue is
  /// full, EINVAL when it has too many slices.
  ///
  /// *Contract.* The memory must stay registered with local_write, and must be neither read nor
  /// written, until the request's completion was polled, or the queue was destroyed.
  template <memory_slices Data>
  [[gnu::always_inline]] inline post_status post_receive(
      receive_request request, Data&& into, call_site where = call_site::here()) const {
    return detail::post_one_receive(qp(), request, into, where);
  }
  /// Opens a batch of up to `Capacity` receive requests.
  ///
  /// *Contract.* The queue must outlive the batch.
  template <std::size_t Capacity = 16>
  [[nodiscard]] [[gnu::always_inline]] inline shared_receive_batch<Capacity> start_receive()
      const& {
    return shared_receive_batch<Capacity>(qp());
  }

  template <std::size_t Capacity = 16>
  shared_receive_batch<Capacity> start_receive() const&& = delete;

  /// Asks the device: ibv_query_srq(3).
  [[nodiscard]] result<shared_receive_queue_attributes> query() const;
  /// Asks for one asynchronous event (SRQ_LIMIT_REACHED) when fewer than `limit` receives are
  /// left; it comes once, then this is called again. 0 disarms.
  ///
  /// Errors: the errno of ibv_modify_srq(3): EINVAL for more than the queue has room for.
  [[nodiscard]] result<void> arm_limit(std::uint32_t limit) const;
  /// Changes how many receives may be outstanding, to at least `max_wr`.
  ///
  /// Errors: `not_supported` where the device cannot; otherwise the errno of ibv_modify_srq(3):
  /// EINVAL beyond the device's limit, or for less than is outstanding or armed as limit.
  [[nodiscard]] result<void> resize(std::uint32_t max_wr) const;

  /// Destroys the queue now. Hands it back when it is shared, by copies or by queue pairs, or when
  /// the verb refuses.
  [[nodiscard]] close_result<shared_receive_queue> close() && {
    return close_handle(std::move(*this));
  }

 private:
  friend struct detail::internals;
  explicit shared_receive_queue(std::shared_ptr<detail::shared_receive_queue_state> state) noexcept
      : handle(std::move(state)), queue_(handle::native()) {}

  [[nodiscard]] ibv_srq* qp() const noexcept {
    VERBENA_CHECK(queue_.get() != nullptr, "a moved-from shared receive queue must not be used");
    return queue_.get();
  }

  detail::native_pointer<ibv_srq> queue_;
};

}  // namespace verbena::inline VERBENA_ABI
