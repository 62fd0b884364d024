// SPDX-License-Identifier: MIT
#include "softdev/cm/manager.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "softdev/ipc/eventfd.hpp"
#include "src/base/quiet_thread.hpp"

namespace verbena::softdev::cm {
namespace {

constexpr std::chrono::seconds longest_wait{10};

}  // namespace

result<std::unique_ptr<manager>> manager::open(const manager_options& options,
                                               mad_carrier* carrier) {
  std::unique_ptr<manager> made(new manager(options, carrier));
  if (const int failed = made->start())
    return error::from_errno(failed, "rdma_create_event_channel", "soft0");
  return made;
}

int manager::start() {
  if (auto opened = watch_.open(); !opened) return opened.error().code();
  auto made = create_eventfd();
  if (!made) return made.error().code();
  wake_ = std::move(made).value();
  if (const int failed = watch_.watch(wake_.get(), {source_kind::wake, 0})) return failed;
  if (!options_.has_thread) return 0;
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
}

void manager::abandon() noexcept {
  connections_.close_all();
  ports_.close_all();
  incoming_.close_all();
  other_hosts_.close_all();
  watch_.close();
  wake_.reset();
  mutex_.unlock();
}

// The thread.

void manager::wake() const noexcept { signal_eventfd(wake_.get()); }

void* manager::enter(void* self) noexcept {
  static_cast<manager*>(self)->loop();
  return nullptr;
}

void manager::loop() {
  while (true) {
    const auto ready = watch_.wait(wait_milliseconds());
    const lock guard(mutex_);
    if (stop_) return;
    handle(ready);
  }
}

time_point manager::turn() {
  for (bool is_first = true;; is_first = false) {
    const auto ready = watch_.wait(0);
    const lock guard(mutex_);
    if (ready.empty() && !is_first) return next_deadline();
    handle(ready);
  }
}

void manager::handle(std::span<const reactor::source> ready) {
  const time_point now = options_.clock();
  for (const reactor::source each : ready) dispatch(each, now);
  // After the eventfd was reset: a message that is added now sets it again.
  handle_received(now);
  connections_.expire(now);
  incoming_.expire(now);
  other_hosts_.expire(now);
  early_.expire(now);
}

time_point manager::next_deadline() const noexcept {
  return std::min({connections_.next_deadline(), incoming_.next_deadline(),
                   other_hosts_.next_deadline(), early_.next_deadline()});
}

int manager::wait_milliseconds() {
  const lock guard(mutex_);
  const time_point now = options_.clock();
  // While endpoints exist, the sleep is limited, so that few new deadlines have to wake the thread.
  const time_point at_latest = connections_.empty() ? time_point::max() : now + longest_wait;
  sleeps_until_ = std::min(at_latest, next_deadline());
  if (sleeps_until_ == time_point::max()) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(sleeps_until_ - now);
  return static_cast<int>(std::max<std::int64_t>(left.count(), 0));
}

/// Wakes the thread if a call of the program has set a deadline before the end of the thread's
/// sleep.
void manager::note_deadlines() {
  const time_point next = std::min(connections_.next_deadline(), other_hosts_.next_deadline());
  if (next >= sleeps_until_) return;
  sleeps_until_ = next;
  wake();
}

void manager::dispatch(reactor::source from, time_point now) {
  switch (static_cast<source_kind>(from.kind)) {
    case source_kind::wake:
      return drain_eventfd(wake_.get());
    case source_kind::port:
      return incoming_.accept(static_cast<std::uint32_t>(from.number), now);
    case source_kind::incoming:
      return incoming_.read(from.number);
    case source_kind::published:
      return connections_.close_probes(from.number);
    case source_kind::endpoint:
      return connections_.read(from.number, now);
    case source_kind::remote:
      return other_hosts_.read(from.number, now);
  }
}

// Other hosts.

void manager::deliver(const address& own, const address& peer, mad_view message) noexcept {
  if (received_.add(own, peer, message)) wake();
}

void manager::handle_received(time_point now) {
  for (const received_message& each : received_.take()) {
    const auto message = parse_mad(each.bytes);
    if (!message) continue;
    if (is_request(message->kind)) {
      early_.arrive(each.own, each.peer, *message, now);
      continue;
    }
    // The peer has no communication ID of this side yet. This process has the request, or the
    // request is on its way to the process that listens, which may be this one. A request of this
    // process ends also if its listener no longer exists.
    if (message->kind == mad_kind::rejection && message->receiver_id == 0) {
      if (!other_hosts_.request_given_up(each.peer, *message)) early_.give_up(each.peer, *message);
      continue;
    }
    other_hosts_.message_arrived(each.own, each.peer, *message, now);
  }
}

/// Returns 0 if `destination` is another host or a group that can be reached; see
/// mad_carrier::find_source.
int manager::find_source(const address& destination, address& source) {
  if (carrier_ == nullptr) return EHOSTUNREACH;
  return carrier_->find_source(destination, source);
}

// Events.

std::optional<event> manager::take(channel& from, function_ref<bool()> prepare) {
  const lock guard(mutex_);
  if (from.empty() || (prepare && !prepare())) return std::nullopt;
  std::optional<event> first = from.pop();
  if (!first) return std::nullopt;
  endpoint& counted = *(first->listener != nullptr ? first->listener : first->about);
  ++counted.events_taken_;
  if (first->kind == event_kind::connect_request) --counted.backlog_.waiting;
  return first;
}

void manager::post(const endpoint_ptr& ep, event what) {
  const lock guard(mutex_);
  connections::report(ep, std::move(what));
}

void manager::forget_joined(const endpoint_ptr& ep, std::uint64_t membership) {
  const lock guard(mutex_);
  ep->channel_->extract(
      [&](const event& each) { return each.membership == membership && each.about == ep; });
}

std::uint32_t manager::migrate(const endpoint_ptr& ep, const channel_ptr& events) {
  const lock guard(mutex_);
  if (ep->channel_ == events) return ep->events_taken_;
  auto pending = ep->channel_->extract([&](const event& each) {
    return (each.kind == event_kind::connect_request ? each.listener : each.about) == ep;
  });
  ep->channel_ = events;  // after the allocations of extract()
  for (event& each : pending) events->push(std::move(each));
  return ep->events_taken_;
}

// Endpoints and their addresses.

endpoint_ptr manager::create(const channel_ptr& events, port_space space) {
  const lock guard(mutex_);
  return connections_.create(events, space);
}

/// Drops the endpoint's pending events. Adds the requests among them to `orphans`.
void manager::drop_events(const endpoint& ep, std::vector<endpoint_ptr>& orphans) {
  const auto dropped = ep.channel_->extract([&](const event& each) {
    return (each.listener != nullptr ? each.listener : each.about).get() == &ep;
  });
  for (const event& each : dropped)
    if (each.listener != nullptr) orphans.push_back(each.about);
}

void manager::end(const endpoint_ptr& ep, std::vector<endpoint_ptr>& orphans) {
  drop_events(*ep, orphans);
  connections_.send_final_message(*ep);
  if (const auto unused = ports_.release(ep->place_)) incoming_.drop(*unused);
  connections_.remove(*ep);
  connections_.flush(*ep);
  note_deadlines();
}

std::uint32_t manager::destroy(const endpoint_ptr& ep) {
  const lock guard(mutex_);
  std::vector<endpoint_ptr> orphans;
  end(ep, orphans);
  std::vector<endpoint_ptr> none;  // a request is not a listener
  for (const endpoint_ptr& each : orphans) end(each, none);
  return ep->events_taken_;
}

int manager::set_options(const endpoint_ptr& ep, const endpoint_options& options) {
  const lock guard(mutex_);
  return ports_.change_options(ep->place_, options);
}

endpoint_view manager::look(const endpoint_ptr& ep) {
  const lock guard(mutex_);
  return {.state = ep->phase_,
          .active = ep->active_,
          .source = ep->place_.source,
          .destination = ep->destination_,
          .local = ep->local_,
          .remote = ep->remote_,
          .options = ep->place_.options};
}

int manager::bind(const endpoint_ptr& ep, const address& source) {
  if (source.family == address_family::none) return EAFNOSUPPORT;
  if (is_link_local(source) && source.scope == 0) return EINVAL;
  if (!is_wildcard(source) && !is_local(source)) return EADDRNOTAVAIL;
  const lock guard(mutex_);
  if (ep->phase_ != phase::idle) return EINVAL;
  port_holder& place = ep->place_;
  if (const int refused =
          source.port == 0 ? ports_.take_any(place, source) : ports_.take(place, source))
    return refused;
  ep->phase_ = phase::bound;
  return 0;
}

int manager::listen(const endpoint_ptr& ep, int backlog) {
  // If this fails, programs of this host can still connect.
  if (carrier_ != nullptr && !is_loopback(look(ep).source)) static_cast<void>(carrier_->open());
  const lock guard(mutex_);
  if (ep->phase_ == phase::idle) {
    const address any{.family = address_family::ipv4};
    if (const int refused = ports_.take_any(ep->place_, any)) return refused;
    ep->phase_ = phase::bound;
  }
  if (ep->phase_ != phase::bound) return EINVAL;
  if (const int failed = ports_.listen(ep->place_)) return failed;
  const bool sensible = backlog > 0 && static_cast<unsigned>(backlog) < options_.max_backlog;
  ep->backlog_.limit = sensible ? static_cast<unsigned>(backlog) : options_.max_backlog;
  ep->phase_ = phase::listening;
  return 0;
}

int manager::resolve_address(const endpoint_ptr& ep, const std::optional<address>& source,
                             const address& destination) {
  address to = destination;
  if (to.family == address_family::none) return EAFNOSUPPORT;
  if (is_wildcard(to)) to = with_port(loopback_of(to.family), to.port);
  // A group can be reached from every address, without a connection.
  const bool group = is_multicast(to) && ep->datagram();
  const std::optional<address> own = group ? std::nullopt : find_local(to);
  // A listener at a link-local address has the interface.
  if (own) to = *own;
  const bool here = group || own.has_value();
  const bool binds = source && source->family != address_family::none;
  address from = group ? loopback_of(to.family) : to;
  if (address way{.family = to.family}; group && find_source(to, way) == 0) from = way;
  if (!here) from = binds ? *source : look(ep).source;
  int unreachable = here ? 0 : find_source(to, from);
  // The route of ::ffff:a.b.c.d has an IPv4 source, whose answers come from another address.
  if (!here && unreachable == 0 && from.family != to.family) unreachable = ENETUNREACH;
  if (binds && look(ep).state == phase::idle) {
    if (source->family != to.family) return EINVAL;
    if (const int refused = bind(ep, *source)) return refused;
  }
  const lock guard(mutex_);
  if (ep->phase_ != phase::idle && ep->phase_ != phase::bound) return EINVAL;
  if (ep->phase_ == phase::bound && ep->place_.source.family != to.family) return EINVAL;
  ep->destination_ = to;
  if (unreachable != 0) {
    connections::report(ep, event_kind::address_error, -unreachable);
    return 0;
  }
  ep->route_.to_another_host = !here;
  port_holder& place = ep->place_;
  if (ep->phase_ == phase::idle) {
    if (const int refused = ports_.take_number(place, from)) return refused;
  } else if (is_wildcard(place.source)) {
    place.source = with_port(from, place.source.port);
  }
  ep->phase_ = phase::address_resolved;
  connections::report(ep, event_kind::address_resolved, 0);
  return 0;
}

int manager::resolve_route(const endpoint_ptr& ep) {
  const lock guard(mutex_);
  if (ep->phase_ != phase::address_resolved) return EINVAL;
  ep->phase_ = phase::route_resolved;
  connections::report(ep, event_kind::route_resolved, 0);
  return 0;
}

// Connections.

int manager::connect(const endpoint_ptr& ep, const proposal& what) {
  const lock guard(mutex_);
  const int failed = connections_.connect(ep, what);
  connections_.flush(*ep);
  note_deadlines();
  return failed;
}

int manager::accept(const endpoint_ptr& ep, const proposal& what) {
  const lock guard(mutex_);
  const int failed = connections_.accept(ep, what);
  connections_.flush(*ep);
  note_deadlines();
  return failed;
}

int manager::establish(const endpoint_ptr& ep) {
  const lock guard(mutex_);
  const int failed = connections_.establish(ep);
  connections_.flush(*ep);
  return failed;
}

int manager::reject(const endpoint_ptr& ep, std::uint32_t reason, const private_data& data) {
  const lock guard(mutex_);
  const int failed = connections_.reject(ep, reason, data);
  connections_.flush(*ep);
  note_deadlines();
  return failed;
}

int manager::disconnect(const endpoint_ptr& ep) {
  const lock guard(mutex_);
  const int failed = connections_.disconnect(ep);
  connections_.flush(*ep);
  note_deadlines();
  return failed;
}

int manager::note_established(const endpoint_ptr& ep) {
  const lock guard(mutex_);
  return connections_.note_established(ep);
}

std::size_t manager::lose_peers(std::optional<pid_t> pid) {
  const lock guard(mutex_);
  return connections_.lose_peers(pid);
}

}  // namespace verbena::softdev::cm
