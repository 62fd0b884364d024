// SPDX-License-Identifier: MIT
// What a program asks of its endpoints.
#include <algorithm>
#include <cerrno>

#include "softdev/cm/manager.hpp"

namespace verbena::softdev::cm {
namespace {

constexpr std::chrono::milliseconds room_interval{2};

std::uint32_t key_of(port_space space, std::uint16_t port) noexcept {
  return (static_cast<std::uint32_t>(space) << 16U) | port;
}

}  // namespace

int manager::bind(const endpoint_ptr& which, const address& source) {
  if (source.family == address_family::none) return EAFNOSUPPORT;
  if (!is_wildcard(source) && !is_local(source)) return EADDRNOTAVAIL;
  const lock guard(mutex_);
  if (which->phase_ != phase::idle) return EINVAL;
  if (const int refused =
          source.port == 0 ? take_any_port(*which, source) : take_port(*which, source))
    return refused;
  which->phase_ = phase::bound;
  return 0;
}

port_wish manager::wish_of(const endpoint& which, const address& source) noexcept {
  return {.space = which.space_,
          .where = source,
          .one_family = which.options_.one_family,
          .shared = which.options_.reuse_address && which.phase_ != phase::listening};
}

int manager::conflict_with(const port& where, const endpoint& which,
                           const port_wish& wish) noexcept {
  for (const endpoint* each : where.holders) {
    if (each == &which) continue;
    if (const int code = conflict_of(wish, wish_of(*each, each->source_))) return code;
  }
  return 0;
}

/// The addresses that this process has published of a port, and `more`.
std::vector<const published_address*> manager::own_addresses(std::uint32_t key,
                                                             const published_address& more) const {
  std::vector<const published_address*> all{&more};
  const auto found = ports_.find(key);
  if (found == ports_.end()) return all;
  for (const endpoint* each : found->second.holders) all.push_back(&each->published_);
  return all;
}

int manager::take_port(endpoint& which, const address& source) {
  const std::uint32_t key = key_of(which.space_, source.port);
  const port_wish wish = wish_of(which, source);
  auto found = ports_.find(key);
  if (found != ports_.end()) {
    if (const int code = conflict_with(found->second, which, wish)) return code;
  }
  if (const int code = which.published_.publish(wish, own_addresses(key, which.published_)))
    return code;
  if (found == ports_.end()) {
    port_claim claimed = claim_port(which.space_, source.port);
    // A process whose address could not be found may have the port.
    const bool shares = claimed.error == EADDRINUSE && which.published_.is_complete();
    if (claimed.error != 0 && !shares) {
      which.published_.withdraw();
      return claimed.error;
    }
    port made;
    made.socket = std::move(claimed.socket);
    made.entry = std::move(claimed.entry);
    made.number = key;
    found = ports_.emplace(key, std::move(made)).first;
  }
  found->second.holders.push_back(&which);
  which.holds_port_ = true;
  which.source_ = source;
  int failed = watch_published(which);
  // Those that share an address have one socket at most: that of the listener.
  if (failed == 0 && !found->second.socket && !wish.shared) failed = claim_own_socket(which, wish);
  if (failed == 0) return 0;
  release_port(which);
  which.source_ = {};
  return failed;
}

// Processes that ask for the address are answered by the thread.
int manager::watch_published(const endpoint& which) const noexcept {
  for (const unique_fd* each : {&which.published_.exact(), &which.published_.kind()}) {
    if (!*each) continue;
    if (const int failed = watch(each->get(), source_kind::published, which.number_)) return failed;
  }
  return 0;
}

int manager::claim_own_socket(endpoint& which, const port_wish& wish) {
  socket_or_error claimed = claim_address(wish);
  if (claimed.error == EADDRINUSE) explain_taken_names(wish);
  which.own_socket_ = std::move(claimed.socket);
  return claimed.error;
}

int manager::take_any_port(endpoint& which, const address& source) {
  // Another process may have taken one of our numbers by asking for it.
  for (int attempt = 0; attempt < 2 * ephemeral_ports::block_ports; ++attempt) {
    const std::uint16_t number = numbers_.take();
    if (number == 0) return EADDRNOTAVAIL;
    const int refused = take_port(which, with_port(source, number));
    if (refused == EADDRINUSE || refused == EADDRNOTAVAIL) continue;
    if (refused != 0) {
      numbers_.give_back(number);
      return refused;
    }
    which.ephemeral_port_ = number;
    return 0;
  }
  return EADDRNOTAVAIL;
}

void manager::release_port(endpoint& which) {
  if (which.holds_port_) {
    const auto found = ports_.find(key_of(which.space_, which.source_.port));
    std::erase(found->second.holders, &which);
    unwatch(which.own_socket_);
    if (which.phase_ == phase::listening) turn_away(which.own_socket_);
    which.own_socket_.reset();
    if (found->second.holders.empty()) {
      std::erase_if(newcomers_,
                    [&](const auto& each) { return each.second.port_key == found->first; });
      if (found->second.open) turn_away(found->second.socket);
      unwatch(found->second.socket);
      ports_.erase(found);
    }
    unwatch(which.published_.exact());
    unwatch(which.published_.kind());
    which.published_.withdraw();
    which.holds_port_ = false;
  }
  if (which.ephemeral_port_ != 0) numbers_.give_back(which.ephemeral_port_);
  which.ephemeral_port_ = 0;
}

int manager::listen(const endpoint_ptr& which, int backlog) {
  const lock guard(mutex_);
  if (which->phase_ == phase::idle) {
    if (const int refused = take_any_port(*which, {.family = address_family::ipv4})) return refused;
    which->phase_ = phase::bound;
  }
  if (which->phase_ != phase::bound) return EINVAL;
  port& where = ports_.at(key_of(which->space_, which->source_.port));
  if (which->options_.reuse_address) {
    if (const int code = take_alone(where, *which)) return code;
  }
  if (const int failed = open_socket(where, *which)) return failed;
  const bool sensible = backlog > 0 && static_cast<unsigned>(backlog) < options_.max_backlog;
  which->backlog_ = sensible ? static_cast<unsigned>(backlog) : options_.max_backlog;
  which->phase_ = phase::listening;
  return 0;
}

// A listener is the only endpoint at its address, also if it shared the address before.
int manager::take_alone(const port& where, endpoint& which) {
  port_wish wish = wish_of(which, which.source_);
  wish.shared = false;
  if (const int code = conflict_with(where, which, wish)) return code;
  published_address alone;
  const auto key = static_cast<std::uint32_t>(where.number);
  if (const int code = alone.publish(wish, own_addresses(key, alone))) return code;
  for (const unique_fd* each : {&which.published_.exact(), &which.published_.kind()})
    unwatch(*each);
  which.published_ = std::move(alone);
  return watch_published(which);
}

int manager::open_socket(port& where, endpoint& which) {
  if (where.socket && where.open) return 0;
  if (!where.socket && !which.own_socket_) {
    if (const int failed = claim_own_socket(which, wish_of(which, which.source_))) return failed;
  }
  const int socket = where.socket ? where.socket.get() : which.own_socket_.get();
  if (const int failed = open_port(socket)) return failed;
  if (const int failed = watch(socket, source_kind::port, where.number)) return failed;
  where.open = true;
  return 0;
}

int manager::resolve_address(const endpoint_ptr& which, const std::optional<address>& source,
                             const address& destination) {
  address to = destination;
  if (to.family == address_family::none) return EAFNOSUPPORT;
  if (is_wildcard(to)) to = with_port(loopback_of(to.family), to.port);
  // A group is reached from wherever one is; nobody connects to it.
  const bool group = is_multicast(to) && which->datagram();
  const bool reachable = group || is_local(to);
  if (source && source->family != address_family::none && look(which).state == phase::idle) {
    if (source->family != to.family) return EINVAL;
    if (const int refused = bind(which, *source)) return refused;
  }
  const lock guard(mutex_);
  if (which->phase_ != phase::idle && which->phase_ != phase::bound) return EINVAL;
  if (which->phase_ == phase::bound && which->source_.family != to.family) return EINVAL;
  which->destination_ = to;
  if (!reachable) {
    tell(which, event_kind::address_error, -EHOSTUNREACH);
    return 0;
  }
  const address from = group ? loopback_of(to.family) : to;
  if (which->phase_ == phase::idle) {
    const std::uint16_t number = numbers_.take();
    if (number == 0) return EADDRNOTAVAIL;
    which->ephemeral_port_ = number;
    which->source_ = with_port(from, number);
  } else if (is_wildcard(which->source_)) {
    const std::uint16_t number = which->source_.port;
    which->source_ = with_port(from, number);
  }
  which->phase_ = phase::address_resolved;
  tell(which, event_kind::address_resolved, 0);
  return 0;
}

int manager::resolve_route(const endpoint_ptr& which) {
  const lock guard(mutex_);
  if (which->phase_ != phase::address_resolved) return EINVAL;
  which->phase_ = phase::route_resolved;
  tell(which, event_kind::route_resolved, 0);
  return 0;
}

int manager::connect(const endpoint_ptr& which, const proposal& what) {
  const lock guard(mutex_);
  if (which->phase_ != phase::route_resolved) return EINVAL;
  const auto limit = private_limit(which->datagram() ? frame_kind::lookup : frame_kind::request);
  if (what.data.length > limit) return EINVAL;
  set_local(*which, what.local);
  which->proposed_ = what.data;
  which->active_ = true;
  const time_point now = std::chrono::steady_clock::now();
  which->give_up_at_ = now + options_.answer_timeout;
  which->patient_until_ = now + options_.listener_patience;
  const int failed = send_request(which, now);
  if (failed != 0) which->phase_ = phase::route_resolved;
  return failed;
}

// The sequence number is the manager's.
void manager::set_local(endpoint& which, const side& said) noexcept {
  const std::uint32_t psn = which.local_.starting_psn;
  which.local_ = said;
  which.local_.starting_psn = psn;
}

int manager::send_request(const endpoint_ptr& which, time_point now) {
  socket_or_error made = connect_to_port(which->space_, which->destination_);
  const bool refused = made.error == ECONNREFUSED || made.error == EACCES;
  // A request takes its time on a wire. Programs that agree on a port and then listen count on it.
  const bool early = made.error == ECONNREFUSED && now < which->patient_until_;
  if (made.error == EAGAIN || early) {
    which->phase_ = phase::waiting;
    set_deadline(*which, now + room_interval);
    return 0;
  }
  if (made.error != 0 && !refused) return made.error;
  if (!refused) {
    which->socket_ = std::move(made.socket);
    const auto kind = which->datagram() ? frame_kind::lookup : frame_kind::request;
    if (const int failed = watch(which->socket_.get(), source_kind::endpoint, which->number_)) {
      which->socket_.reset();
      return failed;
    }
    if (say(*which, kind, 0, which->proposed_) == send_outcome::sent) {
      which->phase_ = phase::requesting;
      set_deadline(*which, which->give_up_at_);
      return 0;
    }
  }
  finish(*which);
  if (which->datagram()) {
    tell(which, event_kind::unreachable, static_cast<int>(lookup_status::no_listener));
  } else {
    tell(which, event_kind::rejected, static_cast<int>(reject_reason::no_listener));
  }
  return 0;
}

int manager::accept(const endpoint_ptr& which, const proposal& what) {
  const lock guard(mutex_);
  if (which->phase_ != phase::requested) return EINVAL;
  const auto kind = which->datagram() ? frame_kind::lookup_reply : frame_kind::reply;
  if (what.data.length > private_limit(kind)) return EINVAL;
  set_local(*which, what.local);
  which->adopted_ = true;
  const bool sent = say(*which, kind, lookup_status::found, what.data) == send_outcome::sent;
  if (!sent || which->datagram()) {
    finish(*which);
    return sent ? 0 : EINVAL;
  }
  which->phase_ = phase::replied;
  set_deadline(*which, std::chrono::steady_clock::now() + options_.ready_timeout);
  return 0;
}

int manager::establish(const endpoint_ptr& which) {
  const lock guard(mutex_);
  if (which->phase_ != phase::answered) return EINVAL;
  if (say(*which, frame_kind::ready) != send_outcome::sent) return EINVAL;
  which->phase_ = phase::connected;
  return 0;
}

int manager::reject(const endpoint_ptr& which, std::uint32_t reason, const private_data& data) {
  const lock guard(mutex_);
  if (which->phase_ != phase::requested && which->phase_ != phase::answered) return EINVAL;
  if (which->datagram()) {
    if (data.length > private_limits::lookup_reply) return EINVAL;
    static_cast<void>(say(*which, frame_kind::lookup_reply, lookup_status::rejected, data));
  } else {
    if (data.length > private_limits::rejection) return EINVAL;
    static_cast<void>(say(*which, frame_kind::rejection, reason, data));
  }
  finish(*which);
  return 0;
}

int manager::disconnect(const endpoint_ptr& which) {
  const lock guard(mutex_);
  const time_point now = std::chrono::steady_clock::now();
  switch (which->phase_) {
    case phase::connected:
    case phase::replied:
    case phase::answered:
      if (say(*which, frame_kind::disconnect) == send_outcome::sent) {
        which->phase_ = phase::disconnecting;
        set_deadline(*which, now + options_.disconnect_timeout);
      } else {
        lost(which, now);
      }
      return 0;
    case phase::requesting:
    case phase::requested:
    case phase::disconnecting:
    case phase::timewait:
    case phase::closed:
      return 0;
    default:
      return EINVAL;
  }
}

int manager::note_established(const endpoint_ptr& which) {
  const lock guard(mutex_);
  if (which->phase_ != phase::replied) return which->phase_ == phase::connected ? 0 : EINVAL;
  become_established(which);
  return 0;
}

}  // namespace verbena::softdev::cm
