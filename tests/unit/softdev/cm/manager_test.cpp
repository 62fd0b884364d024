// SPDX-License-Identifier: MIT
// Connection managers with other managers and with peers that violate the protocol.
#include <dirent.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <random>
#include <thread>
#include <vector>

#include "tests/unit/campaign_seed.hpp"
#include "tests/unit/softdev/cm/peers.hpp"

namespace verbena::softdev::cm::testing {
namespace {

using std::chrono::milliseconds;

std::size_t open_descriptors() {
  std::size_t count = 0;
  DIR* const folder = opendir("/proc/self/fd");
  while (readdir(folder) != nullptr) ++count;
  closedir(folder);
  return count;
}

void part(process& active, const endpoint_ptr& ep, service& passive, const endpoint_ptr& accepted) {
  EXPECT_EQ(active.all.disconnect(ep), 0);
  passive.expect(event_kind::disconnected);
  active.expect(event_kind::disconnected);
  active.all.destroy(ep);
  passive.all.destroy(accepted);
}

endpoint_ptr establish(process& active, const endpoint_ptr& ep, service& passive) {
  const endpoint_ptr accepted = passive.request();
  EXPECT_EQ(passive.all.accept(accepted, {}), 0);
  active.expect(event_kind::connect_response);
  EXPECT_EQ(active.all.establish(ep), 0);
  passive.expect(event_kind::established);
  return accepted;
}

TEST(cm_manager, connection_attempt_without_answer_ends_at_its_deadline) {
  {
    service passive;
    process active({.answer_timeout = milliseconds(20)});
    const endpoint_ptr ep = connect_to(active, passive.where);
    const endpoint_ptr accepted = passive.request();
    active.expect(event_kind::unreachable, -ETIMEDOUT);
    // The connection ends soon; no event reports a request that was not answered.
    while (passive.all.look(accepted).state == phase::requested) std::this_thread::yield();
    EXPECT_EQ(passive.all.accept(accepted, {}), EINVAL);
  }
  {
    service passive({.ready_timeout = milliseconds(20)});
    process active;
    const endpoint_ptr ep = connect_to(active, passive.where);
    const endpoint_ptr accepted = passive.request();
    EXPECT_EQ(passive.all.accept(accepted, {}), 0);
    active.expect(event_kind::connect_response);
    passive.expect(event_kind::unreachable, -ETIMEDOUT);
    active.expect(event_kind::rejected, reject_reason::timeout);
  }
  service passive({.announce_timeout = milliseconds(20),
                   .disconnect_timeout = milliseconds(20),
                   .timewait = milliseconds(1)});
  scripted_peer silent(passive.where);
  silent.expect_end();
  scripted_peer peer(passive.where);
  peer.send_kind(frame_kind::request);
  const endpoint_ptr accepted = passive.request();
  EXPECT_EQ(passive.all.accept(accepted, {}), 0);
  peer.expect(frame_kind::reply);
  peer.send_kind(frame_kind::ready);
  passive.expect(event_kind::established);
  EXPECT_EQ(passive.all.disconnect(accepted), 0);
  peer.expect(frame_kind::disconnect);
  passive.expect(event_kind::disconnected);
  passive.expect(event_kind::timewait_exit);
}

TEST(cm_manager, simultaneous_disconnects_complete_on_both_sides) {
  service passive;
  process active;
  const endpoint_ptr ep = connect_to(active, passive.where);
  const endpoint_ptr accepted = establish(active, ep, passive);
  EXPECT_EQ(active.all.disconnect(ep), 0);
  EXPECT_EQ(passive.all.disconnect(accepted), 0);
  active.expect(event_kind::disconnected);
  passive.expect(event_kind::disconnected);
}

TEST(cm_manager, port_in_use_is_refused_with_the_errno_of_the_kernel) {
  service one;
  process other;
  EXPECT_EQ(other.all.bind(other.make(), one.where), EADDRINUSE);
  EXPECT_EQ(other.all.bind(other.make(port_space::udp), one.where), 0);  // another port space
  // Two identifiers of one process.
  EXPECT_EQ(one.all.bind(one.make(), one.where), EADDRINUSE);
  address second = one.where;
  second.bytes[3] = 2;
  const endpoint_ptr neighbour = one.make();
  EXPECT_EQ(one.all.bind(neighbour, second), 0);
  EXPECT_EQ(one.all.listen(neighbour, 0), 0);
  const endpoint_ptr anywhere = one.make();
  const address wildcard{.family = address_family::ipv4, .port = one.where.port};
  EXPECT_EQ(one.all.bind(anywhere, wildcard), EADDRNOTAVAIL);
  connect_to(other, second);
  EXPECT_EQ(one.expect(event_kind::connect_request).listener, neighbour);
  // An address of another host, and no address.
  address foreign = one.where;
  foreign.bytes = {192, 0, 2, 1};
  EXPECT_EQ(one.all.bind(one.make(), foreign), EADDRNOTAVAIL);
  EXPECT_EQ(one.all.bind(one.make(), {}), EAFNOSUPPORT);
  const endpoint_ptr lost = other.make();
  EXPECT_EQ(other.all.resolve_address(lost, std::nullopt, foreign), 0);
  other.expect(event_kind::address_error, -EHOSTUNREACH);
  EXPECT_EQ(other.all.resolve_route(lost), EINVAL);
  // A port is free after its last owner is destroyed.
  one.all.destroy(one.listener);
  one.all.destroy(neighbour);
  EXPECT_EQ(other.all.bind(other.make(), one.where), 0);
}

TEST(cm_manager, reused_port_has_at_most_one_listener) {
  process one;
  const endpoint_ptr first = one.make();
  const endpoint_ptr second = one.make();
  ASSERT_EQ(one.all.set_options(first, {.reuse_address = true}), 0);
  ASSERT_EQ(one.all.set_options(second, {.reuse_address = true}), 0);
  EXPECT_EQ(one.all.bind(first, loopback_of(address_family::ipv6)), 0);
  EXPECT_EQ(one.all.bind(second, one.all.look(first).source), 0);
  const address where = one.all.look(first).source;
  EXPECT_EQ(one.all.listen(first, 0), EADDRINUSE) << "a listener shares its address";
  one.all.destroy(second);
  EXPECT_EQ(one.all.listen(first, 0), 0);
  const endpoint_ptr third = one.make();
  ASSERT_EQ(one.all.set_options(third, {.reuse_address = true}), 0);
  EXPECT_EQ(one.all.bind(third, where), EADDRINUSE);
}

TEST(cm_manager, ipv6_wildcard_listens_on_both_families_unless_ipv6_only) {
  process one;
  process other;
  for (const bool one_family : {false, true}) {
    const endpoint_ptr listener = one.make();
    ASSERT_EQ(one.all.set_options(listener, {.one_family = one_family}), 0);
    EXPECT_EQ(one.all.bind(listener, {.family = address_family::ipv6}), 0);
    EXPECT_EQ(one.all.listen(listener, 0), 0);
    const std::uint16_t port = one.all.look(listener).source.port;
    connect_to(other, with_port(loopback_of(address_family::ipv6), port));
    one.expect(event_kind::connect_request);
    connect_to(other, with_port(loopback_of(address_family::ipv4), port));
    if (one_family) {
      other.expect(event_kind::rejected, reject_reason::no_listener);
    } else {
      one.expect(event_kind::connect_request);
    }
  }
}

TEST(cm_manager, connection_uses_the_source_address_that_the_program_names) {
  service passive;
  process active;
  address source = loopback_of(address_family::ipv4);
  source.bytes[3] = 7;  // 127.0.0.7, which the kernel would not choose
  const endpoint_ptr ep = active.make();
  EXPECT_EQ(active.all.resolve_address(ep, loopback_of(address_family::ipv6), passive.where),
            EINVAL);
  EXPECT_EQ(active.all.resolve_address(ep, source, passive.where), 0);
  active.expect(event_kind::address_resolved);
  EXPECT_TRUE(same_host(active.all.look(ep).source, source));
  EXPECT_EQ(active.all.resolve_route(ep), 0);
  active.expect(event_kind::route_resolved);
  EXPECT_EQ(active.all.connect(ep, {.local = {.queue_pair = 5}, .data = {}}), 0);
  EXPECT_TRUE(same_host(passive.all.look(passive.request()).destination, source));
}

TEST(cm_manager, request_waits_for_a_listener_that_opens_later) {
  process passive;
  const endpoint_ptr listener = passive.make();
  EXPECT_EQ(passive.all.bind(listener, loopback_of(address_family::ipv4)), 0);
  process active({.listener_timeout = std::chrono::seconds(20)});
  connect_to(active, passive.all.look(listener).source);
  EXPECT_EQ(passive.all.listen(listener, 0), 0);
  passive.expect(event_kind::connect_request);
}

TEST(cm_manager, services_are_resolved_to_ports) {
  service passive({}, port_space::udp);
  process active;
  connect_to(active, passive.where, port_space::udp);
  const endpoint_ptr request = passive.request();
  EXPECT_EQ(passive.all.accept(request, {.local = {.queue_pair = 9, .queue_key = 3}, .data = {}}),
            0);
  const event found = active.expect(event_kind::established);
  EXPECT_EQ(found.remote.queue_pair, 9U);
  EXPECT_EQ(found.remote.queue_key, 3U);
  EXPECT_EQ(found.data.length, private_limits::sidr_reply);
  connect_to(active, passive.where, port_space::udp);
  EXPECT_EQ(passive.all.reject(passive.request(), 0, {}), 0);
  active.expect(event_kind::unreachable, sidr_status::rejected);
  passive.all.destroy(passive.listener);
  connect_to(active, passive.where, port_space::udp);
  active.expect(event_kind::unreachable, sidr_status::no_listener);
}

TEST(cm_manager, malformed_messages_end_only_their_own_connection) {
  service passive;
  process active;
  const endpoint_ptr ep = connect_to(active, passive.where);
  establish(active, ep, passive);
  // The complete first frame, from which invalid frames are made.
  scripted_peer model(passive.where);
  std::array<std::uint8_t, 512> whole{};
  std::array<int, 2> pair{};
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair.data()), 0);
  const unique_fd from(pair[0]);
  const unique_fd to(pair[1]);
  ASSERT_EQ(send_frame(from.get(), model.of(frame_kind::request)), send_outcome::sent);
  const ssize_t length = recv(to.get(), whole.data(), whole.size(), 0);
  ASSERT_GT(length, 0);
  std::mt19937 random(test::campaign_seed(7));
  for (int round = 0; round < 300; ++round) {
    auto bytes = whole;
    auto count = static_cast<std::size_t>(length);
    const unsigned place = random() % static_cast<unsigned>(length);
    if (round % 3 == 0) {
      count = place + 1;
    } else {
      bytes[place] = static_cast<std::uint8_t>(random());
    }
    scripted_peer peer(passive.where);
    ASSERT_GT(send(peer.fd(), bytes.data(), count, MSG_NOSIGNAL), 0);
  }
  {
    scripted_peer newer(passive.where);
    auto bytes = whole;
    ++bytes[4];
    ASSERT_GT(send(newer.fd(), bytes.data(), static_cast<std::size_t>(length), MSG_NOSIGNAL), 0);
    newer.expect(frame_kind::rejection, reject_reason::other_version);
  }
  {
    scripted_peer hasty(passive.where);  // confirms a connection without a reply
    hasty.send_kind(frame_kind::ready);
    hasty.expect_end();
  }
  // Random frames may be valid requests. The established connection is unchanged.
  const endpoint_ptr later = connect_to(active, passive.where);
  while (true) {
    const event request = next(passive.all, passive.events);
    ASSERT_EQ(request.kind, event_kind::connect_request);
    if (request.remote.queue_pair == 5) break;
  }
  EXPECT_EQ(active.all.look(ep).state, phase::connected);
  EXPECT_EQ(active.all.look(later).state, phase::requesting);
}

TEST(cm_manager, silent_peers_do_not_block_other_connections) {
  service passive({.max_incoming = 32});
  process active;
  std::vector<std::unique_ptr<scripted_peer>> silent;
  silent.reserve(200);
  for (int number = 0; number < 200; ++number)
    silent.push_back(std::make_unique<scripted_peer>(passive.where));
  const endpoint_ptr ep = connect_to(active, passive.where);
  part(active, ep, passive, establish(active, ep, passive));
  silent.front()->expect_end();  // the oldest connection was closed
}

TEST(cm_manager, repeated_connects_and_disconnects_leak_no_resources) {
  service passive;
  process active;
  std::size_t before = 0;
  for (int round = 0; round < 600; ++round) {
    if (round == 100) before = open_descriptors();
    const endpoint_ptr ep = connect_to(active, passive.where);
    part(active, ep, passive, establish(active, ep, passive));
  }
  EXPECT_EQ(open_descriptors(), before);
}

TEST(cm_manager, many_connections_are_open_at_the_same_time) {
  rlimit files{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &files), 0);
  files.rlim_cur = std::min<rlim_t>(files.rlim_max, 4096);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &files), 0);
  const std::size_t most = std::min<std::size_t>(1000, (files.rlim_cur - 200) / 2);
  service passive;
  process active;
  std::vector<endpoint_ptr> ours;
  std::vector<endpoint_ptr> theirs;
  ours.reserve(most);
  theirs.reserve(most);
  for (std::size_t number = 0; number < most; ++number)
    ours.push_back(connect_to(active, passive.where));
  for (std::size_t number = 0; number < most; ++number) {
    theirs.push_back(passive.request());
    EXPECT_EQ(passive.all.accept(theirs.back(), {}), 0);
  }
  for (std::size_t number = 0; number < most; ++number)
    EXPECT_EQ(active.all.establish(active.expect(event_kind::connect_response).about), 0);
  for (std::size_t number = 0; number < most; ++number) passive.expect(event_kind::established);
  passive.owned.reset();  // simulates the end of the process
  for (std::size_t number = 0; number < most; ++number) active.expect(event_kind::disconnected);
}

TEST(cm_manager, destroying_connecting_endpoints_is_safe) {
  service passive;
  process active;
  std::atomic<bool> stop{false};
  std::thread server([&] {
    std::mt19937 random(test::campaign_seed(1));
    while (!stop.load()) {
      pollfd wanted{passive.events->fd(), POLLIN, 0};
      if (::poll(&wanted, 1, 10) != 1) continue;
      const auto taken = passive.all.take(*passive.events);
      if (!taken) continue;
      if (taken->kind == event_kind::connect_request) {
        if (random() % 4 != 0) static_cast<void>(passive.all.accept(taken->about, {}));
        if (random() % 4 == 0) passive.all.destroy(taken->about);
      } else if (taken->kind != event_kind::established) {
        passive.all.destroy(taken->about);
      }
    }
  });
  std::vector<std::thread> clients;
  clients.reserve(3);
  for (unsigned seed = 0; seed < 3; ++seed) {
    clients.emplace_back([&, seed] {
      std::mt19937 random(test::campaign_seed(seed + 2));
      for (int round = 0; round < 100; ++round) {
        const channel_ptr events = *create_channel();
        const endpoint_ptr ep = active.all.create(events, port_space::tcp);
        EXPECT_EQ(active.all.resolve_address(ep, std::nullopt, passive.where), 0);
        EXPECT_EQ(active.all.resolve_route(ep), 0);
        EXPECT_EQ(active.all.connect(ep, {}), 0);
        for (unsigned turn = random() % 3; turn > 0; --turn) {
          pollfd wanted{events->fd(), POLLIN, 0};
          if (::poll(&wanted, 1, static_cast<int>(random() % 3)) != 1) continue;
          const auto taken = active.all.take(*events);
          if (taken && taken->kind == event_kind::connect_response)
            static_cast<void>(active.all.establish(ep));
        }
        active.all.destroy(ep);
      }
    });
  }
  for (std::thread& each : clients) each.join();
  stop.store(true);
  server.join();
}

}  // namespace
}  // namespace verbena::softdev::cm::testing
