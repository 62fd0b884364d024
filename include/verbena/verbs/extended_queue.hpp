// SPDX-License-Identifier: MIT
// The extended interface of queue pairs: ibv_wr_post(3). The provider builds requests directly in
// its send queue, without a list of ibv_send_wr; submit() posts the requests. Some operations exist
// only in this interface.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "verbena/base/assert.hpp"
#include "verbena/base/bytes.hpp"
#include "verbena/base/call_site.hpp"
#include "verbena/base/post_status.hpp"
#include "verbena/verbs/address_handle.hpp"
#include "verbena/verbs/detail/exclusive_use.hpp"
#include "verbena/verbs/detail/in_flight.hpp"
#include "verbena/verbs/receive_batch.hpp"
#include "verbena/verbs/remote_region.hpp"
#include "verbena/verbs/single_operations.hpp"
#include "verbena/verbs/transport.hpp"
#include "verbena/verbs/work_request.hpp"

namespace verbena::inline VERBENA_ABI {

/// A batch of up to `Capacity` send requests, from `extended_queue::start_send`.
///
/// At most one batch of a queue pair may be open. submit() posts all requests or none, and always
/// ends the batch. If more than `Capacity` requests are added, submit() posts no request and
/// returns ENOBUFS. The destructor discards requests that were not submitted. Batches cannot be
/// copied or moved. No function blocks or allocates.
///
/// Precondition of each operation: `.operations` of the queue pair's options contains the
/// operation. Checked builds stop the program if it does not; in other builds the behavior is
/// undefined, usually a call of a null pointer.
///
/// SRD requests complete in any order. Therefore the memory of an SRD request must stay valid until
/// the completion of that request has been polled; the completion of a later request is not
/// sufficient.
///
/// Threads: one thread at a time, for the batch and its queue pair together. The provider may hold
/// the lock of the send queue while the batch is open: posting another send request to the queue
/// pair can then deadlock.
template <transport Transport, std::size_t Capacity = 16>
class [[nodiscard("a batch posts nothing until submit()")]] extended_batch {
  static_assert(Capacity > 0 && Capacity <= std::numeric_limits<std::uint16_t>::max());

 public:
  /// Opens a batch of `queue`, which must outlive the batch: ibv_wr_start().
  explicit extended_batch(ibv_qp_ex* queue, call_site where = call_site::here()) : queue_(queue) {
    detail::begin_exclusive(
        queue, "a second batch of the extended interface was opened on a queue pair", where);
    ibv_wr_start(queue);
  }
  extended_batch(const extended_batch&) = delete;
  extended_batch& operator=(const extended_batch&) = delete;
  [[gnu::always_inline]] inline ~extended_batch() {
    if (queue_ == nullptr) return;
    ibv_wr_abort(queue_);
    detail::end_exclusive(queue_);
  }

  /// Returns the number of requests that the batch can hold.
  [[nodiscard]] static constexpr std::size_t capacity() noexcept { return Capacity; }
  /// Returns the number of requests in the batch; at most capacity().
  [[nodiscard]] std::size_t size() const noexcept {
    return count_ < Capacity ? static_cast<std::size_t>(count_) : Capacity;
  }
  /// Returns whether the batch has no room for another request.
  [[nodiscard]] bool full() const noexcept { return count_ >= Capacity; }

  /// Adds a SEND. The message consumes one posted receive of the peer.
  ///
  /// *Contract.* The memory of the slices must stay registered and unchanged until the completion
  /// of this request has been polled. Except on SRD, the completion of a later request of this send
  /// queue is sufficient. Slice lists and inline data need to stay valid only until this function
  /// returns. Call the function on the thread that uses the queue pair.
  template <message_data Data>
    requires connected_transport<Transport>
  [[gnu::always_inline]] inline void send(send_request request, Data&& data) {
    begin<IBV_WR_SEND>(request, detail::is_inline<Data>, &ibv_qp_ex::wr_send);
    ibv_wr_send(queue_);
    put(detail::normalized(data));
  }
  /// Adds a SEND with immediate data, which is in the completion of the peer's receive.
  ///
  /// *Contract.* As for send().
  template <message_data Data>
    requires connected_transport<Transport>
  [[gnu::always_inline]] inline void send_with_immediate(send_request request,
                                                         std::uint32_t immediate, Data&& data) {
    begin<IBV_WR_SEND_WITH_IMM>(request, detail::is_inline<Data>, &ibv_qp_ex::wr_send_imm);
    ibv_wr_send_imm(queue_, network_order(immediate));
    put(detail::normalized(data));
  }
  /// Adds a datagram of at most the port's MTU.
  ///
  /// *Contract.* As for send(). The address handle of `to` must also exist until that completion
  /// has been polled.
  template <message_data Data>
    requires datagram_transport<Transport>
  [[gnu::always_inline]] inline void send(send_request request, Data&& data,
                                          const destination& to) {
    begin<IBV_WR_SEND>(request, detail::is_inline<Data>, &ibv_qp_ex::wr_send);
    ibv_wr_send(queue_);
    put(to);
    put(detail::normalized(data));
  }
  /// Adds a datagram with immediate data, which is in the completion of the peer's receive.
  ///
  /// *Contract.* As for send() with a destination.
  template <message_data Data>
    requires datagram_transport<Transport>
  [[gnu::always_inline]] inline void send_with_immediate(send_request request,
                                                         std::uint32_t immediate, Data&& data,
                                                         const destination& to) {
    begin<IBV_WR_SEND_WITH_IMM>(request, detail::is_inline<Data>, &ibv_qp_ex::wr_send_imm);
    ibv_wr_send_imm(queue_, network_order(immediate));
    put(to);
    put(detail::normalized(data));
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
    begin<IBV_WR_RDMA_WRITE>(request, detail::is_inline<Data>, &ibv_qp_ex::wr_rdma_write);
    ibv_wr_rdma_write(queue_, to.key().value(), to.address());
    put(detail::normalized(data));
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
    begin<IBV_WR_RDMA_WRITE_WITH_IMM>(request, detail::is_inline<Data>,
                                      &ibv_qp_ex::wr_rdma_write_imm);
    ibv_wr_rdma_write_imm(queue_, to.key().value(), to.address(), network_order(immediate));
    put(detail::normalized(data));
  }
  /// Adds an RDMA WRITE of `data` to the beginning of `to` in the memory of the destination `at`.
  ///
  /// *Contract.* As for send() with a destination. If the peer deregisters `to` before the bytes
  /// are written, the request fails.
  template <message_data Data>
    requires datagram_transport<Transport> && writing_transport<Transport>
  [[gnu::always_inline]] inline void write(send_request request, Data&& data,
                                           const remote_region& to, const destination& at) {
    detail::check_fits(data, to);
    begin<IBV_WR_RDMA_WRITE>(request, detail::is_inline<Data>, &ibv_qp_ex::wr_rdma_write);
    ibv_wr_rdma_write(queue_, to.key().value(), to.address());
    put(at);
    put(detail::normalized(data));
  }
  /// Adds an RDMA WRITE with immediate data to the destination `at`. The request consumes one
  /// posted receive of the destination.
  ///
  /// *Contract.* As for write() with a destination.
  template <message_data Data>
    requires datagram_transport<Transport> && writing_transport<Transport>
  [[gnu::always_inline]] inline void write_with_immediate(send_request request,
                                                          std::uint32_t immediate, Data&& data,
                                                          const remote_region& to,
                                                          const destination& at) {
    detail::check_fits(data, to);
    begin<IBV_WR_RDMA_WRITE_WITH_IMM>(request, detail::is_inline<Data>,
                                      &ibv_qp_ex::wr_rdma_write_imm);
    ibv_wr_rdma_write_imm(queue_, to.key().value(), to.address(), network_order(immediate));
    put(at);
    put(detail::normalized(data));
  }
  /// Adds an RDMA READ that fills `into` from the beginning of `from`.
  ///
  /// *Contract.* `into` must stay registered with read_sink_access(), and the program must not read
  /// or write it, until the completion of this request has been polled. Except on SRD, the
  /// completion of a later request of this send queue is sufficient. A list of slices needs to stay
  /// valid only until this function returns. Call the function on the thread that uses the queue
  /// pair.
  template <memory_slices Data>
    requires connected_transport<Transport> && reading_transport<Transport>
  [[gnu::always_inline]] inline void read(send_request request, Data&& into,
                                          const remote_region& from) {
    detail::check_fits(into, from);
    begin<IBV_WR_RDMA_READ>(request, false, &ibv_qp_ex::wr_rdma_read);
    ibv_wr_rdma_read(queue_, from.key().value(), from.address());
    put(detail::normalized(into));
  }
  /// Adds an RDMA READ that fills `into` from the beginning of `from` in the memory of the
  /// destination `at`.
  ///
  /// *Contract.* As for read(). The address handle of `at` must also exist until that completion
  /// has been polled.
  template <memory_slices Data>
    requires datagram_transport<Transport> && reading_transport<Transport>
  [[gnu::always_inline]] inline void read(send_request request, Data&& into,
                                          const remote_region& from, const destination& at) {
    detail::check_fits(into, from);
    begin<IBV_WR_RDMA_READ>(request, false, &ibv_qp_ex::wr_rdma_read);
    ibv_wr_rdma_read(queue_, from.key().value(), from.address());
    put(at);
    put(detail::normalized(into));
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
    begin<IBV_WR_ATOMIC_CMP_AND_SWP>(request, false, &ibv_qp_ex::wr_atomic_cmp_swp);
    ibv_wr_atomic_cmp_swp(queue_, target.key().value(), target.address(), operands.expected,
                          operands.desired);
    put(before);
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
    begin<IBV_WR_ATOMIC_FETCH_AND_ADD>(request, false, &ibv_qp_ex::wr_atomic_fetch_add);
    ibv_wr_atomic_fetch_add(queue_, target.key().value(), target.address(), addend);
    put(before);
  }

  /// Posts all requests or none, and always ends the batch: ibv_wr_complete(). The provider may
  /// ring one doorbell for all requests. Does not block or allocate.
  ///
  /// Errors: ENOBUFS if requests were added beyond the capacity: ibv_wr_abort() has discarded the
  /// requests, no request may be added, and a later submit() returns the same status. ENOMEM (rxe:
  /// ENOSPC) if the send queue has too little room for the batch. Otherwise the errno of
  /// ibv_wr_complete(3); rxe also returns ENOSPC if inline data is too long.
  ///
  /// *Contract.* If submit() succeeds, memory and address handles must stay valid as the *Contract*
  /// of each request states. If submit() fails, the program may reuse them at once.
  [[gnu::always_inline]] inline post_status submit(
      [[maybe_unused]] call_site where = call_site::here()) {
    if (count_ > Capacity) [[unlikely]]
      return refuse();
    VERBENA_CHECK(queue_ != nullptr, "submit() of a batch that was submitted before");
    ibv_qp_ex* const queue = queue_;
    queue_ = nullptr;
    detail::end_exclusive(queue);
    requests_.begin_post(&queue->qp_base, where);
    const int code = ibv_wr_complete(queue);
    requests_.end_post(&queue->qp_base, code, where);
    if (code != 0) [[unlikely]]
      return post_status(refused_post{
          .code = code, .verb = posting_verb::wr_complete, .queue_pair = queue->qp_base.qp_num});
    return {};
  }

 private:
  // Ends an overfull batch: while it is open, the provider can hold the lock of the send queue.
  post_status refuse() {
    if (queue_ != nullptr) {
      refused_on_ = queue_->qp_base.qp_num;
      ibv_wr_abort(queue_);
      detail::end_exclusive(queue_);
      queue_ = nullptr;
    }
    constexpr std::size_t most = std::numeric_limits<std::uint16_t>::max();
    const std::size_t excess = count_ - Capacity;
    return post_status(
        overfull_batch{.capacity = static_cast<std::uint16_t>(Capacity),
                       .excess = static_cast<std::uint16_t>(excess < most ? excess : most),
                       .verb = posting_verb::wr_complete,
                       .queue_pair = refused_on_});
  }

  // Begins a request. A request beyond the capacity is passed to the provider too, which checks the
  // bounds of its queue. submit() then returns ENOBUFS, and ibv_wr_abort() discards the batch.
  template <ibv_wr_opcode Opcode, class Operation>
  [[gnu::always_inline]] inline void begin(send_request request, bool is_inline,
                                           [[maybe_unused]] Operation operation) {
    VERBENA_CHECK(queue_ != nullptr, "a request was added to a batch after submit()");
    VERBENA_CHECK(queue_->*operation != nullptr,
                  "the queue pair was not created for this operation of the extended interface; "
                  "add it to .operations");
    ++count_;
    queue_->wr_id = request.id;
    // Providers that emulate the interface need the flag; the others ignore it.
    queue_->wr_flags = detail::send_flags(request) | (is_inline ? unsigned{IBV_SEND_INLINE} : 0U);
    requests_.add(request.id, queue_->wr_flags, Opcode);
  }

  [[gnu::always_inline]] inline void put(const destination& to) {
    detail::check_same_domain(to, &queue_->qp_base);
    ibv_wr_set_ud_addr(queue_, to.native(), to.number().value(), to.key().value());
  }
  [[gnu::always_inline]] inline void put(const local_slice& slice) {
    ibv_wr_set_sge(queue_, slice.key().value(), slice.address(),
                   static_cast<std::uint32_t>(slice.length()));
    const ibv_sge native = slice.native();
    requests_.put({&native, 1});
  }
  [[gnu::always_inline]] inline void put(std::span<const local_slice> list) {
    const auto [first, count] = detail::as_sge_list(list);
    ibv_wr_set_sge_list(queue_, count, first);
    requests_.put({first, count});
  }
  [[gnu::always_inline]] inline void put(const inline_data& data) {
    ibv_wr_set_inline_data(queue_, data.native().addr, data.native().length);
  }
  [[gnu::always_inline]] inline void put(std::span<const inline_data> pieces) {
    ibv_wr_set_inline_data_list(queue_, pieces.size(),
                                reinterpret_cast<const ibv_data_buf*>(pieces.data()));
  }

  ibv_qp_ex* queue_;
  std::uint32_t count_ = 0;
  std::uint32_t refused_on_ = 0;  // the queue pair of an overfull batch that has ended
  [[no_unique_address]] detail::open_requests requests_;
};

/// Posts requests to a queue pair through the extended interface. Returned by
/// queue_pair::extended().
///
/// Does not own the queue pair, which must outlive the extended_queue. While a batch is open, no
/// other send request may be posted to the queue pair.
///
/// Threads: one thread at a time, for the extended_queue and its queue pair together.
template <transport Transport>
class extended_queue : public single_operations<extended_queue<Transport>, Transport> {
 public:
  /// Constructs a poster for `queue`, which must outlive the poster.
  explicit extended_queue(ibv_qp_ex* queue) noexcept : queue_(queue) {}

  /// Opens a batch of up to `Capacity` send requests.
  ///
  /// *Contract.* At most one batch of the queue pair may be open. Checked builds stop the program
  /// if the same thread opens a second batch. In other cases, opening a second batch can deadlock
  /// or corrupt the send queue.
  template <std::size_t Capacity = 16>
  [[nodiscard]] [[gnu::always_inline]] inline extended_batch<Transport, Capacity> start_send(
      call_site where = call_site::here()) {
    return extended_batch<Transport, Capacity>(queue_, where);
  }
  /// Opens a batch of up to `Capacity` receive requests.
  ///
  /// *Contract.* The queue pair must outlive the batch. Call the function on the thread that uses
  /// the queue pair.
  template <std::size_t Capacity = 16>
  [[nodiscard]] receive_batch<Capacity> start_receive() noexcept {
    return receive_batch<Capacity>(&queue_->qp_base);
  }
  /// Posts one receive request. Does not block or allocate.
  ///
  /// *Contract.* As for queue_pair::post_receive().
  template <memory_slices Data>
  [[gnu::always_inline]] inline post_status post_receive(receive_request request, Data&& into,
                                                         call_site where = call_site::here()) {
    return detail::post_one_receive(&queue_->qp_base, request, into, where);
  }
  /// Returns the queue pair of the C API.
  [[nodiscard]] ibv_qp_ex* native() const noexcept { return queue_; }

 private:
  friend class single_operations<extended_queue<Transport>, Transport>;
  [[gnu::always_inline]] inline extended_batch<Transport, 1> start_one(call_site where) {
    return extended_batch<Transport, 1>(queue_, where);
  }

  ibv_qp_ex* queue_;
};

}  // namespace verbena::inline VERBENA_ABI
