// SPDX-License-Identifier: MIT
// Connecting: selected ports and GIDs, encoded endpoints, sockets, and nonexistent peers.
#include <gtest/gtest.h>

#include <future>
#include <optional>
#include <string>
#include <utility>

#include "tests/conformance/traffic.hpp"
#include "verbena/bringup/connect_queue_pair.hpp"
#include "verbena/bringup/listener.hpp"
#include "verbena/bringup/stream.hpp"

namespace verbena::conformance {
namespace {

class queue_pair_bringup : public ::testing::Test {
 protected:
  void SetUp() override {
    VERBENA_NEEDS(!is_iwarp(), "queue pairs of iWARP are connected by the connection manager");
    VERBENA_NEEDS(!is_efa(), "an EFA has no connected queue pairs");
  }
  [[nodiscard]] prepared_queue_pair<rc> prepare(
      const queue_pair_options<rc>& options = default_options()) const {
    return pd_.create_qp<rc>(queue_, queue_, options).value();
  }
  // Writes bytes through `queue` and checks the target memory.
  void expect_works(queue_pair<rc>& queue) {
    const auto memory = pd_.allocate(8192, all_access()).value();
    fill(memory.bytes().first(3000), 81);
    auto batch = queue.start_send();
    batch.write({.signaled = true}, memory.slice(0, 3000), memory.remote().slice(4096, 3000));
    batch.submit().value();
    const completion done = take_one(queue_);
    EXPECT_TRUE(done.ok()) << to_string(done);
    EXPECT_TRUE(holds(memory, 4096, memory.bytes().first(3000)));
  }

  protection_domain pd_ = tested().context.allocate_pd().value();
  completion_queue queue_ = tested().context.create_cq(64).value();
};

// parity: ibverbs-tests-70, ibverbs-168, rrddmma-66
TEST_F(queue_pair_bringup, explicit_port_and_every_gid_connect) {
  for (const auto& entry : tested().context.gid_table().value()) {
    auto options = default_options();
    options.route.port = entry.port;
    options.route.gid_index = entry.index;
    auto prepared = prepare(options);
    ASSERT_EQ(prepared.endpoint().gid, entry.gid);
    const endpoint itself = prepared.endpoint();
    auto queue = std::move(prepared).handshake(itself);
    ASSERT_TRUE(queue) << to_string(entry) << ": " << queue.error().message();
    expect_works(*queue);
  }
}

// parity: ibverbs-176
TEST_F(queue_pair_bringup, every_mtu_of_the_port_connects) {
  const auto port = tested().context.query_port(port_number(1)).value();
  for (const mtu size :
       {mtu::bytes_256, mtu::bytes_512, mtu::bytes_1024, mtu::bytes_2048, mtu::bytes_4096}) {
    if (byte_count(size) > byte_count(port.active_mtu())) break;
    auto options = default_options();
    options.route.path_mtu = size;
    auto prepared = prepare(options);
    const endpoint itself = prepared.endpoint();
    auto queue = std::move(prepared).handshake(itself).value();
    expect_works(queue);
  }
}

// parity: ibverbs-196
TEST_F(queue_pair_bringup, endpoints_decoded_from_bytes_connect) {
  auto first = prepare();
  auto second = prepare();
  const auto to_first = endpoint::decode(first.endpoint().encode()).value();
  const auto to_second = endpoint::decode(second.endpoint().encode()).value();
  EXPECT_EQ(to_first, first.endpoint());
  auto a = std::move(first).handshake(to_second).value();
  const auto b = std::move(second).handshake(to_first).value();
  EXPECT_NE(a.number(), b.number());
  expect_works(a);
}

// parity: ibverbs-177, ibverbs-199
TEST_F(queue_pair_bringup, initial_psn_near_wraparound_connects) {
  for (const std::uint32_t psn : {0xffffffU, 0xfffffeU, 0x7fffffU, 0U}) {
    auto options = default_options();
    options.first_psn = packet_sequence_number(psn);
    options.route.path_mtu = mtu::bytes_256;
    auto prepared = prepare(options);
    const endpoint itself = prepared.endpoint();
    auto queue = std::move(prepared).handshake(itself).value();
    expect_works(queue);
    expect_works(queue);
  }
}

// parity: ibverbs-190
TEST_F(queue_pair_bringup, queue_pairs_have_distinct_numbers) {
  const auto first = prepare();
  const auto second = prepare();
  EXPECT_NE(first.number(), second.number());
  EXPECT_EQ(first.endpoint().queue_pair, first.number());
}

TEST_F(queue_pair_bringup, endpoint_exchange_over_a_socket_connects) {
  auto listener = bringup::listener::open({.host = "127.0.0.1", .port = 0}).value();
  auto options = default_options();
  auto serving = std::async(std::launch::async, [&, this] {
    auto peer = listener.accept(test_deadline()).value();
    return bringup::connect_queue_pair(prepare(options), peer, test_deadline());
  });
  auto peer = bringup::stream::connect(listener.local_address(), test_deadline()).value();
  auto mine = bringup::connect_queue_pair(prepare(options), peer, test_deadline());
  auto theirs = serving.get();
  ASSERT_TRUE(mine) << mine.error().message();
  ASSERT_TRUE(theirs) << theirs.error().message();
  expect_works(*mine);
}

// RoCE resolves the address of the peer in the transition to RTR. A device may instead detect the
// fault when requests are not acknowledged.
// parity: ibverbs-tests-77, ibverbs-203
TEST_F(queue_pair_bringup, connect_to_unreachable_address_fails_with_a_reason) {
  auto options = default_options();
  options.reliability.timeout = ack_timeout::at_least(4ms);
  options.reliability.retry_count = 1;
  auto prepared = prepare(options);
  endpoint nobody = prepared.endpoint();
  VERBENA_NEEDS(!is_infiniband(), "an address of InfiniBand is a LID, which is not resolved");
  nobody.gid = parse_gid("::ffff:203.0.113.77");
  const auto index =
      std::to_string(tested().context.routable_gid(port_number(1)).value().index.value());
  auto queue = std::move(prepared).handshake(nobody);
  if (!queue) {
    const std::string words = queue.error().message();
    if (tested().context.provider().origin == provider_origin::soft) {
      EXPECT_NE(words.find("reaches this host only"), std::string::npos) << words;
      EXPECT_NE(words.find(to_string(*nobody.gid)), std::string::npos) << words;
      return;
    }
    EXPECT_NE(words.find("RoCE"), std::string::npos) << words;
    EXPECT_NE(words.find("index " + index), std::string::npos) << words;
    return;
  }
  const auto memory = pd_.allocate(4096, all_access()).value();
  auto batch = queue->start_send();
  batch.send({.signaled = true}, memory.slice(0, 8));
  batch.submit().value();
  EXPECT_EQ(take_one(queue_).status(), completion_status::retries_exceeded);
}

TEST_F(queue_pair_bringup, request_to_nonexistent_queue_pair_fails_with_retry_exceeded) {
  auto options = default_options();
  options.reliability.timeout = ack_timeout::at_least(4ms);
  options.reliability.retry_count = 1;
  auto prepared = prepare(options);
  endpoint nobody = prepared.endpoint();
  {
    const auto gone = prepare();
    nobody.queue_pair = gone.number();
  }
  auto queue = std::move(prepared).handshake(nobody).value();
  const auto memory = pd_.allocate(4096, all_access()).value();
  auto batch = queue.start_send();
  batch.send({.signaled = true}, memory.slice(0, 8));
  batch.submit().value();
  const completion done = take_one(queue_);
  EXPECT_EQ(done.status(), completion_status::retries_exceeded) << to_string(done);
}

}  // namespace
}  // namespace verbena::conformance
