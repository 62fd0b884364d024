// SPDX-License-Identifier: MIT
#include "verbena/bringup/listener.hpp"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "src/base/call_or_else.hpp"
#include "src/bringup/socket.hpp"
#include "verbena/base/assert.hpp"
#include "verbena/base/fd.hpp"
#include "verbena/base/log.hpp"

namespace verbena::inline VERBENA_ABI::bringup {
namespace {

// The time between two attempts to accept connections while descriptors or memory are exhausted.
constexpr auto exhausted_pause = std::chrono::milliseconds(100);

void note_closed(const std::string& peer, std::string_view why) noexcept {
  // Without memory, only the message is lost.
  verbena::detail::call_or_else(
      [&] { log(log_level::info, "bring-up: closed " + peer + ": " + std::string(why)); }, [] {});
}

}  // namespace

namespace detail {

// The sockets of a listener and its connections.
class greeter {
 public:
  greeter(unique_fd socket, unique_fd epoll, unique_fd timer, address local,
          listener_options options);

  result<stream> accept(deadline until);
  steps<stream> accept_in_steps(deadline until);
  const address& local_address() const noexcept { return local_; }
  const listener_statistics& statistics() const noexcept { return statistics_; }
  int fd() const noexcept { return epoll_.get(); }

 private:
  struct greeting {
    unique_fd socket;
    std::string peer;
    deadline until;
    deadline replaceable_from;
    std::array<std::byte, greeting_bytes> bytes{};
    std::size_t count = 0;
    std::uint16_t version = 0;
    bool greeted = false;
  };

  /// Processes events, which it waits for at most `timeout` ms. Returns the next peer, or nullopt.
  result<std::optional<stream>> poll(int timeout);
  error timed_out() const;
  stream hand_out(std::list<greeting>::iterator connection);
  result<void> take_connections();
  std::list<greeting>::iterator oldest_ungreeted() noexcept;
  bool has_place() noexcept;
  void suspend_until(deadline when) noexcept;
  void resume() noexcept;
  void add(unique_fd socket, std::string peer);
  void close_slow();
  void close(std::list<greeting>::iterator connection) noexcept;
  /// Reads the bytes that have arrived; removes the connection if it failed.
  void advance(std::list<greeting>::iterator connection);
  /// Answers a complete greeting; returns false if the connection must be removed.
  bool answer(greeting& connection);
  deadline next_deadline(deadline until) const noexcept;

  unique_fd socket_;
  unique_fd epoll_;
  unique_fd timer_;            // of suspend_until()
  bool is_suspended_ = false;  // new connections wait in the backlog
  // Until then, no connection is accepted for lack of resources.
  deadline exhausted_until_ = deadline::at({});
  address local_;
  shared_text name_;  // of local_, for errors
  listener_options options_;
  listener_statistics statistics_;
  std::list<greeting> greeting_;  // oldest first
};

greeter::greeter(unique_fd socket, unique_fd epoll, unique_fd timer, address local,
                 listener_options options)
    : socket_(std::move(socket)),
      epoll_(std::move(epoll)),
      timer_(std::move(timer)),
      local_(std::move(local)),
      name_(to_string(local_)),
      options_(options) {}

result<stream> greeter::accept(deadline until) {
  while (true) {
    VERBENA_TRY(auto next, poll(next_deadline(until).poll_timeout_ms()));
    if (next) return *std::move(next);
    if (until.expired()) return timed_out();
  }
}

steps<stream> greeter::accept_in_steps(deadline until) {
  while (true) {
    VERBENA_CO_TRY(auto next, poll(0));
    if (next) co_return *std::move(next);
    if (until.expired()) co_return timed_out();
    VERBENA_CO_TRY_DISCARD(
        co_await verbena::detail::ready(epoll_.get(), POLLIN, next_deadline(until)));
  }
}

result<std::optional<stream>> greeter::poll(int timeout) {
  std::array<epoll_event, 16> events;
  const int count =
      ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), timeout);
  if (count < 0 && errno != EINTR) return error::from_errno(errno, "epoll_wait", to_string(local_));
  std::optional<error> failure;
  for (int i = 0; i < count; ++i) {
    const int ready = events[static_cast<std::size_t>(i)].data.fd;
    if (ready == socket_.get()) {
      if (auto taken = take_connections(); !taken) failure = std::move(taken).error();
      continue;
    }
    const auto found = std::ranges::find_if(
        greeting_, [&](const auto& entry) { return entry.socket.get() == ready; });
    if (found != greeting_.end()) advance(found);
  }
  close_slow();
  const auto greeted = std::ranges::find_if(greeting_, &greeting::greeted);
  std::optional<stream> next;
  if (greeted != greeting_.end()) next.emplace(hand_out(greeted));
  if (is_suspended_ && exhausted_until_.expired() && has_place()) resume();
  if (failure && !next) return *std::move(failure);
  return next;
}

error greeter::timed_out() const {
  return error::timed_out("accept", name_,
                          "no peer connected and sent a greeting in time; check that the peer "
                          "connects to this address and port");
}

/// If a child of fork has a copy of the socket, closing it does not remove it from the epoll
/// instance.
void greeter::close(std::list<greeting>::iterator connection) noexcept {
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, connection->socket.get(), nullptr);
  greeting_.erase(connection);
}

stream greeter::hand_out(std::list<greeting>::iterator connection) {
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, connection->socket.get(), nullptr);
  stream made(std::move(connection->socket), std::move(connection->peer), options_.streams);
  made.version_ = connection->version;
  greeting_.erase(connection);
  ++statistics_.accepted;
  return made;
}

result<void> greeter::take_connections() {
  // Bounded, so that many new connections cannot starve the existing ones.
  for (std::size_t i = 0; i < options_.max_greeting; ++i) {
    if (!has_place()) {
      // Complete greetings are returned first.
      if (const auto oldest = oldest_ungreeted(); oldest != greeting_.end())
        suspend_until(oldest->replaceable_from);
      return {};
    }
    socket_address from;
    from.length = sizeof from.storage;
    void* storage = &from.storage;
    unique_fd socket(::accept4(socket_.get(), static_cast<sockaddr*>(storage), &from.length,
                               SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (socket) {
      add(std::move(socket), to_string(address_of(from)));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return {};
    } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      const int code = errno;
      // The socket stays readable, so each poll would fail at once.
      exhausted_until_ = deadline::after(exhausted_pause);
      suspend_until(exhausted_until_);
      return error::from_errno(
          code, "accept4", to_string(local_),
          "the limit of open files is reached; raise it (`ulimit -n`) or serve fewer peers");
    }  // other errors concern this connection only, see accept(2)
  }
  return {};
}

std::list<greeter::greeting>::iterator greeter::oldest_ungreeted() noexcept {
  return std::ranges::find_if_not(greeting_, &greeting::greeted);
}

/// Returns whether a new connection can be taken, possibly instead of the oldest one.
bool greeter::has_place() noexcept {
  if (greeting_.size() < options_.max_greeting) return true;
  const auto oldest = oldest_ungreeted();
  return oldest != greeting_.end() && oldest->replaceable_from.expired();
}

/// Leaves new connections in the backlog. The epoll descriptor becomes readable at `when`.
void greeter::suspend_until(deadline when) noexcept {
  const auto left = std::max(when.time_left(), std::chrono::steady_clock::duration(1));
  itimerspec once{};
  once.it_value.tv_sec = static_cast<time_t>(left / std::chrono::seconds(1));
  once.it_value.tv_nsec =
      static_cast<long>(left % std::chrono::seconds(1) / std::chrono::nanoseconds(1));
  ::timerfd_settime(timer_.get(), 0, &once, nullptr);
  epoll_event none{};
  none.data.fd = socket_.get();
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, socket_.get(), &none);
  is_suspended_ = true;
}

void greeter::resume() noexcept {
  constexpr itimerspec never{};
  ::timerfd_settime(timer_.get(), 0, &never, nullptr);  // it is not readable afterwards
  epoll_event readable{};
  readable.events = EPOLLIN;
  readable.data.fd = socket_.get();
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, socket_.get(), &readable);
  is_suspended_ = false;
}

void greeter::add(unique_fd socket, std::string peer) {
  if (greeting_.size() >= options_.max_greeting) {
    const auto oldest = oldest_ungreeted();
    ++statistics_.slow;
    note_closed(oldest->peer, "it sent no greeting, and newer connections need its place");
    close(oldest);
  }
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = socket.get();
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, socket.get(), &event) != 0) {
    note_closed(peer, "epoll_ctl failed for lack of resources");
    return;
  }
  set_no_delay(socket.get());
  greeting_.push_back({.socket = std::move(socket),
                       .peer = std::move(peer),
                       .until = deadline::after(options_.greeting_timeout),
                       .replaceable_from = deadline::after(options_.min_greeting_time)});
  advance(std::prev(greeting_.end()));
}

void greeter::close_slow() {
  for (auto each = greeting_.begin(); each != greeting_.end();) {
    const auto entry = each++;
    if (entry->greeted || !entry->until.expired()) continue;
    ++statistics_.slow;
    note_closed(entry->peer, "it sent no greeting in time");
    close(entry);
  }
}

void greeter::advance(std::list<greeting>::iterator connection) {
  if (connection->greeted) return;
  const auto room = std::span(connection->bytes).subspan(connection->count);
  const auto got = ::recv(connection->socket.get(), room.data(), room.size(), 0);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return;
  if (got <= 0) {
    ++statistics_.closed;
    note_closed(connection->peer, "the peer closed it before its greeting");
    close(connection);
    return;
  }
  connection->count += static_cast<std::size_t>(got);
  if (connection->count == connection->bytes.size() && !answer(*connection)) close(connection);
}

bool greeter::answer(greeting& connection) {
  const auto theirs = decode_greeting(connection.bytes);
  if (!theirs) {
    ++statistics_.garbage;
    note_closed(connection.peer, theirs.error().diagnosis());
    return false;
  }
  // Eight bytes always fit into the empty send buffer of a new connection.
  const auto ours = encode_greeting(supported_versions);
  const auto sent = ::send(connection.socket.get(), ours.data(), ours.size(), MSG_NOSIGNAL);
  if (sent != static_cast<ssize_t>(ours.size())) {
    ++statistics_.closed;
    note_closed(connection.peer, "the peer closed it before the greeting of this side");
    return false;
  }
  const auto agreed = negotiate(supported_versions, *theirs);
  if (!agreed) {
    ++statistics_.wrong_version;
    note_closed(connection.peer, agreed.error().diagnosis());
    return false;
  }
  // A connected socket is writable, so that the epoll descriptor stays readable until accept()
  // returns this connection.
  epoll_event writable{};
  writable.events = EPOLLOUT;
  writable.data.fd = connection.socket.get();
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, connection.socket.get(), &writable);
  connection.version = *agreed;
  connection.greeted = true;
  return true;
}

deadline greeter::next_deadline(deadline until) const noexcept {
  for (const auto& entry : greeting_) {
    if (entry.greeted) return deadline::after(std::chrono::nanoseconds::zero());
    if (entry.until.when() < until.when()) until = entry.until;
  }
  return until;
}

// NOLINTNEXTLINE(cppcoreguidelines-owning-memory): the sole_owner calls it
void destroy(greeter& state) noexcept { delete &state; }

}  // namespace detail

result<listener> listener::open(const address& at, listener_options options) {
  VERBENA_ASSERT(options.max_greeting > 0, "listener_options::max_greeting is 0");
  VERBENA_TRY(auto socket, detail::listen_at(at, options.backlog));
  VERBENA_TRY(auto local, detail::local_address_of(socket.get()));
  unique_fd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return error::from_errno(errno, "epoll_create1", to_string(at));
  unique_fd timer(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!timer) return error::from_errno(errno, "timerfd_create", to_string(at));
  for (const int each : {socket.get(), timer.get()}) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = each;
    if (::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, each, &event) != 0)
      return error::from_errno(errno, "epoll_ctl", to_string(at));
  }
  return listener(new detail::greeter(std::move(socket), std::move(epoll), std::move(timer),
                                      std::move(local), options));
}

detail::greeter& listener::state() const {
  VERBENA_ASSERT(state_.get() != nullptr, "a moved-from listener was used");
  return *state_;
}

result<stream> listener::accept(deadline until) { return state().accept(until); }

steps<stream> listener::accept_in_steps(deadline until) { return state().accept_in_steps(until); }

const address& listener::local_address() const noexcept { return state().local_address(); }

std::uint16_t listener::port() const noexcept { return state().local_address().port; }

listener_statistics listener::statistics() const noexcept { return state().statistics(); }

int listener::fd() const noexcept { return state().fd(); }

}  // namespace verbena::inline VERBENA_ABI::bringup
