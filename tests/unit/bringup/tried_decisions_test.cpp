// SPDX-License-Identifier: MIT
// Rows of the table of decisions that need queue pairs of the software device, and negotiations
// with peers that violate the protocol.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "tests/unit/bringup/decisions.hpp"
#include "tests/unit/bringup/peers.hpp"
#include "tests/unit/sys/fresh_process.hpp"
#include "verbena/bringup/connect_queue_pair.hpp"
#include "verbena/verbs/device_list.hpp"

namespace {

using namespace peers;
using namespace verbena;
using bringup::frame_type;
using bringup::negotiation_options;
using bringup::offer;
using bringup::probing;
using bringup::stream;
using negotiated_rc = bringup::negotiated_queue_pair<rc>;

/// One side of a negotiation, on the software device.
struct soft0_side {
  verbena::context device = open_device("soft0").value();
  protection_domain pd = device.allocate_pd().value();
  completion_queue queue = device.create_cq(16).value();

  prepared_queue_pair<rc> prepare() {
    return pd.create_qp<rc>(queue, queue, {.route = {.path_mtu = mtu::bytes_1024}}).value();
  }
  result<negotiated_rc> connect(prepared_queue_pair<rc> prepared, stream& peer,
                                const negotiation_options& options = {}) {
    return bringup::negotiate_queue_pair(
        std::move(prepared), peer, soon(), [](queue_pair<rc>&) -> result<void> { return {}; },
        options);
  }
  result<negotiated_rc> connect(stream& peer, const negotiation_options& options = {}) {
    return connect(prepare(), peer, options);
  }
  void inject_event(const char* command) const {
    ASSERT_EQ(device.provider().soft_inject_event(device.native(), command), 0);
  }
};

std::string text_of(const result<negotiated_rc>& made) {
  if (!made) return made.error().message();
  const auto& terms = made->terms.value();
  return to_string(terms.agreed, terms.ours, terms.theirs);
}

/// Connects both sides and returns the decision of `here`, or its error, as text. The negotiation
/// must succeed on both sides or fail on both.
std::string both_connect(
    soft0_side& here, soft0_side& there, const negotiation_options& options,
    const std::function<void()>& meanwhile = [] {}) {
  auto [server, client] = connected();
  auto prepared = there.prepare();
  auto prepared_here = here.prepare();
  std::optional<result<negotiated_rc>> result_there;
  meanwhile();
  std::thread other([&, &end = client] {
    result_there.emplace(there.connect(std::move(prepared), end, options));
  });
  const auto made = here.connect(std::move(prepared_here), server, options);
  other.join();
  EXPECT_EQ(made.has_value(), result_there->has_value()) << text_of(*result_there);
  return text_of(made);
}

/// Returns an offer that the library has sent.
offer valid_offer(soft0_side& of) {
  soft0_side there;
  auto [server, client] = connected();
  std::optional<result<negotiated_rc>> made;
  std::thread other([&, &end = client] { made.emplace(there.connect(end)); });
  const auto connected = of.connect(server);
  other.join();
  return connected.value().terms.value().theirs;
}

/// Negotiates with a peer that runs `peer`. Returns the decision or the error as text.
std::string result_with_peer(soft0_side& here, const std::function<void(stream&)>& peer,
                             const negotiation_options& options = {}) {
  auto [server, client] = connected();
  std::thread other([&, &end = client] { peer(end); });
  const auto made = here.connect(server, options);
  server.shut_down();
  other.join();
  return text_of(made);
}

void send_offer(stream& to, const offer& what) {
  static_cast<void>(to.exchange(frame_type::offer, what.encode(), soon()));
}
result<std::vector<std::byte>> send_verdict(stream& to, unsigned value) {
  const std::array byte{static_cast<std::byte>(value)};
  return to.exchange(frame_type::verdict, byte, soon());
}
void send_ready(stream& to) { static_cast<void>(to.exchange(frame_type::ready, {}, soon())); }

// The device's poll function. The replacement makes the second test message of the path fail.
int (*real_poll)(ibv_cq*, int, ibv_wc*) = nullptr;
thread_local int probes_sent = 0;

int poll_that_loses_large_packets(ibv_cq* queue, int count, ibv_wc* out) {
  const int found = real_poll(queue, count, out);
  for (int i = 0; i < found; ++i)
    if (out[i].opcode == IBV_WC_SEND && ++probes_sent == 2) out[i].status = IBV_WC_RETRY_EXC_ERR;
  return found;
}

}  // namespace

namespace decisions {

std::string infiniband_persona() {
  // The persona is set once per process.
  const auto other_process = [] {
    ::setenv("VERBENA_SOFTDEV_PERSONA", "infiniband", 1);
    soft0_side here;
    soft0_side there;
    std::fputs(both_connect(here, there, {.probing = probing::always}).c_str(), stderr);
  };
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT((other_process(), ::verbena::testing_support::leave_process()),
              testing::ExitedWithCode(0), "InfiniBand LID .* \\(LID\\), MTU 1024");
  return testing::Test::HasFailure() ? "" : "(LID), MTU";
}

std::string blocked_path() {
  soft0_side here;
  offer silent = valid_offer(here);
  silent.probe = {.number = queue_pair_number(0xfffff0), .first_psn = {}};
  silent.reliability.ack_delay_exponent = 0;
  return result_with_peer(here,
                          [&](stream& peer) {
                            send_offer(peer, silent);
                            const auto verdict = send_verdict(peer, 0);
                            const auto ready = peer.exchange(frame_type::ready, {}, soon());
                            EXPECT_TRUE(verdict);
                            EXPECT_EQ(ready.error().code(), ECONNABORTED)
                                << "the peer receives the failure";
                          },
                          {.probing = probing::always});
}

std::string small_packets_only() {
  soft0_side here;
  soft0_side there;
  auto& poll = here.device.native()->ops.poll_cq;
  real_poll = std::exchange(poll, &poll_that_loses_large_packets);
  probes_sent = 0;
  const std::string text = both_connect(here, there, {.probing = probing::always});
  poll = real_poll;
  return text;
}

std::string open_path() {
  soft0_side here;
  soft0_side there;
  return both_connect(here, there, {.probing = probing::always});
}

std::string port_comes_back() {
  soft0_side here;
  soft0_side there;
  std::thread repair;
  std::string text =
      both_connect(here, there, {.probing = probing::always, .port_timeout = 30s}, [&] {
        here.inject_event("port 1 down");
        repair = std::thread([&] { here.inject_event("port 1 up"); });
      });
  repair.join();
  return text;
}

std::string port_stays_down() {
  soft0_side here;
  soft0_side there;
  std::string text = both_connect(here, there, {}, [&] { here.inject_event("port 1 down"); });
  here.inject_event("port 1 up");
  return text;
}

std::string addresses_change_once() {
  soft0_side here;
  const offer offered = valid_offer(here);
  return result_with_peer(here, [&](stream& peer) {
    for (const unsigned verdict : {1, 0}) {
      send_offer(peer, offered);
      EXPECT_TRUE(send_verdict(peer, verdict));
    }
    send_ready(peer);
  });
}

std::string addresses_change_in_each_attempt() {
  soft0_side here;
  const offer offered = valid_offer(here);
  return result_with_peer(here, [&](stream& peer) {
    for (int round = 0; round < 5; ++round) {
      send_offer(peer, offered);
      EXPECT_TRUE(send_verdict(peer, 1));
    }
    EXPECT_EQ(peer.receive(soon()).error().code(), ECONNABORTED);
  });
}

std::string peer_of_version_1() {
  soft0_side here;
  soft0_side there;
  auto listening = listen();
  auto raw = raw_connection(listening.port());
  send_bytes(raw, bringup::encode_greeting({.lowest = 1, .highest = 1}));
  auto server = listening.accept(soon()).value();
  auto prepared =
      there.pd.create_qp<rc>(there.queue, there.queue, {.route = {.path_mtu = mtu::bytes_512}})
          .value();
  send_bytes(raw, bringup::encode_frame(frame_type::endpoint, prepared.endpoint().encode()));
  send_bytes(raw, bringup::encode_frame(frame_type::ready, {}));
  const auto made = here.connect(server);
  if (!made) return made.error().message();
  EXPECT_FALSE(made->terms);
  const auto set = made->queue.query(queue_pair_attribute::path_mtu).value();
  return "version " + std::to_string(server.version()) + " of the bring-up, MTU " +
         to_string(set.path_mtu().value());
}

std::string call_fails_at_peer() {
  soft0_side here;
  const offer offered = valid_offer(here);
  return result_with_peer(here, [&](stream& peer) {
    send_offer(peer, offered);
    peer.refuse("no memory");
  });
}

std::string invalid_offer() {
  soft0_side here;
  auto bytes = valid_offer(here).encode();
  bytes[4] = std::byte{9};
  return result_with_peer(here, [&](stream& peer) {
    static_cast<void>(peer.exchange(frame_type::offer, bytes, soon()));
    EXPECT_EQ(peer.receive(soon()).error().code(), ECONNABORTED);
  });
}

std::string invalid_verdict() {
  soft0_side here;
  const offer offered = valid_offer(here);
  return result_with_peer(here, [&](stream& peer) {
    send_offer(peer, offered);
    static_cast<void>(send_verdict(peer, 2));
    EXPECT_EQ(peer.receive(soon()).error().code(), ECONNABORTED);
  });
}

}  // namespace decisions

namespace {

// The offer contains the state of the port at negotiation, not at creation of the queue pair.
TEST(negotiation, port_is_queried_in_each_round) {
  soft0_side here;
  soft0_side there;
  EXPECT_THAT(both_connect(here, there, {},
                           [&] {
                             here.inject_event("port 1 down");
                             here.inject_event("gid-change");
                             here.inject_event("port 1 up");
                           }),
              testing::HasSubstr("RoCE v2"));
}

TEST(negotiation, uc_queue_pairs_are_connected) {
  soft0_side here;
  soft0_side there;
  auto [server, client] = connected();
  auto theirs = there.pd.create_qp<uc>(there.queue, there.queue).value();
  std::thread other([&, &end = client] {
    EXPECT_TRUE(
        bringup::connect_queue_pair(std::move(theirs), end, soon(), {.probing = probing::always}));
  });
  const auto made =
      bringup::connect_queue_pair(here.pd.create_qp<uc>(here.queue, here.queue).value(), server,
                                  soon(), {.probing = probing::always});
  other.join();
  EXPECT_TRUE(made) << made.error().message();
}

TEST(negotiation, agreed_values_are_set) {
  soft0_side here;
  soft0_side there;
  auto [server, client] = connected();
  std::optional<result<negotiated_rc>> result_there;
  auto theirs =
      there.pd
          .create_qp<rc>(there.queue, there.queue,
                         {.route = {.path_mtu = mtu::bytes_256}, .reliability = {.read_depth = 3}})
          .value();
  std::thread other(
      [&, &end = client] { result_there.emplace(there.connect(std::move(theirs), end)); });
  const auto made = here.connect(server).value();
  other.join();
  using attribute = queue_pair_attribute;
  const auto set = made.queue
                       .query(queue_pair_attribute_mask(attribute::path_mtu) |
                              attribute::initiator_depth | attribute::responder_resources)
                       .value();
  EXPECT_EQ(set.path_mtu(), mtu::bytes_256);
  EXPECT_EQ(set.initiator_depth(), 3);
  EXPECT_EQ(set.responder_resources(), 3);
  EXPECT_EQ(made.terms->agreed.ours.reads, 3);
  EXPECT_EQ(made.terms->ours, result_there->value().terms->theirs);
}

// The peer closes the connection after each possible number of bytes.
TEST(negotiation, peer_closing_at_any_byte_returns_econnreset) {
  soft0_side here;
  const offer offered = valid_offer(here);
  const std::array<std::byte, 1> settled{};
  auto bytes = bringup::encode_frame(frame_type::offer, offered.encode());
  const auto more = bringup::encode_frame(frame_type::verdict, settled);
  bytes.insert(bytes.end(), more.begin(), more.end());
  for (std::size_t length = 0; length <= bytes.size(); length += length < 16 ? 1 : 7) {
    auto [server, raw] = accepted_raw();
    send_bytes(raw, std::span(bytes).first(length));
    ::shutdown(raw.get(), SHUT_WR);
    const auto made = here.connect(server);
    ASSERT_FALSE(made) << length;
    EXPECT_EQ(made.error().code(), ECONNRESET) << length << ": " << made.error().message();
  }
}

}  // namespace
