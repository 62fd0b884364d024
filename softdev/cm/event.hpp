// SPDX-License-Identifier: MIT
// The events of endpoints, and the channels that contain them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "softdev/cm/frame.hpp"
#include "verbena/base/fd.hpp"
#include "verbena/base/result.hpp"

namespace verbena::softdev::cm {

class endpoint;
using endpoint_ptr = std::shared_ptr<endpoint>;

/// The kinds of events, with the numbers of rdma_cma.h.
enum class event_kind : std::uint8_t {
  address_resolved,
  address_error,
  route_resolved,
  route_error,
  connect_request,
  connect_response,
  connect_error,
  unreachable,
  rejected,
  established,
  disconnected,
  device_removal,
  multicast_join,
  multicast_error,
  address_change,
  timewait_exit,
};

/// An event. `remote` and `data` are those of the peer's message, if there was one.
struct event {
  event_kind kind = event_kind::address_resolved;
  /// 0, a negative errno, a reject_reason or a sidr_status.
  int status = 0;
  endpoint_ptr about;
  endpoint_ptr listener;  ///< of a connect_request
  side remote;
  private_data data;
  std::uint64_t membership = 0;  ///< of a multicast_join: the caller's number for it
};

/// A queue of events with a file descriptor, which is readable exactly while the queue is not
/// empty. Threads: one thread at a time, which holds the lock of the manager; `fd` is thread-safe.
class channel {
 public:
  /// `fd` is an eventfd with the value 0.
  explicit channel(unique_fd fd) noexcept : fd_(std::move(fd)) {}
  channel(const channel&) = delete;
  channel& operator=(const channel&) = delete;

  [[nodiscard]] int fd() const noexcept { return fd_.get(); }
  void close() noexcept { fd_.reset(); }

  [[nodiscard]] bool empty() const noexcept { return events_.empty(); }
  void push(event what);
  /// Removes and returns the oldest event.
  [[nodiscard]] std::optional<event> pop();
  /// Removes and returns the events for which `wanted(const event&)` is true, oldest first. If
  /// memory is exhausted, nothing is removed.
  template <class Predicate>
  std::vector<event> extract(Predicate wanted) {
    std::vector<event> found;
    found.reserve(static_cast<std::size_t>(std::ranges::count_if(events_, wanted)));
    auto kept = events_.begin();
    for (event& each : events_) {
      if (wanted(each)) {
        found.push_back(std::move(each));
      } else {
        if (&*kept != &each) *kept = std::move(each);
        ++kept;
      }
    }
    events_.erase(kept, events_.end());
    settle();
    return found;
  }
  /// Drops all events at the end of the manager.
  void clear() noexcept { events_.clear(); }

 private:
  void settle() noexcept;

  unique_fd fd_;
  std::deque<event> events_;
  bool raised_ = false;
};
using channel_ptr = std::shared_ptr<channel>;

/// Creates a channel. Errors: the errno of eventfd(2).
[[nodiscard]] result<channel_ptr> create_channel();

}  // namespace verbena::softdev::cm
