// SPDX-License-Identifier: MIT
#include "src/net/connection_acceptor.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <span>
#include <string>
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
        "connections on first use; peers try again");
    return false;
  }
#endif
}

}  // namespace

connection_acceptor::connection_acceptor(parts of)
    : listener_(std::move(of.listener)),
      stop_(std::move(of.stop)),
      maker_(std::move(of.maker)),
      pairs_(of.pairs),
      token_(of.token),
      // Requests beyond max_accepting are answered with `busy`; connections beyond twice that
      // number wait in the backlog.
      most_sessions_(std::size_t{of.max_accepting} * 2),
      time_for_request_(of.time_for_request) {}

result<void> connection_acceptor::start() {
  const auto body = [](void* self) -> void* {
    static_cast<connection_acceptor*>(self)->run();
    return nullptr;
  };
  if (const int code = verbena::detail::start_quiet_thread(thread_, body, this, "verbena-accept");
      code != 0)
    return error::from_errno(code, "pthread_create", to_string(local_address()));
  is_started_ = true;
  return {};
}

connection_acceptor::~connection_acceptor() {
  if (!is_started_) return;
  stopping_.store(true);
  const std::uint64_t one = 1;
  static_cast<void>(::write(stop_.get(), &one, sizeof one));
  ::pthread_join(thread_, nullptr);
}

void connection_acceptor::run() {
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
void connection_acceptor::pause() {
  accepting_.reset();
  sessions_.remove_if([](const session& each) { return !each.serving; });
  pollfd stopped{.fd = stop_.get(), .events = POLLIN, .revents = 0};
  static_cast<void>(::poll(&stopped, 1, pause_ms));
}

std::list<connection_acceptor::session>::iterator connection_acceptor::oldest_silent() {
  return std::ranges::find_if(sessions_, &session::is_silent);
}

bool connection_acceptor::has_place() {
  if (sessions_.size() < most_sessions_) return true;
  const auto oldest = oldest_silent();
  return oldest != sessions_.end() && oldest->replaceable_from.expired();
}

void connection_acceptor::accept() {
  while (pauses_.end().expired() && has_place()) {
    if (!accepting_) accepting_.emplace(listener_.accept_in_steps(deadline::never()));
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

void connection_acceptor::add(bringup::stream peer) {
  if (sessions_.size() >= most_sessions_) {
    const auto oldest = oldest_silent();
    log(log_level::info, "closed the connection of " + oldest->peer +
                             ": no request within 250 ms; closed in favor of a newer connection");
    sessions_.erase(oldest);
  }
  session& made = sessions_.emplace_back(
      session{.peer = peer.peer(), .replaceable_from = deadline::after(time_to_speak)});
  made.serving.emplace(serve(std::move(peer), made));
}

void connection_acceptor::wait() {
  std::vector<pollfd> events;
  events.reserve(sessions_.size() + 2);
  events.push_back({.fd = stop_.get(), .events = POLLIN, .revents = 0});
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

void connection_acceptor::advance() {
  for (auto next = sessions_.begin(); next != sessions_.end();) {
    const auto current = next++;
    bool is_open = false;  // also after an exception
    static_cast<void>(succeeds([&] {
      const auto ended = current->serving->progress();
      is_open = !ended;
      if (ended && !*ended)
        log(log_level::info,
            "a request to connect on first use failed: " + ended->error().message());
    }));
    if (!is_open) sessions_.erase(current);
  }
}

steps<void> connection_acceptor::serve(bringup::stream peer, session& as) {
  const auto until = deadline::after(time_for_request_);
  VERBENA_CO_TRY(const auto request, co_await peer.receive_in_steps(until));
  as.is_silent = false;
  if (is_close_request(request)) {
    auto closed = close(request);
    if (!closed) co_return malformed(std::move(closed).error(), peer);
    co_return co_await peer.send_in_steps(*closed, until);
  }
  auto taken = take(request);
  if (!taken) co_return malformed(std::move(taken).error(), peer);
  const auto answer = encode(taken->answer);
  VERBENA_CO_TRY_VOID(co_await peer.send_in_steps(answer, until));
  if (!taken->claim) co_return {};
  VERBENA_CO_TRY(const auto confirmation, co_await peer.receive_in_steps(until));
  VERBENA_CO_TRY_VOID(check_confirmation(confirmation));
  // The peer uses its queue pair only after it has received this confirmation.
  if (!taken->claim->publish(*std::exchange(taken->made, std::nullopt))) co_return {};
  auto sent = co_await peer.send_in_steps(confirmation, until);
  if (!sent) taken->claim->withdraw();
  co_return sent;
}

error connection_acceptor::malformed(error why, const bringup::stream& peer) {
  pairs_.count_malformed();
  return std::move(why).with_diagnosis("sent by " + peer.peer());
}

result<void> connection_acceptor::check_sender(const connection_token& token,
                                               std::uint32_t rank) const {
  if (are_equal(token, token_) && rank < pairs_.size()) return {};
  return error::protocol("connect", {},
                         "the token or the rank of the request is wrong: the sender is not a "
                         "rank of this group; check that no other program uses this port");
}

result<std::vector<std::byte>> connection_acceptor::close(std::span<const std::byte> request) {
  VERBENA_TRY(const auto wanted, decode_close_request(request));
  VERBENA_TRY_VOID(check_sender(wanted.token, wanted.rank));
  return encode(pairs_.answer_close(wanted));
}

result<connection_acceptor::accepted_request> connection_acceptor::take(
    std::span<const std::byte> request) {
  VERBENA_TRY(const auto wanted, decode_connect_request(request));
  VERBENA_TRY_VOID(check_sender(wanted.token, wanted.rank));
  accepted_request out;
  auto claimed = pairs_.claim(wanted.rank, wanted.epoch);
  out.answer.what = claimed.why_not;
  if (!claimed.claim) return out;
  auto made = maker_.make();
  if (made && !*made) {
    // Another request may hold the share that is missing, and may return it.
    out.answer = {.what = pairs_.has_other_requests(wanted.rank) ? connection_answer::busy
                                                                 : connection_answer::no_room,
                  .limit = maker_.budget->limit()};
    return out;
  }
  if (made) {
    const auto local = (*made)->queue.endpoint();
    auto connected = unmade_pair::connect(**std::move(made), wanted.local);
    if (connected) {
      out.answer = {.what = connection_answer::accepted, .local = local};
      out.made = *std::move(connected);
      out.claim.emplace(*std::move(claimed.claim));
      return out;
    }
    log(log_level::warning, connected.error().message());
  } else {
    log(log_level::warning, made.error().message());
  }
  out.answer.what = connection_answer::failed;
  return out;
}

}  // namespace verbena::inline VERBENA_ABI::net::detail
