// SPDX-License-Identifier: MIT
#include "examples/rcopy/cm_rendezvous.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <string>
#include <utility>

#include "verbena/base/random.hpp"

namespace rcopy {
namespace {

using verbena::deadline;
using verbena::error;
using verbena::result;

/// Returns the local address to which the client has connected.
result<std::string> local_address(const verbena::bringup::stream& client) {
  sockaddr_storage local{};
  socklen_t length = sizeof local;
  auto* const address = reinterpret_cast<sockaddr*>(&local);  // NOLINT: type of the sockets API
  if (::getsockname(client.fd(), address, &length) != 0)
    return error::from_errno(errno, "getsockname", client.peer());
  VERBENA_TRY(const auto here, verbena::cm::socket_address::from_native(*address));
  constexpr std::string_view mapped = "::ffff:";  // an IPv4 address on a socket of both families
  auto host = here.host();
  if (host.starts_with(mapped)) host.erase(0, mapped.size());
  return host;
}

token new_token() {
  token made{};
  verbena::fill_random(made);
  return made;
}

}  // namespace

result<resolved_server> find_server(const conversation& with, deadline until) {
  VERBENA_TRY(const auto message, next_message(with, until));
  VERBENA_TRY(const auto told, decode_rendezvous(message));
  // The address of the TCP connection is used. A host name may have other addresses, at which the
  // server does not listen.
  VERBENA_TRY(auto at, verbena::bringup::parse_address(with.peer.peer()));
  at.port = told.port;
  auto found = verbena::cm::connector::resolve(at, until);
  if (!found) return cause_of(std::move(found).error(), with);
  return resolved_server{.peer = *std::move(found), .token = told.shown};
}

result<verbena::cm::connection_request> await_client(const conversation& with, deadline until) {
  VERBENA_TRY(auto here, local_address(with.peer));
  const bool is_loopback = here.starts_with("127.") || here == "::1";
  auto opened = verbena::cm::listener::open({.host = std::move(here), .port = 0});
  if (!opened && is_loopback)
    return std::move(opened).error().with_diagnosis(
        "an adapter listens only at its own addresses: select one of them with `rcopy serve "
        "--bind`");
  if (!opened) return std::move(opened).error();
  auto listener = *std::move(opened);
  const auto expected = new_token();
  VERBENA_TRY_VOID(
      with.peer.send(encode(rendezvous{.port = listener.port(), .shown = expected}), until));
  while (!until.expired()) {
    VERBENA_TRY_VOID(wait_for(with, listener.fd(), POLLIN, until));
    auto request = listener.accept(deadline::after(std::chrono::nanoseconds::zero()));
    if (!request && request.error().kind() != verbena::error_kind::timed_out)
      return std::move(request).error();
    if (!request) continue;
    const auto shown = request->private_data();
    if (shown.size() >= expected.size() &&
        std::ranges::equal(shown.first(expected.size()), expected))
      return request;
  }
  return error::timed_out("copy", with.peer.peer(), "no connection request had the expected token");
}

}  // namespace rcopy
