// SPDX-License-Identifier: MIT
#include "src/net/stream_acceptor.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <utility>
#include <vector>

#include "src/base/earliest.hpp"
#include "src/base/quiet_thread.hpp"
#include "verbena/base/log.hpp"

namespace verbena::inline VERBENA_ABI::net::detail {
namespace {

// A connection that has sent no request for this time can be replaced by a newer connection.
constexpr std::chrono::milliseconds time_to_speak{250};

// The pause after an exception.
constexpr int pause_ms = 20;

// Calls `body`. Returns false if an exception was thrown, for example std::bad_alloc, which must
// not end the process.
template <class Body>
[[nodiscard]] bool succeeds(Body&& body) noexcept {
#ifdef VERBENA_NO_EXCEPTIONS
  body();
  return true;
#else
  try {
    body();
    return true;
  } catch (...) {
    // This log call does not allocate.
    log(log_level::warning,
        "an exception, for example of an allocation, interrupted the thread that accepts "
        "connections of ranks");
    return false;
  }
#endif
}

}  // namespace

result<void> stream_acceptor::start() {
  const auto body = [](void* self) -> void* {
    static_cast<stream_acceptor*>(self)->run();
    return nullptr;
  };
  if (const int code = verbena::detail::start_quiet_thread(thread_, body, this, "verbena-accept");
      code != 0)
    return error::from_errno(code, "pthread_create", to_string(local_address()));
  is_started_ = true;
  return {};
}

stream_acceptor::~stream_acceptor() {
  if (!is_started_) return;
  stopping_.store(true);
  const std::uint64_t one = 1;
  static_cast<void>(::write(parts_.stop.get(), &one, sizeof one));
  ::pthread_join(thread_, nullptr);
}

void stream_acceptor::run() {
  while (!stopping_.load()) {
    const auto accept_and_wait = [this] {
      accept();
      wait();
    };
    if (!succeeds(accept_and_wait)) pause();
    advance();
  }
}

// Called after an exception in accept() or wait().
void stream_acceptor::pause() {
  accepting_.reset();
  sessions_.remove_if([](const session& each) { return !each.serving; });
  pollfd stopped{.fd = parts_.stop.get(), .events = POLLIN, .revents = 0};
  static_cast<void>(::poll(&stopped, 1, pause_ms));
}

std::list<stream_acceptor::session>::iterator stream_acceptor::oldest_silent() {
  return std::ranges::find_if(sessions_, &session::is_silent);
}

bool stream_acceptor::has_place() {
  if (sessions_.size() < parts_.most_sessions) return true;
  const auto oldest = oldest_silent();
  return oldest != sessions_.end() && oldest->replaceable_from.expired();
}

void stream_acceptor::accept() {
  while (pauses_.end().expired() && has_place()) {
    if (!accepting_) accepting_.emplace(parts_.listener.accept_in_steps(deadline::never()));
    auto accepted = accepting_->progress();
    if (!accepted) return;
    accepting_.reset();
    if (*accepted) {
      pauses_.succeed();
      add(**std::move(accepted));
    } else if (const error& why = accepted->error();
               pauses_.fail(why.code(), deadline::clock::now())) {
      log(log_level::warning, why.message());
    }
  }
}

void stream_acceptor::add(bringup::stream peer) {
  if (sessions_.size() >= parts_.most_sessions) {
    const auto oldest = oldest_silent();
    log(log_level::info, "closed the connection of " + oldest->peer +
                             ": no request within 250 ms; closed in favor of a newer connection");
    sessions_.erase(oldest);
  }
  session& made = sessions_.emplace_back(
      session{.peer = peer.peer(), .replaceable_from = deadline::after(time_to_speak)});
  made.serving.emplace(parts_.serve(std::move(peer), made.is_silent));
}

void stream_acceptor::wait() {
  std::vector<pollfd> events;
  events.reserve(sessions_.size() + 2);
  events.push_back({.fd = parts_.stop.get(), .events = POLLIN, .revents = 0});
  auto until = deadline::never();
  const auto wait_at_most_until = [&](deadline when) {
    until = verbena::detail::earliest(until, when);
  };
  if (!pauses_.end().expired()) {
    wait_at_most_until(pauses_.end());
  } else if (has_place() && accepting_) {
    events.push_back({.fd = accepting_->fd(), .events = POLLIN, .revents = 0});
    wait_at_most_until(accepting_->next_deadline());
  } else if (has_place()) {
    wait_at_most_until(deadline::after(std::chrono::nanoseconds(0)));
  } else if (const auto oldest = oldest_silent(); oldest != sessions_.end()) {
    wait_at_most_until(oldest->replaceable_from);
  }
  for (const auto& each : sessions_) {
    events.push_back({.fd = each.serving->fd(), .events = each.serving->events(), .revents = 0});
    wait_at_most_until(each.serving->next_deadline());
  }
  static_cast<void>(::poll(events.data(), events.size(), until.poll_timeout_ms()));
}

void stream_acceptor::advance() {
  for (auto next = sessions_.begin(); next != sessions_.end();) {
    const auto current = next++;
    bool is_open = false;  // also after an exception
    static_cast<void>(succeeds([&] {
      const auto ended = current->serving->progress();
      is_open = !ended;
      if (ended && !*ended)
        log(log_level::info, std::string(parts_.request) + " failed: " + ended->error().message());
    }));
    if (!is_open) sessions_.erase(current);
  }
}

}  // namespace verbena::inline VERBENA_ABI::net::detail
