// SPDX-License-Identifier: MIT
// Channels, endpoints and their events.
#include "softdev/cm/manager.hpp"

#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "softdev/ipc/eventfd.hpp"
#include "src/base/quiet_thread.hpp"
#include "verbena/base/random.hpp"

namespace verbena::softdev::cm {

result<std::unique_ptr<manager>> manager::open(const manager_options& options) {
  std::unique_ptr<manager> made(new manager(options));
  if (const int failed = made->start())
    return error::from_errno(failed, "rdma_create_event_channel", "soft0");
  return made;
}

int manager::start() {
  epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_) return errno;
  auto made = create_eventfd();
  if (!made) return made.error().code();
  wake_ = std::move(made).value();
  if (const int failed = watch(wake_.get(), source_kind::wake, 0)) return failed;
  if (const int failed =
          verbena::detail::start_quiet_thread(thread_, &manager::enter, this, "verbena-cm"))
    return failed;
  running_ = true;
  return 0;
}

manager::~manager() {
  if (!running_) return;
  {
    const lock guard(mutex_);
    stop_ = true;
  }
  wake();
  pthread_join(thread_, nullptr);
  // Who still holds an endpoint holds no conversation, and no events that hold each other.
  for (auto& [number, each] : endpoints_) {
    each->socket_.reset();
    each->own_socket_.reset();
    each->published_.withdraw();
    each->channel_->events_.clear();
  }
}

void manager::abandon() noexcept {
  for (auto& [number, each] : endpoints_) {
    each->socket_.reset();
    each->own_socket_.reset();
    each->published_.withdraw();
  }
  for (auto& [key, each] : ports_) {
    each.socket.reset();
    each.entry.reset();
  }
  for (auto& [number, each] : newcomers_) each.socket.reset();
  numbers_.clear();
  epoll_.reset();
  wake_.reset();
  mutex_.unlock();
}

result<channel_ptr> manager::create_channel() {
  auto fd = create_eventfd(when_empty::wait);
  if (!fd) return error::from_errno(fd.error().code(), "rdma_create_event_channel", "soft0");
  return std::make_shared<channel>(*std::move(fd));
}

endpoint_ptr manager::make_endpoint(port_space space) {
  auto made = std::make_shared<endpoint>(space, next_number_++);
  constexpr std::uint32_t psn_mask = 0xff'ffff;
  made->local_.starting_psn = random_u32() & psn_mask;
  return made;
}

endpoint_ptr manager::create(const channel_ptr& events, port_space space) {
  const lock guard(mutex_);
  const endpoint_ptr made = make_endpoint(space);
  made->channel_ = events;
  endpoints_.emplace(made->number_, made);
  return made;
}

std::uint32_t manager::migrate(const endpoint_ptr& which, const channel_ptr& events) {
  const lock guard(mutex_);
  const channel_ptr before = std::exchange(which->channel_, events);
  if (before == events) return which->events_taken_;
  const auto concerns = [&](const event& each) {
    return (each.kind == event_kind::connect_request ? each.listener : each.about) == which;
  };
  for (event& each : before->events_)
    if (concerns(each)) events->events_.push_back(each);
  std::erase_if(before->events_, concerns);
  before->settle();
  events->settle();
  return which->events_taken_;
}

void manager::set_options(const endpoint_ptr& which, const endpoint_options& options) {
  const lock guard(mutex_);
  which->options_ = options;
}

endpoint_options manager::options_of(const endpoint_ptr& which) {
  const lock guard(mutex_);
  return which->options_;
}

endpoint_view manager::look(const endpoint_ptr& which) {
  const lock guard(mutex_);
  return {.state = which->phase_,
          .active = which->active_,
          .source = which->source_,
          .destination = which->destination_,
          .local = which->local_,
          .remote = which->remote_};
}

std::optional<event> manager::take(channel& from) {
  const lock guard(mutex_);
  if (from.events_.empty()) return std::nullopt;
  event first = from.pop();
  endpoint& counted = *(first.listener != nullptr ? first.listener : first.about);
  ++counted.events_taken_;
  if (first.kind == event_kind::connect_request) --counted.waiting_requests_;
  return first;
}

void manager::post(const endpoint_ptr& which, event_kind kind, int status) {
  const lock guard(mutex_);
  tell(which, kind, status);
}

void manager::tell_joined(const endpoint_ptr& which, std::uint64_t membership) {
  const lock guard(mutex_);
  event what;
  what.kind = event_kind::multicast_join;
  what.membership = membership;
  tell(which, std::move(what));
}

void manager::forget_joined(const endpoint_ptr& which, std::uint64_t membership) {
  const lock guard(mutex_);
  std::erase_if(which->channel_->events_, [&](const event& each) {
    return each.membership == membership && each.about == which;
  });
  which->channel_->settle();
}

void manager::tell(const endpoint_ptr& which, event what) {
  // Of a request that the program has not answered, only the request itself is told.
  if (!which->adopted_) return;
  what.about = which;
  which->channel_->push(std::move(what));
}

void manager::tell(const endpoint_ptr& which, event_kind kind, int status) {
  event what;
  what.kind = kind;
  what.status = status;
  tell(which, std::move(what));
}

void manager::drop_events(endpoint& which, std::vector<endpoint_ptr>& orphans) {
  auto& waiting = which.channel_->events_;
  for (const event& each : waiting)
    if (each.listener.get() == &which) orphans.push_back(each.about);
  std::erase_if(waiting, [&](const event& each) {
    return each.listener.get() == &which ||
           (each.listener == nullptr && each.about.get() == &which);
  });
  which.channel_->settle();
}

void manager::end(const endpoint_ptr& which, std::vector<endpoint_ptr>& orphans) {
  drop_events(*which, orphans);
  farewell(*which);
  release_port(*which);
  finish(*which);
  endpoints_.erase(which->number_);
}

std::uint32_t manager::destroy(const endpoint_ptr& which) {
  const lock guard(mutex_);
  std::vector<endpoint_ptr> orphans;
  end(which, orphans);
  std::vector<endpoint_ptr> none;  // what nobody took is no listener
  for (const endpoint_ptr& each : orphans) end(each, none);
  return which->events_taken_;
}

// Tells the peer that this end goes away.
void manager::farewell(endpoint& which) {
  if (!which.socket_) return;
  frame_kind kind = frame_kind::rejection;
  std::uint32_t reason = reject_reason::consumer;
  switch (which.phase_) {
    case phase::requesting:
      if (which.datagram()) return;
      reason = reject_reason::timeout;
      break;
    case phase::requested:
      if (which.datagram()) {
        kind = frame_kind::lookup_reply;
        reason = lookup_status::rejected;
      }
      break;
    case phase::answered:
    case phase::replied:
      break;
    case phase::connected:
      kind = frame_kind::disconnect;
      break;
    default:
      return;
  }
  static_cast<void>(say(which, kind, reason));
}

// It has no conversation any more.
void manager::finish(endpoint& which) {
  unwatch(which.socket_);
  which.socket_.reset();
  set_deadline(which, time_point::max());
  which.phase_ = phase::closed;
}

send_outcome manager::say(const endpoint& which, frame_kind kind, std::uint32_t reason,
                          const private_data& data) {
  frame what;
  what.kind = kind;
  what.space = which.space_;
  what.source = which.source_;
  what.destination = which.destination_;
  what.from = which.local_;
  what.reason = reason;
  what.data = data;
  return send_frame(which.socket_.get(), what);
}

}  // namespace verbena::softdev::cm
