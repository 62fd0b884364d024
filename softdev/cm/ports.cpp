// SPDX-License-Identifier: MIT
#include "softdev/cm/ports.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

namespace verbena::softdev::cm {
namespace {

std::uint32_t key_of(port_space space, std::uint16_t port) noexcept {
  return (static_cast<std::uint32_t>(space) << 16U) | port;
}

port_wish wish_of(const port_holder& which, const address& source) noexcept {
  return {.space = which.space,
          .where = source,
          .one_family = which.options.one_family,
          .shared = which.options.reuse_address && !which.listening};
}

int claim_own_socket(port_holder& which, const port_wish& wish) {
  socket_or_error claimed = claim_address(wish);
  if (claimed.error == EADDRINUSE) explain_taken_names(wish);
  which.own_socket = std::move(claimed.socket);
  return claimed.error;
}

}  // namespace

int ports::conflict_with(const port& where, const port_holder& which,
                         const port_wish& wish) noexcept {
  for (const port_holder* each : where.holders) {
    if (each == &which) continue;
    if (const int code = conflict_of(wish, wish_of(*each, each->source))) return code;
  }
  return 0;
}

/// Returns the addresses of a port that this process has published, and `more`.
std::vector<const published_address*> ports::own_addresses(std::uint32_t key,
                                                           const published_address& more) const {
  std::vector<const published_address*> all{&more};
  const auto found = ports_.find(key);
  if (found == ports_.end()) return all;
  for (const port_holder* each : found->second.holders) all.push_back(&each->published);
  return all;
}

int ports::take(port_holder& which, const address& source) {
  const std::uint32_t key = key_of(which.space, source.port);
  const port_wish wish = wish_of(which, source);
  auto found = ports_.find(key);
  if (found != ports_.end()) {
    if (const int code = conflict_with(found->second, which, wish)) return code;
  }
  if (const int code = which.published.publish(wish, own_addresses(key, which.published)))
    return code;
  if (found == ports_.end()) {
    port_claim claimed = claim_port(which.space, source.port);
    // If this address could not get all names, the process that has the port may have an
    // unpublished address.
    const bool shares = claimed.error == EADDRINUSE && which.published.is_complete();
    if (claimed.error != 0 && !shares) {
      which.published.withdraw();
      return claimed.error;
    }
    port made;
    made.socket = std::move(claimed.socket);
    made.entry = std::move(claimed.entry);
    found = ports_.emplace(key, std::move(made)).first;
  }
  found->second.holders.push_back(&which);
  which.holds_port = true;
  which.source = source;
  int failed = watch_published(which);
  // Endpoints that share an address have at most one socket: that of the listener.
  if (failed == 0 && !found->second.socket && !wish.shared) failed = claim_own_socket(which, wish);
  if (failed == 0) return 0;
  release(which);
  which.source = {};
  return failed;
}

// Makes the thread answer processes that look for the address.
int ports::watch_published(const port_holder& which) const noexcept {
  for (const unique_fd* each : {&which.published.exact(), &which.published.kind()}) {
    if (!*each) continue;
    if (const int failed = watch_.watch(each->get(), {source_kind::published, which.number}))
      return failed;
  }
  return 0;
}

void ports::unwatch_published(const port_holder& which) const noexcept {
  watch_.unwatch(which.published.exact().get());
  watch_.unwatch(which.published.kind().get());
}

int ports::take_any(port_holder& which, const address& source) {
  // Another process may have bound a number of this process's blocks explicitly.
  for (int attempt = 0; attempt < 2 * ephemeral_ports::block_ports; ++attempt) {
    const std::uint16_t number = numbers_.take();
    if (number == 0) return EADDRNOTAVAIL;
    const int refused = take(which, with_port(source, number));
    if (refused == EADDRINUSE || refused == EADDRNOTAVAIL) continue;
    if (refused != 0) {
      numbers_.give_back(number);
      return refused;
    }
    which.ephemeral_port = number;
    return 0;
  }
  return EADDRNOTAVAIL;
}

int ports::take_number(port_holder& which, const address& source) {
  const std::uint16_t number = numbers_.take();
  if (number == 0) return EADDRNOTAVAIL;
  which.ephemeral_port = number;
  which.source = with_port(source, number);
  return 0;
}

std::optional<std::uint32_t> ports::release(port_holder& which) {
  std::optional<std::uint32_t> unused;
  if (which.holds_port) {
    const auto found = ports_.find(key_of(which.space, which.source.port));
    std::erase(found->second.holders, &which);
    watch_.unwatch(which.own_socket.get());
    if (which.listening) turn_away(which.own_socket);
    which.own_socket.reset();
    if (found->second.holders.empty()) {
      unused = found->first;
      if (found->second.open) turn_away(found->second.socket);
      watch_.unwatch(found->second.socket.get());
      ports_.erase(found);
    }
    unwatch_published(which);
    which.published.withdraw();
    which.holds_port = false;
    which.listening = false;
  }
  if (which.ephemeral_port != 0) numbers_.give_back(which.ephemeral_port);
  which.ephemeral_port = 0;
  return unused;
}

int ports::listen(port_holder& which) {
  const std::uint32_t key = key_of(which.space, which.source.port);
  if (which.options.reuse_address) {
    if (const int code = take_alone(key, which)) return code;
  }
  if (const int failed = open_socket(key, which)) return failed;
  which.listening = true;
  return 0;
}

// A listener is the only endpoint at its address, also if it shared the address before.
int ports::take_alone(std::uint32_t key, port_holder& which) {
  port_wish wish = wish_of(which, which.source);
  wish.shared = false;
  if (const int code = conflict_with(ports_.at(key), which, wish)) return code;
  published_address alone;
  if (const int code = alone.publish(wish, own_addresses(key, alone))) return code;
  unwatch_published(which);
  which.published = std::move(alone);
  return watch_published(which);
}

int ports::open_socket(std::uint32_t key, port_holder& which) {
  port& where = ports_.at(key);
  if (where.socket && where.open) return 0;
  if (!where.socket && !which.own_socket) {
    if (const int failed = claim_own_socket(which, wish_of(which, which.source))) return failed;
  }
  const int socket = where.socket ? where.socket.get() : which.own_socket.get();
  if (const int failed = open_port(socket)) return failed;
  if (const int failed = watch_.watch(socket, {source_kind::port, key})) return failed;
  where.open = true;
  return 0;
}

// Refuses the peers that have connected to a listener that no longer exists.
void ports::turn_away(const unique_fd& socket) const {
  if (!socket) return;
  for (std::size_t turn = 0; turn < max_backlog_; ++turn) {
    const socket_or_error peer = accept_peer(socket.get());
    if (!peer.socket) return;
    frame asked;
    if (receive_frame(peer.socket.get(), asked) == receive_outcome::received)
      send_refusal(peer.socket.get(), asked, reject_reason::no_listener);
  }
}

port_holder* ports::listener_for(std::uint32_t key, const address& destination) const {
  const auto found = ports_.find(key);
  if (found == ports_.end()) return nullptr;
  port_holder* wildcard = nullptr;
  for (port_holder* each : found->second.holders) {
    if (!each->listening) continue;
    if (same_host(each->source, destination)) return each;
    const bool takes_family =
        each->source.family == destination.family ||
        (each->source.family == address_family::ipv6 && !each->options.one_family);
    if (is_wildcard(each->source) && takes_family) wildcard = each;
  }
  return wildcard;
}

/// Calls `action` with each socket on which peers connect to a port.
template <class Action>
void ports::for_each_socket(const port& where, Action action) {
  if (where.socket) {
    if (where.open) action(where.socket);
    return;
  }
  for (const port_holder* each : where.holders)
    if (each->listening) action(each->own_socket);
}

socket_or_error ports::next_peer(std::uint32_t key) const noexcept {
  socket_or_error peer{{}, EAGAIN};
  const auto found = ports_.find(key);
  if (found == ports_.end()) return peer;
  for_each_socket(found->second, [&](const unique_fd& socket) {
    if (!peer.socket && peer.error == EAGAIN) peer = accept_peer(socket.get());
  });
  return peer;
}

void ports::pause() const noexcept {
  for (const auto& [key, each] : ports_)
    for_each_socket(each, [&](const unique_fd& socket) { watch_.unwatch(socket.get()); });
}

void ports::resume() const noexcept {
  for (const auto& each : ports_) {
    for_each_socket(each.second, [&, key = each.first](const unique_fd& socket) {
      static_cast<void>(watch_.watch(socket.get(), {source_kind::port, key}));
    });
  }
}

void ports::close_all() noexcept {
  for (auto& [key, each] : ports_) {
    each.socket.reset();
    each.entry.reset();
  }
  numbers_.clear();
}

}  // namespace verbena::softdev::cm
