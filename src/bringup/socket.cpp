// SPDX-License-Identifier: MIT
#include "src/bringup/socket.hpp"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>

namespace verbena::inline VERBENA_ABI::bringup::detail {
namespace {

constexpr int socket_flags = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;

error cannot_connect(int code, const address& where) {
  const std::string object = to_string(where);
  if (code == ETIMEDOUT)
    return error::timed_out("connect", object,
                            "nothing answered in time: is the host up, and no firewall between?");
  if (code == ECONNREFUSED)
    return error::from_errno(code, "connect", object,
                             "nobody listens there: start the peer first, and check the port");
  if (code == EHOSTUNREACH || code == ENETUNREACH)
    return error::from_errno(code, "connect", object, "there is no route: check the address");
  return error::from_errno(code, "connect", object);
}

error cannot_listen(int code, const char* call, const address& where) {
  const std::string object = to_string(where);
  if (code == EADDRINUSE)
    return error::from_errno(code, call, object,
                             "another program listens there: stop it, or take another port (0 "
                             "takes any free one)");
  if (code == EADDRNOTAVAIL)
    return error::from_errno(code, call, object, "this machine has no such address");
  if (code == EACCES)
    return error::from_errno(code, call, object, "ports below 1024 need privileges");
  return error::from_errno(code, call, object);
}

/// 0 or an errno; ETIMEDOUT when the deadline passed.
int connect_one(int socket, const socket_address& to, deadline until) {
  if (::connect(socket, to.get(), to.length) == 0) return 0;
  if (errno != EINPROGRESS && errno != EINTR) return errno;
  const auto ready = wait_for_fd(socket, POLLOUT, until);
  if (!ready) return ready.error().code();
  if (!*ready) return ETIMEDOUT;
  int code = 0;
  socklen_t length = sizeof code;
  if (::getsockopt(socket, SOL_SOCKET, SO_ERROR, &code, &length) != 0) return errno;
  return code;
}

deadline share_of(deadline until, std::size_t attempts_left) {
  if (until.is_never() || attempts_left <= 1) return until;
  const auto left = until.when() - deadline::clock::now();
  return deadline::after(left / static_cast<std::ptrdiff_t>(attempts_left));
}

/// 0 or an errno, and which call gave it.
int listen_one(int socket, const socket_address& at, int backlog, const char*& call) {
  const int on = 1;
  const int off = 0;
  call = "setsockopt";
  if (::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0) return errno;
  const auto* any = &at.storage;
  if (any->ss_family == AF_INET6 &&
      ::setsockopt(socket, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off) != 0)
    return errno;
  call = "bind";
  if (::bind(socket, at.get(), at.length) != 0) return errno;
  call = "listen";
  return ::listen(socket, backlog) == 0 ? 0 : errno;
}

}  // namespace

result<unique_fd> connect_to(const address& where, deadline until) {
  if (where.port == 0)
    return error::invalid_argument("connect", to_string(where), "the port of the peer is missing");
  VERBENA_TRY(const auto addresses, resolve(where, resolve_for::connecting, until));
  int code = ECONNREFUSED;
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    unique_fd socket(::socket(addresses[i].storage.ss_family, socket_flags, 0));
    if (!socket) {
      code = errno;
      continue;
    }
    code = connect_one(socket.get(), addresses[i], share_of(until, addresses.size() - i));
    if (code != 0) continue;
    set_no_delay(socket.get());
    return socket;
  }
  return cannot_connect(code, where);
}

result<unique_fd> listen_at(const address& where, int backlog) {
  VERBENA_TRY(const auto addresses, resolve(where, resolve_for::listening, deadline::never()));
  int code = 0;
  const char* call = "socket";
  for (const auto& address : addresses) {
    unique_fd socket(::socket(address.storage.ss_family, socket_flags, 0));
    code = socket ? listen_one(socket.get(), address, backlog, call) : errno;
    if (code == 0) return socket;
    if (code == EADDRINUSE) break;
  }
  return cannot_listen(code, call, where);
}

address address_of(const socket_address& name) {
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> port{};
  address made;
  if (::getnameinfo(name.get(), name.length, host.data(), host.size(), port.data(), port.size(),
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
    return made;
  made.host = host.data();
  constexpr std::string_view mapped = "::ffff:";  // an IPv4 peer of an IPv6 socket
  if (made.host.starts_with(mapped) && made.host.find('.') != std::string::npos)
    made.host.erase(0, mapped.size());
  std::from_chars(port.data(), port.data() + std::strlen(port.data()), made.port);
  return made;
}

result<address> local_address_of(int socket) {
  socket_address name;
  name.length = sizeof name.storage;
  void* storage = &name.storage;
  if (::getsockname(socket, static_cast<sockaddr*>(storage), &name.length) != 0)
    return error::from_errno(errno, "getsockname");
  return address_of(name);
}

void set_no_delay(int socket) noexcept {
  const int on = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);  // slower without, nothing else
}

}  // namespace verbena::inline VERBENA_ABI::bringup::detail
