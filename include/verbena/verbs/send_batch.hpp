// SPDX-License-Identifier: MIT
// A list of send requests that is handed to the device at once, by ibv_post_send(3), which every
// provider has. The list lies in the batch itself; nothing is allocated.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>

#include "verbena/base/assert.hpp"
#include "verbena/base/bytes.hpp"
#include "verbena/base/post_status.hpp"
#include "verbena/verbs/remote_region.hpp"
#include "verbena/verbs/transport.hpp"
#include "verbena/verbs/work_request.hpp"

namespace verbena::inline VERBENA_ABI {

namespace detail {
// Where the list of a batch lies; left uninitialised.
template <std::size_t Capacity>
struct send_storage {
  ibv_send_wr* refused;
  ibv_send_wr requests[Capacity];
  ibv_sge slices[2 * Capacity];
};
}  // namespace detail

/// Up to `Capacity` send requests of one queue pair, from `queue_pair::start_send`. Requests are
/// added one after the other and reach the device with submit(), in that order; a batch that is
/// dropped without submit() posts nothing.
///
/// In checked builds these rules stop the program: at most `Capacity` requests are added, nothing
/// is added after submit(), data fits into the remote region it is written to, atomics have 8 bytes
/// at an address divisible by 8. Lists of inline data have `Capacity` pieces together, in all
/// builds. Threads: one thread at a time, together with its queue pair.
template <transport Transport, std::size_t Capacity = 16,
          class Storage = detail::send_storage<Capacity>>
class [[nodiscard("a batch posts nothing until submit()")]] send_batch {
 public:
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init): requests are written when added
  explicit send_batch(ibv_qp* queue) noexcept
    requires(!std::is_reference_v<Storage>)
      : at_{queue, storage_.requests, storage_.slices} {}
  /// One whose list lies elsewhere.
  send_batch(ibv_qp* queue, Storage& storage) noexcept
    requires std::is_reference_v<Storage>
      : at_{queue, storage.requests, storage.slices}, storage_(storage) {}
  send_batch(const send_batch&) = delete;
  send_batch& operator=(const send_batch&) = delete;
  ~send_batch() = default;

  /// Adds a message for the peer's next receive.
  ///
  /// *Contract.* The memory that slices name must stay registered and unchanged until the request's
  /// completion was polled, or that of a later request of this queue; lists and inline bytes must
  /// stay until submit() returned. On the thread that uses the queue pair.
  template <message_data Data>
    requires connected_transport<Transport>
  [[gnu::always_inline]] inline void send(send_request request, Data&& data) {
    add(request, IBV_WR_SEND, detail::normalised(data));
  }
  /// Adds a message with a number of 32 bits, which arrives in the completion of the receive.
  ///
  /// *Contract.* As send().
  template <message_data Data>
    requires connected_transport<Transport>
  [[gnu::always_inline]] inline void send_with_immediate(send_request request,
                                                         std::uint32_t immediate, Data&& data) {
    add(request, IBV_WR_SEND_WITH_IMM, detail::normalised(data)).imm_data =
        network_order(immediate);
  }
  /// Adds a write of `data` to the beginning of `to`; the peer's program does not notice.
  ///
  /// *Contract.* As send(). The peer must keep `to` registered until then, else the request fails.
  template <message_data Data>
    requires connected_transport<Transport> && writing_transport<Transport>
  [[gnu::always_inline]] inline void write(send_request request, Data&& data,
                                           const remote_region& to) {
    detail::check_fits(data, to);
    set_remote(add(request, IBV_WR_RDMA_WRITE, detail::normalised(data)), to);
  }
  /// Adds a write that uses up a receive of the peer and tells it a number of 32 bits.
  ///
  /// *Contract.* As write().
  template <message_data Data>
    requires connected_transport<Transport> && writing_transport<Transport>
  [[gnu::always_inline]] inline void write_with_immediate(send_request request,
                                                          std::uint32_t immediate, Data&& data,
                                                          const remote_region& to) {
    detail::check_fits(data, to);
    ibv_send_wr& added = add(request, IBV_WR_RDMA_WRITE_WITH_IMM, detail::normalised(data));
    added.imm_data = network_order(immediate);
    set_remote(added, to);
  }
  /// Adds a read of the beginning of `from` into `into`, which it fills.
  ///
  /// *Contract.* `into` must stay registered with local_write, and must be neither read nor
  /// written, until the request's completion was polled, or that of a later request of this queue;
  /// a list must stay until submit() returned. On the thread that uses the queue pair.
  template <memory_slices Data>
    requires connected_transport<Transport> && reading_transport<Transport>
  [[gnu::always_inline]] inline void read(send_request request, Data&& into,
                                          const remote_region& from) {
    detail::check_fits(into, from);
    set_remote(add(request, IBV_WR_RDMA_READ, detail::normalised(into)), from);
  }
  /// Adds an atomic comparison of the 8 bytes at the beginning of `target`: if they are
  /// `operands.expected`, they become `operands.desired`. What they were before is stored, in host
  /// order, in `before`.
  ///
  /// *Contract.* As read(), for `before`.
  [[gnu::always_inline]] inline void compare_and_swap(send_request request,
                                                      const local_slice& before,
                                                      const remote_region& target,
                                                      compare_and_swap_operands operands)
    requires connected_transport<Transport> && atomic_transport<Transport>
  {
    detail::check_atomic(before, target);
    ibv_send_wr& added = add(request, IBV_WR_ATOMIC_CMP_AND_SWP, before);
    added.wr.atomic.remote_addr = target.address();
    added.wr.atomic.compare_add = operands.expected;
    added.wr.atomic.swap = operands.desired;
    added.wr.atomic.rkey = target.key().value();
  }
  /// Adds an atomic addition to the 8 bytes at the beginning of `target`. What they were before is
  /// stored, in host order, in `before`.
  ///
  /// *Contract.* As read(), for `before`.
  [[gnu::always_inline]] inline void fetch_and_add(send_request request, const local_slice& before,
                                                   const remote_region& target,
                                                   std::uint64_t addend)
    requires connected_transport<Transport> && atomic_transport<Transport>
  {
    detail::check_atomic(before, target);
    ibv_send_wr& added = add(request, IBV_WR_ATOMIC_FETCH_AND_ADD, before);
    added.wr.atomic.remote_addr = target.address();
    added.wr.atomic.compare_add = addend;
    added.wr.atomic.rkey = target.key().value();
  }

  /// Hands the requests to the device; an empty batch is a success. Never blocks, never allocates.
  /// On failure the status says how many requests were accepted: those will complete, the others
  /// are as if they had not been added. ENOMEM: the queue is full.
  ///
  /// *Contract.* The contract of each request that was accepted runs from here.
  [[gnu::always_inline]] inline post_status submit() {
    VERBENA_CHECK(at_.queue != nullptr, "a batch is submitted once");
    if (at_.next == storage_.requests) return {};
    at_.next[-1].next = nullptr;
    ibv_qp* const queue = at_.queue;
    end_bookkeeping();
    const int code = ibv_post_send(queue, storage_.requests, &storage_.refused);
    if (code != 0) [[unlikely]]
      return {code, static_cast<std::uint32_t>(storage_.refused - storage_.requests)};
    return {};
  }

 private:
  // The request at the end of the list, filled but for what its operation adds.
  template <class Data>
  [[gnu::always_inline]] inline ibv_send_wr& add(send_request request, ibv_wr_opcode opcode,
                                                 const Data& data) {
    VERBENA_CHECK(at_.queue != nullptr, "nothing is added to a batch after submit()");
    VERBENA_CHECK(at_.next != storage_.requests + Capacity,
                  "a batch has a fixed capacity; it is full");
    ibv_send_wr* const added = at_.next;
    added->wr_id = request.id;
    added->next = added + 1;
    added->opcode = opcode;
    added->send_flags = detail::send_flags(request);
    put(*added, data);
    at_.next = added + 1;
    return *added;
  }

  [[gnu::always_inline]] inline void put(ibv_send_wr& added, const local_slice& slice) {
    ibv_sge* const copy = at_.next_slice;
    *copy = slice.native();
    added.sg_list = copy;
    added.num_sge = 1;
    at_.next_slice = copy + 1;
  }
  [[gnu::always_inline]] inline void put(ibv_send_wr& added, std::span<const local_slice> list) {
    const auto [first, count] = detail::as_sge_list(list);
    // The C API has no const here; providers only read.
    added.sg_list = const_cast<ibv_sge*>(first);
    added.num_sge = static_cast<int>(count);
  }
  [[gnu::always_inline]] inline void put(ibv_send_wr& added, const inline_data& data) {
    ibv_sge* const piece = at_.next_slice;
    *piece = as_slice(data);
    added.send_flags |= IBV_SEND_INLINE;
    added.sg_list = piece;
    added.num_sge = data.length() != 0 ? 1 : 0;  // some devices take a length of 0 for 2^31
    at_.next_slice = piece + 1;
  }
  void put(ibv_send_wr& added, std::span<const inline_data> pieces) {
    // One slice stays free for each request that may still be added, this one not included.
    const auto reserved = storage_.requests + Capacity - (&added + 1);
    const auto free = (storage_.slices + 2 * Capacity - at_.next_slice) - reserved;
    VERBENA_ASSERT(pieces.size() <= static_cast<std::size_t>(free),
                   "a batch has room for its capacity of pieces of inline data; it is full");
    ibv_sge* next = at_.next_slice;
    added.send_flags |= IBV_SEND_INLINE;
    added.sg_list = next;
    for (const inline_data& piece : pieces)
      if (piece.length() != 0) *next++ = as_slice(piece);
    added.num_sge = static_cast<int>(next - added.sg_list);
    at_.next_slice = next;
  }
  [[gnu::always_inline]] inline static ibv_sge as_slice(const inline_data& piece) {
    return {reinterpret_cast<std::uintptr_t>(piece.native().addr),
            static_cast<std::uint32_t>(piece.length()), 0};
  }

  [[gnu::always_inline]] inline static void set_remote(ibv_send_wr& added,
                                                       const remote_region& region) {
    added.wr.rdma.remote_addr = region.address();
    added.wr.rdma.rkey = region.key().value();
  }
  struct bookkeeping {
    ibv_qp* queue;
    ibv_send_wr* next;
    ibv_sge* next_slice;
  };
  // Ends the life of the bookkeeping: optimisers then know that the device, which gets a pointer
  // into this object, does not read it, and keep it in registers.
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

}  // namespace verbena::inline VERBENA_ABI
