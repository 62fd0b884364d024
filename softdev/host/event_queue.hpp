// SPDX-License-Identifier: MIT
// The event queue of a completion channel or a context: events in the order in which they occurred,
// and an eventfd that is readable exactly while there are any. Adding an event never allocates: the
// nodes are part of the objects to which the events belong.
#pragma once

#include <cstdint>
#include <mutex>
#include <span>

#include "softdev/ipc/wake_sockets.hpp"
#include "verbena/base/fd.hpp"
#include "verbena/base/result.hpp"

namespace verbena::softdev {

/// One kind of event of one object, which owns the node. event_queue::drop() ends its use. Only the
/// queue uses the members other than `owner` and `kind`. Threads: guarded by its queue.
struct event_node {
  void* owner = nullptr;      ///< the object of the event
  std::uint32_t kind = 0;     ///< the kind of event, in the reader's numbers
  std::uint32_t pending = 0;  ///< events not yet taken
  event_node* next = nullptr;
};

/// A queue of events with a file descriptor. Threads: thread-safe.
class event_queue {
 public:
  /// Uses `fd`, an eventfd with the value 0.
  explicit event_queue(unique_fd fd) noexcept : fd_(std::move(fd)) {}
  event_queue(const event_queue&) = delete;
  event_queue& operator=(const event_queue&) = delete;

  /// Returns the descriptor, which is readable while there are events. Only wait for it; the queue
  /// ignores its O_NONBLOCK flag.
  [[nodiscard]] int fd() const noexcept { return fd_.get(); }

  /// Adds one event. Does not allocate or block; one system call if the queue was empty.
  void push(event_node& node) noexcept;
  /// Adds one event unless an event of the node is pending.
  void push_once(event_node& node) noexcept;

  /// Adds one event of `kind` with a node of `pool` that is not pending. For events of one object
  /// that must keep their order. Returns false and adds no event if all nodes are pending.
  [[nodiscard]] bool push_any(std::span<event_node> pool, std::uint32_t kind) noexcept;

  /// An event that was taken.
  struct event {
    void* owner = nullptr;  ///< nullptr: there was none
    std::uint32_t kind = 0;
  };
  /// Takes the oldest event. Calls `taken(owner, kind)`, which counts the event as taken, before
  /// another thread can drop the node.
  [[nodiscard]] event pop(void (*taken)(void* owner, std::uint32_t kind)) noexcept;

  /// Removes the pending events of `node`.
  void drop(event_node& node) noexcept;

  /// While it exists, events that this thread adds do not make fd() readable, because the thread is
  /// about to take them. Its destructor makes fd() readable if events are left. One per thread.
  class collector {
   public:
    explicit collector(event_queue& of) noexcept;
    ~collector();
    collector(const collector&) = delete;
    collector& operator=(const collector&) = delete;

   private:
    event_queue& of_;
  };

 private:
  class adding;
  void append(event_node& node) noexcept;
  void became_shorter() noexcept;

  unique_fd fd_;
  std::mutex mutex_;
  event_node* first_ = nullptr;
  event_node* last_ = nullptr;
  bool readable_ = false;  ///< the descriptor is readable, or a thread is about to make it readable
};

/// Waits until `fd` is readable, like a blocking read. Returns 0; EAGAIN if it is not readable and
/// has O_NONBLOCK; EINTR if a signal handler ran that was installed without SA_RESTART. A
/// cancellation point.
[[nodiscard]] int wait_readable(int fd);
/// Waits likewise for the descriptor of a receiver of wake-ups, and takes its signals. Sets
/// `signaled` to whether there were any. If the descriptor has O_NONBLOCK, returns EAGAIN without a
/// look at the signals: the caller took them before it looked for events.
[[nodiscard]] int wait_readable(wake_receiver& receiver, bool& signaled);

}  // namespace verbena::softdev
