// SPDX-License-Identifier: MIT
// Functions that post one send request: members of queue pairs, posters and extended queues.
#pragma once

#include <cstdint>

#include "verbena/base/call_site.hpp"
#include "verbena/base/post_status.hpp"
#include "verbena/verbs/address_handle.hpp"
#include "verbena/verbs/remote_region.hpp"
#include "verbena/verbs/transport.hpp"
#include "verbena/verbs/work_request.hpp"

namespace verbena::inline VERBENA_ABI {

/// Posts single send requests: a base class of queue pairs and posters.
///
/// Each function posts one request with one doorbell. To post several requests with one doorbell,
/// use a batch. A list of inline data has at most 16 elements. No function blocks or allocates.
///
/// SRD requests complete in any order. Therefore the memory of an SRD request must stay valid until
/// the completion of that request has been polled; the completion of a later request is not
/// sufficient.
///
/// Errors of each function: ENOMEM (extended interface of rxe: ENOSPC) if the send queue is full;
/// EINVAL if the queue pair is in a state that does not accept requests, or if the request exceeds
/// a limit of the queue pair; ENOBUFS if a list of inline data is too long.
/// Threads: one thread at a time.
template <class Poster, class Transport>
class single_operations {
 public:
  /// Posts a SEND. The message consumes one posted receive of the peer.
  ///
  /// *Contract.* The memory of the slices must stay registered and unchanged until the completion
  /// of this request has been polled. Except on SRD, the completion of a later request of this send
  /// queue is sufficient. Slice lists and inline data must stay valid until this function returns.
  /// Call the function on the thread that uses the queue pair.
  template <class Data>
    requires message_data<Data&> && connected_transport<Transport>
  [[gnu::always_inline]] inline post_status post_send(send_request request, Data&& data,
                                                      call_site where = call_site::here()) {
    auto batch = self().start_one(where);
    batch.send(request, data);
    return batch.submit(where);
  }
  /// Posts a SEND with immediate data, which is in the completion of the peer's receive.
  ///
  /// *Contract.* As for post_send().
  template <class Data>
    requires message_data<Data&> && connected_transport<Transport>
  [[gnu::always_inline]] inline post_status post_send_with_immediate(
      send_request request, std::uint32_t immediate, Data&& data,
      call_site where = call_site::here()) {
    auto batch = self().start_one(where);
    batch.send_with_immediate(request, immediate, data);
    return batch.submit(where);
  }
  /// Posts a datagram of at most the port's MTU.
  ///
  /// *Contract.* As for post_send(). The address handle of `to` must also exist until that
  /// completion has been polled.
  template <class Data>
    requires message_data<Data&> && datagram_transport<Transport>
  [[gnu::always_inline]] inline post_status post_send(send_request request, Data&& data,
                                                      const destination& to,
                                                      call_site where = call_site::here()) {
    auto batch = self().start_one(where);
    batch.send(request, data, to);
    return batch.submit(where);
  }
  /// Posts a datagram with immediate data, which is in the completion of the peer's receive.
  ///
  /// *Contract.* As for post_send() with a destination.
  template <class Data>
    requires message_data<Data&> && datagram_transport<Transport>
  [[gnu::always_inline]] inline post_status post_send_with_immediate(
      send_request request, std::uint32_t immediate, Data&& data, const destination& to,
      call_site where = call_site::here()) {
    auto batch = self().start_one(where);
    batch.send_with_immediate(request, immediate, data, to);
    return batch.submit(where);
  }

  /// Posts an RDMA WRITE of `data` to the beginning of `to`. The write generates no completion at
  /// the peer.
  ///
  /// *Contract.* As for post_send(). If the peer deregisters `to` before the bytes are written, an
  /// RC request completes with `remote_access_error`, and a UC write is lost without an error.
  template <class Data>
    requires message_data<Data&> && connected_transport<Transport> && writing_transport<Transport>
  [[gnu::always_inline]] inline post_status post_write(send_request request, Data&& data,
                                                       const remote_region& to,
                                                       call_site where = call_site::here()) {
    auto batch = self().start_one(where);
    batch.write(request, data, to);
    return batch.submit(where);
  }
  /// Posts an RDMA WRITE with immediate data. The request consumes one posted receive of the peer.
  ///
  /// *Contract.* As for post_write().
  template <class Data>
    requires message_data<Data&> && connected_transport<Transport> && writing_transport<Transport>
  [[gnu::always_inline]] inline post_status post_write_with_immediate(
      send_request request, std::uint32_t immediate, Data&& data, const remote_region& to,
      call_site where = call_site::here()) {
    auto batch = self().start_one(where);
    batch.write_with_immediate(request, immediate, data, to);
    return batch.submit(where);
  }
  /// Posts an RDMA WRITE of `data` to the beginning of `to` in the memory of the destination `at`.
  ///
  /// *Contract.* As for post_send() with a destination. If the peer deregisters `to` before the
  /// bytes are written, the request fails.
  template <class Data>
    requires message_data<Data&> && datagram_transport<Transport> && writing_transport<Transport>
  [[gnu::always_inline]] inline post_status post_write(send_request request, Data&& data,
                                                       const remote_region& to,
                                                       const destination& at,
                                                       call_site where = call_site::here()) {
    auto batch = self().start_one(where);
    batch.write(request, data, to, at);
    return batch.submit(where);
  }
  /// Posts an RDMA WRITE with immediate data to the destination `at`. The request consumes one
  /// posted receive of the destination.
  ///
  /// *Contract.* As for post_write() with a destination.
  template <class Data>
    requires message_data<Data&> && datagram_transport<Transport> && writing_transport<Transport>
  [[gnu::always_inline]] inline post_status
  post_write_with_immediate(  // lint: allow(parameters): two addresses and a call site
      send_request request, std::uint32_t immediate, Data&& data, const remote_region& to,
      const destination& at, call_site where = call_site::here()) {
    auto batch = self().start_one(where);
    batch.write_with_immediate(request, immediate, data, to, at);
    return batch.submit(where);
  }

  /// Posts an RDMA READ that fills `into` from the beginning of `from`.
  ///
  /// *Contract.* `into` must stay registered with read_sink_access(), and the program must not read
  /// or write it, until the completion of this request has been polled. Except on SRD, the
  /// completion of a later request of this send queue is sufficient. A list of slices must stay
  /// valid until this function returns. Call the function on the thread that uses the queue pair.
  template <class Data>
    requires memory_slices<Data&> && connected_transport<Transport> && reading_transport<Transport>
  [[gnu::always_inline]] inline post_status post_read(send_request request, Data&& into,
                                                      const remote_region& from,
                                                      call_site where = call_site::here()) {
    auto batch = self().start_one(where);
    batch.read(request, into, from);
    return batch.submit(where);
  }
  /// Posts an RDMA READ that fills `into` from the beginning of `from` in the memory of the
  /// destination `at`.
  ///
  /// *Contract.* As for post_read(). The address handle of `at` must also exist until that
  /// completion has been polled.
  template <class Data>
    requires memory_slices<Data&> && datagram_transport<Transport> && reading_transport<Transport>
  [[gnu::always_inline]] inline post_status post_read(send_request request, Data&& into,
                                                      const remote_region& from,
                                                      const destination& at,
                                                      call_site where = call_site::here()) {
    auto batch = self().start_one(where);
    batch.read(request, into, from, at);
    return batch.submit(where);
  }

  /// Posts an atomic compare-and-swap of the 8 bytes at the beginning of `target`.
  ///
  /// If the 8 bytes equal `operands.expected`, they are replaced with `operands.desired`. The old
  /// value is stored in `before`, in host byte order.
  ///
  /// *Contract.* As for post_read(), for `before`.
  [[gnu::always_inline]] inline post_status post_compare_and_swap(
      send_request request, const local_slice& before, const remote_region& target,
      compare_and_swap_operands operands, call_site where = call_site::here())
    requires connected_transport<Transport> && atomic_transport<Transport>
  {
    auto batch = self().start_one(where);
    batch.compare_and_swap(request, before, target, operands);
    return batch.submit(where);
  }
  /// Posts an atomic fetch-and-add to the 8 bytes at the beginning of `target`.
  ///
  /// The old value is stored in `before`, in host byte order.
  ///
  /// *Contract.* As for post_read(), for `before`.
  [[gnu::always_inline]] inline post_status post_fetch_and_add(send_request request,
                                                               const local_slice& before,
                                                               const remote_region& target,
                                                               std::uint64_t addend,
                                                               call_site where = call_site::here())
    requires connected_transport<Transport> && atomic_transport<Transport>
  {
    auto batch = self().start_one(where);
    batch.fetch_and_add(request, before, target, addend);
    return batch.submit(where);
  }

 private:
  friend Poster;  // the only class that may inherit
  single_operations() = default;
  single_operations(const single_operations&) = default;
  single_operations& operator=(const single_operations&) = default;
  ~single_operations() = default;

  [[nodiscard]] Poster& self() noexcept { return static_cast<Poster&>(*this); }
};

}  // namespace verbena::inline VERBENA_ABI
