// SPDX-License-Identifier: MIT
// SRD between two devices: every operation on every route, long ones in parts; refusals; the end of
// a peer.
#include "tests/unit/softdev/path/host_pair.hpp"

namespace verbena::softdev::testing {
namespace {

constexpr std::size_t most = 200'000;

class delivery_routes : public ::testing::TestWithParam<route_policy> {
 protected:
  delivery_routes() {
    for (end_point* end : {pair.a, pair.b}) connect(*end->qp, connection_to(0));
  }
  int post_to(std::uint32_t qpn, const send_request& request, const sge& data,
              std::uint32_t qkey = 0x1234) {
    queue_pair& qp = *pair.a->qp;
    qp.open_send();
    const int code = qp.add_send(request, {&data, 1});
    if (code == 0)
      qp.set_send_destination({.address = {}, .qpn = qpn, .qkey = qkey, .known = true});
    qp.submit_send();
    return code;
  }
  completion run(const send_request& request, const sge& data, std::uint32_t qkey = 0x1234) {
    EXPECT_EQ(post_to(pair.b->qp->number(), request, data, qkey), 0);
    const auto done = pair.wait_for(*pair.a->sent, 1);
    return done.size() == 1 ? done.front() : completion{};
  }
  send_request rdma(opcode op, std::size_t at = 0) {
    return {.wr_id = 3,
            .opcode = op,
            .flags = signaled,
            .immediate = 77,
            .remote_address = target.address() + at,
            .remote_key = target.key()};
  }

  device_pair pair{{.route = GetParam(), .ring_bytes = 1U << 17U}, transport::srd};
  shared_buffer source{pair.left, memory_kind::ordinary, most, 1};
  shared_buffer target{pair.right, memory_kind::shareable, most, 2};
};

TEST_P(delivery_routes, long_reads_and_writes_arrive) {
  EXPECT_EQ(run(rdma(opcode::rdma_write, 5), source.slice(0, most - 9)).status,
            completion_status::success);
  EXPECT_TRUE(target.holds(1, 5, most - 9, 0) && target.holds(2, most - 4, 4, most - 4));
  const completion read = run(rdma(opcode::rdma_read, most - 4), source.slice(10, 4));
  EXPECT_EQ(read.opcode, completion_opcode::rdma_read);
  EXPECT_TRUE(source.holds(2, 10, 4, most - 4));
  EXPECT_EQ(run(rdma(opcode::rdma_read, 5), source.slice(1, most - 9)).byte_count, most - 9);
  EXPECT_TRUE(source.holds(1, 1, 9, 0) && source.holds(1, 15, most - 30, 14));
  ASSERT_EQ(post_receive(*pair.b->qp, 8, {}), 0);
  EXPECT_EQ(run(rdma(opcode::rdma_write_with_imm), source.slice(0, most)).status,
            completion_status::success);
  const completion told = only(*pair.b->received);
  EXPECT_EQ(told.immediate, 77U);
  EXPECT_TRUE(target.holds(1, 15, most - 30, 14));
}

TEST_P(delivery_routes, many_requests_in_small_rings_arrive_once_each) {
  for (std::uint64_t id = 0; id < 60; ++id)
    ASSERT_EQ(post_receive(*pair.b->qp, id, {target.slice(id * 100, 100)}), 0);
  for (std::uint64_t id = 0; id < 60; ++id) {
    send_request request = id % 3 == 2 ? rdma(opcode::rdma_write, 50'000)
                                       : send_request{.opcode = opcode::send, .flags = signaled};
    request.wr_id = id;
    const std::size_t bytes = id % 3 == 2 ? 90'000 : 100;
    ASSERT_EQ(post_to(pair.b->qp->number(), request, source.slice(id * 10, bytes)), 0);
  }
  std::vector<completion> done;
  EXPECT_TRUE(pair.until([&] {
    virtual_now += 10'000;  // parts that find no room are tried again after a while
    for (const completion& one : drain(*pair.a->sent)) done.push_back(one);
    return done.size() >= 60;
  }));
  std::uint64_t seen = 0;
  for (const completion& one : done) {
    EXPECT_EQ(one.status, completion_status::success);
    EXPECT_EQ(seen & std::uint64_t{1} << one.wr_id, 0U);
    seen |= std::uint64_t{1} << one.wr_id;
  }
  EXPECT_EQ(seen, (std::uint64_t{1} << 60U) - 1);
  const auto received = drain(*pair.b->received);
  EXPECT_EQ(received.size(), 40U);
  for (const completion& one : received) EXPECT_EQ(one.source_qp, pair.a->qp->number());
}

TEST_P(delivery_routes, refusals_come_back_and_receivers_are_waited_for) {
  EXPECT_EQ(run(rdma(opcode::rdma_write, most - 4), source.slice(0, 8)).status,
            completion_status::remote_access_error);
  EXPECT_EQ(run(rdma(opcode::rdma_read), source.slice(0, 8), 0x99).status,
            completion_status::remote_invalid_read_request);
  const send_request send{.wr_id = 1, .opcode = opcode::send, .flags = signaled};
  ASSERT_EQ(post_to(pair.b->qp->number() ^ 1U, send, source.slice(0, 8)), 0);
  EXPECT_EQ(pair.wait_for(*pair.a->sent, 1).at(0).status,
            completion_status::remote_invalid_read_request);
  ASSERT_EQ(post_to(pair.b->qp->number(), send, source.slice(100, 8)), 0);
  pair.settle();
  EXPECT_TRUE(drain(*pair.a->sent).empty());
  EXPECT_EQ(run(rdma(opcode::rdma_write), source.slice(0, 8)).wr_id, 3U);
  ASSERT_EQ(post_receive(*pair.b->qp, 8, {target.slice(0, 8)}), 0);
  pair.pass_time(1'000'000);
  EXPECT_EQ(pair.wait_for(*pair.a->sent, 1).at(0).wr_id, 1U);
  EXPECT_TRUE(target.holds(1, 0, 8, 100));
  EXPECT_EQ(pair.a->qp->state(), queue_pair_state::rts);
  EXPECT_EQ(pair.b->qp->state(), queue_pair_state::rts);
}

INSTANTIATE_TEST_SUITE_P(all, delivery_routes,
                         ::testing::Values(route_policy::automatic, route_policy::no_cma,
                                           route_policy::ring));

}  // namespace
}  // namespace verbena::softdev::testing
