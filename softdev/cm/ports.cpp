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

port_wish wish_of(const port_holder& holder, const address& source) noexcept {
  return {.space = holder.space,
          .where = source,
          .one_family = holder.options.one_family,
          .shared = holder.options.reuse_address && !holder.listening};
}

int claim_own_socket(port_holder& holder, const port_wish& wish) {
  socket_or_error claimed = claim_address(wish);
  if (claimed.error == EADDRINUSE) explain_taken_names(wish);
  holder.own_socket = std::move(claimed.socket);
  return claimed.error;
}

}  // namespace

int ports::conflict_with(const port& where, const port_holder& holder,
                         const port_wish& wish) noexcept {
  for (const port_holder* each : where.holders) {
    if (each == &holder) continue;
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

int ports::take(port_holder& holder, const address& source) {
  const std::uint32_t key = key_of(holder.space, source.port);
  const port_wish wish = wish_of(holder, source);
  auto found = ports_.find(key);
  if (found != ports_.end()) {
    if (const int code = conflict_with(found->second, holder, wish)) return code;
  }
  if (const int code = holder.published.publish(wish, own_addresses(key, holder.published)))
    return code;
  if (found == ports_.end()) {
    port_claim claimed = claim_port(holder.space, source.port);
    // If this address could not get all names, the process that has the port may have an
    // unpublished address.
    const bool shares = claimed.error == EADDRINUSE && holder.published.is_complete();
    if (claimed.error != 0 && !shares) {
      holder.published.withdraw();
      return claimed.error;
    }
    port made;
    made.socket = std::move(claimed.socket);
    made.entry = std::move(claimed.entry);
    found = ports_.emplace(key, std::move(made)).first;
  }
  found->second.holders.push_back(&holder);
  holder.holds_port = true;
  holder.source = source;
  int failed = watch_published(holder.published, holder.number);
  // Endpoints that share an address have at most one socket: that of the listener.
  if (failed == 0 && !found->second.socket && !wish.shared) failed = claim_own_socket(holder, wish);
  if (failed == 0) return 0;
  release(holder);
  holder.source = {};
  return failed;
}

// Makes the thread answer processes that look for the address.
int ports::watch_published(const published_address& which,
                           std::uint64_t endpoint_number) const noexcept {
  for (const unique_fd* each : {&which.exact(), &which.kind()}) {
    if (!*each) continue;
    if (const int failed = watch_.watch(each->get(), {source_kind::published, endpoint_number}))
      return failed;
  }
  return 0;
}

void ports::unwatch_published(const published_address& which) const noexcept {
  watch_.unwatch(which.exact().get());
  watch_.unwatch(which.kind().get());
}

/// Replaces the published address. The names of `next` are taken before the present ones are
/// released, so that no process finds the address free.
int ports::replace_published(port_holder& holder, published_address next) const noexcept {
  if (const int failed = watch_published(next, holder.number)) {
    unwatch_published(next);
    return failed;
  }
  unwatch_published(holder.published);
  holder.published = std::move(next);
  return 0;
}

int ports::take_any(port_holder& holder, const address& source) {
  // Another process may have bound a number of this process's blocks explicitly.
  for (int attempt = 0; attempt < 2 * ephemeral_ports::block_ports; ++attempt) {
    const std::uint16_t number = numbers_.take();
    if (number == 0) return EADDRNOTAVAIL;
    const int refused = take(holder, with_port(source, number));
    if (refused == EADDRINUSE || refused == EADDRNOTAVAIL) continue;
    if (refused != 0) {
      numbers_.give_back(number);
      return refused;
    }
    holder.ephemeral_port = number;
    return 0;
  }
  return EADDRNOTAVAIL;
}

int ports::take_number(port_holder& holder, const address& source) {
  const std::uint16_t number = numbers_.take();
  if (number == 0) return EADDRNOTAVAIL;
  holder.ephemeral_port = number;
  holder.source = with_port(source, number);
  return 0;
}

std::optional<std::uint32_t> ports::release(port_holder& holder) {
  std::optional<std::uint32_t> unused;
  if (holder.holds_port) {
    const auto found = ports_.find(key_of(holder.space, holder.source.port));
    std::erase(found->second.holders, &holder);
    watch_.unwatch(holder.own_socket.get());
    if (holder.listening) reject_waiting_peers(holder.own_socket);
    holder.own_socket.reset();
    if (found->second.holders.empty()) {
      unused = found->first;
      if (found->second.open) reject_waiting_peers(found->second.socket);
      watch_.unwatch(found->second.socket.get());
      ports_.erase(found);
    }
    unwatch_published(holder.published);
    holder.published.withdraw();
    holder.holds_port = false;
    holder.listening = false;
  }
  if (holder.ephemeral_port != 0) numbers_.give_back(holder.ephemeral_port);
  holder.ephemeral_port = 0;
  return unused;
}

int ports::change_options(port_holder& holder, const endpoint_options& next) {
  if (holder.holds_port && !holder.listening && next != holder.options) {
    published_address changed;
    if (const int failed = changed.take_names({.space = holder.space,
                                               .where = holder.source,
                                               .one_family = next.one_family,
                                               .shared = next.reuse_address}))
      return failed;
    if (const int failed = replace_published(holder, std::move(changed))) return failed;
    // The socket has a name that depends on the options, and that another endpoint needs if it
    // shares the address and listens. `listen` makes another one.
    holder.own_socket.reset();
  }
  holder.options = next;
  return 0;
}

int ports::listen(port_holder& holder) {
  const std::uint32_t key = key_of(holder.space, holder.source.port);
  if (holder.options.reuse_address) {
    if (const int code = take_alone(key, holder)) return code;
  }
  if (const int failed = open_socket(key, holder)) return failed;
  holder.listening = true;
  return 0;
}

// A listener is the only endpoint at its address, also if it shared the address before.
int ports::take_alone(std::uint32_t key, port_holder& holder) {
  port_wish wish = wish_of(holder, holder.source);
  wish.shared = false;
  if (const int code = conflict_with(ports_.at(key), holder, wish)) return code;
  published_address alone;
  if (const int code = alone.publish(wish, own_addresses(key, alone))) return code;
  return replace_published(holder, std::move(alone));
}

int ports::open_socket(std::uint32_t key, port_holder& holder) {
  port& where = ports_.at(key);
  if (where.socket && where.open) return 0;
  if (!where.socket && !holder.own_socket) {
    if (const int failed = claim_own_socket(holder, wish_of(holder, holder.source))) return failed;
  }
  const int socket = where.socket ? where.socket.get() : holder.own_socket.get();
  if (const int failed = open_port(socket)) return failed;
  if (const int failed = watch_.watch(socket, {source_kind::port, key})) return failed;
  where.open = true;
  return 0;
}

// Refuses the peers that have connected to a listener that no longer exists.
void ports::reject_waiting_peers(const unique_fd& socket) const {
  if (!socket) return;
  for (std::size_t turn = 0; turn < max_backlog_; ++turn) {
    const socket_or_error peer = accept_peer(socket.get());
    if (!peer.socket) return;
    frame request;
    if (receive_frame(peer.socket.get(), request) == receive_outcome::received)
      send_rejection(peer.socket.get(), request, reject_reason::no_listener);
  }
}

port_holder* ports::listener_for(std::uint32_t key, const address& destination) const {
  const auto found = ports_.find(key);
  if (found == ports_.end()) return nullptr;
  port_holder* wildcard = nullptr;
  for (port_holder* each : found->second.holders) {
    if (!each->listening) continue;
    if (same_address(each->source, destination)) return each;
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
