// SPDX-License-Identifier: MIT
#include "softdev/peers/service_descriptors.hpp"

#include <sys/epoll.h>

#include <cerrno>

namespace verbena::softdev {

result<void> service_descriptors::open() {
  epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_) return error::from_errno(errno, "epoll_create1");
  return {};
}

bool service_descriptors::control(int operation, int fd, std::uint32_t events,
                                  event about) noexcept {
  epoll_event request{};
  request.events = events;
  request.data.u64 =
      (std::uint64_t{static_cast<std::uint8_t>(about.from)} << 32) | std::uint64_t{about.number};
  return ::epoll_ctl(epoll_.get(), operation, fd, &request) == 0;
}

result<void> service_descriptors::add_listener(int fd) {
  if (control(EPOLL_CTL_ADD, fd, EPOLLIN, {source::listener, 0})) return {};
  return error::from_errno(errno, "epoll_ctl");
}

result<void> service_descriptors::add_pending(int fd, std::uint32_t number) {
  if (control(EPOLL_CTL_ADD, fd, EPOLLIN, {source::pending, number})) return {};
  return error::from_errno(errno, "epoll_ctl");
}

void service_descriptors::watch_socket(peer& of, wanted what) {
  const int fd = of.socket_.get();
  const std::uint32_t events = (what != wanted::room ? EPOLLIN : 0U) |  //
                               (what != wanted::message ? EPOLLOUT : 0U);
  const event about{source::peer_socket, of.slot()};
  if (control(EPOLL_CTL_MOD, fd, events, about)) return;
  static_cast<void>(errno == ENOENT && control(EPOLL_CTL_ADD, fd, events, about));
}

void service_descriptors::watch_process(peer& of) {
  if (of.watch_.fd() < 0) return;
  static_cast<void>(
      control(EPOLL_CTL_ADD, of.watch_.fd(), EPOLLIN, {source::peer_process, of.slot()}));
}

void service_descriptors::stop(peer& which) {
  for (const int fd : {which.socket_.get(), which.watch_.fd()}) {
    if (fd >= 0) ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  }
}

std::span<const service_descriptors::event> service_descriptors::events() noexcept {
  std::array<epoll_event, most_events> ready;
  const int count = ::epoll_wait(epoll_.get(), ready.data(), static_cast<int>(ready.size()), 0);
  const auto known = static_cast<std::size_t>(count > 0 ? count : 0);
  for (std::size_t i = 0; i < known; ++i) {
    const std::uint64_t tag = ready[i].data.u64;
    found_[i] = {static_cast<source>(tag >> 32), static_cast<std::uint32_t>(tag)};
  }
  return std::span(found_).first(known);
}

}  // namespace verbena::softdev
