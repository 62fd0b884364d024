// SPDX-License-Identifier: MIT
// What a channel tells about its endpoints.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>

#include "softdev/cm/frame.hpp"
#include "verbena/base/fd.hpp"

namespace verbena::softdev::cm {

class endpoint;
using endpoint_ptr = std::shared_ptr<endpoint>;

/// With the numbers of rdma_cma.h.
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

/// One event. `remote` and `data` are what the peer said with it, if it said anything.
struct event {
  event_kind kind = event_kind::address_resolved;
  /// 0, a negative errno, or a reason of the protocol.
  int status = 0;
  endpoint_ptr about;
  endpoint_ptr listener;  ///< of a connect_request
  side remote;
  private_data data;
  std::uint64_t membership = 0;  ///< of a multicast_join: the caller's number for it
};

/// The queue of events behind a file descriptor, which is readable exactly while there are any.
/// Threads: thread-safe by its manager, which guards all but `fd`.
class channel {
 public:
  /// `fd` is an eventfd with the value 0.
  explicit channel(unique_fd fd) noexcept : fd_(std::move(fd)) {}
  channel(const channel&) = delete;
  channel& operator=(const channel&) = delete;

  [[nodiscard]] int fd() const noexcept { return fd_.get(); }
  void close() noexcept { fd_.reset(); }

 private:
  friend class manager;
  void push(event what);
  [[nodiscard]] event pop();
  void settle() noexcept;

  unique_fd fd_;
  std::deque<event> events_;
  bool raised_ = false;
};
using channel_ptr = std::shared_ptr<channel>;

}  // namespace verbena::softdev::cm
