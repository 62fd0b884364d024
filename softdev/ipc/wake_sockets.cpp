// SPDX-License-Identifier: MIT
#include "softdev/ipc/wake_sockets.hpp"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <span>
#include <utility>

#include "softdev/ipc/eventfd.hpp"

namespace verbena::softdev {
namespace {

constexpr std::uint64_t own_number = 0;
constexpr std::size_t senders_per_call = 16;
constexpr std::size_t signals_per_call = 16;

int option_of(int socket, int option) noexcept {
  int value = -1;
  socklen_t length = sizeof value;
  return ::getsockopt(socket, SOL_SOCKET, option, &value, &length) == 0 ? value : -1;
}

bool watch(int epoll, int fd, std::uint64_t number) noexcept {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = number;
  return ::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

}  // namespace

bool is_wake_socket(int fd) noexcept {
  return option_of(fd, SO_DOMAIN) == AF_UNIX && option_of(fd, SO_TYPE) == SOCK_SEQPACKET;
}

void signal_wake_socket(int fd) noexcept {
  const char signal = 1;
  // EAGAIN means that the receiver has signals of this sender that it did not take: it is readable.
  while (::send(fd, &signal, sizeof signal, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 && errno == EINTR) {
  }
}

result<std::unique_ptr<wake_receiver>> wake_receiver::create() {
  unique_fd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return error::from_errno(errno, "epoll_create1");
  VERBENA_TRY(unique_fd own, create_eventfd());
  if (!watch(epoll.get(), own.get(), own_number)) return error::from_errno(errno, "epoll_ctl");
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
  if (!watch(epoll_.get(), here.get(), number)) {
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

bool wake_receiver::take() noexcept {
  const std::lock_guard lock(mutex_);
  std::array<epoll_event, senders_per_call> events;
  const int count = ::epoll_wait(epoll_.get(), events.data(), senders_per_call, 0);
  if (count <= 0) return false;
  for (const epoll_event& each : std::span(events).first(static_cast<std::size_t>(count))) {
    if (each.data.u64 == own_number) {
      drain_eventfd(own_.get());
    } else {
      take_from(each.data.u64);
    }
  }
  return true;
}

void wake_receiver::take_from(std::uint64_t number) noexcept {
  const auto at = std::ranges::find(ends_, number, &sender_end::number);
  if (at == ends_.end()) return;
  // The bytes mean nothing. Descriptors that a sender adds are closed by the kernel.
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
  // An end that its sender closed would stay readable.
  if (ended) ends_.erase(at);
}

void wake_receiver::close_all() noexcept {
  epoll_.reset();
  own_.reset();
  for (sender_end& each : ends_) each.socket.reset();
}

}  // namespace verbena::softdev
