// SPDX-License-Identifier: MIT
// The classic interface of a queue pair, for queue_pair::with_poster.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>

#include "verbena/base/call_site.hpp"
#include "verbena/base/post_status.hpp"
#include "verbena/verbs/receive_batch.hpp"
#include "verbena/verbs/send_batch.hpp"
#include "verbena/verbs/single_operations.hpp"
#include "verbena/verbs/transport.hpp"
#include "verbena/verbs/work_request.hpp"

namespace verbena::inline VERBENA_ABI {

/// Posts to a queue pair with the classic interface: ibv_post_send(3), ibv_post_recv(3).
///
/// The caller owns the memory of the batches, because compilers do not inline functions with
/// kilobytes of local variables.
/// Threads: one thread at a time, together with its queue pair.
template <transport Transport>
class classic_poster : public single_operations<classic_poster<Transport>, Transport> {
 public:
  /// The number of requests that a batch can hold.
  static constexpr std::size_t capacity = 16;

  /// An open batch of send requests.
  using send_batch_type = send_batch<Transport, capacity, detail::send_storage<capacity>&>;
  /// The memory of a receive batch.
  using receive_storage = detail::request_storage<ibv_recv_wr, capacity>;
  /// An open batch of receive requests.
  using receive_batch_type = receive_batch<capacity, receive_storage&>;

  /// The memory of one send batch and one receive batch; not initialised.
  struct lists {
    detail::send_storage<capacity> sends;  ///< the send batch
    receive_storage receives;              ///< the receive batch
  };

  /// Makes a poster for `queue` that stores its batches in `in`. Both must outlive the poster.
  classic_poster(ibv_qp* queue, lists& in) noexcept : queue_(queue), lists_(in) {}
  classic_poster(const classic_poster&) = delete;
  classic_poster& operator=(const classic_poster&) = delete;
  ~classic_poster() = default;

  /// Opens a batch of up to 16 send requests.
  ///
  /// *Contract.* At most one send batch of the poster may be open. Checked builds stop the program
  /// if a second one is opened. Call the function on the thread that uses the queue pair.
  [[nodiscard]] [[gnu::always_inline]] inline send_batch_type start_send(
      call_site where = call_site::here()) {
    return send_batch_type(queue_, lists_.sends, where);
  }
  /// Opens a batch of up to 16 receive requests.
  ///
  /// *Contract.* At most one receive batch of the poster may be open. Checked builds stop the
  /// program if a second one is opened. Call the function on the thread that uses the queue pair.
  [[nodiscard]] [[gnu::always_inline]] inline receive_batch_type start_receive(
      call_site where = call_site::here()) {
    return receive_batch_type(queue_, lists_.receives, where);
  }
  /// Posts one receive request. Does not block or allocate.
  ///
  /// *Contract.* As for queue_pair::post_receive().
  template <memory_slices Data>
  [[gnu::always_inline]] inline post_status post_receive(receive_request request, Data&& into,
                                                         call_site where = call_site::here()) {
    return detail::post_one_receive(queue_, request, into, where);
  }

 private:
  friend class single_operations<classic_poster<Transport>, Transport>;
  using storage_of_one = detail::send_storage<1, 16>;
  [[gnu::always_inline]] inline send_batch<Transport, 1, storage_of_one> start_one(
      call_site /*where*/) {
    return send_batch<Transport, 1, storage_of_one>(queue_);
  }

  ibv_qp* queue_;
  lists& lists_;
};

}  // namespace verbena::inline VERBENA_ABI
