// SPDX-License-Identifier: MIT
// Failed requests: status on both sides, flushed requests and explanations.
#include <algorithm>
#include <cstdio>
#include <string_view>

#include "softdev/core/reason_table.hpp"
#include "tests/unit/softdev/core/fabric.hpp"

namespace verbena::softdev::testing {
namespace {

using failures = connected;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}
std::string hex(std::uint64_t value) {
  char text[32];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

// parity: semantics-104
TEST_F(failures, unknown_lkey_fails_with_local_protection_error) {
  ASSERT_EQ(post(*a.qp, {.wr_id = 5}, {{.address = 0x10, .length = 4, .lkey = 0xabcdef}}), 0);
  const completion done = only(*a.sent);
  EXPECT_EQ(done.status, completion_status::local_protection_error);
  EXPECT_EQ(done.vendor_error, static_cast<std::uint32_t>(reason::local_key_unknown));
  EXPECT_EQ(a.qp->state(), queue_pair_state::error);
  EXPECT_EQ(b.qp->state(), queue_pair_state::rts);
  EXPECT_TRUE(contains(explain(done), "lkey 0xabcdef is not registered"));
}

// parity: semantics-105
TEST_F(failures, local_range_and_access_flags_are_checked) {
  ASSERT_EQ(post(*a.qp, {.wr_id = 1, .opcode = opcode::rdma_write}, {source.slice(1, 4096)}), 0);
  const completion range = only(*a.sent);
  EXPECT_EQ(range.status, completion_status::local_protection_error);
  EXPECT_TRUE(
      contains(explain(range), hex(source.address() + 1) + " + 4096 bytes is outside the region"));

  buffer read_only(*home, 64, access::remote_read, 4);
  ASSERT_EQ(post(*b.qp,
                 {.wr_id = 2,
                  .opcode = opcode::rdma_read,
                  .remote_address = target.address(),
                  .remote_key = target.key()},
                 {read_only.slice(0, 8)}),
            0);
  const completion rights = only(*b.sent);
  EXPECT_EQ(rights.vendor_error, static_cast<std::uint32_t>(reason::local_access_denied));
  EXPECT_TRUE(contains(explain(rights), "it has remote read; needed: local write"));
}

// parity: semantics-13
TEST_F(failures, region_of_another_pd_is_refused_on_both_sides) {
  buffer foreign(*home, 64, everything, 4, domain_id{9});
  ASSERT_EQ(post(*a.qp,
                 {.wr_id = 1,
                  .opcode = opcode::rdma_write,
                  .remote_address = foreign.address(),
                  .remote_key = foreign.key()},
                 {source.slice(0, 8)}),
            0);
  const completion remote = only(*a.sent);
  EXPECT_EQ(remote.status, completion_status::remote_access_error);
  EXPECT_TRUE(contains(explain(remote), "belongs to protection domain 9, the queue pair to 1"));
  EXPECT_TRUE(foreign.holds(4, 0, 64, 0));

  end_point& c = make();
  end_point& d = make();
  connect_pair(c, d);
  ASSERT_EQ(post(*c.qp,
                 {.wr_id = 2,
                  .opcode = opcode::rdma_write,
                  .remote_address = target.address(),
                  .remote_key = target.key()},
                 {foreign.slice(0, 8)}),
            0);
  EXPECT_EQ(only(*c.sent).status, completion_status::local_protection_error);
  EXPECT_TRUE(target.holds(2, 0, 64, 0));
}

struct remote_case {
  const char* name;
  opcode op;
  access missing;
};
class remote_access : public connected, public ::testing::WithParamInterface<remote_case> {
 protected:
  ~remote_access() override = default;
  send_request request(const buffer& where) const {
    return {.wr_id = 1,
            .opcode = GetParam().op,
            .remote_address = where.address(),
            .remote_key = where.key()};
  }
};
// parity: semantics-10
TEST_P(remote_access, region_without_access_flag_fails_with_remote_access_error) {
  buffer shut(*home, 64, everything.without(GetParam().missing), 6);
  ASSERT_EQ(post(*a.qp, request(shut), {source.slice(0, 8)}), 0);
  const completion done = only(*a.sent);
  EXPECT_EQ(done.status, completion_status::remote_access_error);
  EXPECT_EQ(done.vendor_error, static_cast<std::uint32_t>(reason::remote_access_denied));
  EXPECT_TRUE(shut.holds(6, 0, 64, 0));
  EXPECT_TRUE(source.holds(1, 0, 64, 0));
  EXPECT_EQ(b.qp->state(), queue_pair_state::error);
  EXPECT_EQ(events_of(queue_pair_event::access_error), 1U);
}
// parity: semantics-9
TEST_P(remote_access, queue_pair_without_access_flag_fails_with_invalid_request) {
  b.qp->modify({.rights = everything.without(GetParam().missing)}, attribute::access_flags).value();
  ASSERT_EQ(post(*a.qp, request(target), {source.slice(0, 8)}), 0);
  const completion done = only(*a.sent);
  EXPECT_EQ(done.status, completion_status::remote_invalid_request);
  EXPECT_EQ(done.vendor_error, static_cast<std::uint32_t>(reason::qp_access_denied));
  EXPECT_TRUE(target.holds(2, 0, 64, 0));
  EXPECT_EQ(events_of(queue_pair_event::request_error), 1U);
}
// parity: semantics-11
TEST_P(remote_access, range_beyond_the_region_fails_with_remote_access_error) {
  send_request beyond = request(target);
  beyond.remote_address += 4096;
  ASSERT_EQ(post(*a.qp, beyond, {source.slice(0, 8)}), 0);
  const completion done = only(*a.sent);
  EXPECT_EQ(done.status, completion_status::remote_access_error);
  EXPECT_TRUE(contains(explain(done), "outside the region of rkey " + hex(target.key())));
}
INSTANTIATE_TEST_SUITE_P(
    each_operation, remote_access,
    ::testing::Values(remote_case{"write", opcode::rdma_write, access::remote_write},
                      remote_case{"read", opcode::rdma_read, access::remote_read},
                      remote_case{"swap", opcode::compare_swap, access::remote_atomic},
                      remote_case{"add", opcode::fetch_add, access::remote_atomic}),
    [](const auto& chosen) { return std::string(chosen.param.name); });

// parity: semantics-12
TEST_F(failures, addresses_near_the_end_of_the_address_space_do_not_wrap) {
  for (const std::uint64_t address :
       {~std::uint64_t{0}, ~std::uint64_t{0} - 7, target.address() - 1}) {
    end_point& one = make();
    end_point& two = make();
    connect_pair(one, two);
    ASSERT_EQ(
        post(*one.qp,
             {.opcode = opcode::rdma_write, .remote_address = address, .remote_key = target.key()},
             {source.slice(0, 8)}),
        0);
    EXPECT_EQ(only(*one.sent).status, completion_status::remote_access_error);
  }
  EXPECT_TRUE(target.holds(2, 0, 4096, 0));
}

// parity: semantics-14
TEST_F(failures, deregistered_key_is_refused) {
  const std::uint32_t key = target.key();
  const std::uint64_t address = target.address();
  target.deregister();
  ASSERT_EQ(
      post(*a.qp,
           {.wr_id = 1, .opcode = opcode::rdma_write, .remote_address = address, .remote_key = key},
           {source.slice(0, 8)}),
      0);
  const completion done = only(*a.sent);
  EXPECT_EQ(done.status, completion_status::remote_access_error);
  EXPECT_TRUE(contains(explain(done), "rkey " + hex(key) + " is not registered"));
}

// parity: semantics-27
TEST_F(failures, message_longer_than_receive_buffer_fails_on_both_sides) {
  ASSERT_EQ(post_receive(*b.qp, 7, {target.slice(0, 10), target.slice(20, 5)}), 0);
  ASSERT_EQ(post_receive(*b.qp, 8, {target.slice(100, 10)}), 0);
  ASSERT_EQ(post(*b.qp, {.wr_id = 20, .opcode = opcode::rdma_write, .flags = signaled}, {}), 0);
  ASSERT_EQ(post(*a.qp, {.wr_id = 9}, {source.slice(0, 16)}), 0);
  const completion sent = only(*a.sent);
  EXPECT_EQ(sent.status, completion_status::remote_invalid_request);
  EXPECT_TRUE(contains(explain(sent),
                       "the message has 16 bytes, the receive request at the head of the peer's "
                       "queue has room for 15"));
  const auto received = drain(*b.received);
  ASSERT_EQ(received.size(), 2U);
  EXPECT_EQ(received[0].wr_id, 7U);
  EXPECT_EQ(received[0].status, completion_status::local_length_error);
  EXPECT_EQ(received[1].wr_id, 8U);
  EXPECT_EQ(received[1].status, completion_status::flushed);
  EXPECT_TRUE(target.holds(2, 0, 4096, 0));
  EXPECT_EQ(a.qp->state(), queue_pair_state::error);
  EXPECT_EQ(b.qp->state(), queue_pair_state::error);
}

// parity: semantics-30
TEST_F(failures, receive_buffer_without_local_write_fails_on_both_sides) {
  buffer shut(*home, 64, access::remote_read, 6);
  ASSERT_EQ(post_receive(*b.qp, 7, {shut.all()}), 0);
  ASSERT_EQ(post(*a.qp, {.wr_id = 9}, {source.slice(0, 16)}), 0);
  EXPECT_EQ(only(*a.sent).status, completion_status::remote_operation_error);
  const completion received = only(*b.received);
  EXPECT_EQ(received.status, completion_status::local_protection_error);
  EXPECT_EQ(received.vendor_error, static_cast<std::uint32_t>(reason::local_access_denied));
  EXPECT_TRUE(shut.holds(6, 0, 64, 0));
}

// parity: semantics-19
TEST_F(failures, misaligned_atomic_fails_with_invalid_request) {
  ASSERT_EQ(post(*a.qp,
                 {.wr_id = 1,
                  .opcode = opcode::fetch_add,
                  .remote_address = target.address() + 4,
                  .remote_key = target.key(),
                  .compare_or_add = 1},
                 {source.slice(0, 8)}),
            0);
  const completion done = only(*a.sent);
  EXPECT_EQ(done.status, completion_status::remote_invalid_request);
  EXPECT_TRUE(contains(explain(done), "is not a multiple of 8"));
  EXPECT_TRUE(target.holds(2, 0, 64, 0));
}

// parity: semantics-20
TEST_F(failures, atomic_with_aligned_iova_and_misaligned_memory_is_refused) {
  alignas(8) std::byte memory[32] = {};
  const std::uint32_t key = home->register_region({.base = memory + 4,
                                                   .length = 16,
                                                   .iova = 0,
                                                   .rights = everything,
                                                   .domain = domain_id{1}})
                                .value();
  ASSERT_EQ(post(*a.qp,
                 {.opcode = opcode::fetch_add,
                  .remote_address = 0,
                  .remote_key = key,
                  .compare_or_add = 1},
                 {source.slice(0, 8)}),
            0);
  EXPECT_EQ(only(*a.sent).status, completion_status::remote_invalid_request);
  EXPECT_TRUE(home->deregister_region(key));
}

// parity: semantics-97
TEST_F(failures, atomic_with_short_result_buffer_fails_with_length_error) {
  ASSERT_EQ(post(*a.qp,
                 {.wr_id = 1,
                  .opcode = opcode::fetch_add,
                  .remote_address = target.address(),
                  .remote_key = target.key()},
                 {source.slice(0, 4)}),
            0);
  const completion done = only(*a.sent);
  EXPECT_EQ(done.status, completion_status::local_length_error);
  EXPECT_TRUE(contains(explain(done), "needs 8 bytes"));
}

// parity: semantics-21
TEST_F(failures, rdma_reads_need_read_depth_on_both_sides) {
  end_point& c = make();
  end_point& d = make();
  auto shallow = connection_to(d.qp->number());
  shallow.max_rd_atomic = 0;
  connect(*c.qp, shallow);
  auto closed = connection_to(c.qp->number());
  connect(*d.qp, closed);
  const send_request read{
      .opcode = opcode::rdma_read, .remote_address = target.address(), .remote_key = target.key()};
  ASSERT_EQ(post(*c.qp, read, {source.slice(0, 8)}), 0);
  EXPECT_EQ(only(*c.sent).status, completion_status::local_qp_operation_error);

  end_point& e = make();
  end_point& f = make();
  connect(*e.qp, connection_to(f.qp->number()));
  closed = connection_to(e.qp->number());
  closed.max_dest_rd_atomic = 0;
  connect(*f.qp, closed);
  ASSERT_EQ(post(*e.qp, read, {source.slice(0, 8)}), 0);
  const completion done = only(*e.sent);
  EXPECT_EQ(done.status, completion_status::remote_invalid_request);
  EXPECT_EQ(done.vendor_error, static_cast<std::uint32_t>(reason::no_responder_resources));
}

// parity: semantics-75
TEST_F(failures, failure_flushes_both_queues_in_order) {
  for (std::uint64_t i = 50; i < 53; ++i) ASSERT_EQ(post_receive(*a.qp, i, {}), 0);
  a.qp->sends().open();
  ASSERT_EQ(a.qp->sends().add({.wr_id = 1, .opcode = opcode::rdma_write, .flags = signaled}, {}),
            0);
  ASSERT_EQ(a.qp->sends().add({.wr_id = 2, .opcode = opcode::rdma_write, .remote_key = 0xbad}), 0);
  const sge data = source.slice(0, 4);
  ASSERT_EQ(a.qp->sends().set_sges({&data, 1}), 0);
  ASSERT_EQ(a.qp->sends().add({.wr_id = 3, .opcode = opcode::rdma_write}, {}), 0);
  ASSERT_EQ(a.qp->sends().add({.wr_id = 4, .flags = signaled}, {}), 0);
  a.qp->sends().submit();
  const auto sent = drain(*a.sent);
  ASSERT_EQ(sent.size(), 4U);
  EXPECT_EQ(sent[0].status, completion_status::success);
  EXPECT_EQ(sent[1].status, completion_status::remote_access_error)
      << "a failure also completes unsignaled requests";
  EXPECT_EQ(sent[2].status, completion_status::flushed);
  EXPECT_EQ(sent[2].wr_id, 3U);
  EXPECT_EQ(sent[3].wr_id, 4U);
  EXPECT_TRUE(contains(explain(sent[3]),
                       "flushed, because work request 2 of the queue pair failed earlier: rkey "
                       "0xbad is not registered"));
  const auto received = drain(*a.received);
  ASSERT_EQ(received.size(), 3U);
  for (std::uint64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(received[i].wr_id, 50 + i);
    EXPECT_EQ(received[i].status, completion_status::flushed);
  }
}

// parity: semantics-77
TEST_F(failures, requests_posted_in_the_error_state_are_flushed) {
  to_error(*a.qp);
  ASSERT_EQ(post(*a.qp, {.wr_id = 1}, {source.slice(0, 4)}), 0);
  ASSERT_EQ(post_receive(*a.qp, 2, {}), 0);
  const completion sent = only(*a.sent);
  EXPECT_EQ(sent.status, completion_status::flushed);
  EXPECT_TRUE(contains(explain(sent), "was moved to the error state"));
  EXPECT_EQ(only(*a.received).status, completion_status::flushed);
}

// parity: semantics-79
TEST_F(failures, responder_failure_flushes_its_send_queue_during_progress) {
  while (home->progress()) {  // nothing is left to do after the connection
  }
  ASSERT_EQ(post(*b.qp, {.wr_id = 30}, {source.slice(0, 4)}), 0);  // waits: a has no receive
  EXPECT_TRUE(b.sent->empty());
  EXPECT_GT(home->next_deadline(), 0U);
  ASSERT_EQ(post(*a.qp, {.wr_id = 1, .opcode = opcode::rdma_write, .remote_key = 0xbad},
                 {source.slice(0, 4)}),
            0);
  EXPECT_EQ(b.qp->state(), queue_pair_state::error);
  EXPECT_EQ(home->next_deadline(), 0U);
  while (home->progress()) {
  }
  const completion flushed = only(*b.sent);
  EXPECT_EQ(flushed.wr_id, 30U);
  EXPECT_EQ(flushed.status, completion_status::flushed);
  run_for(never / 4);
  EXPECT_TRUE(b.sent->empty());
}

// parity: semantics-120
TEST_F(failures, completion_queue_overrun_stops_the_queue_pair) {
  end_point& c = make({.completions = 2});
  end_point& d = make();
  connect_pair(c, d);
  for (int i = 0; i < 3; ++i)
    ASSERT_EQ(post(*c.qp, {.opcode = opcode::rdma_write, .flags = signaled}, {}), 0);
  EXPECT_TRUE(c.sent->overrun());
  EXPECT_EQ(c.qp->state(), queue_pair_state::error);
  EXPECT_EQ(events_of(queue_pair_event::fatal), 1U);
  EXPECT_EQ(drain(*c.sent).size(), 2U);
}

// parity: semantics-31
TEST_F(failures, receive_queue_overrun_stops_the_queue_pair) {
  for (const transport kind : {transport::rc, transport::uc}) {
    const std::size_t before = events_of(queue_pair_event::fatal);
    end_point& c = make({.transport = kind});
    end_point& d = make({.completions = 2, .transport = kind});
    connect_pair(c, d);
    for (std::uint64_t i = 0; i < 4; ++i) ASSERT_EQ(post_receive(*d.qp, i, {}), 0);
    for (int i = 0; i < 3; ++i) ASSERT_EQ(post(*c.qp, {.wr_id = 1}, {}), 0);
    EXPECT_TRUE(d.received->overrun());
    EXPECT_EQ(d.qp->state(), queue_pair_state::error);
    EXPECT_EQ(events_of(queue_pair_event::fatal), before + 1);
    EXPECT_EQ(drain(*d.received).size(), 2U);
  }
}

// parity: semantics-103
TEST_F(failures, message_beyond_the_maximum_fails_with_length_error) {
  // Two elements that together exceed the maximum. Their memory is not accessed.
  const std::uint64_t length = limits::max_message_bytes;
  const std::uint32_t key = home->register_region({.base = source.data(),
                                                   .length = length,
                                                   .iova = 0,
                                                   .rights = everything,
                                                   .domain = domain_id{1}})
                                .value();
  const sge most{.address = 0, .length = limits::max_message_bytes, .lkey = key};
  for (const opcode op : {opcode::send, opcode::rdma_write, opcode::rdma_read}) {
    end_point& c = make();
    end_point& d = make();
    connect_pair(c, d);
    ASSERT_EQ(post(*c.qp, {.opcode = op}, {most, source.slice(0, 1)}), 0);
    const completion done = only(*c.sent);
    EXPECT_EQ(done.status, completion_status::local_length_error);
    EXPECT_TRUE(contains(explain(done), "the message has 1073741825 bytes"));
    EXPECT_EQ(d.qp->state(), queue_pair_state::rts);
  }
  EXPECT_TRUE(home->deregister_region(key));
}

TEST_F(failures, explanation_fits_any_capacity) {
  ASSERT_EQ(post(*a.qp, {.wr_id = 5}, {{.address = 0x10, .length = 4, .lkey = 0xabcdef}}), 0);
  ASSERT_EQ(post(*a.qp, {.wr_id = 6}, {}), 0);
  const auto done = drain(*a.sent);
  ASSERT_EQ(done.size(), 2U);
  for (const completion& one : done) {
    const std::string whole = explain(one);
    ASSERT_GT(whole.size(), 20U);
    for (std::size_t capacity = 0; capacity <= whole.size() + 1; ++capacity) {
      std::vector<char> text(capacity + 1, '#');
      EXPECT_EQ(home->explain(one.qp_num, one.wr_id, one.vendor_error, text.data(), capacity),
                whole.size());
      EXPECT_EQ(text[capacity], '#');
      if (capacity > 0) {
        EXPECT_EQ(std::string(text.data()), whole.substr(0, capacity - 1));
      }
    }
  }
  EXPECT_EQ(home->explain(done[0].qp_num + 1, 5, done[0].vendor_error, nullptr, 0), 0U);
}

TEST(reason_table, describes_exactly_the_codes_of_failures) {
  int described = 0;
  for (std::uint32_t code = 1; code < 0x1000; ++code) {
    char sentence[256];
    describe({.why = static_cast<reason>(code)}, sentence, sizeof sentence);
    const bool is_known =
        std::string_view(sentence).find("unknown reason") == std::string_view::npos;
    char lines[512];
    const std::size_t length = describe_code(code, lines, sizeof lines);
    EXPECT_EQ(length != 0, is_known) << std::hex << code;
    if (length == 0) continue;
    ++described;
    EXPECT_LT(length, sizeof lines);
    EXPECT_EQ(std::ranges::count(std::string_view(lines), '\n'), 3) << lines;
  }
  EXPECT_EQ(described, 42);
  char start[8];
  EXPECT_GT(describe_code(0x303, start, sizeof start), sizeof start);
  EXPECT_STREQ(start, "remote_");
}

}  // namespace
}  // namespace verbena::softdev::testing
