// SPDX-License-Identifier: MIT
// A requester that executes its request itself checks what the public segment says; the responder
// checks itself. Both give the same verdict.
#include <mutex>
#include <vector>

#include "softdev/core/queue_pair.hpp"
#include "softdev/fabric/published_views.hpp"
#include "tests/unit/softdev/fabric/device_pair.hpp"

namespace verbena::softdev::testing {
namespace {

struct request_case {
  const char* name;
  opcode op = opcode::rdma_write;
  std::uint32_t length = 8;
  std::uint64_t offset = 0;
  access_flags queue_pair_rights = everything;
  access_flags region_rights = everything;
  std::uint32_t key_change = 0;
  std::uint32_t domain = 1;
  std::uint8_t read_resources = 4;
  std::uint16_t pkey = default_partition;
  std::uint32_t source_change = 0;
  verdict wanted = verdict::done;
};

class agreement : public ::testing::TestWithParam<request_case> {};

constexpr access_flags local_only = access::local_write;
const request_case cases[] = {
    {.name = "write"},
    {.name = "read", .op = opcode::rdma_read},
    {.name = "fetch_add", .op = opcode::fetch_add},
    {.name = "compare_swap", .op = opcode::compare_swap},
    {.name = "write_up_to_the_end", .length = 64},
    {.name = "write_of_zero_bytes", .length = 0, .key_change = 1},
    {.name = "write_beyond_the_end", .length = 65, .wanted = verdict::access_error},
    {.name = "read_before_the_start",
     .op = opcode::rdma_read,
     .offset = ~std::uint64_t{0},
     .wanted = verdict::access_error},
    {.name = "unknown_key", .key_change = 1, .wanted = verdict::access_error},
    {.name = "region_without_rights", .region_rights = local_only, .wanted = verdict::access_error},
    {.name = "other_domain", .domain = 2, .wanted = verdict::access_error},
    {.name = "queue_pair_without_rights",
     .op = opcode::rdma_read,
     .queue_pair_rights = access::remote_write,
     .wanted = verdict::invalid_request},
    {.name = "no_read_resources",
     .op = opcode::rdma_read,
     .read_resources = 0,
     .wanted = verdict::invalid_request},
    {.name = "misaligned_atomic",
     .op = opcode::fetch_add,
     .offset = 4,
     .wanted = verdict::invalid_request},
    {.name = "other_partition", .pkey = 0x8001, .wanted = verdict::no_answer},
    {.name = "other_source", .source_change = 1, .wanted = verdict::no_answer},
};

/// Returns the verdict of the requester before it executes `what` in the responder's memory.
response found_by_requester(device_pair& pair, const message& what) {
  const auto to = pair.left.peer_link->find(pair.right.peer_link->slot());
  EXPECT_TRUE(to && pair.until([&] { return to->state() == peer_state::paired; }));
  const active_section section = to->enter();
  EXPECT_TRUE(section);
  responder_view view;
  EXPECT_TRUE(read_queue_pair(to->segment(), *pair.a->qp, what, view));
  region_record record;
  const bool known = to->segment().find_region(what.remote_key, record) == lookup::found;
  const region_view region = view_of(record);
  return admit(view, known ? &region : nullptr, what);
}

response found_by_responder(device_pair& pair, const message& what) {
  queue_pair& target = *pair.b->qp;
  const access_epoch::guard inside(pair.right.core->epoch());
  const std::lock_guard lock(target.receive_lock());
  const response found = target.receiver().begin(what);
  if (found.outcome == verdict::done) static_cast<void>(target.receiver().interrupt(nullptr));
  return found;
}

TEST_P(agreement, of_requester_and_responder) {
  const request_case& given = GetParam();
  device_pair pair;
  pair.b = &pair.right.make({.domain = domain_id{given.domain}});
  auto at_target = connection_to(pair.a->qp->number());
  at_target.rights = given.queue_pair_rights;
  at_target.max_dest_rd_atomic = given.read_resources;
  connect(*pair.b->qp, at_target);
  connect(*pair.a->qp, connection_to(pair.b->qp->number()));
  shared_buffer target(pair.right, memory_kind::shareable, 64, 1, given.region_rights);
  const message what{.opcode = given.op,
                     .pkey = given.pkey,
                     .source_qpn = pair.a->qp->number() + given.source_change,
                     .destination_qpn = pair.b->qp->number(),
                     .psn = 100,
                     .length = given.length,
                     .remote_key = target.key() + given.key_change,
                     .remote_address = target.address() + given.offset};
  const response one = found_by_requester(pair, what);
  const response other = found_by_responder(pair, what);
  EXPECT_EQ(one.outcome, given.wanted);
  EXPECT_EQ(other.outcome, given.wanted);
  EXPECT_EQ(one.why.why, other.why.why);
  EXPECT_EQ(one.why.detail, other.why.detail);
  EXPECT_EQ(one.why.extra, other.why.extra);
  EXPECT_EQ(one.why.limit, other.why.limit);
}

INSTANTIATE_TEST_SUITE_P(verdicts, agreement, ::testing::ValuesIn(cases),
                         [](const auto& of) { return of.param.name; });

}  // namespace
}  // namespace verbena::softdev::testing
