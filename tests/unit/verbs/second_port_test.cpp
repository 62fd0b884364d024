// SPDX-License-Identifier: MIT
// Queries, connections and datagrams on port 2 of an adapter; port 1 is down.
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "tests/unit/verbs/loopback.hpp"
#include "tests/unit/verbs/two_ports.hpp"
#include "verbena/verbs/address_handle.hpp"
#include "verbena/verbs/device_attributes.hpp"
#include "verbena/verbs/gid_table.hpp"
#include "verbena/verbs/global_route_header.hpp"
#include "verbena/verbs/port_attributes.hpp"

namespace verbena {
namespace {

using testing_support::adapter_of_two_ports;
using testing_support::expect_error;

constexpr port_number down(1);
constexpr port_number up(2);

class second_port : public ::testing::Test {
 protected:
  adapter_of_two_ports adapter;
  context device = adapter.open();
  protection_domain pd = device.allocate_pd().value();
  completion_queue cq = device.create_cq(16).value();
  memory_region memory = pd.allocate(4096, access::local_write | access::remote_write).value();
};

TEST_F(second_port, queries_return_the_values_of_the_port) {
  EXPECT_EQ(device.query().value().port_count(), 2);
  EXPECT_EQ(device.query_port(down).value().state(), port_state::down);
  const auto port = device.query_port(up).value();
  EXPECT_EQ(port.number(), up);
  EXPECT_EQ(port.state(), port_state::active);
  const gid_entry routable = device.routable_gid(up).value();
  EXPECT_EQ(routable.port, up);
  EXPECT_GE(routable.index.value(), adapter_of_two_ports::holes);
  EXPECT_EQ(device.query_gid(up, routable.index).value().gid, routable.gid);
  EXPECT_TRUE(device.query_pkey(up, 0));
  expect_error(device.query_port(port_number(3)), "the device has 2 ports");
}

TEST_F(second_port, connection_transfers_data) {
  auto prepared =
      pd.create_qp<rc>(cq, cq, {.access = access::remote_write, .route = {.port = up}}).value();
  const auto self = prepared.endpoint();
  auto queue = std::move(prepared).handshake(self).value();
  test::fill(memory.bytes().first(64), 3);
  queue.post_write({.id = 1, .signaled = true}, memory.slice(0, 64), memory.remote().slice(64, 64))
      .value();
  EXPECT_TRUE(test::take(cq, 1).at(0).ok());
  EXPECT_TRUE(std::ranges::equal(memory.bytes().subspan(64, 64), memory.bytes().first(64)));
}

TEST_F(second_port, datagram_and_its_reply_use_the_port) {
  const queue_key key(7);
  auto prepared = pd.create_qp<ud>(cq, cq, {.route = {.port = up}}).value();
  const auto self = prepared.endpoint();
  const auto to = pd.create_ah(prepared.address_of(self).value()).value();
  auto queue = std::move(prepared).activate(key).value();
  queue.post_receive({.id = 1}, memory.slice(1024, 512)).value();
  queue.post_send({.id = 2}, memory.slice(0, 32), to.destination(queue.number(), key)).value();
  const auto arrived = test::take(cq, 1).at(0);
  ASSERT_TRUE(arrived.ok() && arrived.is_receive());
  const auto header = global_route_header::decode(memory.bytes().subspan(1024)).value();
  const address_vector reply = pd.sender_address(arrived, up, header).value();
  EXPECT_EQ(reply.port, up);
  EXPECT_EQ(reply.gid, self.gid);
  EXPECT_TRUE(pd.create_ah(reply));
  expect_error(pd.sender_address(arrived, down, header), "is not in the GID table of port 1");
}

}  // namespace
}  // namespace verbena
