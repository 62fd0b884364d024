// SPDX-License-Identifier: MIT
#include "softdev/ipc/reactor.hpp"

#include <sys/epoll.h>

#include <cerrno>

namespace verbena::softdev {
namespace {

constexpr unsigned kind_shift = 56;
constexpr std::uint64_t number_mask = (std::uint64_t{1} << kind_shift) - 1;

}  // namespace

result<void> reactor::open() {
  epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_) return error::from_errno(errno, "epoll_create1");
  return {};
}

int reactor::control(int operation, int fd, source name, wanted what) const noexcept {
  epoll_event request{};
  const bool either = what == wanted::either;
  request.events = (either || what == wanted::readable ? EPOLLIN : 0U) |
                   (either || what == wanted::writable ? EPOLLOUT : 0U);
  request.data.u64 = (std::uint64_t{name.kind} << kind_shift) | name.number;
  return ::epoll_ctl(epoll_.get(), operation, fd, &request) == 0 ? 0 : errno;
}

int reactor::watch(int fd, source name, wanted what) const noexcept {
  return control(EPOLL_CTL_ADD, fd, name, what);
}

int reactor::rewatch(int fd, source name, wanted what) const noexcept {
  const int failed = control(EPOLL_CTL_MOD, fd, name, what);
  return failed == ENOENT ? control(EPOLL_CTL_ADD, fd, name, what) : failed;
}

void reactor::unwatch(int fd) const noexcept {
  if (fd >= 0) ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
}

std::span<const reactor::source> reactor::wait(int timeout_ms) noexcept {
  std::array<epoll_event, most_events> ready;
  const int count =
      ::epoll_wait(epoll_.get(), ready.data(), static_cast<int>(ready.size()), timeout_ms);
  const auto known = static_cast<std::size_t>(count > 0 ? count : 0);
  for (std::size_t i = 0; i < known; ++i) {
    const std::uint64_t tag = ready[i].data.u64;
    found_[i] = {tag >> kind_shift, tag & number_mask};
  }
  return std::span(found_).first(known);
}

}  // namespace verbena::softdev
