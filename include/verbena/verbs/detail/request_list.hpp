// SPDX-License-Identifier: MIT
// The common base of send and receive batches: a linked list of requests in memory of the batch or
// of the caller.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <type_traits>

#include "verbena/base/assert.hpp"
#include "verbena/base/call_site.hpp"
#include "verbena/base/post_status.hpp"
#include "verbena/verbs/detail/exclusive_use.hpp"
#include "verbena/verbs/detail/in_flight.hpp"
#include "verbena/verbs/work_request.hpp"

namespace verbena::inline VERBENA_ABI::detail {

/// The memory of a batch; not initialised. Each request has room for one slice.
template <class Request, std::size_t Capacity>
struct request_storage {
  static constexpr std::size_t capacity = Capacity;
  Request* refused;
  Request requests[Capacity];
  ibv_sge slices[Capacity];
};

// The verb that posts requests of a type to a queue, and its enumerator for messages.
[[gnu::always_inline]] inline int call_post_verb(ibv_qp* queue, ibv_send_wr* list,
                                                 ibv_send_wr** refused) {
  return ibv_post_send(queue, list, refused);
}
[[gnu::always_inline]] inline int call_post_verb(ibv_qp* queue, ibv_recv_wr* list,
                                                 ibv_recv_wr** refused) {
  return ibv_post_recv(queue, list, refused);
}
[[gnu::always_inline]] inline int call_post_verb(ibv_srq* queue, ibv_recv_wr* list,
                                                 ibv_recv_wr** refused) {
  return ibv_post_srq_recv(queue, list, refused);
}
template <class Request, class Queue>
inline constexpr posting_verb verb_of =
    std::is_same_v<Request, ibv_send_wr> ? posting_verb::post_send
    : std::is_same_v<Queue, ibv_qp>      ? posting_verb::post_receive
                                         : posting_verb::post_shared_receive;
[[nodiscard]] inline std::uint32_t number_of(const ibv_qp* queue) noexcept { return queue->qp_num; }
[[nodiscard]] inline std::uint32_t number_of(const ibv_srq* /*queue*/) noexcept { return 0; }

/// Returns the number of requests of `list` that the queue accepted, after the verb failed and set
/// `refused`. Some providers set it to null if only the doorbell failed, after all requests.
template <class Request>
[[nodiscard, gnu::cold, gnu::noinline]] std::uint32_t count_accepted(const Request* list,
                                                                     const Request* refused) {
  std::uint32_t before = 0;
  for (const Request* each = list; each != refused; each = each->next, ++before)
    if (each == nullptr) return 0;  // not a request of the list
  return before;
}

// Posts the list. In checked builds, module check records the requests first.
template <class Queue, class Request>
[[gnu::always_inline]] inline int call_recorded(Queue* queue, Request* list, Request** refused,
                                                [[maybe_unused]] call_site where) {
#ifdef VERBENA_CHECKED
  const auto recorded = record_post(queue, list, where);
  *refused = list;  // functions for unsupported operations do not set it
  const int code = call_post_verb(queue, list, refused);
  if (code == 0) return 0;
  record_failure(queue, list, {recorded, count_accepted(list, *refused), code}, where);
  return code;
#else
  *refused = list;
  return call_post_verb(queue, list, refused);
#endif
}

// Checks that the queue pair does not have a shared receive queue: ibv_post_recv(3).
inline void check_receives_go_to([[maybe_unused]] const ibv_qp* queue) {
  VERBENA_CHECK(queue->srq == nullptr,
                "a receive was posted to a queue pair that has a shared receive queue; post it to "
                "the shared receive queue");
}
inline void check_receives_go_to(const ibv_srq* /*queue*/) {}

// The type of counts of requests. No member of a request has this type, so compilers know that
// writing a request does not change the count.
using request_count = std::uint16_t;
inline constexpr request_count most_requests = std::numeric_limits<request_count>::max();

/// Base of the batches. `Storage` is a request_storage, or a reference to a request_storage of the
/// caller that one batch uses at a time. Threads: one thread at a time.
template <class Request, class Storage, class Queue = ibv_qp>
class request_list {
  static constexpr bool is_external = std::is_reference_v<Storage>;
  static constexpr std::size_t limit = std::remove_reference_t<Storage>::capacity;
  static_assert(limit > 0 && limit < most_requests, "a batch holds 1 to 65534 requests");

 public:
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init): requests are written when added
  [[gnu::always_inline]] inline explicit request_list(Queue* queue) noexcept
    requires(!is_external)
      : at_{queue, 0, 0} {}
  [[gnu::always_inline]] inline request_list(Queue* queue, Storage& storage,
                                             call_site where = call_site::here())
    requires is_external
      : at_{queue, 0, 0}, storage_(storage) {
    begin_exclusive(&storage_, "a second batch of the same kind was opened on a queue", where);
  }
  request_list(const request_list&) = delete;
  request_list& operator=(const request_list&) = delete;

  /// Returns the number of requests that the batch can hold.
  [[nodiscard]] static constexpr std::size_t capacity() noexcept { return limit; }
  /// Returns the number of requests in the batch; at most capacity(). Precondition: submit() has
  /// not posted the batch.
  [[nodiscard]] std::size_t size() const noexcept { return full() ? limit : at_.count; }
  /// Returns whether the batch has no room for another request. Precondition: submit() has not
  /// posted the batch.
  [[nodiscard]] bool full() const noexcept {
    VERBENA_CHECK(at_.queue != nullptr, "size() or full() of a batch that was submitted before");
    return at_.count >= limit || at_.excess > most_requests - limit;
  }

 protected:
  [[gnu::always_inline]] inline ~request_list() {
#ifdef VERBENA_CHECKED
    if (at_.queue != nullptr) end_use();
#endif
  }

  /// The place of a request and of the slice that belongs to it.
  struct place {
    Request* request;
    ibv_sge* slice;
  };
  /// Adds a request, linked to its successor, and returns its place. If the batch is full, only
  /// counts the request and returns nullptr.
  [[gnu::always_inline]] inline place add_request(std::uint64_t id) {
    VERBENA_CHECK(at_.queue != nullptr, "a request was added to a batch after submit()");
    const request_count index = at_.count++;
    if (index >= limit) [[unlikely]] {
      count_excess();
      return {nullptr, nullptr};
    }
    Request* const added = &storage_.requests[index];
    added->wr_id = id;
    added->next = added + 1;
    return {added, &storage_.slices[index]};
  }
  // Counts a request that does not fit. submit() then refuses the batch.
  [[gnu::always_inline]] inline void count_excess() {
    if (at_.excess != most_requests) ++at_.excess;
  }

  // Sets the memory of a request. A slice is copied; a list is not.
  [[gnu::always_inline]] inline static void put(place at, const local_slice& slice) {
    *at.slice = as_sge(slice);
    at.request->sg_list = at.slice;
    at.request->num_sge = 1;
  }
  [[gnu::always_inline]] inline static void put(place at, std::span<const local_slice> list) {
    const auto [first, count] = as_sge_list(list);
    // The C API lacks const here; providers only read.
    at.request->sg_list = const_cast<ibv_sge*>(first);
    at.request->num_sge = static_cast<int>(count);
  }

  [[gnu::always_inline]] inline post_status submit_list(call_site where) {
    VERBENA_CHECK(at_.queue != nullptr, "submit() of a batch that was submitted before");
    const request_count count = at_.count;
    Queue* const queue = at_.queue;
    if (at_.excess != 0) [[unlikely]]
      return refused_batch();  // first: after 65,536 requests, the count is 0 again
    if (count == 0) return {};
    storage_.requests[count - 1].next = nullptr;
    end_bookkeeping();
    const int code = call_recorded(queue, &storage_.requests[0], &storage_.refused, where);
    if (code != 0) [[unlikely]] {
      restore_bookkeeping(queue);
      return post_status(
          refused_post{.code = code,
                       .accepted = count_accepted(storage_.requests, storage_.refused),
                       .verb = verb_of<Request, Queue>,
                       .queue_pair = number_of(queue)});
    }
    return {};
  }

  [[nodiscard]] std::remove_reference_t<Storage>& storage() noexcept { return storage_; }
  [[nodiscard]] Queue* queue() const noexcept { return at_.queue; }

 private:
  struct bookkeeping {
    Queue* queue;
    request_count count;   // added requests; if it wraps around, excess is large
    request_count excess;  // requests that did not fit
  };

  [[nodiscard]] post_status refused_batch() const {
    const bool beyond = at_.count > limit || at_.excess > most_requests - limit;
    return post_status(overfull_batch{.capacity = static_cast<std::uint16_t>(limit),
                                      .excess = at_.excess,
                                      .has_long_lists = !beyond,
                                      .verb = verb_of<Request, Queue>,
                                      .queue_pair = number_of(at_.queue)});
  }

  // Ends the lifetime of the bookkeeping before the provider gets a pointer into this object.
  // Compilers then know that the provider does not read the bookkeeping, and keep it in registers.
  [[gnu::always_inline]] inline void end_bookkeeping() {
#ifdef VERBENA_CHECKED
    end_use();
    at_.queue = nullptr;
#else
    std::destroy_at(&at_);
#endif
  }
  // After a failure, marks the batch as overfull. A second submit(), which violates the contract,
  // then fails with ENOBUFS in builds without checks.
  [[gnu::always_inline]] inline void restore_bookkeeping([[maybe_unused]] Queue* queue) {
#ifndef VERBENA_CHECKED
    std::construct_at(&at_, bookkeeping{queue, limit, most_requests});
#endif
  }
  void end_use() noexcept {
    if constexpr (is_external) end_exclusive(&storage_);
  }

  union {  // so that submit() can end the lifetime
    bookkeeping at_;
  };
  Storage storage_;
};

}  // namespace verbena::inline VERBENA_ABI::detail
