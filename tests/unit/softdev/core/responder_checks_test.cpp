// SPDX-License-Identifier: MIT
// The checks of a responder as a pure function: each one alone, and their order.
#include "softdev/core/responder_checks.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace verbena::softdev {
namespace {

constexpr domain_id pd{7};
constexpr access_flags all_remote =
    access::remote_write | access::remote_read | access::remote_atomic;

/// A request that an RC responder admits, with the views that admit it.
struct inputs {
  responder_view self{.number = 20,
                      .domain = pd,
                      .state = queue_pair_state::rts,
                      .port_is_up = true,
                      .lid = 3,
                      .pkey = default_partition,
                      .qkey = 0x1234,
                      .destination_qpn = 10,
                      .expected_psn = 100,
                      .access = all_remote,
                      .has_read_resources = true};
  region_view region{.domain = pd, .iova = 0x1000, .length = 64, .rights = all_remote};
  bool has_region = true;
  message what{.opcode = opcode::rdma_write,
               .destination_lid = 3,
               .source_qpn = 10,
               .destination_qpn = 20,
               .psn = 100,
               .length = 8,
               .remote_key = 5,
               .remote_address = 0x1000};

  [[nodiscard]] response admitted() const {
    return admit(self, has_region ? &region : nullptr, what);
  }
};

struct expected {
  verdict outcome;
  reason why;
};

/// Changes the inputs, and expects the same for each opcode of `opcodes`.
void expect(const std::vector<opcode>& opcodes, const expected& wanted, auto change) {
  for (const opcode op : opcodes) {
    inputs given;
    given.what.opcode = op;
    change(given);
    const response found = given.admitted();
    EXPECT_EQ(found.outcome, wanted.outcome) << static_cast<int>(op);
    EXPECT_EQ(found.why.why, wanted.why) << static_cast<int>(op);
  }
}

const std::vector<opcode> one_sided = {opcode::rdma_write, opcode::rdma_read, opcode::compare_swap,
                                       opcode::fetch_add};
constexpr expected admitted{verdict::done, reason::none};
constexpr expected unanswered(reason why) { return {verdict::no_answer, why}; }
constexpr expected invalid(reason why) { return {verdict::invalid_request, why}; }
constexpr expected inaccessible(reason why) { return {verdict::access_error, why}; }

TEST(responder_checks, correct_request_is_admitted) {
  expect(one_sided, admitted, [](inputs&) {});
  expect({opcode::send}, admitted, [](inputs& of) { of.has_region = false; });
}

TEST(responder_checks, request_to_another_connection_is_not_answered) {
  expect(one_sided, unanswered(reason::peer_port_down),
         [](inputs& of) { of.self.port_is_up = false; });
  expect(one_sided, unanswered(reason::lid_mismatch),
         [](inputs& of) { of.what.destination_lid = 4; });
  for (const auto state : {queue_pair_state::reset, queue_pair_state::init, queue_pair_state::error,
                           static_cast<queue_pair_state>(77)})
    expect(one_sided, unanswered(reason::peer_not_ready),
           [&](inputs& of) { of.self.state = state; });
  for (const auto kind : {transport::uc, transport::ud, transport::srd, static_cast<transport>(99)})
    expect(one_sided, unanswered(reason::transport_mismatch),
           [&](inputs& of) { of.self.transport = kind; });
  expect(one_sided, unanswered(reason::partition_mismatch),
         [](inputs& of) { of.what.pkey = 0x8001; });
  expect(one_sided, unanswered(reason::peer_not_connected),
         [](inputs& of) { of.self.destination_qpn = 11; });
  expect(one_sided, unanswered(reason::psn_mismatch), [](inputs& of) { of.what.psn = 101; });
}

TEST(responder_checks, sequence_is_checked_over_rc_only) {
  expect({opcode::rdma_write}, admitted, [](inputs& of) {
    of.self.transport = of.what.transport = transport::uc;
    of.what.psn = 101;
  });
}

TEST(responder_checks, q_key_is_checked_instead_of_the_connection) {
  const auto as_srd = [](inputs& of) {
    of.self.transport = of.what.transport = transport::srd;
    of.what.source_qpn = 12345;
    of.what.qkey = 0x1234;
  };
  expect({opcode::rdma_write, opcode::rdma_read}, admitted, as_srd);
  expect({opcode::rdma_write, opcode::rdma_read}, unanswered(reason::qkey_mismatch),
         [&](inputs& of) {
           as_srd(of);
           of.what.qkey = 0x1235;
         });
}

TEST(responder_checks, operation_that_the_queue_pair_forbids_is_refused) {
  expect(one_sided, invalid(reason::qp_access_denied), [](inputs& of) { of.self.access = {}; });
  expect({opcode::rdma_read, opcode::fetch_add}, invalid(reason::no_responder_resources),
         [](inputs& of) { of.self.has_read_resources = false; });
  expect({opcode::compare_swap, opcode::fetch_add}, invalid(reason::atomic_misaligned),
         [](inputs& of) { of.what.remote_address += 4; });
}

TEST(responder_checks, access_outside_the_region_is_refused) {
  expect(one_sided, inaccessible(reason::remote_key_unknown),
         [](inputs& of) { of.has_region = false; });
  expect(one_sided, inaccessible(reason::remote_key_other_domain),
         [](inputs& of) { of.region.domain = domain_id{8}; });
  expect(one_sided, inaccessible(reason::remote_access_denied),
         [](inputs& of) { of.region.rights = access::local_write; });
  // One byte too far, before the start, and lengths and addresses that overflow.
  for (const auto& [address, length] : std::vector<std::pair<std::uint64_t, std::uint32_t>>{
           {0x1000 + 57, 8}, {0xfff, 8}, {0x1000, 65}, {~std::uint64_t{0}, 8}, {0x1040, 1}})
    expect({opcode::rdma_write, opcode::rdma_read}, inaccessible(reason::remote_range),
           [address = address, length = length](inputs& of) {
             of.what.remote_address = address;
             of.what.length = length;
           });
}

TEST(responder_checks, access_up_to_the_end_of_the_region_is_admitted) {
  expect(one_sided, admitted, [](inputs& of) { of.what.remote_address += 56; });
  expect({opcode::rdma_write}, admitted, [](inputs& of) { of.what.length = 64; });
}

TEST(responder_checks, key_of_an_access_to_zero_bytes_is_ignored) {
  expect({opcode::rdma_write, opcode::rdma_read}, admitted, [](inputs& of) {
    of.has_region = false;
    of.what.length = 0;
  });
}

TEST(responder_checks, the_earlier_of_two_faults_is_reported) {
  expect(one_sided, unanswered(reason::psn_mismatch), [](inputs& of) {
    of.what.psn = 99;
    of.self.access = {};
  });
  expect(one_sided, invalid(reason::qp_access_denied), [](inputs& of) {
    of.self.access = {};
    of.has_region = false;
  });
  expect(one_sided, inaccessible(reason::remote_key_other_domain), [](inputs& of) {
    of.region.domain = domain_id{8};
    of.region.rights = {};
  });
}

}  // namespace
}  // namespace verbena::softdev
