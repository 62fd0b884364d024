// SPDX-License-Identifier: MIT
// SRD between two devices: all operations on all routes, segmented requests, rejections, and the
// end of a peer.
#include <csignal>
#include <thread>

#include "tests/unit/softdev/fabric/device_pair.hpp"
#include "tests/unit/softdev/failing_allocations.hpp"

namespace verbena::softdev::testing {
namespace {

constexpr std::size_t most = 200'000;

class srd_routes : public ::testing::TestWithParam<route_policy> {
 protected:
  srd_routes() {
    for (end_point* end : {pair.a, pair.b}) connect(*end->qp, connection_to(0));
  }
  int post_to(std::uint32_t qpn, const send_request& request, const sge& data,
              std::uint32_t qkey = 0x1234) {
    return testing::post_to(*pair.a->qp, request,
                            {.address = {}, .qpn = qpn, .qkey = qkey, .known = true}, {data});
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

TEST_P(srd_routes, long_reads_and_writes_arrive) {
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
  const completion arrived = only(*pair.b->received);
  EXPECT_EQ(arrived.immediate, 77U);
  EXPECT_EQ(arrived.byte_count, most) << "also if the write was sent in parts";
  EXPECT_TRUE(target.holds(1, 15, most - 30, 14));
}

TEST_P(srd_routes, many_requests_in_small_rings_arrive_once_each) {
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
    virtual_now += 10'000;  // segments that do not fit are retried later
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

TEST_P(srd_routes, rejections_are_returned_and_sends_wait_for_receives) {
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

TEST(ring_records, srd_requests_are_decoded_whole_or_refused) {
  for (const opcode op : {opcode::send, opcode::send_with_imm, opcode::rdma_write,
                          opcode::rdma_write_with_imm, opcode::rdma_read}) {
    const message what{.opcode = op,
                       .solicited = true,
                       .attempt = 7,
                       .source_qpn = 11,
                       .destination_qpn = 12,
                       .psn = 13,
                       .immediate = 14,
                       .length = 9,
                       .remote_key = 15,
                       .qkey = 0x8765'4321,
                       .transport = transport::srd,
                       .remote_address = 0x1234'5678'9abc};
    const std::uint32_t header = records::request_bytes(what.transport, op);
    std::vector<std::byte> all(header + 10);
    std::span<std::byte> room = all;
    records::put_request(room, what);
    EXPECT_EQ(room.size(), 10U);
    const std::size_t payload = op == opcode::rdma_read ? 0 : 9;
    for (std::size_t size = 0; size <= all.size(); ++size) {
      std::span<const std::byte> rest = std::span(all).first(size);
      message taken;
      const bool decoded = records::take_request(rest, taken);
      EXPECT_EQ(decoded, size == header + payload) << size;
      if (!decoded) continue;
      EXPECT_TRUE(taken.opcode == op && taken.transport == transport::srd && taken.solicited);
      EXPECT_TRUE(taken.qkey == what.qkey && taken.remote_address == what.remote_address);
      EXPECT_TRUE(taken.attempt == 7 && taken.psn == 13 && taken.length == 9);
      EXPECT_EQ(rest.size(), payload);
    }
  }
}

struct place {
  std::uint32_t qpn = 0;
  std::uint32_t key = 0;
  std::uint64_t address = 0;
};

[[noreturn]] void serve(int pipe, const link_options& options) {
  device mine(options);
  end_point& end = mine.make({.transport = transport::srd});
  const shared_buffer memory(mine, memory_kind::ordinary, 4096, 9);
  connect(*end.qp, connection_to(0));
  send_value(pipe, place{end.qp->number(), memory.key(), memory.address()});
  for (;;) {
    mine.turn();
    std::this_thread::yield();
  }
}

TEST(srd_processes, killed_peer_fails_only_requests_to_that_peer) {
  const link_options options{.route = route_policy::ring};
  virtual_now = 1'000'000;
  device mine(options);
  end_point& end = mine.make({.transport = transport::srd});
  child other([&](int pipe) -> int { serve(pipe, options); });
  const auto there = other.read<place>();
  shared_buffer local(mine, memory_kind::ordinary, 4096, 1);
  connect(*end.qp, connection_to(0));
  const auto post_to = [&](std::uint32_t qpn, const send_request& request) {
    const datagram_destination to{.address = {}, .qpn = qpn, .qkey = 0x1234, .known = true};
    EXPECT_EQ(testing::post_to(*end.qp, request, to, {local.slice(0, 100)}), 0);
  };
  const auto wait = [&] {
    std::vector<completion> all;
    for (const auto give_up = clock::now() + test_timeout; all.empty() && clock::now() < give_up;) {
      mine.turn();
      all = drain(*end.sent);
    }
    return all.empty() ? completion{} : all.front();
  };
  send_request write{.wr_id = 1,
                     .opcode = opcode::rdma_write,
                     .flags = signaled,
                     .remote_address = there.address,
                     .remote_key = there.key};
  post_to(there.qpn, write);
  EXPECT_EQ(wait().status, completion_status::success);
  other.send(SIGSTOP);
  write.wr_id = 2;
  post_to(there.qpn, write);
  write.wr_id = 3;
  write.remote_address = local.address() + 1000;
  write.remote_key = local.key();
  post_to(end.qp->number(), write);
  EXPECT_EQ(wait().wr_id, 3U);
  other.send(SIGKILL);
  for (const std::uint64_t id : {2U, 4U}) {
    const completion lost = wait();
    EXPECT_EQ(lost.wr_id, id);
    EXPECT_EQ(lost.status, completion_status::remote_invalid_read_request);
    EXPECT_EQ(lost.vendor_error, static_cast<std::uint32_t>(reason::peer_gone));
    write.wr_id = 4;
    if (id == 2) post_to(there.qpn, write);
  }
  EXPECT_EQ(end.qp->state(), queue_pair_state::rts);
  EXPECT_TRUE(local.holds(1, 1000, 100, 0));
}

#ifdef VERBENA_FAILS_ALLOCATIONS
TEST(srd_processes, first_request_without_memory_is_tried_again) {
  std::uint32_t failing = 0;
  for (bool failed = true; failed;) {
    device_pair pair({}, transport::srd);
    for (end_point* end : {pair.a, pair.b}) connect(*end->qp, connection_to(0));
    const shared_buffer source(pair.left, memory_kind::ordinary, 64, 1);
    const shared_buffer target(pair.right, memory_kind::ordinary, 64, 2);
    const send_request request{.opcode = opcode::rdma_write,
                               .flags = signaled,
                               .remote_address = target.address(),
                               .remote_key = target.key()};
    const datagram_destination to{
        .address = {}, .qpn = pair.b->qp->number(), .qkey = 0x1234, .known = true};
    const std::vector<sge> data{source.slice(0, 64)};
    fail_allocation(++failing);
    const int posted = testing::post_to(*pair.a->qp, request, to, data);
    failed = permit_allocations() >= failing;
    ASSERT_EQ(posted, 0);
    std::vector<completion> done;
    EXPECT_TRUE(pair.until([&] {
      virtual_now += 10'000;
      for (const completion& one : drain(*pair.a->sent)) done.push_back(one);
      return !done.empty();
    }));
    ASSERT_EQ(done.size(), 1U);
    EXPECT_EQ(done.front().status, completion_status::success);
    EXPECT_TRUE(target.holds(1, 0, 64, 0));
  }
  EXPECT_GT(failing, 3U);  // the process, its place in the table, its place in the connection
}
#endif

INSTANTIATE_TEST_SUITE_P(all, srd_routes,
                         ::testing::Values(route_policy::automatic, route_policy::no_cma,
                                           route_policy::ring));

}  // namespace
}  // namespace verbena::softdev::testing
