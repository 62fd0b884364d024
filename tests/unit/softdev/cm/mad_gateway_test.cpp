// SPDX-License-Identifier: MIT
// Connection managers of two hosts with a network between them that loses, repeats and reorders
// messages.
#include "softdev/cm/mad_gateway.hpp"

#include <atomic>
#include <deque>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "tests/unit/softdev/cm/two_hosts.hpp"

namespace verbena::softdev::cm::testing {
namespace {

using std::chrono::milliseconds;

using cm_other_hosts = two_hosts;

// parity: rocev2-91
TEST_F(cm_other_hosts, connection_is_made_and_ended) {
  start();
  private_data data;
  data.length = private_limits::request;
  data.bytes[0] = 1;
  data.bytes[55] = 2;
  const endpoint_ptr active = connect(data);
  const event request = b->expect(event_kind::connect_request);
  EXPECT_EQ(request.remote.queue_pair, 17U);
  EXPECT_EQ(request.remote.starting_psn, a->all.look(active).local.starting_psn);
  EXPECT_EQ(request.remote.responder_resources, 2);
  EXPECT_EQ(request.remote.initiator_depth, 3);
  EXPECT_EQ(request.remote.retry_count, 5);
  EXPECT_EQ(request.remote.rnr_retry_count, 6);
  EXPECT_EQ(request.remote.path_mtu, 4);
  EXPECT_EQ(request.remote.gid[10], 0xff);
  EXPECT_EQ(request.remote.gid[15], 1);
  EXPECT_EQ(request.data.bytes, data.bytes);
  const endpoint_view seen = b->all.look(request.about);
  EXPECT_TRUE(same_host(seen.source, host_b));
  EXPECT_TRUE(same_host(seen.destination, host_a));
  EXPECT_EQ(seen.source.port, port);

  data.length = private_limits::reply;
  data.bytes[195] = 3;
  ASSERT_EQ(b->all.accept(request.about,
                          {.local = {.queue_pair = 23, .rnr_retry_count = 4}, .data = data}),
            0);
  const event replied = a->expect(event_kind::connect_response);
  EXPECT_EQ(replied.remote.queue_pair, 23U);
  EXPECT_EQ(replied.remote.rnr_retry_count, 4);
  EXPECT_EQ(replied.remote.gid[15], 2);
  EXPECT_EQ(replied.data.bytes, data.bytes);
  ASSERT_EQ(a->all.establish(active), 0);
  b->expect(event_kind::established);

  ASSERT_EQ(b->all.disconnect(request.about), 0);
  a->expect(event_kind::disconnected);
  b->expect(event_kind::disconnected);
  a->all.destroy(active);
  b->all.destroy(request.about);
  const std::lock_guard lock(mutex);
  EXPECT_EQ(sent, (std::vector{mad_kind::request, mad_kind::reply, mad_kind::ready,
                               mad_kind::disconnect, mad_kind::disconnected}));
}

// parity: rocev2-92
TEST_F(cm_other_hosts, request_without_a_listener_is_rejected) {
  start();
  const endpoint_ptr ep = resolve(port_space::tcp, static_cast<std::uint16_t>(port + 1));
  ASSERT_EQ(a->all.connect(ep, {.local = {.queue_pair = 17, .path_mtu = 3}, .data = {}}), 0);
  a->expect(event_kind::rejected, reject_reason::no_listener);
}

TEST_F(cm_other_hosts, request_waits_for_a_listener) {
  std::vector<std::uint32_t> ids;
  copies = [&](const mad& message) {
    if (message.kind == mad_kind::request) ids.push_back(message.sender_id);
    return message.kind == mad_kind::rejection ? 2 : 1;
  };
  start({.listener_timeout = std::chrono::minutes(1)});
  const endpoint_ptr late = b->all.create(b->events, port_space::tcp);
  ASSERT_EQ(b->all.bind(late, {.family = address_family::ipv4}), 0);
  port = b->all.look(late).source.port;
  const endpoint_ptr active = connect();
  while (count_of(mad_kind::rejection) < 2) std::this_thread::yield();
  EXPECT_EQ(a->all.disconnect(active), 0);  // has no effect on a request, nor on one that waits
  ASSERT_EQ(b->all.listen(late, 0), 0);
  const event request = b->expect(event_kind::connect_request);
  EXPECT_EQ(request.listener, late);
  ASSERT_EQ(b->all.accept(request.about, {.local = {.queue_pair = 23}, .data = {}}), 0);
  a->expect(event_kind::connect_response);
  ASSERT_EQ(a->all.establish(active), 0);
  b->expect(event_kind::established);
  const std::lock_guard lock(mutex);
  EXPECT_GE(ids.size(), 3U);
  std::ranges::sort(ids);
  EXPECT_EQ(std::ranges::adjacent_find(ids), ids.end()) << "an ID was used for two requests";
}

TEST_F(cm_other_hosts, request_without_a_listener_is_rejected_once_after_the_patience) {
  copies = [](const mad& message) { return message.kind == mad_kind::rejection ? 3 : 1; };
  constexpr milliseconds patience{60};
  start({.listener_timeout = patience, .first_repeat = std::chrono::minutes(1)});
  port = static_cast<std::uint16_t>(port + 1);
  const time_point begun = std::chrono::steady_clock::now();
  const endpoint_ptr active = connect();
  a->expect(event_kind::rejected, reject_reason::no_listener);
  EXPECT_GE(std::chrono::steady_clock::now() - begun, patience);
  const std::size_t requests = count_of(mad_kind::request);
  EXPECT_GE(requests, 2U);
  EXPECT_LE(requests, 8U);
  // A later request, whose answers come after those of the first one.
  const endpoint_ptr second = connect();
  const event rejected = a->expect(event_kind::rejected, reject_reason::no_listener);
  EXPECT_EQ(rejected.about, second);
}

// The active side of other devices sends one request.
TEST_F(cm_other_hosts, request_is_kept_until_a_process_listens) {
  requests_come_by_managers = true;
  start({.listener_timeout = std::chrono::minutes(1), .first_repeat = std::chrono::minutes(1)});
  const endpoint_ptr late = b->all.create(b->events, port_space::tcp);
  ASSERT_EQ(b->all.bind(late, {.family = address_family::ipv4}), 0);
  port = b->all.look(late).source.port;
  const endpoint_ptr active = connect();
  while (count_of(mad_kind::request) == 0) std::this_thread::yield();
  ASSERT_EQ(b->all.listen(late, 0), 0);
  const event request = b->expect(event_kind::connect_request);
  EXPECT_EQ(request.listener, late);
  ASSERT_EQ(b->all.accept(request.about, {.local = {.queue_pair = 23}, .data = {}}), 0);
  a->expect(event_kind::connect_response);
  ASSERT_EQ(a->all.establish(active), 0);
  b->expect(event_kind::established);
  EXPECT_EQ(count_of(mad_kind::request), 1U);
  EXPECT_EQ(count_of(mad_kind::rejection), 0U);
}

TEST_F(cm_other_hosts, kept_request_is_rejected_after_the_patience) {
  requests_come_by_managers = true;
  constexpr milliseconds patience{60};
  start({.listener_timeout = patience, .first_repeat = std::chrono::minutes(1)});
  port = static_cast<std::uint16_t>(port + 1);
  const time_point begun = std::chrono::steady_clock::now();
  static_cast<void>(connect());
  a->expect(event_kind::rejected, reject_reason::no_listener);
  EXPECT_GE(std::chrono::steady_clock::now() - begun, patience);
  EXPECT_EQ(count_of(mad_kind::request), 1U);
}

class cm_kept_requests : public cm_other_hosts {
 protected:
  void third_request_is_rejected_at_once(manager_options options) {
    requests_come_by_managers = true;
    options.listener_timeout = options.first_repeat = std::chrono::minutes(1);
    start(options);
    port = static_cast<std::uint16_t>(port + 1);
    for (int each = 0; each < 3; ++each) static_cast<void>(connect());
    while (count_of(mad_kind::rejection) == 0) std::this_thread::yield();
  }
};

TEST_F(cm_kept_requests, beyond_the_limit_are_rejected_at_once) {
  third_request_is_rejected_at_once({.max_early = 2});
}

TEST_F(cm_kept_requests, of_one_host_beyond_its_limit_are_rejected_at_once) {
  third_request_is_rejected_at_once({.max_early_of_host = 2});
}

TEST_F(cm_other_hosts, copies_of_a_kept_request_occupy_one_place) {
  requests_come_by_managers = true;
  copies = [](const mad& message) { return message.kind == mad_kind::request ? 3 : 1; };
  start({.listener_timeout = std::chrono::minutes(1),
         .first_repeat = std::chrono::minutes(1),
         .max_early_of_host = 2});
  const std::uint16_t other_port = port;
  port = static_cast<std::uint16_t>(port + 1);
  static_cast<void>(connect());
  static_cast<void>(connect());
  port = other_port;
  established();
  EXPECT_EQ(count_of(mad_kind::rejection), 0U);
}

// A listener that starts later must not see it.
TEST_F(cm_other_hosts, kept_request_that_is_given_up_reaches_no_listener) {
  requests_come_by_managers = true;
  start({.listener_timeout = std::chrono::minutes(1), .first_repeat = std::chrono::minutes(1)});
  const endpoint_ptr late = b->all.create(b->events, port_space::tcp);
  ASSERT_EQ(b->all.bind(late, {.family = address_family::ipv4}), 0);
  const std::uint16_t late_port = b->all.look(late).source.port;
  const std::uint16_t other_port = port;
  port = late_port;
  const endpoint_ptr given_up = connect();
  a->all.destroy(given_up);
  EXPECT_EQ(count_of(mad_kind::rejection), 1U);
  const std::uint32_t expected_qpn = active_qpn;
  const endpoint_ptr active = connect();
  // The other side handles messages in order: the earlier ones, too.
  port = other_port;
  established();
  ASSERT_EQ(b->all.listen(late, 0), 0);
  const event request = b->expect(event_kind::connect_request);
  EXPECT_EQ(request.remote.queue_pair, expected_qpn) << "the request that was given up";
  ASSERT_EQ(b->all.accept(request.about, {.local = {.queue_pair = 23}, .data = {}}), 0);
  a->expect(event_kind::connect_response);
  ASSERT_EQ(a->all.establish(active), 0);
  // The next event: no request comes before it.
  b->expect(event_kind::established);
}

TEST_F(cm_other_hosts, request_that_waits_for_a_listener_ends_with_its_endpoint) {
  start({.listener_timeout = std::chrono::minutes(1)});
  port = static_cast<std::uint16_t>(port + 1);
  const endpoint_ptr active = connect();
  while (count_of(mad_kind::rejection) < 2) std::this_thread::yield();
  a->all.destroy(active);
  const std::size_t requests = count_of(mad_kind::request);
  // lint: allow(sleep): requests that do not come are no event.
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_EQ(count_of(mad_kind::request), requests);
}

// parity: rocev2-93
TEST_F(cm_other_hosts, rejection_reaches_the_peer_with_its_data) {
  start();
  const endpoint_ptr active = connect();
  const endpoint_ptr passive = b->expect(event_kind::connect_request).about;
  private_data why;
  why.length = private_limits::rejection;
  why.bytes[147] = 9;
  ASSERT_EQ(b->all.reject(passive, reject_reason::consumer, why), 0);
  const event rejected = a->expect(event_kind::rejected, reject_reason::consumer);
  EXPECT_EQ(rejected.data.bytes, why.bytes);
}

// parity: rocev2-93
TEST_F(cm_other_hosts, active_side_rejects_a_reply) {
  start();
  const endpoint_ptr active = connect();
  const endpoint_ptr passive = b->expect(event_kind::connect_request).about;
  ASSERT_EQ(b->all.accept(passive, {.local = {.queue_pair = 23}, .data = {}}), 0);
  a->expect(event_kind::connect_response);
  ASSERT_EQ(a->all.reject(active, reject_reason::consumer, {}), 0);
  b->expect(event_kind::rejected, reject_reason::consumer);
}

// parity: rocev2-100
TEST_F(cm_other_hosts, request_from_the_queue_pair_of_a_connection_ends_it_and_is_rejected) {
  start({.timewait = std::chrono::minutes(1)});
  const auto [active, passive] = established();
  --active_qpn;  // as of a process that took the place of one that was killed
  const endpoint_ptr second = connect();
  const event ended = b->expect(event_kind::disconnected);
  EXPECT_EQ(ended.about, passive);
  std::vector<endpoint_ptr> about;
  for (int i = 0; i < 2; ++i) {
    const event each = next(a->all, a->events);
    EXPECT_EQ(each.kind, each.about == second ? event_kind::rejected : event_kind::disconnected);
    EXPECT_EQ(each.status, each.about == second ? int{reject_reason::stale_connection} : 0);
    about.push_back(each.about);
  }
  EXPECT_NE(about[0], about[1]);
  EXPECT_EQ(count_of(mad_kind::disconnect), 1U);
  // The connection has ended: the next request is accepted.
  --active_qpn;
  established();
}

// parity: rocev2-100
TEST_F(cm_other_hosts, reply_from_the_queue_pair_of_a_connection_ends_it_and_is_rejected) {
  start({.timewait = std::chrono::minutes(1)});
  const auto [active, passive] = established();
  --passive_qpn;
  const endpoint_ptr second = connect();
  const endpoint_ptr accepted = b->expect(event_kind::connect_request).about;
  ASSERT_EQ(b->all.accept(accepted, {.local = {.queue_pair = passive_qpn}, .data = {}}), 0);
  for (int i = 0; i < 2; ++i) {
    const event each = next(a->all, a->events);
    EXPECT_EQ(each.kind, each.about == second ? event_kind::rejected : event_kind::disconnected);
    EXPECT_EQ(each.status, each.about == second ? int{reject_reason::stale_connection} : 0);
  }
  for (int i = 0; i < 2; ++i) {
    const event each = next(b->all, b->events);
    EXPECT_EQ(each.kind, each.about == accepted ? event_kind::rejected : event_kind::disconnected);
  }
}

TEST_F(cm_other_hosts, requests_without_a_queue_pair_are_independent) {
  start();
  for (int i = 0; i < 2; ++i) {
    active_qpn = passive_qpn = 0;
    established();
  }
}

TEST_F(cm_other_hosts, endpoint_that_is_destroyed_tells_the_peer) {
  start();
  const auto [active, passive] = established();
  a->all.destroy(active);
  b->expect(event_kind::disconnected);
  const endpoint_ptr second = connect();
  const endpoint_ptr request = b->expect(event_kind::connect_request).about;
  b->all.destroy(request);
  a->expect(event_kind::rejected, reject_reason::consumer);
}

// parity: rocev2-97
TEST_F(cm_other_hosts, service_is_resolved) {
  start();
  const endpoint_ptr service = b->all.create(b->events, port_space::udp);
  ASSERT_EQ(b->all.bind(service, {.family = address_family::ipv4}), 0);
  ASSERT_EQ(b->all.listen(service, 0), 0);
  const std::uint16_t at = b->all.look(service).source.port;
  const endpoint_ptr active = resolve(port_space::udp, at);
  private_data data;
  data.length = private_limits::sidr_request;
  data.bytes[179] = 7;
  ASSERT_EQ(a->all.connect(active, {.local = {}, .data = data}), 0);
  const event request = b->expect(event_kind::connect_request);
  EXPECT_EQ(request.data.bytes, data.bytes);
  ASSERT_EQ(b->all.accept(request.about,
                          {.local = {.queue_pair = 29, .queue_key = 0x1234567}, .data = {}}),
            0);
  const event found = a->expect(event_kind::established);
  EXPECT_EQ(found.remote.queue_pair, 29U);
  EXPECT_EQ(found.remote.queue_key, 0x1234567U);
  EXPECT_EQ(found.remote.gid[15], 2);

  const endpoint_ptr nobody = resolve(port_space::udp, static_cast<std::uint16_t>(at + 1));
  ASSERT_EQ(a->all.connect(nobody, {.local = {}, .data = {}}), 0);
  a->expect(event_kind::unreachable, sidr_status::no_listener);
  const endpoint_ptr refused = resolve(port_space::udp, at);
  ASSERT_EQ(a->all.connect(refused, {.local = {}, .data = {}}), 0);
  const endpoint_ptr second = b->expect(event_kind::connect_request).about;
  ASSERT_EQ(b->all.reject(second, 0, {}), 0);
  a->expect(event_kind::unreachable, sidr_status::rejected);
}

TEST_F(cm_other_hosts, sidr_request_waits_for_a_listener) {
  start({.listener_timeout = std::chrono::minutes(1)});
  const endpoint_ptr late = b->all.create(b->events, port_space::udp);
  ASSERT_EQ(b->all.bind(late, {.family = address_family::ipv4}), 0);
  const endpoint_ptr active = resolve(port_space::udp, b->all.look(late).source.port);
  ASSERT_EQ(a->all.connect(active, {.local = {}, .data = {}}), 0);
  while (count_of(mad_kind::sidr_reply) < 2) std::this_thread::yield();
  ASSERT_EQ(b->all.listen(late, 0), 0);
  const event request = b->expect(event_kind::connect_request);
  ASSERT_EQ(b->all.accept(request.about, {.local = {.queue_pair = 29}, .data = {}}), 0);
  EXPECT_EQ(a->expect(event_kind::established).remote.queue_pair, 29U);
}

// parity: rocev2-94
TEST_F(cm_other_hosts, each_lost_message_is_sent_again) {
  // The first of each kind is lost.
  std::vector<mad_kind> lost;
  copies = [&](const mad& message) {
    if (std::ranges::find(lost, message.kind) != lost.end()) return 1;
    lost.push_back(message.kind);
    return 0;
  };
  start({.first_repeat = milliseconds(5)});
  const auto [active, passive] = established();
  ASSERT_EQ(a->all.disconnect(active), 0);
  a->expect(event_kind::disconnected);
  b->expect(event_kind::disconnected);
  EXPECT_GE(count_of(mad_kind::request), 2U);
  EXPECT_GE(count_of(mad_kind::reply), 2U);
  EXPECT_GE(count_of(mad_kind::ready), 2U);
  EXPECT_GE(count_of(mad_kind::disconnect), 2U);
  EXPECT_GE(count_of(mad_kind::disconnected), 2U);
}

/// The answers to ended requests of other hosts. Keeps the requests.
class cm_ended_requests : public two_hosts {
 protected:
  void SetUp() override {
    copies = [this](const mad& message) {
      if (message.kind == mad_kind::request) requests.push_back(message);
      return 1;
    };
  }
  void reject_request() {
    const endpoint_ptr active = connect();
    const endpoint_ptr passive = b->expect(event_kind::connect_request).about;
    ASSERT_EQ(b->all.reject(passive, reject_reason::consumer, {}), 0);
    a->expect(event_kind::rejected, reject_reason::consumer);
  }
  void deliver_to_b(const mad& message) {
    std::array<std::byte, mad_bytes> bytes{};
    write_mad(message, bytes);
    arrive(host_a, host_b, bytes);
  }

  std::vector<mad> requests;
};

TEST_F(cm_ended_requests, repeated_request_gets_the_same_answer) {
  start();
  reject_request();
  deliver_to_b(requests.at(0));
  while (count_of(mad_kind::rejection) < 2) std::this_thread::yield();
  reject_request();  // its event is the next one
}

TEST_F(cm_ended_requests, another_request_with_the_same_id_is_a_new_one) {
  start({.max_ended = 2});
  for (int i = 0; i < 2; ++i) reject_request();
  mad next = requests.at(1);
  ++next.transaction;
  deliver_to_b(next);
  const endpoint_ptr passive = b->expect(event_kind::connect_request).about;
  ASSERT_EQ(b->all.reject(passive, reject_reason::consumer, {}), 0);
  deliver_to_b(requests.at(0));  // answered: the replaced request does not count
  while (count_of(mad_kind::rejection) < 4) std::this_thread::yield();
}

// parity: rocev2-99
TEST_F(cm_ended_requests, beyond_the_limit_are_forgotten) {
  start({.max_ended = 2});
  for (int i = 0; i < 3; ++i) reject_request();
  deliver_to_b(requests.at(1));
  while (count_of(mad_kind::rejection) < 4) std::this_thread::yield();
  deliver_to_b(requests.at(0));
  EXPECT_EQ(b->expect(event_kind::connect_request).remote.queue_pair, 17U);
}

// A peer sends a confirmation for a request that it has rejected.
TEST_F(cm_ended_requests, confirmation_does_not_repeat_the_request_of_this_side) {
  start();
  reject_request();
  const mad confirmation{.kind = mad_kind::ready, .receiver_id = requests.at(0).sender_id};
  std::array<std::byte, mad_bytes> bytes{};
  write_mad(confirmation, bytes);
  arrive(host_b, host_a, bytes);
  established();  // after it
  EXPECT_EQ(count_of(mad_kind::request), 2U);
}

// The passive side ends after its reply, and the rejection is lost.
TEST_F(cm_other_hosts, lost_rejection_is_sent_again_after_a_confirmation) {
  copies = [first = true](const mad& message) mutable {
    return message.kind == mad_kind::rejection && std::exchange(first, false) ? 0 : 1;
  };
  start({.first_repeat = std::chrono::minutes(1)});
  const endpoint_ptr active = connect();
  const endpoint_ptr passive = b->expect(event_kind::connect_request).about;
  ASSERT_EQ(b->all.accept(passive, {.local = {.queue_pair = passive_qpn}, .data = {}}), 0);
  a->expect(event_kind::connect_response);
  b->all.destroy(passive);
  ASSERT_EQ(a->all.establish(active), 0);
  a->expect(event_kind::disconnected);
}

// parity: rocev2-94
TEST_F(cm_other_hosts, repeated_messages_have_no_effect) {
  copies = [](const mad&) { return 3; };
  start({.timewait = std::chrono::minutes(1)});
  const auto [active, passive] = established();
  ASSERT_EQ(a->all.disconnect(active), 0);
  a->expect(event_kind::disconnected);
  b->expect(event_kind::disconnected);
  // Nobody learns of more.
  const auto [next_active, next_passive] = established();
  EXPECT_NE(next_passive, passive);
}

// parity: rocev2-95
TEST_F(cm_other_hosts, answer_that_takes_time_is_awaited_with_few_messages) {
  start({.first_repeat = milliseconds(1), .longest_repeat = milliseconds(1)});
  const endpoint_ptr active = connect();
  const endpoint_ptr passive = b->expect(event_kind::connect_request).about;
  while (count_of(mad_kind::mra) == 0) std::this_thread::yield();
  // The answer is under way; after it, no request is repeated for seconds.
  std::size_t requests = 0;
  do {
    requests = count_of(mad_kind::request);
    // lint: allow(sleep): requests that do not come are no event.
    std::this_thread::sleep_for(milliseconds(50));
  } while (count_of(mad_kind::request) != requests);
  // lint: allow(sleep): requests that do not come are no event.
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_EQ(count_of(mad_kind::request), requests);  // without the answer there would be 50 more
  ASSERT_EQ(b->all.accept(passive, {.local = {.queue_pair = 23}, .data = {}}), 0);
  a->expect(event_kind::connect_response);
}

// parity: rocev2-96
TEST_F(cm_other_hosts, request_without_an_answer_ends_at_its_deadline) {
  copies = [](const mad&) { return 0; };
  start({.answer_timeout = milliseconds(500), .first_repeat = milliseconds(5)});
  const endpoint_ptr active = connect();
  while (count_of(mad_kind::request) < 2) std::this_thread::yield();
  a->expect(event_kind::unreachable, -ETIMEDOUT);
  while (count_of(mad_kind::rejection) == 0) std::this_thread::yield();
}

// parity: rocev2-86
TEST_F(cm_other_hosts, message_of_another_host_has_no_effect) {
  start();
  const auto [active, passive] = established();
  // An attacker may guess the IDs of an exchange, but has another address.
  mad forged{.kind = mad_kind::disconnect};
  {
    const std::lock_guard lock(mutex);
    copies = [&](const mad& message) {
      if (message.kind == mad_kind::disconnect) forged = message;
      return message.kind == mad_kind::disconnect ? 0 : 1;
    };
  }
  ASSERT_EQ(a->all.disconnect(active), 0);
  while (count_of(mad_kind::disconnect) == 0) std::this_thread::yield();
  std::array<std::byte, mad_bytes> bytes{};
  {
    const std::lock_guard lock(mutex);
    write_mad(forged, bytes);
  }
  const std::size_t before = count_of(mad_kind::disconnected);
  address stranger = host_a;
  stranger.bytes[3] = 9;
  b->all.deliver(host_b, stranger, bytes);
  while (count_of(mad_kind::disconnected) == before) std::this_thread::yield();
  EXPECT_EQ(b->all.look(passive).state, phase::connected);
  // The message ends the exchange if it comes from the peer.
  b->all.deliver(host_b, host_a, bytes);
  b->expect(event_kind::disconnected);
}

// parity: rocev2-99
TEST_F(cm_other_hosts, open_requests_of_peers_are_bounded) {
  start({.max_half_open = 2});
  const endpoint_ptr first = connect();
  const endpoint_ptr request = b->expect(event_kind::connect_request).about;
  const endpoint_ptr second = connect();
  b->expect(event_kind::connect_request);
  const endpoint_ptr third = connect();
  // All repeat their requests; those that wait for the program get an MRA.
  while (count_of(mad_kind::request) < 6 || count_of(mad_kind::mra) < 2) std::this_thread::yield();
  pollfd readable{b->events->fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&readable, 1, 0), 0);
  ASSERT_EQ(b->all.reject(request, reject_reason::consumer, {}), 0);
  a->expect(event_kind::rejected, reject_reason::consumer);
  b->expect(event_kind::connect_request);
}

// parity: rocev2-99
TEST_F(cm_other_hosts, request_that_is_not_repeated_is_forgotten) {
  copies = [first = true](const mad& message) mutable {
    return message.kind == mad_kind::request && std::exchange(first, false) ? 1 : 0;
  };
  start({.answer_timeout = milliseconds(200)});
  const endpoint_ptr active = connect();
  const endpoint_ptr passive = b->expect(event_kind::connect_request).about;
  a->expect(event_kind::unreachable, -ETIMEDOUT);
  while (b->all.look(passive).state == phase::requested) std::this_thread::yield();
  EXPECT_EQ(b->all.accept(passive, {}), EINVAL);
}

TEST_F(cm_other_hosts, end_is_sent_before_the_call_returns) {
  start({.timewait = std::chrono::minutes(1)});
  const auto [active, passive] = established();
  ASSERT_EQ(a->all.disconnect(active), 0);
  EXPECT_EQ(count_of(mad_kind::disconnect), 1U);  // the process may exit now
  b->expect(event_kind::disconnected);
  a->expect(event_kind::disconnected);
  const auto [second, other] = established();
  b->all.destroy(other);
  EXPECT_EQ(count_of(mad_kind::disconnect), 2U);
  a->expect(event_kind::disconnected);
}

TEST_F(cm_other_hosts, host_without_a_route_is_an_address_error) {
  start();
  const endpoint_ptr ep = a->all.create(a->events, port_space::tcp);
  const address nowhere{.family = address_family::ipv4, .bytes = {203, 0, 113, 1}, .port = 80};
  ASSERT_EQ(a->all.resolve_address(ep, std::nullopt, nowhere), 0);
  a->expect(event_kind::address_error, -ENETUNREACH);
}

// parity: rocev2-107
TEST_F(cm_other_hosts, many_connections_over_a_bad_network_come_to_an_end) {
  std::mt19937 random(7);
  std::uniform_int_distribution<int> chance(0, 9);
  copies = [&](const mad&) {
    const int drawn = chance(random);
    return drawn < 2 ? 0 : drawn < 4 ? 2 : 1;
  };
  start({.timewait = std::chrono::minutes(1),
         .first_repeat = milliseconds(2),
         .longest_repeat = milliseconds(10)});
  constexpr int connections = 50;
  std::vector<endpoint_ptr> active;
  active.reserve(connections);
  for (int i = 0; i < connections; ++i) active.push_back(connect());
  std::vector<endpoint_ptr> passive;
  int established = 0;
  int replies = 0;
  while (established < connections || replies < connections) {
    pollfd both[] = {{a->events->fd(), POLLIN, 0}, {b->events->fd(), POLLIN, 0}};
    ASSERT_GT(::poll(both, 2, 20'000), 0);
    while (const auto found = b->all.take(*b->events)) {
      if (found->kind == event_kind::connect_request) {
        passive.push_back(found->about);
        ASSERT_EQ(b->all.accept(found->about, {.local = {.queue_pair = passive_qpn++}, .data = {}}),
                  0);
      } else {
        ASSERT_EQ(found->kind, event_kind::established);
        ++established;
      }
    }
    while (const auto found = a->all.take(*a->events)) {
      ASSERT_EQ(found->kind, event_kind::connect_response);
      ASSERT_EQ(a->all.establish(found->about), 0);
      ++replies;
    }
  }
  for (const endpoint_ptr& each : active) ASSERT_EQ(a->all.disconnect(each), 0);
  for (int i = 0; i < connections; ++i) {
    a->expect(event_kind::disconnected);
    b->expect(event_kind::disconnected);
  }
}

}  // namespace
}  // namespace verbena::softdev::cm::testing
