// SPDX-License-Identifier: MIT
// What a batch of send requests and a batch of receive requests have in common: a linked list in
// memory of the batch or of somebody else, and where its end is.
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
#include "verbena/verbs/detail/flights.hpp"
#include "verbena/verbs/detail/open_alone.hpp"
#include "verbena/verbs/work_request.hpp"

namespace verbena::inline VERBENA_ABI::detail {

/// Where the list of a batch lies; left uninitialised. Each request has one slice of its own.
template <class Request, std::size_t Capacity>
struct request_storage {
  static constexpr std::size_t capacity = Capacity;
  Request* refused;
  Request requests[Capacity];
  ibv_sge slices[Capacity];
};

// By the verb of its kind.
[[gnu::always_inline]] inline int give(ibv_qp* queue, ibv_send_wr* list, ibv_send_wr** refused) {
  return ibv_post_send(queue, list, refused);
}
[[gnu::always_inline]] inline int give(ibv_qp* queue, ibv_recv_wr* list, ibv_recv_wr** refused) {
  return ibv_post_recv(queue, list, refused);
}
[[gnu::always_inline]] inline int give(ibv_srq* queue, ibv_recv_wr* list, ibv_recv_wr** refused) {
  return ibv_post_srq_recv(queue, list, refused);
}

// The same; in checked builds module check knows of the list before the device does.
template <class Queue, class Request>
[[gnu::always_inline]] inline int give_noted(Queue* queue, Request* list, Request** refused,
                                             [[maybe_unused]] call_site where) {
#ifdef VERBENA_CHECKED
  const auto noted = depart(queue, list, where);
  const int code = give(queue, list, refused);
  if (code == 0) return 0;
  const auto accepted = list->next == nullptr ? 0 : *refused - list;
  refuse(queue, list, {noted, static_cast<std::size_t>(accepted), code}, where);
  return code;
#else
  return give(queue, list, refused);
#endif
}

// Where receives of a queue pair go.
inline void check_receives_go_to([[maybe_unused]] const ibv_qp* queue) {
  VERBENA_CHECK(queue->srq == nullptr,
                "a queue pair with a shared receive queue takes its receives from there: they are "
                "posted to that queue");
}
inline void check_receives_go_to(const ibv_srq* /*queue*/) {}

/// Base of the batches. `Storage` is a request_storage, or a reference to one that lies elsewhere
/// and serves one batch at a time. Threads: one thread at a time.
template <class Request, class Storage, class Queue = ibv_qp>
class request_list {
  static constexpr bool lies_elsewhere = std::is_reference_v<Storage>;
  static constexpr std::size_t capacity = std::remove_reference_t<Storage>::capacity;

 public:
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init): requests are written when added
  [[gnu::always_inline]] inline explicit request_list(Queue* queue) noexcept
    requires(!lies_elsewhere)
      : at_{queue, 0} {}
  [[gnu::always_inline]] inline request_list(Queue* queue, Storage& storage,
                                             call_site where = call_site::here())
    requires lies_elsewhere
      : at_{queue, 0}, storage_(storage) {
    open_alone(&storage_, "a poster has one open batch of a kind at a time", where);
  }
  request_list(const request_list&) = delete;
  request_list& operator=(const request_list&) = delete;

 protected:
  [[gnu::always_inline]] inline ~request_list() {
#ifdef VERBENA_CHECKED
    if (at_.queue != nullptr) end_use();
#endif
  }

  /// The request at the end of the list, linked to the next; take() makes it part of the list.
  [[gnu::always_inline]] inline Request& next(std::uint64_t id) {
    VERBENA_CHECK(at_.queue != nullptr, "nothing is added to a batch after submit()");
    VERBENA_CHECK(at_.count != capacity, "a batch has a fixed capacity; it is full");
    Request& added = storage_.requests[at_.count];
    added.wr_id = id;
    added.next = &added + 1;
    return added;
  }
  [[gnu::always_inline]] inline void take() { ++at_.count; }

  // Where the slice of the request that next() gave is copied to.
  [[gnu::always_inline]] inline ibv_sge& slice_of_next() { return storage_.slices[at_.count]; }

  // The memory of next(): a slice is copied, a list is named where it lies.
  [[gnu::always_inline]] inline void put(Request& added, const ibv_sge& slice) {
    ibv_sge& copy = slice_of_next();
    copy = slice;
    added.sg_list = &copy;
    added.num_sge = 1;
  }
  [[gnu::always_inline]] inline void put(Request& added, const local_slice& slice) {
    put(added, slice.native());
  }
  [[gnu::always_inline]] inline void put(Request& added, std::span<const local_slice> list) {
    const auto [first, count] = as_sge_list(list);
    // The C API has no const here; providers only read.
    added.sg_list = const_cast<ibv_sge*>(first);
    added.num_sge = static_cast<int>(count);
  }

  [[gnu::always_inline]] inline post_status hand_over(call_site where) {
    VERBENA_CHECK(at_.queue != nullptr, "a batch is submitted once");
    if (at_.count == 0) return {};
    storage_.requests[at_.count - 1].next = nullptr;
    Queue* const queue = at_.queue;
    end_bookkeeping();
    const int code = give_noted(queue, &storage_.requests[0], &storage_.refused, where);
    if (code != 0) [[unlikely]]
      return {code, static_cast<std::uint32_t>(storage_.refused - storage_.requests)};
    return {};
  }

  [[nodiscard]] std::remove_reference_t<Storage>& storage() noexcept { return storage_; }
  [[nodiscard]] Queue* queue() const noexcept { return at_.queue; }
  [[nodiscard]] std::size_t count() const noexcept { return at_.count; }

 private:
  // Of a type that no member of a request has: stores to requests are known not to change it.
  using counter = std::uint16_t;
  static_assert(capacity <= std::numeric_limits<counter>::max());

  struct bookkeeping {
    Queue* queue;
    counter count;
  };
  // Ends the life of the bookkeeping: optimisers then know that the device, which gets a pointer
  // into this object, does not read it, and keep it in registers.
  [[gnu::always_inline]] inline void end_bookkeeping() {
#ifdef VERBENA_CHECKED
    end_use();
    at_.queue = nullptr;
#else
    std::destroy_at(&at_);
#endif
  }
  void end_use() noexcept {
    if constexpr (lies_elsewhere) end_alone(&storage_);
  }

  union {  // so that submit() can end its life
    bookkeeping at_;
  };
  Storage storage_;
};

}  // namespace verbena::inline VERBENA_ABI::detail
