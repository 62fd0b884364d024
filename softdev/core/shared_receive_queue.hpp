// SPDX-License-Identifier: MIT
// A shared receive queue: receive requests for many queue pairs. A queue pair takes one when a
// message arrives for it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "softdev/core/biased_lock.hpp"
#include "softdev/core/types.hpp"
#include "softdev/core/work_queue.hpp"

namespace verbena::softdev {

class shared_receive_queue;

/// Receives the limit event of a shared receive queue: fewer requests than the limit are left. The
/// limit is then no longer armed. Threads: thread-safe; called with the receive lock of the
/// message's queue pair held: must not block or call the engine.
class shared_receive_observer {
 public:
  virtual void limit_reached(shared_receive_queue& queue) = 0;

 protected:
  ~shared_receive_observer() = default;
};

struct shared_receive_options {
  domain_id domain{};                           ///< of the memory that requests name
  std::uint32_t max_wr = 1;                     ///< 1 … limits::max_work_requests
  std::uint32_t max_sge = 1;                    ///< 0 … limits::max_sges
  shared_receive_observer* observer = nullptr;  ///< outlives the queue
  void* owner = nullptr;                        ///< for the observer's use
};

/// Holds receive requests in the order in which they were posted. The place of a request is free as
/// soon as a queue pair has taken the request (as in the kernel's rxe), not when its completion is
/// polled. The queue pair completes a request that it has taken, as flushed if the queue pair
/// fails. The request never returns to this queue.
///
/// Threads: thread-safe. Its lock is taken inside the receive lock of a queue pair; while it is
/// held, no other lock is taken. Only construction and `modify` allocate.
class shared_receive_queue {
 public:
  /// Precondition: the options are within the limits.
  explicit shared_receive_queue(const shared_receive_options& options);
  shared_receive_queue(const shared_receive_queue&) = delete;
  shared_receive_queue& operator=(const shared_receive_queue&) = delete;

  [[nodiscard]] domain_id domain() const noexcept { return domain_; }
  [[nodiscard]] void* owner() const noexcept { return owner_; }
  [[nodiscard]] std::uint32_t max_sges() const noexcept { return max_sges_; }

  /// Locks the queue for a batch of `add`, until `close`.
  void open() noexcept { lock_.lock(); }
  /// Adds a receive request. Returns 0, EINVAL (number of elements) or ENOMEM (queue full).
  [[nodiscard]] int add(std::uint64_t wr_id, sge_list sinks) noexcept;
  void close() noexcept { lock_.unlock(); }

  struct attributes {
    std::uint32_t max_wr = 0;
    std::uint32_t max_sge = 0;
    std::uint32_t limit = 0;  ///< 0 if no event is armed
  };
  [[nodiscard]] attributes query() noexcept;

  struct change {
    std::optional<std::uint32_t> max_wr;  ///< the new capacity
    std::optional<std::uint32_t> limit;   ///< arms the event; 0 disarms it
  };
  /// Changes the capacity or the limit. Returns 0, or EINVAL without a change if max_wr is 0, above
  /// limits::max_work_requests or below the number of requests in the queue, or if the limit is
  /// above max_wr. If the queue has fewer requests than the new limit, the next request that is
  /// taken raises the event.
  [[nodiscard]] int modify(const change& wanted);

  /// Moves the oldest request to the end of `to`, which has room for its elements. Returns false if
  /// the queue is empty. For responders.
  [[nodiscard]] bool take(receive_queue& to) noexcept;

 private:
  static void copy_entry(receive_queue& from, std::uint64_t index, receive_queue& to) noexcept;

  const domain_id domain_;
  const std::uint32_t max_sges_;
  shared_receive_observer* const observer_;
  void* const owner_;
  biased_lock lock_;
  std::unique_ptr<receive_queue> queue_;  ///< requests below its `released()` were taken
  std::uint32_t limit_ = 0;
};

}  // namespace verbena::softdev
