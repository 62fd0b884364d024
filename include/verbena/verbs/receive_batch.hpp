// SPDX-License-Identifier: MIT
// A list of receive requests that is handed to the device at once, by ibv_post_recv(3).
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>

#include "verbena/base/call_site.hpp"
#include "verbena/base/post_status.hpp"
#include "verbena/verbs/detail/request_list.hpp"
#include "verbena/verbs/work_request.hpp"

namespace verbena::inline VERBENA_ABI {

/// Up to `Capacity` receive requests of one queue pair, from `queue_pair::start_receive`, or of a
/// shared receive queue. They reach the device with submit(); a batch that is dropped without
/// submit() posts nothing. In checked builds, adding more than `Capacity`, or after submit(), stops
/// the program. Threads: one thread at a time, together with its queue pair.
template <std::size_t Capacity = 16, class Storage = detail::request_storage<ibv_recv_wr, Capacity>,
          class Queue = ibv_qp>
class [[nodiscard("a batch posts nothing until submit()")]] receive_batch
    : private detail::request_list<ibv_recv_wr, Storage, Queue> {
  using list = detail::request_list<ibv_recv_wr, Storage, Queue>;

 public:
  /// Of a queue; with a reference as `Storage`, also of where the list lies.
  using list::list;

  /// Adds room for one message: a slice, or a list of slices that are filled one after the other.
  ///
  /// *Contract.* The memory must stay registered with local_write, and must be neither read nor
  /// written, until the request's completion was polled; a list must stay until submit() returned.
  /// On the thread that uses the queue pair.
  template <memory_slices Data>
  [[gnu::always_inline]] inline void receive(receive_request request, Data&& into) {
    ibv_recv_wr& added = this->next(request.id);
    detail::check_receives_go_to(this->queue());
    this->put(added, detail::normalised(into));
    this->take();
  }

  /// Hands the requests to the device; an empty batch is a success. Never blocks, never allocates.
  /// On failure the status says how many were accepted. ENOMEM: the queue is full.
  ///
  /// *Contract.* The contract of each request that was accepted runs from here.
  [[gnu::always_inline]] inline post_status submit(call_site where = call_site::here()) {
    return this->hand_over(where);
  }
};

namespace detail {
/// Posts one receive request. Never blocks, never allocates.
///
/// *Contract.* As receive_batch::receive.
template <class Queue, class Data>
[[gnu::always_inline]] inline post_status post_one_receive(Queue* queue, receive_request request,
                                                           const Data& into,
                                                           call_site where = call_site::here()) {
  check_receives_go_to(queue);
  ibv_recv_wr posted;
  ibv_sge slice;
  posted.wr_id = request.id;
  posted.next = nullptr;
  if constexpr (one_slice<Data>) {
    slice = into.native();
    posted.sg_list = &slice;
    posted.num_sge = 1;
  } else {
    const auto [first, count] = as_sge_list(into);
    posted.sg_list = const_cast<ibv_sge*>(first);
    posted.num_sge = static_cast<int>(count);
  }
  ibv_recv_wr* refused;
  const int code = give_noted(queue, &posted, &refused, where);
  return {code, 0};
}
}  // namespace detail

}  // namespace verbena::inline VERBENA_ABI
