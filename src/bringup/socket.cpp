// SPDX-License-Identifier: MIT
#include "src/bringup/socket.hpp"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/ioctl.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>
#include <span>

#include "src/base/earliest.hpp"

namespace verbena::inline VERBENA_ABI::bringup::detail {
namespace {

constexpr int socket_flags = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;
constexpr auto retry_interval = std::chrono::milliseconds(200);

error cannot_connect(int code, const address& where) {
  const std::string object = to_string(where);
  if (code == ETIMEDOUT)
    return error::timed_out("connect", object,
                            "no answer in time; check that the host is up and that no firewall "
                            "blocks TCP port " +
                                std::to_string(where.port));
  if (code == ECONNREFUSED)
    return error::from_errno(code, "connect", object,
                             "no process listens at this port; start the peer first, check the "
                             "port, or set connect_options::retry_refused");
  if (code == EHOSTUNREACH || code == ENETUNREACH)
    return error::from_errno(code, "connect", object,
                             "the host has no route to this address; check the address with `ip "
                             "route get`");
  return error::from_errno(code, "connect", object);
}

error cannot_listen(int code, const char* call, const address& where) {
  const std::string object = to_string(where);
  if (code == EADDRINUSE)
    return error::from_errno(code, call, object,
                             "another process uses this port; stop it, or choose another port (0: "
                             "any free one)");
  if (code == EADDRNOTAVAIL)
    return error::from_errno(code, call, object,
                             "this host does not have the address; `ip address` lists its "
                             "addresses");
  if (code == EACCES)
    return error::from_errno(code, call, object,
                             "ports below 1024 need the capability CAP_NET_BIND_SERVICE; choose a "
                             "larger port");
  return error::from_errno(code, call, object);
}

/// Returns 0 or an errno; ETIMEDOUT if the deadline passed.
steps<int> connect_one(int socket, socket_address to, deadline until) {
  if (::connect(socket, to.get(), to.length) == 0) co_return 0;
  if (errno != EINPROGRESS && errno != EINTR) co_return errno;
  const auto ready = co_await verbena::detail::ready(socket, POLLOUT, until);
  if (!ready.has_value()) co_return ready.error().code();
  if (!*ready) co_return ETIMEDOUT;
  int code = 0;
  socklen_t length = sizeof code;
  if (::getsockopt(socket, SOL_SOCKET, SO_ERROR, &code, &length) != 0) co_return errno;
  co_return code;
}

/// Returns 0 or an errno; `call` names the call that failed.
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

namespace {

/// Returns true if TCP has connected a socket to itself. This happens without a listener if the
/// kernel chooses the port of the peer, on this host, as the local port.
bool is_own_peer(int socket) {
  const auto local = local_address_of(socket);
  const auto peer = peer_address_of(socket);
  return local && peer && *local == *peer;
}

/// Tries each address once. Returns the connected socket, with 0 in `code`. If all attempts fail,
/// `code` is ECONNREFUSED if one of them was refused, since that address may accept later;
/// otherwise it is the errno of the last attempt.
steps<unique_fd> connect_once(std::span<const socket_address> addresses, deadline until,
                              int& code) {
  bool is_refused = false;
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    unique_fd socket(::socket(addresses[i].storage.ss_family, socket_flags, 0));
    if (!socket) {
      code = errno;
      continue;
    }
    VERBENA_CO_TRY(code,
                   co_await connect_one(socket.get(), addresses[i],
                                        verbena::detail::share_of(until, addresses.size() - i)));
    if (code == 0 && is_own_peer(socket.get())) code = ECONNREFUSED;
    is_refused = is_refused || code == ECONNREFUSED;
    if (code != 0) continue;
    set_no_delay(socket.get());
    co_return std::move(socket);
  }
  if (is_refused) code = ECONNREFUSED;
  co_return unique_fd();
}

std::string peer_name(int socket, const socket_address& peer) {
  if (peer.storage.ss_family != AF_UNIX) return to_string(address_of(peer));
  ucred process{};
  socklen_t length = sizeof process;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &process, &length) != 0 || process.pid == 0)
    return "local socket";
  return "process " + std::to_string(process.pid);
}

error not_adoptable(int code, std::string_view call, const std::string& object) {
  if (code == EBADF) return error::from_errno(code, call, object, "the descriptor is not open");
  if (code == ENOTSOCK)
    return error::invalid_argument(
        "stream::adopt", object, "the descriptor is not a socket; pass a connected stream socket");
  if (code == ENOTCONN)
    return error::from_errno(code, call, object,
                             "the socket is not connected; connect(2) or accept(2) comes first");
  return error::from_errno(code, call, object);
}

}  // namespace

steps<unique_fd> connect_to(address where, deadline until, std::chrono::nanoseconds retry_refused) {
  if (where.port == 0)
    co_return error::invalid_argument("connect", to_string(where),
                                      "the port is 0; give the port at which the peer listens");
  VERBENA_CO_TRY(const auto addresses, co_await resolve(where, resolve_for::connecting, until));
  const auto last = deadline::after(retry_refused);
  while (true) {
    int code = ECONNREFUSED;
    VERBENA_CO_TRY(auto socket, co_await connect_once(addresses, until, code));
    if (socket) co_return std::move(socket);
    const auto next = deadline::after(retry_interval);
    if (code != ECONNREFUSED || next.when() > until.when() || next.when() > last.when())
      co_return cannot_connect(code, where);
    VERBENA_CO_TRY_DISCARD(co_await verbena::detail::expiry(next));
  }
}

result<std::string> check_adoptable(int socket) {
  const std::string object = "descriptor " + std::to_string(socket);
  int type = 0;
  socklen_t length = sizeof type;
  if (::getsockopt(socket, SOL_SOCKET, SO_TYPE, &type, &length) != 0)
    return not_adoptable(errno, "getsockopt", object);
  if (type != SOCK_STREAM)
    return error::invalid_argument(
        "stream::adopt", object,
        "the socket is of type " + std::to_string(type) +
            ", not SOCK_STREAM; use TCP, or a local socket of type SOCK_STREAM");
  int listens = 0;
  length = sizeof listens;
  if (::getsockopt(socket, SOL_SOCKET, SO_ACCEPTCONN, &listens, &length) == 0 && listens != 0)
    return error::invalid_argument("stream::adopt", object,
                                   "the socket listens; pass a socket that accept(2) returned");
  socket_address peer;
  peer.length = sizeof peer.storage;
  void* storage = &peer.storage;
  if (::getpeername(socket, static_cast<sockaddr*>(storage), &peer.length) != 0)
    return not_adoptable(errno, "getpeername", object);
  const int flags = ::fcntl(socket, F_GETFL);
  if (flags < 0 || ::fcntl(socket, F_SETFL, flags | O_NONBLOCK) != 0)
    return not_adoptable(errno, "fcntl", object);
  set_no_delay(socket);
  return peer_name(socket, peer);
}

result<unique_fd> listen_at(const address& where, int backlog) {
  VERBENA_TRY(const auto addresses,
              resolve(where, resolve_for::listening, deadline::never()).wait());
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

namespace {

/// `get`: getsockname(2) or getpeername(2).
result<address> ask_address(int socket, int (*get)(int, sockaddr*, socklen_t*), const char* call) {
  socket_address name;
  name.length = sizeof name.storage;
  void* storage = &name.storage;
  if (get(socket, static_cast<sockaddr*>(storage), &name.length) != 0)
    return error::from_errno(errno, call);
  return address_of(name);
}

}  // namespace

result<address> local_address_of(int socket) {
  return ask_address(socket, ::getsockname, "getsockname");
}

result<address> peer_address_of(int socket) {
  return ask_address(socket, ::getpeername, "getpeername");
}

bool has_bytes(int socket) noexcept {
  int count = 0;
  return ::ioctl(socket, FIONREAD, &count) == 0 && count > 0;
}

void set_no_delay(int socket) noexcept {
  const int on = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on,
               sizeof on);  // a failure only delays messages
}

void probe_idle_host(int socket) noexcept {
  const auto set = [socket](int level, int name, int value) {
    ::setsockopt(socket, level, name, &value, sizeof value);
  };
  // The first probe after 10 s, then two more.
  set(IPPROTO_TCP, TCP_KEEPIDLE, 10);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
}

void detect_failed_host(int socket) noexcept {
  probe_idle_host(socket);
  const int milliseconds = 25'000;
  ::setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &milliseconds, sizeof milliseconds);
}

}  // namespace verbena::inline VERBENA_ABI::bringup::detail
