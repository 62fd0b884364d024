// SPDX-License-Identifier: MIT
// What stands behind a completion channel's and a context's file descriptor: events in the order in
// which they happened, and an eventfd that is readable exactly while there are any. Putting an
// event in never allocates: the nodes are part of the objects that the events are about.
#pragma once

#include <cstdint>
#include <mutex>
#include <span>

#include "softdev/ipc/wake_sockets.hpp"
#include "verbena/base/fd.hpp"
#include "verbena/base/result.hpp"

namespace verbena::softdev {

/// One kind of event of one object. Belongs to that object; `event_queue::drop` ends its use.
/// All members but `owner` and `kind` are the queue's. Threads: guarded by its queue.
struct event_node {
  void* owner = nullptr;      ///< the object the event is about
  std::uint32_t kind = 0;     ///< what happened, in the reader's numbers
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

  /// Readable while there are events. Only to be waited for; its O_NONBLOCK flag means nothing
  /// here.
  [[nodiscard]] int fd() const noexcept { return fd_.get(); }

  /// Adds one event. Does not allocate or block; one system call when the queue was empty.
  void push(event_node& node) noexcept;
  /// Adds one event unless one of that node is pending.
  void push_once(event_node& node) noexcept;

  /// Adds one event by a node of `pool` that is in no queue, and whose kind it becomes; for events
  /// of one object that keep their order. False, and nothing is added, when all are pending.
  [[nodiscard]] bool push_any(std::span<event_node> pool, std::uint32_t kind) noexcept;

  /// An event that was taken.
  struct event {
    void* owner = nullptr;  ///< nullptr: there was none
    std::uint32_t kind = 0;
  };
  /// Takes the oldest event and adds one to `*owner`'s count of taken events by calling
  /// `taken(owner, kind)` before anybody can drop the node.
  [[nodiscard]] event pop(void (*taken)(void* owner, std::uint32_t kind)) noexcept;

  /// Forgets the pending events of `node`.
  void drop(event_node& node) noexcept;

  /// While it exists, events that this thread adds do not make fd() readable: it is about to take
  /// them. Those that are left at the end do. One per thread.
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
  bool readable_ = false;  ///< the descriptor is, or a thread is about to make it so
};

/// Waits until `fd` is readable. 0, EAGAIN when it is not and has O_NONBLOCK, or EINTR when a
/// signal handler ran that was installed without SA_RESTART (as a blocking read would behave). A
/// point of cancellation.
[[nodiscard]] int wait_readable(int fd) noexcept;
/// The same for the descriptor of a receiver of wake-ups, whose signals it takes. `signaled` tells
/// whether there were any.
[[nodiscard]] int wait_readable(wake_receiver& receiver, bool& signaled) noexcept;

}  // namespace verbena::softdev
