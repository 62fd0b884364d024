// SPDX-License-Identifier: MIT
// Scalable reliable datagrams between queue pairs of this process, on the software device with its
// EFA persona.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/unit/verbs/loopback.hpp"
#include "tests/unit/verbs/soft_device.hpp"
#include "verbena/base/bytes.hpp"
#include "verbena/efa/completion_queue.hpp"
#include "verbena/efa/device_attributes.hpp"
#include "verbena/efa/srd.hpp"

namespace verbena {
namespace {

using testing_support::expect_error;

constexpr queue_key key(0x1111);

// The persona is read when the device is opened first.
class efa_persona : public ::testing::Environment {
  void SetUp() override { ::setenv("VERBENA_SOFTDEV_PERSONA", "efa", 1); }
};
const auto* const efa_environment = ::testing::AddGlobalTestEnvironment(new efa_persona);

// An SRD queue pair with its own completion queue and memory.
struct peer {
  explicit peer(const protection_domain& pd)
      : cq(pd.context().create_cq(64).value()),
        prepared(pd.create_qp<efa::srd>(cq, cq, {.queues = {.max_inline_data = 8}}).value()),
        endpoint(prepared.endpoint()),
        queue(std::move(prepared).activate(key).value()),
        memory(pd.allocate(8192, access::local_write | access::remote_read | access::remote_write)
                   .value()) {}

  [[nodiscard]] destination at(const address_handle& way, queue_key with = key) const {
    return way.destination(endpoint.queue_pair, with);
  }
  [[nodiscard]] std::string text(std::size_t offset, std::size_t bytes) const {
    const auto part = memory.bytes().subspan(offset, bytes);
    return {reinterpret_cast<const char*>(part.data()), part.size()};
  }
  void put(std::size_t offset, std::string_view text) const {
    std::ranges::copy(bytes_of(text), memory.bytes().subspan(offset).begin());
  }

  completion_queue cq;
  prepared_queue_pair<efa::srd> prepared;
  verbena::endpoint endpoint;
  queue_pair<efa::srd> queue;
  memory_region memory;
};

class srd_traffic : public ::testing::Test {
 protected:
  [[nodiscard]] address_handle address_handle_to(const peer& of) const {
    return pd.create_ah({.gid = of.endpoint.gid, .source_gid_index = gid_index(0)}).value();
  }

  context device = testing_support::open_soft();
  protection_domain pd = device.allocate_pd().value();
  peer a{pd}, b{pd}, c{pd};
  address_handle way = address_handle_to(b);
};

// parity: ibverbs-266
TEST_F(srd_traffic, messages_have_no_grh_and_name_the_sender) {
  ASSERT_TRUE(efa::is_efa(device));
  b.queue.post_receive({.id = 1}, b.memory.slice(0, 64)).value();
  b.queue.post_receive({.id = 2}, b.memory.slice(64, 64)).value();
  a.put(0, "hello");
  auto queue = a.queue.extended().value();
  auto first = queue.start_send();
  first.send({.id = 3}, a.memory.slice(0, 5), b.at(way));
  first.submit().value();
  const auto received = test::take(b.cq, 1).at(0);
  received.result().value();
  EXPECT_EQ(received.byte_length(), 5U);
  EXPECT_FALSE(received.has_global_route_header());
  EXPECT_EQ(received.source_queue_pair(), a.endpoint.queue_pair);
  EXPECT_EQ(b.text(0, 5), "hello");

  auto second = queue.start_send();
  second.send_with_immediate({.id = 4}, 44, inline_data(bytes_of("inline")), b.at(way));
  second.submit().value();
  const auto numbered = test::take(b.cq, 1).at(0);
  EXPECT_EQ(numbered.immediate(), 44U);
  EXPECT_EQ(b.text(64, 6), "inline");
  // Every request generates a completion, also requests that are not signaled.
  for (const auto& done : test::take(a.cq, 2)) EXPECT_TRUE(done.ok());
}

// parity: ibverbs-266
TEST_F(srd_traffic, writes_and_reads_reach_the_destination) {
  a.put(0, "to b");
  a.put(16, "to c");
  c.queue.post_receive({.id = 5}, c.memory.slice(0, 8)).value();
  auto queue = a.queue.extended().value();
  auto writes = queue.start_send();
  writes.write({.id = 1}, a.memory.slice(0, 4), b.memory.remote().slice(100, 4), b.at(way));
  writes.write_with_immediate({.id = 2}, 22, a.memory.slice(16, 4), c.memory.remote().slice(200, 4),
                              c.at(way));
  writes.submit().value();
  for (const auto& done : test::take(a.cq, 2)) done.result().value();
  EXPECT_EQ(b.text(100, 4), "to b");
  EXPECT_EQ(c.text(200, 4), "to c");
  EXPECT_EQ(test::take(c.cq, 1).at(0).immediate(), 22U);

  auto reads = queue.start_send();
  reads.read({.id = 3}, a.memory.slice(300, 4), c.memory.remote().slice(200, 4), c.at(way));
  reads.read({.id = 4}, a.memory.slice(400, 4), b.memory.remote().slice(100, 4), b.at(way));
  reads.submit().value();
  for (const auto& done : test::take(a.cq, 2)) done.result().value();
  EXPECT_EQ(a.text(300, 4), "to c");
  EXPECT_EQ(a.text(400, 4), "to b");
}

// parity: ibverbs-265
TEST_F(srd_traffic, request_with_wrong_qkey_fails_without_side_effects) {
  b.queue.post_receive({}, b.memory.slice(0, 64)).value();
  a.put(0, "hello");
  auto queue = a.queue.extended().value();
  auto batch = queue.start_send();
  batch.send({.id = 1}, a.memory.slice(0, 5), b.at(way, queue_key(0x2222)));
  batch.submit().value();
  const auto refused = test::take(a.cq, 1).at(0);
  EXPECT_FALSE(refused.ok());
  EXPECT_EQ(refused.id(), 1U);
  EXPECT_NE(a.queue.describe(refused).message().find("queue pair 0x"), std::string::npos);
  auto good = queue.start_send();
  good.send({.id = 2}, a.memory.slice(0, 5), b.at(way));
  good.submit().value();
  EXPECT_TRUE(test::take(a.cq, 1).at(0).ok());
  EXPECT_TRUE(test::take(b.cq, 1).at(0).ok());
  EXPECT_EQ(a.queue.current_state().value(), queue_pair_state::ready_to_send);
}

TEST_F(srd_traffic, sender_has_a_gid_or_an_ah_number) {
  const auto apart = device.allocate_pd().value();  // without an address handle of the sender
  const auto cq = efa::create_cq(device, 16).value();
  auto prepared = apart.create_qp<efa::srd>(cq, cq).value();
  const auto self = prepared.endpoint();
  auto receiver = std::move(prepared).activate(key).value();
  const auto memory = apart.allocate(128, access::local_write).value();
  receiver.post_receive({}, memory.slice(0, 64)).value();
  receiver.post_receive({}, memory.slice(64, 64)).value();
  auto queue = a.queue.extended().value();
  const auto send_one = [&] {
    auto batch = queue.start_send();
    batch.send({}, a.memory.slice(0, 8), way.destination(self.queue_pair, key));
    batch.submit().value();
    EXPECT_TRUE(test::take(a.cq, 1).at(0).ok());
  };
  // Passes the next completion to `look`.
  const auto receive_one = [&](auto look) {
    const auto end = deadline::after(std::chrono::seconds(20));
    for (bool seen = false; !seen && !end.expired();)
      for (const auto& done : cq.poll()) {
        ASSERT_TRUE(done.ok());
        EXPECT_EQ(done.source_queue_pair(), a.endpoint.queue_pair);
        look(done);
        seen = true;
      }
  };
  send_one();
  bool looked = false;
  receive_one([&](const lazy_completion& done) {
    looked = true;
    EXPECT_FALSE(efa::known_sender(done).has_value());
    EXPECT_EQ(cq.source_gid(done), a.endpoint.gid);
  });
  EXPECT_TRUE(looked);
  const auto back =
      apart.create_ah({.gid = a.endpoint.gid, .source_gid_index = gid_index(0)}).value();
  send_one();
  looked = false;
  receive_one([&](const lazy_completion& done) {
    looked = true;
    EXPECT_EQ(efa::known_sender(done), efa::number_of(back).value());
    EXPECT_FALSE(cq.source_gid(done).has_value());
  });
  EXPECT_TRUE(looked);
}

// The completion queue does not have the fields of InfiniBand, and need not have them.
TEST_F(srd_traffic, sender_address_of_a_message_without_grh_is_rejected) {
  const auto memory = pd.allocate(64, access::local_write).value();
  const auto cq = device.create_extended_cq(8).value();
  auto prepared = pd.create_qp<efa::srd>(cq, cq).value();
  const auto self = prepared.endpoint();
  auto receiver = std::move(prepared).activate(key).value();
  receiver.post_receive({}, memory.slice()).value();
  auto queue = a.queue.extended().value();
  auto batch = queue.start_send();
  batch.send({}, a.memory.slice(0, 8), way.destination(self.queue_pair, key));
  batch.submit().value();
  EXPECT_TRUE(test::take(a.cq, 1).at(0).ok());
  bool looked = false;
  for (const auto end = deadline::after(std::chrono::seconds(20)); !looked && !end.expired();)
    for (const auto& done : cq.poll()) {
      ASSERT_TRUE(done.ok());
      expect_error(pd.sender_address(done, port_number(1)), "has no LID");
      looked = true;
    }
  EXPECT_TRUE(looked);
}

TEST_F(srd_traffic, unsupported_transports_and_limits_are_named) {
  const auto connection = pd.create_qp<rc>(a.cq, a.cq);
  ASSERT_FALSE(connection.has_value());
  EXPECT_EQ(connection.error().kind(), error_kind::not_supported);
  const auto datagrams = pd.create_qp<ud>(a.cq, a.cq).value();
  EXPECT_EQ(datagrams.endpoint().gid, a.endpoint.gid) << "there are no LIDs";
  const auto limits = efa::query_device(device).value();
  expect_error(pd.create_qp<efa::srd>(
                   a.cq, a.cq, {.queues = {.max_inline_data = limits.max_inline_data() + 1U}}),
               "max_inline_data " + std::to_string(limits.max_inline_data() + 1) + " exceeds ");
  auto queue = a.queue.extended().value();
  auto fenced = queue.start_send();
  fenced.send({.fenced = true}, a.memory.slice(0, 8), b.at(way));
  EXPECT_EQ(fenced.submit().code(), EINVAL);
}

}  // namespace
}  // namespace verbena
