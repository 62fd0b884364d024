// SPDX-License-Identifier: MIT
#include "softdev/cm/port_addresses.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <span>
#include <string>
#include <utility>

#include "verbena/base/log.hpp"

namespace verbena::softdev::cm {
namespace {

/// The number of names for one address or kind. If another user takes one of them, this user takes
/// another.
constexpr unsigned copies = 8;
constexpr int probe_backlog = 64;

/// The kinds of addresses that conflicts depend on.
enum class address_kind : char {
  ipv4 = 'a',
  ipv6 = 'b',
  ipv6_only = 'c',
  any_ipv4 = 'A',
  any_ipv6 = 'B',
  any_ipv6_only = 'C',
};

address_kind kind_of(const port_wish& wish) noexcept {
  const bool any = is_wildcard(wish.where);
  if (wish.where.family == address_family::ipv4)
    return any ? address_kind::any_ipv4 : address_kind::ipv4;
  if (wish.one_family) return any ? address_kind::any_ipv6_only : address_kind::ipv6_only;
  return any ? address_kind::any_ipv6 : address_kind::ipv6;
}

/// Returns the kinds whose addresses all conflict with all addresses of `mine`, because one of the
/// two is a wildcard.
std::span<const address_kind> conflicts(address_kind mine) noexcept {
  using enum address_kind;
  static constexpr std::array of_ipv4 = {any_ipv4, any_ipv6};
  static constexpr std::array of_ipv6 = {any_ipv4, any_ipv6, any_ipv6_only};
  static constexpr std::array of_ipv6_only = {any_ipv6, any_ipv6_only};
  static constexpr std::array of_any_ipv4 = {any_ipv4, any_ipv6, ipv4, ipv6};
  static constexpr std::array of_any_ipv6 = {any_ipv4, any_ipv6, any_ipv6_only,
                                             ipv4,     ipv6,     ipv6_only};
  static constexpr std::array of_any_ipv6_only = {any_ipv6, any_ipv6_only, ipv6, ipv6_only};
  switch (mine) {
    case ipv4:
      return of_ipv4;
    case ipv6:
      return of_ipv6;
    case ipv6_only:
      return of_ipv6_only;
    case any_ipv4:
      return of_any_ipv4;
    case any_ipv6:
      return of_any_ipv6;
    default:
      return of_any_ipv6_only;
  }
}

/// The variable part of a published name: the kind of an address, or the address itself.
class key {
 public:
  explicit key(address_kind which) noexcept { text_[0] = static_cast<char>(which); }
  explicit key(const address& where) noexcept {
    std::size_t at = 0;
    text_[at++] = where.family == address_family::ipv4 ? '4' : '6';
    const std::size_t bytes = where.family == address_family::ipv4 ? 4 : where.bytes.size();
    for (std::size_t i = 0; i < bytes; ++i, at += 2)
      std::snprintf(text_.data() + at, 3, "%02x", where.bytes[i]);
    // Each interface can have the same link-local address.
    if (is_link_local(where)) std::snprintf(text_.data() + at, 10, "-%x", where.scope);
  }
  [[nodiscard]] const char* text() const noexcept { return text_.data(); }

 private:
  std::array<char, 48> text_{};
};

local_name name_of(const char* what, const port_wish& of, const key& which, unsigned copy) {
  return local_name("verbena-cm-%s.%u.%x.%u.%s.%c%u", what, static_cast<unsigned>(::geteuid()),
                    static_cast<unsigned>(of.space), of.where.port, which.text(),
                    of.shared ? 's' : 'e', copy);
}

/// Returns the name by which peers connect to one address.
local_name serving_name(const port_wish& wish) noexcept {
  const key which = is_wildcard(wish.where) ? key(kind_of(wish)) : key(wish.where);
  return name_of("at", {.space = wish.space, .where = wish.where}, which, 0);
}

constexpr const char* remedy =
    "; end that process, or use a network namespace without other users (unshare -n)";

std::string holder_of(const local_name& name) {
  const name_holder found = find_holder(name);
  if (found.error != 0) return "a process that does not answer";
  return "user " + std::to_string(found.process.user) + " (pid " +
         std::to_string(found.process.pid) + ")";
}

/// Takes a free name. Returns 0 or an errno. If all names are taken, leaves `out` empty.
int take_name(const port_wish& of, const key& which, taken_name& out) {
  socket_or_error made = new_local_socket();
  if (!made.socket) return made.error;
  for (unsigned copy = 0; copy < copies; ++copy) {
    const local_name name = name_of("addr", of, which, copy);
    if (::bind(made.socket.get(), name.get(), name.length()) != 0) {
      if (errno == EADDRINUSE) continue;
      return errno;
    }
    if (::listen(made.socket.get(), probe_backlog) != 0) return errno;
    out = {.socket = std::move(made.socket), .name = name};
    return 0;
  }
  const local_name first = name_of("addr", of, which, 0);
  if (!find_holder(first).process.same_user)
    log(log_level::warning, "soft0: rdma_bind_addr: the " + std::to_string(copies) +
                                " names for addresses of port " + std::to_string(of.where.port) +
                                " are taken, the first by " + holder_of(first) +
                                "; other processes of this user cannot bind the port" + remedy);
  return 0;
}

/// Returns whether a process of this user has a name with this key, except for the names of `own`.
bool is_published(const port_wish& of, const key& which, published_address::list own) noexcept {
  socket_or_error asking = new_local_socket();
  for (unsigned copy = 0; copy < copies && asking.socket; ++copy) {
    const local_name name = name_of("addr", of, which, copy);
    const auto has = [&](const published_address* each) { return each->has(name); };
    if (std::ranges::any_of(own, has)) continue;
    if (::connect(asking.socket.get(), name.get(), name.length()) != 0) {
      // A process of this user whose backlog is full holds the name, too.
      if (errno == EAGAIN && !is_name_of_another_user(name)) return true;
      continue;
    }
    if (identify_peer(asking.socket.get()).same_user) return true;
    asking = new_local_socket();
  }
  return false;
}

/// Like `is_published`, for the endpoints with which `wish` cannot share the port.
bool is_held(const port_wish& wish, const key& which, published_address::list own) noexcept {
  port_wish of = wish;
  of.shared = false;
  if (is_published(of, which, own)) return true;
  of.shared = true;
  return !wish.shared && is_published(of, which, own);
}

}  // namespace

int conflict_of(const port_wish& one, const port_wish& other) noexcept {
  if (one.shared && other.shared) return 0;
  const address_kind theirs = kind_of(other);
  for (const address_kind each : conflicts(kind_of(one)))
    if (each == theirs) return EADDRNOTAVAIL;
  const bool equal = !is_wildcard(one.where) && same_address(one.where, other.where);
  return equal ? EADDRINUSE : 0;
}

int published_address::take_names(const port_wish& wish) {
  const address_kind mine = kind_of(wish);
  const bool any = is_wildcard(wish.where);
  int code = take_name(wish, any ? key(mine) : key(wish.where), exact_);
  if (code == 0 && !any) code = take_name(wish, key(mine), kind_);
  complete_ = exact_.name && (any || kind_.name);
  if (code != 0) withdraw();
  return code;
}

int published_address::publish(const port_wish& wish, list own) {
  int code = take_names(wish);
  if (code == 0 && !is_wildcard(wish.where) && is_held(wish, key(wish.where), own))
    code = EADDRINUSE;
  for (const address_kind each : conflicts(kind_of(wish)))
    if (code == 0 && is_held(wish, key(each), own)) code = EADDRNOTAVAIL;
  if (code != 0) withdraw();
  return code;
}

void published_address::withdraw() noexcept {
  exact_ = {};
  kind_ = {};
}

bool published_address::has(const local_name& name) const noexcept {
  for (const taken_name* each : {&exact_, &kind_}) {
    if (each->name && each->name->length() == name.length() &&
        std::memcmp(each->name->get(), name.get(), name.length()) == 0)
      return true;
  }
  return false;
}

void published_address::close_probes() const noexcept {
  for (const taken_name* each : {&exact_, &kind_}) {
    for (int turn = 0; turn < probe_backlog && each->socket; ++turn) {
      const unique_fd probe(
          ::accept4(each->socket.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (!probe) break;
    }
  }
}

socket_or_error claim_address(const port_wish& wish) noexcept {
  const local_name name = serving_name(wish);
  socket_or_error made = new_local_socket();
  if (made.socket && ::bind(made.socket.get(), name.get(), name.length()) != 0) return {{}, errno};
  return made;
}

void explain_taken_names(const port_wish& wish) {
  log(log_level::warning,
      "soft0: rdma_bind_addr: EADDRINUSE: no process of this user is bound to this address of "
      "port " +
          std::to_string(wish.where.port) + ", but its name is held by " +
          holder_of(serving_name(wish)) + remedy);
}

socket_or_error connect_to_address(port_space space, const address& to) noexcept {
  const bool ipv4 = to.family == address_family::ipv4;
  const std::array ways = {key(to),
                           key(ipv4 ? address_kind::any_ipv4 : address_kind::any_ipv6_only),
                           key(address_kind::any_ipv6)};
  for (const key& way : ways) {
    socket_or_error made = connect_to_name(name_of("at", {.space = space, .where = to}, way, 0));
    if (made.error != ECONNREFUSED && made.error != EACCES) return made;
  }
  return {{}, ECONNREFUSED};
}

}  // namespace verbena::softdev::cm
