// SPDX-License-Identifier: MIT
// SRD: each request has its own destination and is acknowledged or fails individually.
#include <algorithm>
#include <array>

#include "tests/unit/softdev/core/fabric.hpp"

namespace verbena::softdev::testing {
namespace {

constexpr end_options srd{.transport = transport::srd};
constexpr time_ns second = 1'000'000'000;

class srd_requests : public fabric {
 protected:
  srd_requests() {
    for (end_point* end : {&a, &b, &c}) connect(*end->qp, connection_to(0));
  }
  datagram_destination to(const end_point& end, std::uint32_t qkey = 0x1234) {
    return {.address = {}, .qpn = end.qp->number(), .qkey = qkey, .known = true};
  }
  int post_to(const datagram_destination& where, const send_request& request,
              const std::vector<sge>& data) {
    return testing::post_to(*a.qp, request, where, data);
  }
  send_request rdma(opcode op, std::uint64_t wr_id, std::size_t at = 0) {
    return {.wr_id = wr_id,
            .opcode = op,
            .flags = signaled,
            .immediate = 77,
            .remote_address = target.address() + at,
            .remote_key = target.key()};
  }
  completion failed(const datagram_destination& where, const send_request& request,
                    std::size_t bytes = 8) {
    EXPECT_EQ(post_to(where, request, {source.slice(0, bytes)}), 0);
    const completion got = only(*a.sent);
    EXPECT_EQ(a.qp->state(), queue_pair_state::rts);
    return got;
  }

  static constexpr send_request send{.wr_id = 1, .opcode = opcode::send, .flags = signaled};
  end_point& a = make(srd);
  end_point& b = make(srd);
  end_point& c = make(srd);
  buffer source{*home, 16384, everything, 1};
  buffer target{*home, 16384, everything, 2};
};

TEST_F(srd_requests, request_reaches_the_addressed_queue_pair) {
  for (end_point* end : {&b, &c}) {
    ASSERT_EQ(post_receive(*end->qp, 7, {target.slice(0, 8928)}), 0);
    ASSERT_EQ(post_receive(*end->qp, 8, {}), 0);
    send_request request = send;
    request.opcode = opcode::send_with_imm;
    request.immediate = 55;
    ASSERT_EQ(post_to(to(*end), request, {source.slice(100, 8928)}), 0);
    EXPECT_EQ(only(*a.sent).status, completion_status::success);
    completion got = only(*end->received);
    EXPECT_EQ(got.byte_count, 8928U);
    EXPECT_EQ(got.immediate, 55U);
    EXPECT_EQ(got.flags, completion_with_imm);
    EXPECT_EQ(got.source_qp, a.qp->number());
    EXPECT_EQ(got.source_lid, unknown_sender);
    EXPECT_TRUE(target.holds(1, 0, 8928, 100));
    ASSERT_EQ(post_to(to(*end), rdma(opcode::rdma_write_with_imm, 2, 9000),
                      {source.slice(0, 100), source.slice(300, 50)}),
              0);
    EXPECT_EQ(only(*a.sent).opcode, completion_opcode::rdma_write);
    got = only(*end->received);
    EXPECT_EQ(got.opcode, completion_opcode::receive_rdma_with_imm);
    EXPECT_EQ(got.byte_count, 150U);
    EXPECT_TRUE(target.holds(1, 9000, 100, 0) && target.holds(1, 9100, 50, 300));
  }
  ASSERT_EQ(post_to(to(a), rdma(opcode::rdma_write, 3), {source.slice(200, 64)}), 0);
  ASSERT_EQ(post_to(to(b), rdma(opcode::rdma_read, 4, 12000), {source.slice(0, 64)}), 0);
  EXPECT_EQ(drain(*a.sent).size(), 2U);
  EXPECT_TRUE(target.holds(1, 0, 64, 200) && source.holds(2, 0, 64, 12000));
  for (const opcode op : {opcode::compare_swap, opcode::fetch_add})
    EXPECT_EQ(post_to(to(b), {.opcode = op}, {source.slice(0, 8)}), EINVAL);
  EXPECT_TRUE(events.empty());
}

TEST_F(srd_requests, failed_request_reports_its_status_and_does_not_affect_others) {
  end_point& ud = make({.transport = transport::ud});
  connect(*ud.qp, connection_to(0));
  datagram_destination nobody = to(b);
  nobody.qpn = unused_number();
  EXPECT_EQ(failed(nobody, send).status, completion_status::remote_invalid_read_request);
  EXPECT_EQ(failed(to(b, 0x99), send).vendor_error,
            static_cast<std::uint32_t>(reason::qkey_mismatch));
  EXPECT_EQ(failed(to(b, 0x99), rdma(opcode::rdma_write, 2)).status,
            completion_status::remote_invalid_read_request);
  EXPECT_EQ(failed(to(ud), send).vendor_error,
            static_cast<std::uint32_t>(reason::transport_mismatch));
  EXPECT_EQ(failed({}, send).status, completion_status::local_qp_operation_error);
  EXPECT_EQ(failed(to(b), send, 8929).status, completion_status::local_length_error);
  send_request wild = rdma(opcode::rdma_read, 3);
  wild.remote_key ^= 0x100;
  EXPECT_EQ(failed(to(b), wild).status, completion_status::remote_access_error);
  EXPECT_EQ(failed(to(b), rdma(opcode::rdma_write, 4, 16380)).vendor_error,
            static_cast<std::uint32_t>(reason::remote_range));
  ASSERT_EQ(post_receive(*b.qp, 7, {target.slice(0, 10)}), 0);
  const completion too_long = failed(to(b), send, 11);
  EXPECT_EQ(too_long.status, completion_status::remote_invalid_request);
  EXPECT_NE(explain(too_long).find("11"), std::string::npos);
  // Rejected requests leave no state at the receiver.
  EXPECT_EQ(failed(to(b), send, 10).status, completion_status::success);
  EXPECT_EQ(only(*b.received).wr_id, 7U);
  EXPECT_EQ(b.qp->state(), queue_pair_state::rts);
  EXPECT_TRUE(events.empty());
}

// parity: semantics-93
TEST_F(srd_requests, receiver_not_ready_does_not_block_other_destinations) {
  ASSERT_EQ(post_receive(*c.qp, 8, {target.slice(0, 8)}), 0);
  ASSERT_EQ(post_to(to(b), send, {source.slice(0, 8)}), 0);
  send_request other = send;
  other.wr_id = 2;
  ASSERT_EQ(post_to(to(c), other, {source.slice(0, 8)}), 0);
  ASSERT_EQ(post_to(to(b), rdma(opcode::rdma_write, 3), {source.slice(0, 8)}), 0);
  auto done = drain(*a.sent);
  ASSERT_EQ(done.size(), 2U);
  EXPECT_TRUE(done[0].wr_id == 2 && done[1].wr_id == 3);
  run_for(2 * second);  // longer than the timeout of an unanswered request
  EXPECT_TRUE(drain(*a.sent).empty());
  ASSERT_EQ(post_receive(*b.qp, 7, {target.slice(0, 8)}), 0);
  run_for(second);
  EXPECT_EQ(only(*a.sent).wr_id, 1U);
  EXPECT_EQ(only(*b.received).wr_id, 7U);
  // The slots of all three requests are free again.
  for (int i = 0; i < 64; ++i)
    ASSERT_EQ(post_to(to(b), rdma(opcode::rdma_write, 4), {source.slice(0, 8)}), 0) << i;
  EXPECT_EQ(drain(*a.sent).size(), 64U);
}

TEST_F(srd_requests, retries_end_at_their_limit_or_if_unanswered) {
  end_point& limited = make(srd);
  queue_pair_attributes attributes = connection_to(0);
  attributes.rnr_retry = 2;
  to_init(*limited.qp, attributes);
  to_rtr(*limited.qp, attributes);
  attributes.state = queue_pair_state::rts;
  ASSERT_TRUE(limited.qp->modify(attributes,
                                 attribute::state | attribute::send_psn | attribute::rnr_retry));
  limited.qp->sends().open();
  ASSERT_EQ(limited.qp->sends().add(send, {}), 0);
  limited.qp->sends().set_destination(to(b));
  limited.qp->sends().submit();
  run_for(second / 100);
  EXPECT_EQ(only(*limited.sent).status, completion_status::rnr_retry_exceeded);
  end_point& late = make(srd);
  to_init(*late.qp, connection_to(0));
  ASSERT_EQ(post_to(to(late), rdma(opcode::rdma_write, 5), {source.slice(0, 8)}), 0);
  run_for(second / 2);
  EXPECT_TRUE(drain(*a.sent).empty());
  to_rtr(*late.qp, connection_to(0));
  run_for(second / 10);
  EXPECT_EQ(only(*a.sent).status, completion_status::success);
  home->port().set_up(1, false);
  ASSERT_EQ(post_to(to(b), send, {source.slice(0, 8)}), 0);
  run_for(2 * second);
  const completion lost = only(*a.sent);
  EXPECT_EQ(lost.status, completion_status::response_timeout);
  EXPECT_EQ(lost.vendor_error, static_cast<std::uint32_t>(reason::port_down));
}

TEST_F(srd_requests, flush_completes_each_request_exactly_once) {
  for (std::uint64_t id = 0; id < 6; ++id) {
    const bool waits = id % 2 == 0;
    send_request request = waits ? send : rdma(opcode::rdma_write, 0);
    request.wr_id = id;
    ASSERT_EQ(post_to(to(b), request, {source.slice(0, 8)}), 0);
  }
  EXPECT_EQ(drain(*a.sent).size(), 3U);
  to_error(*a.qp);
  const auto flushed = drain(*a.sent);
  ASSERT_EQ(flushed.size(), 3U);
  for (const completion& one : flushed) {
    EXPECT_EQ(one.status, completion_status::flushed);
    EXPECT_EQ(one.wr_id % 2, 0U);
  }
  for (int i = 0; i < 64; ++i) ASSERT_EQ(post_to(to(b), send, {}), 0) << i;
  EXPECT_EQ(drain(*a.sent).size(), 64U);
  a.qp->modify({}, attribute::state).value();
  connect(*a.qp, connection_to(0));
  ASSERT_EQ(post_to(to(b), rdma(opcode::rdma_write, 9), {source.slice(0, 8)}), 0);
  EXPECT_EQ(only(*a.sent).wr_id, 9U);
}

// parity: semantics-61
TEST_F(srd_requests, state_transitions_match_the_efa_driver) {
  end_point& d = make(srd);
  queue_pair_attributes attributes{.state = queue_pair_state::init, .port = 1};
  EXPECT_FALSE(d.qp->modify(attributes, attribute::state | attribute::pkey_index | attribute::port |
                                            attribute::access_flags));
  to_init(*d.qp, connection_to(0));
  to_rtr(*d.qp, connection_to(0));
  attributes.state = queue_pair_state::rts;
  EXPECT_FALSE(d.qp->modify(attributes, attribute::state));
  to_rts(*d.qp, connection_to(0));
  EXPECT_FALSE(d.qp->modify(attributes, attribute::state | attribute::rnr_retry));
  EXPECT_EQ(d.qp->query().rnr_retry, 7);
}

}  // namespace
}  // namespace verbena::softdev::testing
