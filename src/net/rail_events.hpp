// SPDX-License-Identifier: MIT
// The asynchronous events of the contexts of rails. An event is returned to one reader only, so
// objects that share contexts have one reader, which passes the events to all of them.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "verbena/net/rail.hpp"
#include "verbena/verbs/async_event.hpp"
#include "verbena/verbs/context.hpp"

namespace verbena::inline VERBENA_ABI::net::detail {

/// An event of the context of a rail.
struct rail_event {
  std::uint32_t rail;  ///< the first rail of the context
  async_event event;
};

/// The pending events of one multi_rail_channel. Equal events are kept once, so
/// the number does not grow while the program does not use the channel.
/// Threads: thread-safe.
class rail_event_queue {
 public:
  /// Adds an event of a port, a device or a completion queue. Ignores others.
  void put(std::uint32_t rail, const async_event& event);
  /// Replaces `into` by the events since the last call, in order.
  void take(std::vector<rail_event>& into);

 private:
  std::mutex mutex_;
  std::atomic<bool> has_events_{false};
  std::vector<rail_event> events_;
};

/// The reader of the events of contexts. Threads: one thread at a time; put() and the queues are
/// thread-safe. add_queue() must be called before other threads use the object.
class rail_events {
 public:
  explicit rail_events(std::span<const rail_port> rails);

  /// Returns a queue that receives all later events.
  [[nodiscard]] std::shared_ptr<rail_event_queue> add_queue();
  /// Reads all pending events, for all queues. Does not block.
  void read();
  /// Passes an event that the program has read from the context of a rail to all queues.
  void put(std::uint32_t rail, const async_event& event) const;
  /// Appends the descriptors of the contexts, which are readable if there is an event.
  void append_fds(std::vector<int>& to) const;

 private:
  struct watched_context {
    std::uint32_t rail;  // the first one of the context
    context device;
    bool is_working = true;  // false after a failure to read the events
  };
  std::vector<watched_context> contexts_;
  std::vector<std::shared_ptr<rail_event_queue>> queues_;
};

}  // namespace verbena::inline VERBENA_ABI::net::detail
