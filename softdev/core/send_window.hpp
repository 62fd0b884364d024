// SPDX-License-Identifier: MIT
// The send queue of a queue pair with its marks, and the completions of its requests.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "softdev/core/failure.hpp"
#include "softdev/core/memory_region.hpp"
#include "softdev/core/message.hpp"
#include "softdev/core/work_queue.hpp"

namespace verbena::softdev {

class queue_pair;

/// Returns the access of a request to its local data.
[[nodiscard]] constexpr access_flags access_to_local(opcode op) noexcept {
  return is_read_or_atomic(op) ? access_flags(access::local_write) : access_flags();
}

/// Tracks the requests of a send queue by three marks: retired <= submitted <= posted. Requests
/// below `retired` are completed; those from `retired` to `submitted`, the window, were handed to a
/// path.
///
/// Threads: one thread at a time. Does not allocate after construction.
class send_window {
 public:
  /// `memory`: the memory of the queue, or nullptr.
  send_window(queue_pair& self, const send_queue::sizes& of, std::byte* memory)
      : queue_(of, memory), self_(self) {}

  [[nodiscard]] send_queue& queue() noexcept { return queue_; }
  [[nodiscard]] std::uint64_t retired() const noexcept { return retired_; }
  [[nodiscard]] std::uint64_t submitted() const noexcept { return submitted_; }
  [[nodiscard]] send_entry& at(std::uint64_t index) noexcept { return queue_.at(index); }
  /// Returns the request at the mark `submitted`. Precondition: has_next().
  [[nodiscard]] send_entry& next() noexcept { return queue_.at(submitted_); }
  [[nodiscard]] bool has_next() const noexcept { return submitted_ < queue_.posted(); }
  /// Returns whether all requests are completed.
  [[nodiscard]] bool idle() const noexcept { return retired_ == queue_.posted(); }
  /// Returns whether the window is empty: no request was handed to a path and is not completed.
  [[nodiscard]] bool empty() const noexcept { return retired_ == submitted_; }
  /// Returns whether a request that was sent at least once is not completed.
  [[nodiscard]] bool draining() const noexcept { return !empty() || was_begun(); }
  /// Returns whether the next request was sent before.
  [[nodiscard]] bool was_begun() const noexcept { return submitted_ < begun_; }

  void note_begun() noexcept { begun_ = std::max(begun_, submitted_ + 1); }
  void submit_next() noexcept { ++submitted_; }
  /// Removes the requests from `index` on from the window.
  void rewind_to(std::uint64_t index) noexcept { submitted_ = index; }
  void retire_next() noexcept { ++retired_; }
  /// Called when a batch begins.
  void begin_batch() noexcept {
    if (!queue_.unused() || !idle()) return;
    queue_.start_over();
    retired_ = submitted_ = queue_.posted();
  }
  /// Discards all requests.
  void clear() noexcept;
  /// Retires requests that are `completed`.
  void skip_completed() noexcept;
  /// Completes all remaining requests with the status `flushed`.
  void flush(reason why) noexcept;

  /// Checks the local data of a request that has one element. Returns false if `gather` must check
  /// them.
  [[nodiscard]] static bool gather_one(send_entry& entry, const memory_region_table& regions,
                                       domain_id domain, recent_region& region,
                                       segment& out) noexcept {
    if (entry.sge_count != 1 || entry.request.flags.contains(send_flag::inline_data)) return false;
    const sge& one = send_queue::sges_of(entry).front();
    if (one.length == 0) return false;
    out.data = region.find(regions, {one.lkey, one.address, one.length,
                                     access_to_local(entry.request.opcode), domain});
    out.bytes = one.length;
    return out.data != nullptr;
  }
  /// Checks the local data of a request. Lists its non-empty pieces in `out` and returns their
  /// number.
  [[nodiscard]] std::size_t gather(std::uint64_t index, std::span<segment> out,
                                   failure& why) noexcept;
  /// Copies `bytes` to `offset` of the sinks of a request. Returns the failed check of the sinks,
  /// if any.
  [[nodiscard]] failure place(std::uint64_t index, std::uint64_t offset,
                              std::span<const std::byte> bytes) noexcept;
  /// Replaces the address of a piece that is not accessible by its scatter/gather element.
  [[nodiscard]] failure name_local(std::uint64_t index, const failure& why) noexcept;

  /// Completes a request that succeeded. `released` is the first entry that is still needed when
  /// the completion has been polled.
  void complete(std::uint64_t index, std::uint64_t released) noexcept;
  /// Completes a request that failed, and records `why`.
  void complete_failed(std::uint64_t index, std::uint64_t released, completion_status status,
                       const failure& why) noexcept;

 private:
  void push(std::uint64_t index, std::uint64_t released, completion_status status,
            reason why) noexcept;

  send_queue queue_;
  std::uint64_t retired_ = 0;
  std::uint64_t submitted_ = 0;
  std::uint64_t begun_ = 0;  ///< requests below were handed to a path, even if a retry is due
  queue_pair& self_;
};

}  // namespace verbena::softdev
