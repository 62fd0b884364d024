// SPDX-License-Identifier: MIT
#include "verbena/async/message_listener.hpp"

#include <cerrno>
#include <deque>
#include <list>
#include <optional>
#include <string>
#include <utility>

#include "src/base/call_or_else.hpp"
#include "src/verbs/iwarp.hpp"
#include "verbena/base/assert.hpp"
#include "verbena/base/log.hpp"
#include "verbena/bringup/connect_queue_pair.hpp"
#include "verbena/bringup/stream.hpp"
#include "verbena/channel/prepared_message_channel.hpp"
#include "verbena/cm/connector.hpp"

namespace verbena::inline VERBENA_ABI::async {
namespace detail {

struct connected_channel {
  [[nodiscard]] static message_channel on(engine_state& on, verbena::message_channel&& connected) {
    return {on, std::move(connected)};
  }
};

/// A client that is not connected yet: over TCP or with the connection manager.
struct accepted_peer {
  std::optional<bringup::stream> stream = {};
  std::optional<cm::connection_request> request = {};
};

/// The engine, the protection domain and the options of all channels of a listener.
struct channel_needs {
  engine_state& on;
  protection_domain pd;
  message_channel_options options;

  [[nodiscard]] result<prepared_message_channel> prepare() const {
    return verbena::message_channel::prepare(pd, on.hub(), options);
  }
};

namespace {

steps<accepted_peer> next_of(bringup::listener& from) {
  VERBENA_CO_TRY(auto accepted, co_await from.accept_in_steps(deadline::never()));
  accepted_peer made;
  made.stream.emplace(std::move(accepted));
  co_return std::move(made);
}

steps<accepted_peer> next_of(cm::listener& from) {
  VERBENA_CO_TRY(auto accepted, co_await from.accept_in_steps(deadline::never()));
  accepted_peer made;
  made.request.emplace(std::move(accepted));
  co_return std::move(made);
}

steps<message_channel> connect_over(bringup::stream& peer, const channel_needs& needs,
                                    deadline until) {
  auto prepared = needs.prepare();
  if (!prepared) co_return bringup::detail::give_up(std::move(prepared).error(), peer);
  VERBENA_CO_TRY(auto made, co_await (*std::move(prepared)).connect_in_steps(peer, until));
  co_return connected_channel::on(needs.on, std::move(made));
}

steps<message_channel> negotiate(accepted_peer who, const channel_needs& needs, deadline until) {
  accepted_peer self = std::move(who);
  if (self.stream) co_return co_await connect_over(*self.stream, needs, until);
  VERBENA_CO_TRY(auto prepared, needs.prepare());
  VERBENA_CO_TRY(auto made,
                 co_await std::move(prepared).accept_in_steps(*std::move(self.request), until));
  co_return connected_channel::on(needs.on, std::move(made));
}

steps<message_channel> connect_by_manager(const channel_needs& needs, bringup::address to,
                                          deadline until) {
  VERBENA_CO_TRY(auto peer, co_await cm::connector::resolve_in_steps(std::move(to), until));
  VERBENA_CO_TRY(auto prepared, needs.prepare());
  VERBENA_CO_TRY(auto made, co_await std::move(prepared).connect_in_steps(peer, until));
  co_return connected_channel::on(needs.on, std::move(made));
}

steps<message_channel> connect_to(channel_needs needs, result<bringup::address> parsed,
                                  std::chrono::nanoseconds retry_refused, deadline until) {
  VERBENA_CO_TRY(auto to, std::move(parsed));
  if (verbena::detail::is_iwarp(needs.pd.context()))
    co_return co_await connect_by_manager(needs, std::move(to), until);
  const bringup::connect_options how{.retry_refused = retry_refused};
  VERBENA_CO_TRY(auto peer, co_await bringup::stream::connect_in_steps(std::move(to), until, how));
  co_return co_await connect_over(peer, needs, until);
}

}  // namespace

bool connect_operation::start(ended_function then) noexcept {
  begin(connect_to({.on = on(), .pd = std::move(pd_), .options = options_.channel}, std::move(to_),
                   options_.retry_refused, until_));
  return steps_operation::start(then);
}

/// Threads: one thread at a time, the thread of the engine.
class listener_state : private failure_observer {
 public:
  listener_state(engine_state& on, const protection_domain& pd, const listen_options& options)
      : needs_{.on = on, .pd = pd, .options = options.channels}, options_(options) {
    on.add_user();
    engine_failed = [](failure_observer& self) noexcept {
      static_cast<listener_state&>(self).close();
    };
    on.observe(*this);
  }
  listener_state(const listener_state&) = delete;
  listener_state& operator=(const listener_state&) = delete;
  ~listener_state() {
    close();
    on().stop_observing(*this);
    on().remove_user();
  }

  void start(bringup::listener&& from) {
    tcp_.emplace(std::move(from));
    listen();
  }
  void start(cm::listener&& from) {
    manager_.emplace(std::move(from));
    listen();
  }
  void close() noexcept;

  [[nodiscard]] std::uint16_t port() const noexcept { return tcp_ ? tcp_->port() : cm_port(); }
  [[nodiscard]] const message_listener_statistics& statistics() const noexcept {
    return statistics_;
  }

  /// Sets the result of an operation to a channel or a failure. Returns false if there is none yet.
  [[nodiscard]] bool serve(listener_accept& which);
  void await(listener_accept& which) noexcept;
  void stop_waiting(const listener_accept& which) noexcept { remove(first_waiting_, which); }
  /// Sets the results of operations that wait, and lets the next poll end them.
  void serve_all() noexcept;
  /// Takes the client of an operation that has not ended, and keeps it for the next accept().
  void take_back(listener_accept& which) noexcept;
  /// Lets an operation keep its client.
  void release(listener_accept& which) noexcept;
  /// Starts to wait for the next client, unless max_pending is reached or accept() has not returned
  /// a failure yet.
  void listen() noexcept;
  [[nodiscard]] engine_state& on() const noexcept { return needs_.on; }

 private:
  /// The operation that waits for the next client.
  struct acceptor : steps_operation<accepted_peer> {
    acceptor(listener_state& state, steps<accepted_peer>&& accepting)
        : steps_operation(state.on(), std::move(accepting)), of(state) {}
    bool begin() noexcept { return start(ended); }
    static void ended(queued_waiter& self) noexcept {
      auto& mine = static_cast<acceptor&>(self);
      if (!mine.settle()) return;
      listener_state& state = mine.of;
      state.peer_accepted();
      state.listen();
    }
    using steps_operation::take_result;
    listener_state& of;
  };
  /// The negotiation with a client.
  struct client : steps_operation<message_channel> {
    client(listener_state& state, steps<message_channel>&& connecting)
        : steps_operation(state.on(), std::move(connecting)), of(state) {}
    bool begin() noexcept { return start(ended); }
    static void ended(queued_waiter& self) noexcept {
      auto& mine = static_cast<client&>(self);
      if (!mine.settle()) return;
      listener_state& state = mine.of;
      state.negotiation_ended(mine.at);
      state.listen();
    }
    using steps_operation::take_result;
    listener_state& of;
    std::list<client>::iterator at = {};
  };
  /// Calls listen() in the next poll.
  struct next_turn : queued_waiter {
    listener_state* of = nullptr;
  };

  [[nodiscard]] std::uint16_t cm_port() const noexcept { return manager_ ? manager_->port() : 0; }
  [[nodiscard]] bool may_accept() const noexcept {
    return !acceptor_ && !is_closed_ && !failure_ && on().failure() == nullptr &&
           clients_.size() + connected_.size() < options_.max_pending;
  }
  void listen_in_next_turn() noexcept;
  // The callers of these functions call listen() afterwards. The functions do not call listen(), so
  // that the stack does not grow with the number of clients.
  void peer_accepted() noexcept;
  void start_negotiation(accepted_peer&& who);
  void negotiation_ended(std::list<client>::iterator which) noexcept;
  static void append(listener_accept*& first, listener_accept& which) noexcept;
  static void remove(listener_accept*& first, const listener_accept& which) noexcept;

  channel_needs needs_;
  listen_options options_;
  std::optional<bringup::listener> tcp_;
  std::optional<cm::listener> manager_;
  std::optional<error> failure_;  // an accept failure, for the next accept()
  bool is_closed_ = false;
  message_listener_statistics statistics_;
  std::deque<message_channel> connected_;
  listener_accept* first_waiting_ = nullptr;
  listener_accept* first_served_ = nullptr;  // those that have a client and have not ended
  std::list<client> clients_;
  std::optional<acceptor> acceptor_;
  next_turn next_turn_;
  bool has_next_turn_ = false;  // next_turn_ is in the list of completed operations
};

// The steps refer to the listeners, so the listeners are closed after the steps are destroyed.
void listener_state::close() noexcept {
  is_closed_ = true;
  if (std::exchange(has_next_turn_, false)) on().table().remove_completed(next_turn_);
  acceptor_.reset();
  clients_.clear();
  connected_.clear();
  while (first_served_ != nullptr) release(*first_served_);
  tcp_.reset();
  manager_.reset();
  serve_all();
}

// If clients are accepted without waiting, limits their number per poll, so that the engine can do
// other work.
void listener_state::listen() noexcept {
  constexpr int most_per_turn = 64;
  if (has_next_turn_) return;
  for (int accepted = 0; may_accept(); ++accepted) {
    if (accepted == most_per_turn) return listen_in_next_turn();
    acceptor_.emplace(*this, tcp_ ? next_of(*tcp_) : next_of(*manager_));
    if (acceptor_->begin()) return;
    peer_accepted();
  }
}

void listener_state::listen_in_next_turn() noexcept {
  next_turn_.of = this;
  next_turn_.complete = [](queued_waiter& self) noexcept {
    listener_state& mine = *static_cast<next_turn&>(self).of;
    mine.has_next_turn_ = false;
    mine.listen();
  };
  has_next_turn_ = true;
  on().table().append_completed(next_turn_);
}

void listener_state::peer_accepted() noexcept {
  auto next = acceptor_->take_result();
  acceptor_.reset();
  if (next)
    start_negotiation(*std::move(next));
  else
    failure_ = std::move(next).error();
  serve_all();
}

void listener_state::start_negotiation(accepted_peer&& who) {
  auto& made = clients_.emplace_back(
      *this, negotiate(std::move(who), needs_, deadline::after(options_.negotiation_timeout)));
  made.at = std::prev(clients_.end());
  if (!made.begin()) negotiation_ended(made.at);
}

void listener_state::negotiation_ended(std::list<client>::iterator which) noexcept {
  auto made = which->take_result();
  clients_.erase(which);
  if (made) {
    connected_.push_back(*std::move(made));
  } else {
    ++statistics_.failed;
    log(log_level::info, "message_listener: closed a client: " + made.error().message());
  }
  serve_all();
}

bool listener_state::serve(listener_accept& which) {
  if (!connected_.empty()) {
    ++statistics_.accepted;
    which.value_.emplace(std::move(connected_.front()));
    connected_.pop_front();
    return true;
  }
  if (const error* const lost = on().failure(); lost != nullptr) {
    which.value_.emplace(error::from_errno(
        lost->code(), "message_listener::accept", {},
        "the engine of the listener has failed; create another engine and listener: " +
            lost->message()));
    return true;
  }
  if (is_closed_) {
    which.value_.emplace(
        error::from_errno(ECANCELED, "message_listener::accept", {}, "the listener was closed"));
    return true;
  }
  if (!failure_) return false;
  which.value_.emplace(*std::move(failure_));
  failure_.reset();
  return true;
}

void listener_state::serve_all() noexcept {
  while (first_waiting_ != nullptr && serve(*first_waiting_)) {
    listener_accept& served = *first_waiting_;
    first_waiting_ = served.following_;
    if (served.value_->has_value())
      append(first_served_, served);
    else
      served.of_ = nullptr;
    on().table().append_completed(served);
  }
}

void listener_state::take_back(listener_accept& which) noexcept {
  release(which);
  // If there is no memory, the client is disconnected.
  verbena::detail::call_or_else([&] { connected_.push_front(**std::move(which.value_)); }, [] {});
  --statistics_.accepted;
  serve_all();
}

void listener_state::release(listener_accept& which) noexcept {
  remove(first_served_, which);
  which.of_ = nullptr;
}

void listener_state::await(listener_accept& which) noexcept { append(first_waiting_, which); }

void listener_state::append(listener_accept*& first, listener_accept& which) noexcept {
  listener_accept** at = &first;
  while (*at != nullptr) at = &(*at)->following_;
  which.following_ = nullptr;
  *at = &which;
}

void listener_state::remove(listener_accept*& first, const listener_accept& which) noexcept {
  listener_accept** at = &first;
  while (*at != nullptr && *at != &which) at = &(*at)->following_;
  if (*at != nullptr) *at = which.following_;
}

// NOLINTNEXTLINE(cppcoreguidelines-owning-memory): the sole_owner calls it
void destroy(listener_state& state) noexcept { delete &state; }

namespace {
error accept_timed_out() {
  return error::timed_out("message_listener::accept", {},
                          "no client connected in time; does the peer connect to this address and "
                          "port?");
}
}  // namespace

bool listener_accept::start(ended_function when_ended) noexcept {
  if (of_->serve(*this)) {
    of_->listen();  // listen() may have stopped until this channel or failure was returned
    return false;
  }
  if (until_.expired()) {
    value_.emplace(accept_timed_out());
    return false;
  }
  await(when_ended);
  if (!until_.is_never()) set_timer();
  return true;
}

bool listener_accept::start_waiting(ended_function when_ended) noexcept {
  listener_state& from = *of_;
  await(when_ended);
  from.serve_all();
  from.listen();  // as in start()
  if (value_) return true;
  if (until_.expired())
    end(accept_timed_out());
  else if (!until_.is_never())
    set_timer();
  return true;
}

void listener_accept::await(ended_function when_ended) noexcept {
  complete = when_ended;
  on_ = &of_->on();
  of_->await(*this);
}

void listener_accept::set_timer() noexcept {
  timer_.of = this;
  timer_.expire = [](timer& self) noexcept {
    static_cast<limit_timer&>(self).of->end(accept_timed_out());
  };
  on_->timers().set(timer_, until_.when());
}

bool listener_accept::settle() noexcept {
  on_->timers().reset(timer_);
  on_ = nullptr;
  if (of_ != nullptr) of_->release(*this);
  return true;
}

void listener_accept::end(error why) noexcept {
  if (on_ == nullptr || value_) return;  // not started, or the result is set
  of_->stop_waiting(*this);
  of_ = nullptr;
  value_.emplace(std::move(why));
  on_->table().append_completed(*this);
}

void listener_accept::cancel() noexcept {
  if (on_ == nullptr) return;
  auto why =
      error::from_errno(ECANCELED, "message_listener::accept", {}, "the operation was cancelled");
  if (!value_) return end(std::move(why));
  if (of_ == nullptr) return;  // has failed, or the listener was closed
  of_->take_back(*this);
  value_.emplace(std::move(why));
}

engine_state& listener_accept::on() const noexcept { return of_->on(); }

listener_accept::~listener_accept() {
  if (on_ == nullptr) return;
  on_->timers().reset(timer_);
  if (!value_) {
    of_->stop_waiting(*this);
  } else {
    on_->table().remove_completed(*this);
    if (of_ != nullptr) of_->take_back(*this);
  }
}

}  // namespace detail

message_listener::message_listener(engine& on, const protection_domain& pd,
                                   bringup::listener&& from, const listen_options& options)
    // NOLINTNEXTLINE(cppcoreguidelines-owning-memory): the sole_owner deletes it
    : state_(new detail::listener_state(detail::state_of(on), pd, options)) {
  state_->start(std::move(from));
}

message_listener::message_listener(engine& on, const protection_domain& pd, cm::listener&& from,
                                   const listen_options& options)
    // NOLINTNEXTLINE(cppcoreguidelines-owning-memory): the sole_owner deletes it
    : state_(new detail::listener_state(detail::state_of(on), pd, options)) {
  state_->start(std::move(from));
}

void message_listener::close() noexcept { state().close(); }

std::uint16_t message_listener::port() const noexcept { return state().port(); }

message_listener_statistics message_listener::statistics() const noexcept {
  return state().statistics();
}

detail::listener_state& message_listener::state() const {
  VERBENA_ASSERT(state_.get() != nullptr, "a moved-from message_listener was used");
  return *state_;
}

result<message_listener> listen(engine& on, const protection_domain& pd, const bringup::address& at,
                                const listen_options& options) {
  if (verbena::detail::is_iwarp(pd.context())) {
    VERBENA_TRY(auto from, cm::listener::open(at));
    return message_listener(on, pd, std::move(from), options);
  }
  VERBENA_TRY(auto from, bringup::listener::open(at));
  return message_listener(on, pd, std::move(from), options);
}

}  // namespace verbena::inline VERBENA_ABI::async
