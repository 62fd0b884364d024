// SPDX-License-Identifier: MIT
#include "verbena/async/detail/descriptor_set.hpp"

#include <sys/epoll.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <span>
#include <utility>

namespace verbena::inline VERBENA_ABI::async::detail {

int descriptor_set::add(int epoll, descriptor_entry& which) noexcept {
  epoll_event event{.events = which.events, .data = {.ptr = &which}};
  which.same = nullptr;
  if (::epoll_ctl(epoll, EPOLL_CTL_ADD, which.fd, &event) == 0) {
    link(which);
    which.is_in_set = true;
    return 0;
  }
  const int code = errno;
  descriptor_entry* const head = code == EEXIST ? find(which.fd) : nullptr;
  if (head == nullptr) return code;
  which.same = std::exchange(head->same, &which);
  if (const int failed = register_all(epoll, *head); failed != 0) {
    head->same = which.same;
    return failed;
  }
  which.is_in_set = true;
  return 0;
}

void descriptor_set::remove(int epoll, descriptor_entry& which) noexcept {
  which.is_in_set = false;
  const bool is_first = first_ == &which || which.previous != nullptr;
  descriptor_entry* const head = is_first ? &which : find(which.fd);
  if (head != &which) {
    descriptor_entry** at = &head->same;
    while (*at != &which) at = &(*at)->same;
    *at = which.same;
    static_cast<void>(register_all(epoll, *head));
    return;
  }
  unlink(which);
  if (which.same == nullptr) {
    // Fails if the program has closed the descriptor, which has also removed it from the epoll set.
    static_cast<void>(::epoll_ctl(epoll, EPOLL_CTL_DEL, which.fd, nullptr));
    return;
  }
  link(*which.same);
  static_cast<void>(register_all(epoll, *which.same));
}

void descriptor_set::poll(int epoll, operation_table& table) noexcept {
  std::array<epoll_event, 64> events;
  const int count = ::epoll_wait(epoll, events.data(), static_cast<int>(events.size()), 0);
  if (count <= 0) return;
  for (const epoll_event& event : std::span(events).first(static_cast<std::size_t>(count))) {
    // The pointer is null for the descriptors of the engine. No wait is destroyed before the end of
    // the loop, because append_completed() calls nothing.
    for (auto* each = static_cast<descriptor_entry*>(event.data.ptr); each != nullptr;) {
      descriptor_entry* const next = each->same;
      if ((event.events & (each->events | EPOLLERR | EPOLLHUP)) != 0) {
        remove(epoll, *each);
        each->is_ready = true;
        table.append_completed(*each);
      }
      each = next;
    }
  }
}

descriptor_entry* descriptor_set::find(int fd) const noexcept {
  descriptor_entry* each = first_;
  while (each != nullptr && each->fd != fd) each = each->following;
  return each;
}

void descriptor_set::link(descriptor_entry& which) noexcept {
  which.previous = nullptr;
  which.following = first_;
  if (first_ != nullptr) first_->previous = &which;
  first_ = &which;
}

void descriptor_set::unlink(descriptor_entry& which) noexcept {
  if (which.following != nullptr) which.following->previous = which.previous;
  (which.previous != nullptr ? which.previous->following : first_) = which.following;
  which.previous = which.following = nullptr;
}

int descriptor_set::register_all(int epoll, descriptor_entry& which) noexcept {
  epoll_event event{.events = 0, .data = {.ptr = &which}};
  for (const descriptor_entry* each = &which; each != nullptr; each = each->same)
    event.events |= each->events;
  return ::epoll_ctl(epoll, EPOLL_CTL_MOD, which.fd, &event) == 0 ? 0 : errno;
}

}  // namespace verbena::inline VERBENA_ABI::async::detail
