// SPDX-License-Identifier: MIT
// A list of receive requests that is handed to the device at once, by ibv_post_recv(3).
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>

#include "verbena/base/assert.hpp"
#include "verbena/base/post_status.hpp"
#include "verbena/verbs/work_request.hpp"

namespace verbena::inline VERBENA_ABI {

namespace detail {
// Where the list of a batch lies; left uninitialised.
template <std::size_t Capacity>
struct receive_storage {
  ibv_recv_wr* refused;
  ibv_recv_wr requests[Capacity];
  ibv_sge slices[Capacity];
};
}  // namespace detail

/// Up to `Capacity` receive requests of one queue pair, from `queue_pair::start_receive`. They
/// reach the device with submit(); a batch that is dropped without submit() posts nothing. In
/// checked builds, adding more than `Capacity`, or after submit(), stops the program. Threads: one
/// thread at a time, together with its queue pair.
template <std::size_t Capacity = 16, class Storage = detail::receive_storage<Capacity>>
class [[nodiscard("a batch posts nothing until submit()")]] receive_batch {
 public:
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init): requests are written when added
  explicit receive_batch(ibv_qp* queue) noexcept
    requires(!std::is_reference_v<Storage>)
      : at_{queue, storage_.requests, storage_.slices} {}
  /// One whose list lies elsewhere.
  receive_batch(ibv_qp* queue, Storage& storage) noexcept
    requires std::is_reference_v<Storage>
      : at_{queue, storage.requests, storage.slices}, storage_(storage) {}
  receive_batch(const receive_batch&) = delete;
  receive_batch& operator=(const receive_batch&) = delete;
  ~receive_batch() = default;

  /// Adds room for one message: a slice, or a list of slices that are filled one after the other.
  ///
  /// *Contract.* The memory must stay registered with local_write, and must be neither read nor
  /// written, until the request's completion was polled; a list must stay until submit() returned.
  /// On the thread that uses the queue pair.
  template <memory_slices Data>
  [[gnu::always_inline]] inline void receive(receive_request request, Data&& into) {
    VERBENA_CHECK(at_.queue != nullptr, "nothing is added to a batch after submit()");
    VERBENA_CHECK(at_.next != storage_.requests + Capacity,
                  "a batch has a fixed capacity; it is full");
    ibv_recv_wr* const added = at_.next;
    added->wr_id = request.id;
    added->next = added + 1;
    if constexpr (detail::one_slice<Data>) {
      ibv_sge* const slice = at_.next_slice;
      *slice = into.native();
      added->sg_list = slice;
      added->num_sge = 1;
      at_.next_slice = slice + 1;
    } else {
      const auto [first, count] = detail::as_sge_list(into);
      // The C API has no const here; providers only read.
      added->sg_list = const_cast<ibv_sge*>(first);
      added->num_sge = static_cast<int>(count);
    }
    at_.next = added + 1;
  }

  /// Hands the requests to the device; an empty batch is a success. Never blocks, never allocates.
  /// On failure the status says how many were accepted. ENOMEM: the queue is full.
  ///
  /// *Contract.* The contract of each request that was accepted runs from here.
  [[gnu::always_inline]] inline post_status submit() {
    VERBENA_CHECK(at_.queue != nullptr, "a batch is submitted once");
    if (at_.next == storage_.requests) return {};
    at_.next[-1].next = nullptr;
    ibv_qp* const queue = at_.queue;
    end_bookkeeping();
    const int code = ibv_post_recv(queue, storage_.requests, &storage_.refused);
    if (code != 0) [[unlikely]]
      return {code, static_cast<std::uint32_t>(storage_.refused - storage_.requests)};
    return {};
  }

 private:
  struct bookkeeping {
    ibv_qp* queue;
    ibv_recv_wr* next;
    ibv_sge* next_slice;
  };
  // As in send_batch.
  [[gnu::always_inline]] inline void end_bookkeeping() {
#ifdef VERBENA_CHECKED
    at_.queue = nullptr;
#else
    std::destroy_at(&at_);
#endif
  }

  union {  // so that submit() can end its life
    bookkeeping at_;
  };
  Storage storage_;
};

namespace detail {
/// Posts one receive request. Never blocks, never allocates.
///
/// *Contract.* As receive_batch::receive.
template <class Data>
[[gnu::always_inline]] inline post_status post_one_receive(ibv_qp* queue, receive_request request,
                                                           const Data& into) {
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
  const int code = ibv_post_recv(queue, &posted, &refused);
  return {code, 0};
}
}  // namespace detail

}  // namespace verbena::inline VERBENA_ABI
