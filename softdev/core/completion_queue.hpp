// SPDX-License-Identifier: MIT
// A completion queue: a ring with its own lock, and the arming of its event.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <type_traits>

#include "softdev/core/biased_lock.hpp"
#include "softdev/core/types.hpp"

namespace verbena::softdev {

class completion_queue;

/// The outcome of a work request. On failure only wr_id, status, qp_num and vendor_error are valid.
struct completion {
  std::uint64_t wr_id = 0;
  completion_status status = completion_status::success;
  completion_opcode opcode = completion_opcode::send;
  std::uint8_t flags = 0;  ///< completion_with_imm, completion_with_grh
  std::uint8_t service_level = 0;
  std::uint32_t byte_count = 0;
  std::uint32_t immediate = 0;  ///< in network order, as the sender gave it
  std::uint32_t qp_num = 0;
  std::uint32_t source_qp = 0;
  std::uint32_t vendor_error = 0;  ///< a `reason`
  std::uint16_t source_lid = 0;
  std::uint8_t path_bits = 0;  ///< of the LID that a datagram was sent to
  /// By the queue's clock; 0 unless the queue was created with timestamps.
  std::uint64_t timestamp = 0;
};

/// Copies member by member. A plain copy loads several members at once, and would wait for their
/// stores if the completion was just written.
inline void copy_members(completion& to, const completion& from) noexcept {
  to.wr_id = from.wr_id;
  to.status = from.status;
  to.opcode = from.opcode;
  to.flags = from.flags;
  to.service_level = from.service_level;
  to.byte_count = from.byte_count;
  to.immediate = from.immediate;
  to.qp_num = from.qp_num;
  to.source_qp = from.source_qp;
  to.vendor_error = from.vendor_error;
  to.source_lid = from.source_lid;
  to.path_bits = from.path_bits;
  to.timestamp = from.timestamp;
}

/// Receives the events of a completion queue. Threads: thread-safe; called on the thread that adds
/// the completion, inside the engine, without a lock of the queue: must not block or call the
/// engine.
class completion_observer {
 public:
  /// Called with the lock of the queue held when the queue becomes armed, or no longer is: only to
  /// count, for instance. A queue that is destroyed while it is armed stays counted.
  virtual void count_armed(completion_queue& /*queue*/, bool /*armed*/) noexcept {}
  /// Called when an armed queue received a completion. The queue is no longer armed.
  virtual void event(completion_queue& queue) = 0;
  /// Called for each completion of an armed queue whose event waits for more completions. It waits
  /// at most until `when`; then end_delay() raises the event.
  virtual void delayed(completion_queue& /*queue*/, time_ns /*when*/) {}
  /// Called once when the queue overruns: a completion was lost.
  virtual void overrun(completion_queue& /*queue*/) {}

 protected:
  ~completion_observer() = default;
};

/// Moderation of events: one event for several completions.
struct event_moderation {
  std::uint32_t completions = 0;  ///< completions per event; 0 and 1 do not delay events
  time_ns period = 0;             ///< the longest delay of an event; 0 means no limit
};

struct completion_queue_options {
  std::uint32_t capacity = 1;               ///< 1 … limits::max_completions; not rounded
  std::uint64_t (*clock)() = nullptr;       ///< of timestamps; nullptr: no timestamps
  completion_observer* observer = nullptr;  ///< outlives the queue
  void* owner = nullptr;                    ///< for the observer's use
};

/// Holds completions in the order in which they were added. Threads: thread-safe. Only construction
/// and `resize` allocate.
class completion_queue {
 public:
  explicit completion_queue(const completion_queue_options& options);
  completion_queue(const completion_queue&) = delete;
  completion_queue& operator=(const completion_queue&) = delete;

  /// Moves the oldest completions into `out` and returns their number. Frees the places of their
  /// requests in the work queues. If the queue is empty, takes no lock.
  [[nodiscard]] std::size_t poll(std::span<completion> out) noexcept;
  /// Calls `take(const completion&)` for the oldest completions, at most `most`, with the lock
  /// held.
  template <class Take>
  std::size_t poll_each(std::size_t most, Take&& take) noexcept {
    if (empty()) return 0;
    lock_.lock();
    const std::uint32_t held = count_.load(std::memory_order_relaxed);
    const auto taken = static_cast<std::uint32_t>(std::min<std::size_t>(held, most));
    for (std::uint32_t i = 0; i < taken; ++i) {
      const slot& from = slots_[head_];
      take(from.what);
      if (from.from.released != nullptr)
        from.from.released->store(from.from.index, std::memory_order_release);
      if (++head_ == capacity_) head_ = 0;
    }
    count_.store(held - taken, std::memory_order_release);
    lock_.unlock();
    return taken;
  }
  [[nodiscard]] bool empty() const noexcept { return count_.load(std::memory_order_acquire) == 0; }
  /// Returns whether a completion was ever lost because the queue was full.
  [[nodiscard]] bool overrun() const noexcept { return overrun_.load(std::memory_order_acquire); }

  /// Arms the queue: requests one event for the next completion of `kind`. Solicited means
  /// solicited receives and all failures. A weaker request does not replace a stronger one. The
  /// caller runs the engine's progress afterwards, so that messages that already arrived raise the
  /// event. Returns whether the queue was not armed before.
  bool arm(notify kind) noexcept;
  [[nodiscard]] notify armed() const noexcept { return armed_.load(std::memory_order_acquire); }

  /// Changes the moderation of events. Raises an event that waits for more completions.
  void moderate(const event_moderation& how, time_ns (*clock)()) noexcept;
  /// Raises the event that waits for more completions, if there is one.
  void end_delay() noexcept;

  /// Changes the capacity; completions in the queue stay, in order. If there are more than
  /// `capacity`, returns false and changes nothing. Precondition: as for construction.
  [[nodiscard]] bool resize(std::uint32_t capacity);
  [[nodiscard]] void* owner() const noexcept { return owner_; }

  /// Loses the next completion, as if the queue were full. For tests.
  void overrun_next() noexcept;

  /// The work queue of a completion: polling the completion stores `index` in `*released`.
  struct origin {
    std::atomic<std::uint64_t>* released = nullptr;
    std::uint64_t index = 0;
  };
  /// Appends a completion. Returns false if the queue overran and the completion is lost.
  /// `make(completion&)` sets all members except the timestamp, with the lock held.
  template <class Make>
  bool push(origin from, bool solicited, Make&& make) noexcept {
    lock_.lock();
    const std::uint32_t held = count_.load(std::memory_order_relaxed);
    if (held >= room_) [[unlikely]]
      return lose_one();
    const slot& to = fill(held, from, make);
    count_.store(held + 1, std::memory_order_release);
    const notify armed = armed_.load(std::memory_order_relaxed);
    if (armed != notify::none) [[unlikely]]
      return raise(armed, solicited || to.what.status != completion_status::success, 1);
    lock_.unlock();
    return true;
  }
  /// Appends a copy of `what`, as above.
  bool push(const completion& what, origin from, bool solicited) noexcept {
    return push(from, solicited, [&](completion& to) { copy_members(to, what); });
  }
  /// Completions that become visible together.
  class batch;
  /// Detaches the completions in the queue from their work queue, which is destroyed.
  void forget(const std::atomic<std::uint64_t>* released) noexcept;
  /// Removes the completions of a work queue that is reset.
  void remove(const std::atomic<std::uint64_t>* released) noexcept;

 private:
  struct slot {
    completion what;
    origin from;
  };

  template <class Make>
  slot& fill(std::uint32_t place, origin from, Make&& make) noexcept {
    slot& to = at(place);
    make(to.what);
    to.what.timestamp = clock_ != nullptr ? clock_() : 0;
    to.from = from;
    return to;
  }
  // The rest of `push`. The lock is held; both functions release it.
  bool lose_one() noexcept;
  bool raise(notify armed, bool solicited, std::uint32_t added) noexcept;
  bool waits_for_more(std::uint32_t added) noexcept;
  void disarm_and_notify() noexcept;

  [[nodiscard]] slot& at(std::uint32_t place) noexcept {
    const std::uint32_t behind = capacity_ - head_;
    return slots_[place < behind ? head_ + place : place - behind];
  }

  // The slots are not initialized, so that the memory of idle queues is not touched.
  struct memory_of_slots {
    void operator()(slot* first) const noexcept { ::operator delete(first); }
  };
  using slot_array = std::unique_ptr<slot[], memory_of_slots>;
  static slot_array allocate(std::uint32_t capacity) {
    static_assert(std::is_trivially_copyable_v<slot>);
    return slot_array(static_cast<slot*>(::operator new(capacity * sizeof(slot))));
  }

  slot_array slots_;
  std::uint32_t capacity_;
  std::uint32_t room_ = capacity_;  ///< 0 if the next completion is lost
  void* owner_;
  std::uint64_t (*clock_)();
  completion_observer* observer_;
  biased_lock lock_;
  std::uint32_t head_ = 0;
  std::atomic<std::uint32_t> count_{0};
  std::atomic<notify> armed_{notify::none};
  std::atomic<bool> overrun_{false};
  event_moderation moderation_;
  time_ns (*moderation_clock_)() = nullptr;
  std::uint32_t waiting_ = 0;  ///< completions counted for the delayed event
  time_ns wait_ends_ = never;  ///< end of its delay
};

/// Appends several completions. Threads: thread-bound; holds the queue's lock from `open` to
/// `close`.
class completion_queue::batch {
 public:
  void open(completion_queue& queue) noexcept {
    queue.lock_.lock();
    queue_ = &queue;
    before_ = held_ = queue.count_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] bool has_room() const noexcept { return held_ < queue_->room_; }
  /// Appends a success that is not solicited, as completion_queue::push. Precondition: has_room().
  template <class Make>
  void push(origin from, Make&& make) noexcept {
    queue_->fill(held_++, from, make);
  }
  void close() noexcept {
    queue_->count_.store(held_, std::memory_order_release);
    const notify armed = queue_->armed_.load(std::memory_order_relaxed);
    if (held_ != before_ && armed != notify::none) [[unlikely]]
      queue_->raise(armed, false, held_ - before_);
    else
      queue_->lock_.unlock();
  }

 private:
  completion_queue* queue_ = nullptr;
  std::uint32_t before_ = 0;
  std::uint32_t held_ = 0;
};

}  // namespace verbena::softdev
