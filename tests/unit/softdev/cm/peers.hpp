// SPDX-License-Identifier: MIT
// Fixtures of the connection manager tests: managers with endpoints, and a peer whose frames the
// test selects.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>

#include <cerrno>
#include <optional>
#include <stdexcept>

#include "softdev/cm/manager.hpp"

namespace verbena::softdev::cm::testing {

/// Returns the next event of a channel. Throws after 20 seconds.
inline event next(manager& of, const channel_ptr& from) {
  pollfd wanted{from->fd(), POLLIN, 0};
  if (::poll(&wanted, 1, 20'000) != 1) throw std::runtime_error("no event came");
  std::optional<event> found = of.take(*from);
  if (!found) throw std::runtime_error("readable without an event");
  return *std::move(found);
}
/// Returns the next event. Fails the test if it has another kind.
inline event expect(manager& of, const channel_ptr& from, event_kind kind, int status = 0) {
  event found = next(of, from);
  EXPECT_EQ(found.kind, kind);
  EXPECT_EQ(found.status, status);
  return found;
}

/// A manager with a channel.
struct process {
  explicit process(const manager_options& options = {})
      : owned(*manager::open(options)), all(*owned), events(*create_channel()) {}
  endpoint_ptr make(port_space space = port_space::tcp) { return all.create(events, space); }
  event expect(event_kind kind, int status = 0) {
    return testing::expect(all, events, kind, status);
  }

  std::unique_ptr<manager> owned;
  manager& all;
  channel_ptr events;
};

/// A listener on a free port.
struct service : process {
  explicit service(const manager_options& options = {}, port_space space = port_space::tcp,
                   int backlog = 0)
      : process(options), listener(make(space)) {
    EXPECT_EQ(all.bind(listener, loopback_of(address_family::ipv4)), 0);
    EXPECT_EQ(all.listen(listener, backlog), 0);
    where = all.look(listener).source;
  }
  /// Returns the endpoint of the next request.
  endpoint_ptr request() { return expect(event_kind::connect_request).about; }

  endpoint_ptr listener;
  address where;
};

/// Returns an endpoint that has sent its request.
inline endpoint_ptr connect_to(process& from, const address& where,
                               port_space space = port_space::tcp) {
  const endpoint_ptr made = from.make(space);
  EXPECT_EQ(from.all.resolve_address(made, std::nullopt, where), 0);
  from.expect(event_kind::address_resolved);
  EXPECT_EQ(from.all.resolve_route(made), 0);
  from.expect(event_kind::route_resolved);
  EXPECT_EQ(from.all.connect(made, {.local = {.queue_pair = 5}, .data = {}}), 0);
  return made;
}

/// A peer whose frames the test selects.
class scripted_peer {
 public:
  explicit scripted_peer(const address& where)
      : where_(where), made_(connect_to_port(port_space::tcp, where)) {
    if (made_.error != 0) throw std::runtime_error("cannot connect");
  }
  [[nodiscard]] int fd() const { return made_.socket.get(); }
  [[nodiscard]] frame of(frame_kind kind) const {
    frame out;
    out.kind = kind;
    out.source = with_port(where_, 40'000);
    out.destination = where_;
    return out;
  }
  void send_kind(frame_kind kind) { EXPECT_EQ(send_frame(fd(), of(kind)), send_outcome::sent); }
  /// Returns the next frame, or the end of the connection.
  [[nodiscard]] receive_outcome receive_next(frame& out) const {
    pollfd wanted{fd(), POLLIN, 0};
    if (::poll(&wanted, 1, 20'000) != 1) throw std::runtime_error("no frame arrived");
    return receive_frame(fd(), out);
  }
  void expect(frame_kind kind, std::uint32_t reason = 0) const {
    frame received;
    ASSERT_EQ(receive_next(received), receive_outcome::received);
    EXPECT_EQ(received.kind, kind);
    EXPECT_EQ(received.reason, reason);
  }
  void expect_end() const {
    frame received;
    EXPECT_EQ(receive_next(received), receive_outcome::ended);
  }

 private:
  address where_;
  socket_or_error made_;
};

}  // namespace verbena::softdev::cm::testing
