// SPDX-License-Identifier: MIT
#include "examples/rcopy/meeting.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "verbena/base/bytes.hpp"
#include "verbena/base/random.hpp"

namespace rcopy {
namespace {

using verbena::deadline;
using verbena::error;
using verbena::result;

/// The address that the client has reached this side by.
result<std::string> reached_address(const verbena::bringup::stream& client) {
  sockaddr_storage local{};
  socklen_t length = sizeof local;
  auto* const address = reinterpret_cast<sockaddr*>(&local);  // NOLINT: what sockets take
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

std::vector<std::byte> encode(std::uint16_t port, const token& from) {
  std::vector<std::byte> out(sizeof port);
  verbena::store_network_order(out.data(), port);
  out.insert(out.end(), from.begin(), from.end());
  return out;
}

}  // namespace

result<invitation> find_server(const conversation& with, deadline until) {
  VERBENA_TRY(const auto said, next_message(with, until));
  verbena::byte_reader reader(said);
  const auto port = reader.take<std::uint16_t>();
  const auto shown = reader.take_bytes(std::tuple_size_v<token>);
  if (!port || !shown || !reader.rest().empty())
    return error::protocol("decode", with.peer.peer(), "the peer sent no place to connect to");
  // By the address that answered: a name may have others, where nobody listens.
  VERBENA_TRY(auto at, verbena::bringup::parse_address(with.peer.peer()));
  at.port = *port;
  auto found = verbena::cm::connector::resolve(at, until);
  if (!found) return cause_of(std::move(found).error(), with);
  invitation made{.peer = *std::move(found), .token = {}};
  std::ranges::copy(*shown, made.token.begin());
  return made;
}

result<verbena::cm::connection_request> await_client(const conversation& with, deadline until) {
  VERBENA_TRY(auto here, reached_address(with.peer));
  const bool is_loopback = here.starts_with("127.") || here == "::1";
  auto opened = verbena::cm::listener::open({.host = std::move(here), .port = 0});
  if (!opened && is_loopback)
    return std::move(opened).error().with_diagnosis(
        "adapters listen at addresses of their own only: use such a one, with `rcopy serve "
        "--bind`");
  if (!opened) return std::move(opened).error();
  auto door = *std::move(opened);
  const auto expected = new_token();
  VERBENA_TRY_VOID(with.peer.send(encode(door.port(), expected), until));
  while (!until.expired()) {
    VERBENA_TRY_VOID(wait_for(with, door.fd(), POLLIN, until));
    auto request = door.accept(deadline::after(std::chrono::nanoseconds::zero()));
    if (!request && request.error().kind() != verbena::error_kind::timed_out)
      return std::move(request).error();
    if (!request) continue;
    const auto shown = request->private_data();
    if (shown.size() >= expected.size() &&
        std::ranges::equal(shown.first(expected.size()), expected))
      return request;
  }
  return error::timed_out("copy", with.peer.peer(), "strangers came instead");
}

}  // namespace rcopy
