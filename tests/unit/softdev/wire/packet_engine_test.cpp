// SPDX-License-Identifier: MIT
#include "softdev/wire/engine/packet_engine.hpp"

#include <gtest/gtest.h>

#include "tests/unit/softdev/wire/lone_host.hpp"

namespace verbena::softdev::wire {
namespace {

class PacketEngine : public lone_host {
 protected:
  PacketEngine() { connect(); }
  [[nodiscard]] static packet foreign(packet what) {
    what.partition = 0x8001;
    return what;
  }
};

TEST_F(PacketEngine, packet_of_another_partition_within_a_message_is_dropped) {
  post_receives(1);
  exchange({request(operation::send_first, 0, mtu)});
  EXPECT_TRUE(exchange({foreign(request(operation::send_last, 1, 8))}).empty());
  EXPECT_TRUE(drain(mine.received()).empty());
  EXPECT_EQ(home.port().bad_partitions(), 1U);
  expect_answer(exchange({request(operation::send_last, 1, 8)}), 1, syndrome_ack, 1);
}

// parity: rocev2-87
TEST_F(PacketEngine, answer_of_another_partition_is_dropped) {
  post(opcode::send, 8);
  exchange({foreign(reply(operation::acknowledge, 0))});
  EXPECT_TRUE(drain(mine.sent()).empty());
  EXPECT_EQ(home.port().bad_partitions(), 1U);
  exchange({reply(operation::acknowledge, 0)});
  expect_completion(completion_status::success);
}

class UnreliableEngine : public lone_host {
 protected:
  UnreliableEngine() : lone_host(transport::uc) { connect(); }
};

TEST_F(UnreliableEngine, message_of_another_partition_is_counted_as_dropped) {
  post_receives(1);
  for (const operation part : {operation::send_first, operation::send_last}) {
    packet made = request(part, part == operation::send_first ? 0 : 1, mtu);
    made.opcode = make_opcode(packet_transport::uc, part);
    made.partition = 0x8001;
    exchange({made});
  }
  EXPECT_TRUE(drain(mine.received()).empty());
  EXPECT_EQ(home.port().bad_partitions(), 2U);
  EXPECT_EQ(mine.pair().diagnosis().drops.count(reason::partition_mismatch), 1U);
}

TEST(packet_engine, destroyed_engine_is_no_longer_the_path_of_its_home) {
  engine home({.process_slot = 1, .clock = +[] { return simulation::now; }});
  kept_output out;
  {
    packet_engine path(home, 1, out);
    EXPECT_EQ(home.routes().remote(), &path);
  }
  EXPECT_EQ(home.routes().remote(), nullptr);
}

}  // namespace
}  // namespace verbena::softdev::wire
