// SPDX-License-Identifier: MIT
// A list of send requests that is handed to the device at once, by ibv_post_send(3), which every
// provider has. The list lies in the batch itself; nothing is allocated.
#pragma once

#include <infiniband/verbs.h>

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <iterator>
#include <span>

#include "verbena/base/assert.hpp"
#include "verbena/base/bytes.hpp"
#include "verbena/base/call_site.hpp"
#include "verbena/base/post_status.hpp"
#include "verbena/verbs/address_handle.hpp"
#include "verbena/verbs/detail/request_list.hpp"
#include "verbena/verbs/remote_region.hpp"
#include "verbena/verbs/transport.hpp"
#include "verbena/verbs/work_request.hpp"

namespace verbena::inline VERBENA_ABI {

namespace detail {
// Lists of pieces of inline data are turned into slices in `pieces`.
template <std::size_t Capacity>
struct send_storage : request_storage<ibv_send_wr, Capacity> {
  ibv_sge pieces[Capacity];
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
class [[nodiscard("a batch posts nothing until submit()")]] send_batch
    : private detail::request_list<ibv_send_wr, Storage> {
  static_assert(classic_transport<Transport>,
                "queue pairs of this transport have the extended interface alone: use extended()");
  using list = detail::request_list<ibv_send_wr, Storage>;

 public:
  /// Of a queue pair; with a reference as `Storage`, also of where the list lies.
  using list::list;

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
    add(request, IBV_WR_SEND_WITH_IMM, detail::normalised(data), immediate);
  }
  /// Adds a datagram. It goes into one packet: it has at most as many bytes as the port's MTU.
  ///
  /// *Contract.* As send() above; the address handle of `to` must live until then, too.
  template <message_data Data>
    requires datagram_transport<Transport>
  [[gnu::always_inline]] inline void send(send_request request, Data&& data,
                                          const destination& to) {
    set_destination(add(request, IBV_WR_SEND, detail::normalised(data)), to);
  }
  /// Adds a datagram with a number of 32 bits, which arrives in the completion of the receive.
  ///
  /// *Contract.* As the datagram's send().
  template <message_data Data>
    requires datagram_transport<Transport>
  [[gnu::always_inline]] inline void send_with_immediate(send_request request,
                                                         std::uint32_t immediate, Data&& data,
                                                         const destination& to) {
    set_destination(add(request, IBV_WR_SEND_WITH_IMM, detail::normalised(data), immediate), to);
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
    set_remote(add(request, IBV_WR_RDMA_WRITE_WITH_IMM, detail::normalised(data), immediate), to);
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
  [[gnu::always_inline]] inline post_status submit(call_site where = call_site::here()) {
    return this->hand_over(where);
  }

 private:
  // The request at the end of the list, filled but for what its operation adds.
  template <class Data, std::same_as<std::uint32_t>... Immediate>
  [[gnu::always_inline]] inline ibv_send_wr& add(send_request request, ibv_wr_opcode opcode,
                                                 const Data& data, Immediate... immediate) {
    ibv_send_wr& added = this->next(request.id);
    put(added, data);
    added.opcode = opcode;
    added.send_flags = detail::send_flags(request) | data_flags<Data>;
    ((added.imm_data = network_order(immediate)), ...);  // beside the flags: one store for both
    this->take();
    return added;
  }

  template <class Data>
  static constexpr unsigned data_flags =
      detail::one_inline<Data> || std::same_as<Data, std::span<const inline_data>>
          ? unsigned{IBV_SEND_INLINE}
          : 0U;

  using list::put;
  [[gnu::always_inline]] inline void put(ibv_send_wr& added, const inline_data& data) {
    ibv_sge& slice = this->slice_of_next();
    set_slice(slice, data);
    added.sg_list = &slice;
    added.num_sge = data.length() != 0 ? 1 : 0;  // some devices take a length of 0 for 2^31
  }
  void put(ibv_send_wr& added, std::span<const inline_data> pieces) {
    ibv_sge* next = free_pieces();
    VERBENA_ASSERT(
        pieces.size() <= static_cast<std::size_t>(std::end(this->storage().pieces) - next),
        "a batch has room for its capacity of pieces of inline data; it is full");
    added.sg_list = next;
    for (const inline_data& piece : pieces)
      if (piece.length() != 0) set_slice(*next++, piece);
    added.num_sge = static_cast<int>(next - added.sg_list);
  }
  // Found when needed, not kept: most batches have no such list.
  [[nodiscard]] ibv_sge* free_pieces() {
    auto& storage = this->storage();
    for (std::size_t i = this->count(); i-- > 0;) {
      const ibv_send_wr& earlier = storage.requests[i];
      const std::less<> before;
      if (!before(earlier.sg_list, std::begin(storage.pieces)) &&
          before(earlier.sg_list, std::end(storage.pieces)))
        return earlier.sg_list + earlier.num_sge;
    }
    return storage.pieces;
  }
  [[gnu::always_inline]] inline static void set_slice(ibv_sge& slice, const inline_data& piece) {
    const ibv_data_buf& bytes = piece.native();
    if constexpr (std::endian::native == std::endian::little &&
                  sizeof(ibv_data_buf) == sizeof(ibv_sge) &&
                  offsetof(ibv_data_buf, length) == offsetof(ibv_sge, length)) {
      // One move of 16 bytes: the key, which nobody reads, is the upper half of the length.
      std::memcpy(&slice, &bytes, sizeof slice);
    } else {
      slice = {reinterpret_cast<std::uintptr_t>(bytes.addr),
               static_cast<std::uint32_t>(bytes.length), 0};
    }
  }

  [[gnu::always_inline]] inline void set_destination(ibv_send_wr& added, const destination& to) {
    detail::check_same_domain(to, this->queue());
    static_assert(sizeof added.wr.ud == sizeof(destination));
    std::memcpy(&added.wr.ud, &to, sizeof(destination));  // one move of 16 bytes
  }
  [[gnu::always_inline]] inline static void set_remote(ibv_send_wr& added,
                                                       const remote_region& region) {
    using target = detail::remote_target;
    static_assert(sizeof added.wr.rdma == sizeof(target) &&
                  offsetof(ibv_send_wr, wr.rdma.rkey) - offsetof(ibv_send_wr, wr.rdma) ==
                      offsetof(target, key));
    std::memcpy(&added.wr.rdma, &region.target(), sizeof(target));  // one move of 16 bytes
  }
};

}  // namespace verbena::inline VERBENA_ABI
