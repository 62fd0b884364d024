// SPDX-License-Identifier: MIT
#include "softdev/cm/event.hpp"

#include <unistd.h>

#include <utility>

#include "softdev/ipc/eventfd.hpp"
#include "verbena/base/error.hpp"

namespace verbena::softdev::cm {

result<channel_ptr> create_channel() {
  auto fd = create_eventfd(when_empty::wait);
  if (!fd) return error::from_errno(fd.error().code(), "rdma_create_event_channel", "soft0");
  return std::make_shared<channel>(*std::move(fd));
}

void channel::push(event what) {
  events_.push_back(std::move(what));
  settle();
}

std::optional<event> channel::pop() {
  if (events_.empty()) return std::nullopt;
  std::optional first = std::move(events_.front());
  events_.pop_front();
  settle();
  return first;
}

void channel::settle() noexcept {
  if (raised_ == !events_.empty()) return;
  raised_ = !raised_;
  // The write changes the counter from 0 to 1, the read from 1 to 0: neither can block or fail.
  std::uint64_t value = 1;
  const ssize_t done =
      raised_ ? ::write(fd_.get(), &value, sizeof value) : ::read(fd_.get(), &value, sizeof value);
  static_cast<void>(done);
}

}  // namespace verbena::softdev::cm
