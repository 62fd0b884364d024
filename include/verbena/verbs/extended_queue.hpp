// SPDX-License-Identifier: MIT
// The same vocabulary over ibv_wr_*(3), which builds requests in the device's own format, without a
// list in between. It costs less where the provider has it, and some operations exist only here.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "verbena/base/assert.hpp"
#include "verbena/base/bytes.hpp"
#include "verbena/base/call_site.hpp"
#include "verbena/base/post_status.hpp"
#include "verbena/verbs/address_handle.hpp"
#include "verbena/verbs/detail/flights.hpp"
#include "verbena/verbs/detail/open_alone.hpp"
#include "verbena/verbs/receive_batch.hpp"
#include "verbena/verbs/remote_region.hpp"
#include "verbena/verbs/transport.hpp"
#include "verbena/verbs/work_request.hpp"

namespace verbena::inline VERBENA_ABI {

/// Send requests of one queue pair, from `extended_queue::start_send`. The queue pair is occupied
/// until submit() or until the batch is dropped, which takes back what was added. There is no limit
/// but the queue's. All or nothing: when submit() fails, no request was accepted.
/// Threads: one thread at a time, together with its queue pair; providers may hold a lock of the
/// queue from the beginning of the batch to its end.
template <transport Transport>
class [[nodiscard("a batch posts nothing until submit()")]] extended_batch {
 public:
  /// Begins a batch of the queue pair `queue`, which must outlive it.
  explicit extended_batch(ibv_qp_ex* queue, call_site where = call_site::here()) : queue_(queue) {
    detail::open_alone(queue, "a queue pair has one open batch of the extended interface at a time",
                       where);
    ibv_wr_start(queue);
  }
  extended_batch(const extended_batch&) = delete;
  extended_batch& operator=(const extended_batch&) = delete;
  [[gnu::always_inline]] inline ~extended_batch() {
    if (queue_ == nullptr) return;
    ibv_wr_abort(queue_);
    detail::end_alone(queue_);
  }

  /// Adds a message for the peer's next receive.
  ///
  /// *Contract.* The memory that slices name must stay registered and unchanged until the request's
  /// completion was polled, or that of a later request of this queue; lists and inline bytes must
  /// stay until this returned. On the thread that uses the queue pair.
  template <message_data Data>
    requires connected_transport<Transport>
  [[gnu::always_inline]] inline void send(send_request request, Data&& data) {
    begin<IBV_WR_SEND>(request, detail::travels_inline<Data>, &ibv_qp_ex::wr_send);
    ibv_wr_send(queue_);
    put(detail::normalised(data));
  }
  /// Adds a message with a number of 32 bits, which arrives in the completion of the receive.
  ///
  /// *Contract.* As send().
  template <message_data Data>
    requires connected_transport<Transport>
  [[gnu::always_inline]] inline void send_with_immediate(send_request request,
                                                         std::uint32_t immediate, Data&& data) {
    begin<IBV_WR_SEND_WITH_IMM>(request, detail::travels_inline<Data>, &ibv_qp_ex::wr_send_imm);
    ibv_wr_send_imm(queue_, network_order(immediate));
    put(detail::normalised(data));
  }
  /// Adds a datagram. It goes into one packet: it has at most as many bytes as the port's MTU.
  ///
  /// *Contract.* As send() above; the address handle of `to` must live until then, too.
  template <message_data Data>
    requires datagram_transport<Transport>
  [[gnu::always_inline]] inline void send(send_request request, Data&& data,
                                          const destination& to) {
    begin<IBV_WR_SEND>(request, detail::travels_inline<Data>, &ibv_qp_ex::wr_send);
    ibv_wr_send(queue_);
    put(to);
    put(detail::normalised(data));
  }
  /// Adds a datagram with a number of 32 bits, which arrives in the completion of the receive.
  ///
  /// *Contract.* As the datagram's send().
  template <message_data Data>
    requires datagram_transport<Transport>
  [[gnu::always_inline]] inline void send_with_immediate(send_request request,
                                                         std::uint32_t immediate, Data&& data,
                                                         const destination& to) {
    begin<IBV_WR_SEND_WITH_IMM>(request, detail::travels_inline<Data>, &ibv_qp_ex::wr_send_imm);
    ibv_wr_send_imm(queue_, network_order(immediate));
    put(to);
    put(detail::normalised(data));
  }
  /// Adds a write of `data` to the beginning of `to`; the peer's program does not notice.
  ///
  /// *Contract.* As send(). The peer must keep `to` registered until then, else the request fails.
  template <message_data Data>
    requires connected_transport<Transport> && writing_transport<Transport>
  [[gnu::always_inline]] inline void write(send_request request, Data&& data,
                                           const remote_region& to) {
    detail::check_fits(data, to);
    begin<IBV_WR_RDMA_WRITE>(request, detail::travels_inline<Data>, &ibv_qp_ex::wr_rdma_write);
    ibv_wr_rdma_write(queue_, to.key().value(), to.address());
    put(detail::normalised(data));
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
    begin<IBV_WR_RDMA_WRITE_WITH_IMM>(request, detail::travels_inline<Data>,
                                      &ibv_qp_ex::wr_rdma_write_imm);
    ibv_wr_rdma_write_imm(queue_, to.key().value(), to.address(), network_order(immediate));
    put(detail::normalised(data));
  }
  /// Adds a write of `data` to the beginning of `to`, which is memory of the peer at `at`.
  ///
  /// *Contract.* As the datagram's send(). The peer must keep `to` registered until then, too.
  template <message_data Data>
    requires datagram_transport<Transport> && writing_transport<Transport>
  [[gnu::always_inline]] inline void write(send_request request, Data&& data,
                                           const remote_region& to, const destination& at) {
    detail::check_fits(data, to);
    begin<IBV_WR_RDMA_WRITE>(request, detail::travels_inline<Data>, &ibv_qp_ex::wr_rdma_write);
    ibv_wr_rdma_write(queue_, to.key().value(), to.address());
    put(at);
    put(detail::normalised(data));
  }
  /// Adds a write to the peer at `at` that uses up a receive there and tells it a number of 32
  /// bits.
  ///
  /// *Contract.* As write().
  template <message_data Data>
    requires datagram_transport<Transport> && writing_transport<Transport>
  [[gnu::always_inline]] inline void write_with_immediate(send_request request,
                                                          std::uint32_t immediate, Data&& data,
                                                          const remote_region& to,
                                                          const destination& at) {
    detail::check_fits(data, to);
    begin<IBV_WR_RDMA_WRITE_WITH_IMM>(request, detail::travels_inline<Data>,
                                      &ibv_qp_ex::wr_rdma_write_imm);
    ibv_wr_rdma_write_imm(queue_, to.key().value(), to.address(), network_order(immediate));
    put(at);
    put(detail::normalised(data));
  }
  /// Adds a read of the beginning of `from` into `into`, which it fills.
  ///
  /// *Contract.* `into` must stay registered with local_write, and must be neither read nor
  /// written, until the request's completion was polled, or that of a later request of this queue;
  /// a list must stay until this returned. On the thread that uses the queue pair.
  template <memory_slices Data>
    requires connected_transport<Transport> && reading_transport<Transport>
  [[gnu::always_inline]] inline void read(send_request request, Data&& into,
                                          const remote_region& from) {
    detail::check_fits(into, from);
    begin<IBV_WR_RDMA_READ>(request, false, &ibv_qp_ex::wr_rdma_read);
    ibv_wr_rdma_read(queue_, from.key().value(), from.address());
    put(detail::normalised(into));
  }
  /// Adds a read of the beginning of `from`, which is memory of the peer at `at`, into `into`.
  ///
  /// *Contract.* As read() above; the address handle of `at` must live until then, too.
  template <memory_slices Data>
    requires datagram_transport<Transport> && reading_transport<Transport>
  [[gnu::always_inline]] inline void read(send_request request, Data&& into,
                                          const remote_region& from, const destination& at) {
    detail::check_fits(into, from);
    begin<IBV_WR_RDMA_READ>(request, false, &ibv_qp_ex::wr_rdma_read);
    ibv_wr_rdma_read(queue_, from.key().value(), from.address());
    put(at);
    put(detail::normalised(into));
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
    begin<IBV_WR_ATOMIC_CMP_AND_SWP>(request, false, &ibv_qp_ex::wr_atomic_cmp_swp);
    ibv_wr_atomic_cmp_swp(queue_, target.key().value(), target.address(), operands.expected,
                          operands.desired);
    put(before);
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
    begin<IBV_WR_ATOMIC_FETCH_AND_ADD>(request, false, &ibv_qp_ex::wr_atomic_fetch_add);
    ibv_wr_atomic_fetch_add(queue_, target.key().value(), target.address(), addend);
    put(before);
  }

  /// Hands the requests to the device. Never blocks, never allocates. All or nothing: on failure
  /// none was accepted. ENOMEM: the queue has no room for all of them.
  ///
  /// *Contract.* The contract of each request runs from here.
  [[gnu::always_inline]] inline post_status submit(
      [[maybe_unused]] call_site where = call_site::here()) {
    VERBENA_CHECK(queue_ != nullptr, "a batch is submitted once");
    ibv_qp_ex* const queue = queue_;
    queue_ = nullptr;
    detail::end_alone(queue);
    flights_.depart(&queue->qp_base, where);
    const int code = ibv_wr_complete(queue);
    flights_.complete(&queue->qp_base, code, where);
    return {code, 0};
  }

 private:
  // Providers leave out what the queue pair was not created for.
  template <ibv_wr_opcode Opcode, class Operation>
  [[gnu::always_inline]] inline void begin(send_request request, bool is_inline,
                                           [[maybe_unused]] Operation operation) {
    VERBENA_CHECK(queue_ != nullptr, "nothing is added to a batch after submit()");
    VERBENA_CHECK(queue_->*operation != nullptr,
                  "an operation of the extended interface is one that the queue pair was created "
                  "for: see its .operations");
    queue_->wr_id = request.id;
    // Providers that emulate the interface look for the flag; the others ignore it.
    queue_->wr_flags = detail::send_flags(request) | (is_inline ? unsigned{IBV_SEND_INLINE} : 0U);
    flights_.add(request.id, queue_->wr_flags, Opcode);
  }

  [[gnu::always_inline]] inline void put(const destination& to) {
    detail::check_same_domain(to, &queue_->qp_base);
    ibv_wr_set_ud_addr(queue_, to.native(), to.number().value(), to.key().value());
  }
  [[gnu::always_inline]] inline void put(const local_slice& slice) {
    ibv_wr_set_sge(queue_, slice.key().value(), slice.address(),
                   static_cast<std::uint32_t>(slice.length()));
    flights_.put({&slice.native(), 1});
  }
  [[gnu::always_inline]] inline void put(std::span<const local_slice> list) {
    const auto [first, count] = detail::as_sge_list(list);
    ibv_wr_set_sge_list(queue_, count, first);
    flights_.put({first, count});
  }
  [[gnu::always_inline]] inline void put(const inline_data& data) {
    ibv_wr_set_inline_data(queue_, data.native().addr, data.native().length);
  }
  [[gnu::always_inline]] inline void put(std::span<const inline_data> pieces) {
    ibv_wr_set_inline_data_list(queue_, pieces.size(),
                                reinterpret_cast<const ibv_data_buf*>(pieces.data()));
  }

  ibv_qp_ex* queue_;
  [[no_unique_address]] detail::open_flights flights_;
};

/// A queue pair by its extended interface, from `queue_pair::extended`. It does not own: it must
/// not outlive the queue pair, and is not used while a batch of the queue pair is open. Threads:
/// one thread at a time, together with its queue pair.
template <transport Transport>
class extended_queue {
 public:
  /// Posts to `queue`, which must outlive it.
  explicit extended_queue(ibv_qp_ex* queue) noexcept : queue_(queue) {}

  /// Opens a batch of send requests.
  ///
  /// *Contract.* No other batch of the queue pair is open, and none is opened before this one
  /// ended; a thread that does stops in checked builds.
  [[nodiscard]] extended_batch<Transport> start_send(call_site where = call_site::here()) {
    return extended_batch<Transport>(queue_, where);
  }
  /// Opens a batch of receive requests.
  ///
  /// *Contract.* As receive_batch.
  template <std::size_t Capacity = 16>
  [[nodiscard]] receive_batch<Capacity> start_receive() noexcept {
    return receive_batch<Capacity>(&queue_->qp_base);
  }
  /// Posts one receive request: room for one message. Never blocks, never allocates.
  ///
  /// *Contract.* The memory must stay registered with local_write, and must be neither read nor
  /// written, until the request's completion was polled. On the thread that uses the queue pair.
  template <memory_slices Data>
  [[gnu::always_inline]] inline post_status post_receive(receive_request request, Data&& into,
                                                         call_site where = call_site::here()) {
    return detail::post_one_receive(&queue_->qp_base, request, into, where);
  }
  /// The queue pair of the C API.
  [[nodiscard]] ibv_qp_ex* native() const noexcept { return queue_; }

 private:
  ibv_qp_ex* queue_;
};

}  // namespace verbena::inline VERBENA_ABI
