// SPDX-License-Identifier: MIT
// Batches of receive requests: ibv_post_recv(3), ibv_post_srq_recv(3).
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>

#include "verbena/base/call_site.hpp"
#include "verbena/base/post_status.hpp"
#include "verbena/verbs/detail/request_list.hpp"
#include "verbena/verbs/work_request.hpp"

namespace verbena::inline VERBENA_ABI {

/// A batch of up to `Capacity` receive requests, from `start_receive()` of a queue pair or SRQ.
///
/// submit() posts the requests in the order in which they were added. A batch that is destroyed
/// without submit() posts no requests. If more than `Capacity` requests are added, submit() posts
/// none of them and returns ENOBUFS. Checked builds stop the program if a function of the batch is
/// called after submit() has passed the requests to the queue.
/// Threads: one thread at a time, for the batch and its queue together.
template <std::size_t Capacity = 16, class Storage = detail::request_storage<ibv_recv_wr, Capacity>,
          class Queue = ibv_qp>
class [[nodiscard("a batch posts nothing until submit()")]] receive_batch
    : private detail::request_list<ibv_recv_wr, Storage, Queue> {
  using list = detail::request_list<ibv_recv_wr, Storage, Queue>;

 public:
  /// Opens a batch of a queue. If `Storage` is a reference, the requests are in that storage.
  using list::list;

  using list::capacity;
  using list::full;
  using list::size;

  /// Adds a receive for one message. The message fills the slices in order.
  /// UD: the message begins at byte 40; the first 40 bytes are reserved for the GRH.
  ///
  /// *Contract.* The memory must stay registered with local_write, and the program must not read or
  /// write it, until the completion of the request has been polled. A list must stay valid until
  /// submit() returns. Call the function on the thread that uses the queue.
  template <memory_slices Data>
  [[gnu::always_inline]] inline void receive(receive_request request, Data&& into) {
    const auto at = this->add_request(request.id);
    detail::check_receives_go_to(this->queue());
    if (at.request != nullptr) [[likely]]
      this->put(at, detail::normalized(into));
  }

  /// Posts the requests with one call and ends the batch. Submitting an empty batch succeeds. Does
  /// not block or allocate.
  ///
  /// Errors: ENOBUFS if requests were added beyond the capacity; no request was posted, and every
  /// later submit() of the batch fails too. ENOMEM if the queue is full;
  /// accepted_before_failure() requests were posted. Otherwise the errno of ibv_post_recv(3).
  ///
  /// If submit() succeeds, or returns an error other than ENOBUFS, the batch has passed its
  /// requests to the queue. Then only destroy it: size(), full(), a further request and a second
  /// submit() are undefined. To post requests that the queue did not accept, open another batch.
  ///
  /// *Contract.* The *Contract* of each request applies from this call on, to the requests that
  /// were posted.
  [[gnu::always_inline]] inline post_status submit(call_site where = call_site::here()) {
    return this->submit_list(where);
  }
};

namespace detail {
/// Posts one receive request. Does not block or allocate.
///
/// *Contract.* As for receive_batch::receive().
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
    slice = as_sge(into);
    posted.sg_list = &slice;
    posted.num_sge = 1;
  } else {
    const auto [first, count] = as_sge_list(into);
    posted.sg_list = const_cast<ibv_sge*>(first);
    posted.num_sge = static_cast<int>(count);
  }
  ibv_recv_wr* refused;
  const int code = call_recorded(queue, &posted, &refused, where);
  if (code != 0) [[unlikely]]
    return post_status(refused_post{.code = code,
                                    .accepted = count_accepted<ibv_recv_wr>(&posted, refused),
                                    .verb = verb_of<ibv_recv_wr, Queue>,
                                    .queue_pair = number_of(queue)});
  return {};
}
}  // namespace detail

}  // namespace verbena::inline VERBENA_ABI
