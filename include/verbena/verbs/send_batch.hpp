// SPDX-License-Identifier: MIT
// Batches of send requests of the classic interface: ibv_post_send(3).
#pragma once

#include <infiniband/verbs.h>

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
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
// Lists of inline data are converted to slices in `pieces`.
template <std::size_t Capacity, std::size_t Pieces = Capacity>
struct send_storage : request_storage<ibv_send_wr, Capacity> {
  ibv_sge pieces[Pieces];
};
}  // namespace detail

/// A batch of up to `Capacity` send requests of one queue pair, from `queue_pair::start_send`.
///
/// submit() posts the requests in the order in which they were added. A batch that is destroyed
/// without submit() posts no requests. If more than `Capacity` requests are added, or if all lists
/// of inline data together have more than `Capacity` elements, submit() posts no request and
/// returns ENOBUFS.
///
/// Checked builds stop the program if a function of the batch is called after submit() has passed
/// the requests to the queue, if data exceeds the remote region, and if an atomic operation does
/// not have 8 bytes at a remote address divisible by 8. A batch does not allocate.
/// Threads: one thread at a time, for the batch and its queue pair together.
template <transport Transport, std::size_t Capacity = 16,
          class Storage = detail::send_storage<Capacity>>
class [[nodiscard("a batch posts nothing until submit()")]] send_batch
    : private detail::request_list<ibv_send_wr, Storage> {
  static_assert(classic_transport<Transport>,
                "queue pairs of this transport have only the extended interface: use extended()");
  using list = detail::request_list<ibv_send_wr, Storage>;

 public:
  /// Opens a batch of a queue pair. If `Storage` is a reference, the requests are in that storage.
  using list::list;

  using list::capacity;
  using list::full;
  using list::size;

  /// Adds a SEND. The message consumes one posted receive of the peer.
  ///
  /// *Contract.* The memory of the slices must stay registered and unchanged until the completion
  /// of this request has been polled. The completion of a later request of this send queue is
  /// sufficient. Slice lists and inline data must stay valid until submit() returns. Call the
  /// function on the thread that uses the queue pair.
  template <message_data Data>
    requires connected_transport<Transport>
  [[gnu::always_inline]] inline void send(send_request request, Data&& data) {
    static_cast<void>(add(request, IBV_WR_SEND, detail::normalized(data)));
  }
  /// Adds a SEND with immediate data, which is in the completion of the peer's receive.
  ///
  /// *Contract.* As for send().
  template <message_data Data>
    requires connected_transport<Transport>
  [[gnu::always_inline]] inline void send_with_immediate(send_request request,
                                                         std::uint32_t immediate, Data&& data) {
    static_cast<void>(add(request, IBV_WR_SEND_WITH_IMM, detail::normalized(data), immediate));
  }
  /// Adds a datagram of at most the port's MTU.
  ///
  /// *Contract.* As for send(). The address handle of `to` must also exist until that completion
  /// has been polled.
  template <message_data Data>
    requires datagram_transport<Transport>
  [[gnu::always_inline]] inline void send(send_request request, Data&& data,
                                          const destination& to) {
    if (ibv_send_wr* const added = add(request, IBV_WR_SEND, detail::normalized(data)))
      set_destination(*added, to);
  }
  /// Adds a datagram with immediate data, which is in the completion of the peer's receive.
  ///
  /// *Contract.* As for send() with a destination.
  template <message_data Data>
    requires datagram_transport<Transport>
  [[gnu::always_inline]] inline void send_with_immediate(send_request request,
                                                         std::uint32_t immediate, Data&& data,
                                                         const destination& to) {
    if (ibv_send_wr* const added =
            add(request, IBV_WR_SEND_WITH_IMM, detail::normalized(data), immediate))
      set_destination(*added, to);
  }
  /// Adds an RDMA WRITE of `data` to the beginning of `to`. The write generates no completion at
  /// the peer.
  ///
  /// *Contract.* As for send(). If the peer deregisters `to` before the bytes are written, an RC
  /// request completes with `remote_access_error`, and a UC write is lost without an error.
  template <message_data Data>
    requires connected_transport<Transport> && writing_transport<Transport>
  [[gnu::always_inline]] inline void write(send_request request, Data&& data,
                                           const remote_region& to) {
    detail::check_fits(data, to);
    if (ibv_send_wr* const added = add(request, IBV_WR_RDMA_WRITE, detail::normalized(data)))
      set_remote(*added, to);
  }
  /// Adds an RDMA WRITE with immediate data. The request consumes one posted receive of the peer.
  ///
  /// *Contract.* As for write().
  template <message_data Data>
    requires connected_transport<Transport> && writing_transport<Transport>
  [[gnu::always_inline]] inline void write_with_immediate(send_request request,
                                                          std::uint32_t immediate, Data&& data,
                                                          const remote_region& to) {
    detail::check_fits(data, to);
    if (ibv_send_wr* const added =
            add(request, IBV_WR_RDMA_WRITE_WITH_IMM, detail::normalized(data), immediate))
      set_remote(*added, to);
  }
  /// Adds an RDMA READ that fills `into` from the beginning of `from`.
  ///
  /// *Contract.* `into` must stay registered with read_sink_access(), and the program must not read
  /// or write it, until the completion of this request has been polled. The completion of a later
  /// request of this send queue is sufficient. A list of slices must stay valid until submit()
  /// returns. Call the function on the thread that uses the queue pair.
  template <memory_slices Data>
    requires connected_transport<Transport> && reading_transport<Transport>
  [[gnu::always_inline]] inline void read(send_request request, Data&& into,
                                          const remote_region& from) {
    detail::check_fits(into, from);
    if (ibv_send_wr* const added = add(request, IBV_WR_RDMA_READ, detail::normalized(into)))
      set_remote(*added, from);
  }
  /// Adds an atomic compare-and-swap of the 8 bytes at the beginning of `target`.
  ///
  /// If the 8 bytes equal `operands.expected`, they are replaced with `operands.desired`. The old
  /// value is stored in `before`, in host byte order.
  ///
  /// *Contract.* As for read(), for `before`.
  [[gnu::always_inline]] inline void compare_and_swap(send_request request,
                                                      const local_slice& before,
                                                      const remote_region& target,
                                                      compare_and_swap_operands operands)
    requires connected_transport<Transport> && atomic_transport<Transport>
  {
    detail::check_atomic(before, target);
    ibv_send_wr* const added = add(request, IBV_WR_ATOMIC_CMP_AND_SWP, before);
    if (added == nullptr) [[unlikely]]
      return;
    added->wr.atomic.remote_addr = target.address();
    added->wr.atomic.compare_add = operands.expected;
    added->wr.atomic.swap = operands.desired;
    added->wr.atomic.rkey = target.key().value();
  }
  /// Adds an atomic fetch-and-add to the 8 bytes at the beginning of `target`.
  ///
  /// The old value is stored in `before`, in host byte order.
  ///
  /// *Contract.* As for read(), for `before`.
  [[gnu::always_inline]] inline void fetch_and_add(send_request request, const local_slice& before,
                                                   const remote_region& target,
                                                   std::uint64_t addend)
    requires connected_transport<Transport> && atomic_transport<Transport>
  {
    detail::check_atomic(before, target);
    ibv_send_wr* const added = add(request, IBV_WR_ATOMIC_FETCH_AND_ADD, before);
    if (added == nullptr) [[unlikely]]
      return;
    added->wr.atomic.remote_addr = target.address();
    added->wr.atomic.compare_add = addend;
    added->wr.atomic.rkey = target.key().value();
  }

  /// Posts the requests with one call and ends the batch. Submitting an empty batch succeeds. Does
  /// not block or allocate.
  ///
  /// Errors: ENOBUFS if requests were added beyond the capacity; no request was posted, and every
  /// later submit() of the batch fails too. ENOMEM if the send queue is full;
  /// accepted_before_failure() requests were posted and will complete, the others were not posted.
  /// Otherwise the errno of ibv_post_send(3).
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

 private:
  // Adds a request and fills it, except for the fields of its operation. Returns nullptr if the
  // batch is full.
  template <class Data, std::same_as<std::uint32_t>... Immediate>
  [[gnu::always_inline]] inline ibv_send_wr* add(send_request request, ibv_wr_opcode opcode,
                                                 const Data& data, Immediate... immediate) {
    const auto at = this->add_request(request.id);
    if (at.request == nullptr) [[unlikely]]
      return nullptr;
    put(at, data);
    at.request->opcode = opcode;
    at.request->send_flags = detail::send_flags(request) | data_flags<Data>;
    // The immediate data is next to the flags: compilers write both with one store.
    ((at.request->imm_data = network_order(immediate)), ...);
    return at.request;
  }

  template <class Data>
  static constexpr unsigned data_flags =
      detail::one_inline<Data> || std::same_as<Data, std::span<const inline_data>>
          ? unsigned{IBV_SEND_INLINE}
          : 0U;

  using list::put;
  using place = typename list::place;
  [[gnu::always_inline]] inline static void put(place at, const inline_data& data) {
    set_slice(*at.slice, data);
    at.request->sg_list = at.slice;
    at.request->num_sge = data.length() != 0 ? 1 : 0;  // some devices treat length 0 as 2^31
  }
  void put(place at, std::span<const inline_data> pieces) {
    ibv_sge* next = free_pieces(at.request);
    at.request->sg_list = next;
    at.request->num_sge = 0;
    if (pieces.size() > static_cast<std::size_t>(std::end(this->storage().pieces) - next))
      return this->count_excess();
    for (const inline_data& piece : pieces)
      if (piece.length() != 0) set_slice(*next++, piece);
    at.request->num_sge = static_cast<int>(next - at.request->sg_list);
  }
  // Returns the end of the used pieces. The end is not stored, because few batches have lists of
  // inline data.
  [[nodiscard]] ibv_sge* free_pieces(const ibv_send_wr* of) {
    auto& storage = this->storage();
    while (of != storage.requests) {
      const ibv_send_wr& earlier = *--of;
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
      // The key, which inline data does not use, is the upper half of the length.
      slice = detail::as_sge(bytes);
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
