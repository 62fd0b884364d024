// SPDX-License-Identifier: MIT
#include "softdev/ipc/wake_sockets.hpp"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>
#include <span>
#include <utility>

#include "softdev/ipc/cancellation.hpp"
#include "softdev/ipc/eventfd.hpp"
#include "verbena/base/assert.hpp"

namespace verbena::softdev {
namespace {

// Numbers in events: first the watched descriptors, then the own eventfd, then the senders.
constexpr std::uint32_t watched_numbers = 32;
constexpr std::uint64_t own_number = watched_numbers;
constexpr std::size_t events_per_call = 16;
constexpr std::size_t signals_per_call = 16;

int option_of(int socket, int option) noexcept {
  int value = -1;
  socklen_t length = sizeof value;
  return ::getsockopt(socket, SOL_SOCKET, option, &value, &length) == 0 ? value : -1;
}

bool add(int epoll, int fd, std::uint64_t number) noexcept {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = number;
  return ::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

// Calls epoll_wait(2) with a timeout in nanoseconds; before Linux 5.11 in milliseconds, rounded up.
// Permits the cancellation of the thread while it blocks.
int wait_for_events(int epoll, std::span<epoll_event> events, std::chrono::nanoseconds timeout) {
  const auto room = static_cast<int>(events.size());
  if (timeout <= std::chrono::nanoseconds::zero()) {
    return ::epoll_wait(epoll, events.data(), room, 0);
  }
  const with_cancellation permitted;
  if (timeout == wake_receiver::forever) return ::epoll_wait(epoll, events.data(), room, -1);
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(timeout);
  const timespec exact{static_cast<time_t>(seconds.count()),
                       static_cast<long>((timeout - seconds).count())};
  const int count = ::epoll_pwait2(epoll, events.data(), room, &exact, nullptr);
  if (count >= 0 || (errno != ENOSYS && errno != EPERM)) return count;
  constexpr std::chrono::milliseconds longest = std::chrono::hours(1);
  const auto rounded = std::min(std::chrono::ceil<std::chrono::milliseconds>(timeout), longest);
  return ::epoll_wait(epoll, events.data(), room, static_cast<int>(rounded.count()));
}

}  // namespace

bool is_wake_socket(int fd) noexcept {
  return option_of(fd, SO_DOMAIN) == AF_UNIX && option_of(fd, SO_TYPE) == SOCK_SEQPACKET;
}

void signal_wake_socket(int fd) noexcept {
  const without_cancellation disabled;
  const char signal = 1;
  // EAGAIN means that earlier signals of this sender are still queued: the receiver is readable.
  while (::send(fd, &signal, sizeof signal, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 && errno == EINTR) {
  }
}

wake_receiver::wake_receiver(unique_fd epoll, unique_fd own) noexcept
    : epoll_(std::move(epoll)), own_(std::move(own)), next_number_(own_number + 1) {}

result<std::unique_ptr<wake_receiver>> wake_receiver::create() {
  unique_fd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return error::from_errno(errno, "epoll_create1");
  VERBENA_TRY(unique_fd own, create_eventfd());
  if (!add(epoll.get(), own.get(), own_number)) return error::from_errno(errno, "epoll_ctl");
  return std::unique_ptr<wake_receiver>(new wake_receiver(std::move(epoll), std::move(own)));
}

result<unique_fd> wake_receiver::admit(const void* sender) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) != 0) {
    return error::from_errno(errno, "socketpair", "wake-up of soft0");
  }
  unique_fd here(ends[0]);
  unique_fd there(ends[1]);
  const std::lock_guard lock(mutex_);
  const std::uint64_t number = next_number_++;
  if (!add(epoll_.get(), here.get(), number)) {
    return error::from_errno(errno, "epoll_ctl", "wake-up of soft0");
  }
  std::erase_if(ends_, [&](const sender_end& each) { return each.sender == sender; });
  ends_.push_back({sender, number, std::move(here)});
  return there;
}

void wake_receiver::dismiss(const void* sender) noexcept {
  const std::lock_guard lock(mutex_);
  std::erase_if(ends_, [&](const sender_end& each) { return each.sender == sender; });
}

bool wake_receiver::serves(const void* sender) noexcept {
  const std::lock_guard lock(mutex_);
  const auto at = std::ranges::find(ends_, sender, &sender_end::sender);
  if (at == ends_.end()) return false;
  char signal = 0;
  if (::recv(at->socket.get(), &signal, sizeof signal, MSG_PEEK | MSG_DONTWAIT) != 0) return true;
  ends_.erase(at);
  return false;
}

void wake_receiver::signal() noexcept { signal_eventfd(own_.get()); }

result<void> wake_receiver::watch(int other, std::uint32_t number) noexcept {
  VERBENA_CHECK(number < watched_numbers, "a number is one bit of the result");
  if (!add(epoll_.get(), other, number)) {
    return error::from_errno(errno, "epoll_ctl", "wake-up of soft0");
  }
  return {};
}

wake_receiver::woken wake_receiver::wait(std::chrono::nanoseconds timeout) {
  std::array<epoll_event, events_per_call> events;
  const int count = wait_for_events(epoll_.get(), events, timeout);
  if (count < 0) return {.signaled = false, .watched = 0, .failed = errno};
  woken found;
  for (const epoll_event& each : std::span(events).first(static_cast<std::size_t>(count))) {
    const std::uint64_t number = each.data.u64;
    if (number < watched_numbers) {
      found.watched |= std::uint32_t{1} << number;
      continue;
    }
    found.signaled = true;
    if (number == own_number) {
      drain_eventfd(own_.get());
    } else {
      take_from(number);
    }
  }
  return found;
}

void wake_receiver::take_from(std::uint64_t number) noexcept {
  const std::lock_guard lock(mutex_);
  const auto at = std::ranges::find(ends_, number, &sender_end::number);
  if (at == ends_.end()) return;
  // The bytes have no meaning. The kernel closes descriptors that a sender attaches.
  char signal = 0;
  iovec place{&signal, sizeof signal};
  std::array<mmsghdr, signals_per_call> messages{};
  for (mmsghdr& each : messages) {
    each.msg_hdr.msg_iov = &place;
    each.msg_hdr.msg_iovlen = 1;
  }
  const int count =
      ::recvmmsg(at->socket.get(), messages.data(), signals_per_call, MSG_DONTWAIT, nullptr);
  const bool ended = count < 0 ? errno != EAGAIN && errno != EINTR
                               : std::ranges::any_of(
                                     std::span(messages).first(static_cast<std::size_t>(count)),
                                     [](const mmsghdr& each) { return each.msg_len == 0; });
  // If the sender closed its end, this end would stay readable.
  if (ended) ends_.erase(at);
}

void wake_receiver::close_all() noexcept {
  epoll_.reset();
  close_senders();
}

void wake_receiver::close_senders() noexcept {
  own_.reset();
  for (sender_end& each : ends_) each.socket.reset();
}

}  // namespace verbena::softdev
