// SPDX-License-Identifier: MIT
// The sentences of all reasons: each has the check, the object and the numbers.
#include <algorithm>
#include <cstdio>
#include <iterator>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "softdev/core/reason_table.hpp"
#include "tests/unit/softdev/core/fabric.hpp"

namespace verbena::softdev::testing {
namespace {

constexpr auto rc_number = static_cast<std::uint32_t>(transport::rc);
constexpr auto ud_number = static_cast<std::uint32_t>(transport::ud);
constexpr auto write_right = static_cast<std::uint32_t>(access::remote_write);
constexpr auto read_right = static_cast<std::uint32_t>(access::remote_read);

/// A failure, and what its sentence must contain: the check, the object, and each number.
struct sample {
  failure what;
  std::vector<std::string_view> parts;
};

failure keyed(reason why) {
  return {.why = why,
          .key = 0xabc,
          .address = 0x1000,
          .length = 77,
          .base = 0x900,
          .limit = 55,
          .detail = read_right,
          .extra = write_right};
}
failure about_qp(reason why, std::uint32_t extra = 0) {
  return {.why = why, .length = 67'108'000, .limit = 7, .detail = 0x4007, .extra = extra};
}

/// Failures that the requester or the responder found.
std::vector<sample> samples_of_checks() {
  return {
      {keyed(reason::local_key_unknown), {"not registered", "lkey 0xabc", "0x1000", "77"}},
      {{.why = reason::local_key_other_domain, .key = 0xabc, .detail = 3, .extra = 4},
       {"protection domain", "lkey 0xabc", "domain 3", "to 4"}},
      {keyed(reason::local_range), {"outside", "lkey 0xabc", "0x1000", "77", "0x900", "55"}},
      {keyed(reason::local_not_mapped), {"not accessible", "lkey 0xabc", "0x1000", "77"}},
      {keyed(reason::local_access_denied),
       {"access flags", "lkey 0xabc", "has remote read", "needed: remote write"}},
      {{.why = reason::message_too_long, .length = 5000, .limit = 4096},
       {"maximum", "message", "5000", "4096"}},
      {{.why = reason::atomic_length, .length = 4}, {"needs 8", "scatter list", "has 4"}},
      {{.why = reason::no_read_depth, .detail = 0x4007, .extra = 4},
       {"max_rd_atomic 0", "queue pair 0x4007", "opcode 4", "RDMA read", "needs 1"}},
      {{.why = reason::bad_work_request, .detail = 5, .extra = rc_number},
       {"does not have", "work request", "opcode 5", "compare and swap", "transport RC"}},
      {{.why = reason::no_address, .detail = 0x4007}, {"no address handle", "queue pair 0x4007"}},
      {{.why = reason::receive_too_short, .length = 20, .limit = 16},
       {"room", "receive request", "20", "16"}},
      {keyed(reason::remote_key_unknown), {"not registered", "rkey 0xabc", "0x1000", "77"}},
      {{.why = reason::remote_key_other_domain, .key = 0xabc, .detail = 3, .extra = 4},
       {"protection domain", "rkey 0xabc", "domain 3", "to 4"}},
      {keyed(reason::remote_range), {"outside", "rkey 0xabc", "0x1000", "77", "0x900", "55"}},
      {keyed(reason::remote_not_mapped), {"not accessible", "rkey 0xabc", "0x1000", "77"}},
      {keyed(reason::remote_access_denied),
       {"access flags", "rkey 0xabc", "has remote read", "needed: remote write"}},
      {{.why = reason::qp_access_denied, .key = 0x4007, .detail = read_right, .extra = write_right},
       {"qp_access_flags", "queue pair 0x4007", "are remote read", "needed: remote write"}},
      {{.why = reason::atomic_misaligned, .address = 0x1004},
       {"not a multiple of 8", "remote address 0x1004"}},
      {{.why = reason::no_responder_resources, .detail = 0x4007},
       {"max_dest_rd_atomic 0", "queue pair 0x4007"}},
      {{.why = reason::peer_receive_too_short, .length = 20, .limit = 16},
       {"room", "peer's queue", "20", "16"}},
      {keyed(reason::peer_receive_invalid),
       {"failed their checks", "peer's receive request", "lkey 0xabc", "0x1000", "77"}},
      {{.why = reason::bad_request, .detail = 0x4007, .extra = 0x99},
       {"malformed", "queue pair 0x4007", "PSN 0x99"}},
      {{.why = reason::peer_refused, .detail = 0x4007, .extra = 0x62},
       {"refused", "queue pair 0x4007", "NAK 0x62"}},
  };
}

/// Requests without an answer, dropped messages and consequences.
std::vector<sample> samples_of_silence() {
  return {
      {about_qp(reason::peer_unknown), {"no queue pair 0x4007", "7 retries", "67108 us"}},
      {about_qp(reason::peer_not_ready, 1),
       {"state INIT", "queue pair 0x4007", "7 retries", "67108 us"}},
      {about_qp(reason::peer_not_connected, 0x4008),
       {"connected to 0x4007", "0x4008", "7 retries"}},
      {about_qp(reason::psn_mismatch, 0x99), {"sequence numbers", "sent 0x4007", "expects 0x99"}},
      {{.why = reason::peer_gone,
        .key = static_cast<std::uint32_t>(peer_loss::ended),
        .detail = 0x4007,
        .extra = 4321},
       {"is gone", "queue pair 0x4007", "pid 4321", "exited"}},
      {about_qp(reason::peer_unreachable), {"not on this host", "queue pair 0x4007", "67108 us"}},
      {{.why = reason::receiver_not_ready,
        .key = 0x4007,
        .length = 640'000,
        .detail = 6,
        .extra = 12},
       {"no receive request", "queue pair 0x4007", "6 retries", "timer code 12", "640 us"}},
      {about_qp(reason::no_acknowledgement),
       {"did not acknowledge", "queue pair 0x4007", "7 retries", "67108 us"}},
      {about_qp(reason::port_down), {"port is down", "queue pair 0x4007", "67108 us"}},
      {about_qp(reason::peer_port_down), {"port of queue pair 0x4007 is down", "67108 us"}},
      {{.why = reason::path_full, .length = 1'000'000'000, .detail = 0x4007},
       {"did not read its ring", "queue pair 0x4007", "1000 ms"}},
      {{.why = reason::lid_mismatch, .detail = 8, .extra = 9}, {"LID 8", "peer's port has 9"}},
      {{.why = reason::partition_mismatch, .detail = 0x7fff, .extra = 0x8001},
       {"partition", "P_Key 0x7fff", "0x8001"}},
      {{.why = reason::qkey_mismatch, .detail = 0x11, .extra = 0x22},
       {"Q_Key 0x11", "queue pair has 0x22"}},
      {{.why = reason::transport_mismatch, .detail = rc_number, .extra = ud_number},
       {"transport RC", "queue pair is UD"}},
      {{.why = reason::flushed_after_error, .detail = 0x4007},
       {"flushed", "failed earlier", "queue pair 0x4007"}},
      {{.why = reason::flushed_by_modify, .detail = 0x4007},
       {"flushed", "moved to the error state", "queue pair 0x4007"}},
      {{.why = reason::completion_queue_overrun, .limit = 64}, {"overran", "queue of 64 entries"}},
      {{.why = reason::injected_fault, .detail = 3}, {"fault rule 3"}},
  };
}

std::vector<sample> samples() {
  std::vector<sample> all = samples_of_checks();
  for (sample& each : samples_of_silence()) all.push_back(std::move(each));
  return all;
}

std::string sentence_of(const failure& what) {
  char text[512];
  const std::size_t length = describe(what, text, sizeof text);
  EXPECT_LT(length, sizeof text);
  return {text, length};
}

// parity: semantics-108
TEST(reason, each_sentence_has_the_check_the_object_and_the_numbers) {
  for (const auto& [what, parts] : samples()) {
    const std::string text = sentence_of(what);
    for (const std::string_view part : parts)
      EXPECT_NE(text.find(part), std::string::npos) << "no \"" << part << "\" in: " << text;
  }
}

// parity: semantics-108
TEST(reason, each_code_has_a_sample_and_a_row_in_the_table) {
  std::set<std::uint32_t> sampled;
  for (const sample& one : samples()) sampled.insert(static_cast<std::uint32_t>(one.what.why));
  for (std::uint32_t code = 1; code < 0x1000; ++code) {
    const bool is_known =
        sentence_of({.why = static_cast<reason>(code)}).find("unknown reason") == std::string::npos;
    EXPECT_EQ(sampled.contains(code), is_known) << std::hex << code;
    EXPECT_EQ(describe_code(code, nullptr, 0) != 0, is_known) << std::hex << code;
  }
}

TEST(reason, each_cause_of_a_lost_peer_has_a_text) {
  std::set<std::string> texts;
  constexpr auto last = static_cast<std::uint32_t>(peer_loss::message_lost);
  for (std::uint32_t cause = 0; cause <= last; ++cause)
    texts.insert(sentence_of({.why = reason::peer_gone, .key = cause, .detail = 1, .extra = 2}));
  EXPECT_EQ(texts.size(), last + 1);
  EXPECT_EQ(sentence_of({.why = reason::peer_gone, .key = last + 1, .detail = 0x10}),
            "the process of queue pair 0x10 is gone: the cause is unknown");
}

using explained = connected;

TEST_F(explained, request_without_answer_tells_retries_and_timeout) {
  a.qp->modify({.state = queue_pair_state::reset}, attribute::state).value();
  connect(*a.qp, connection_to(unused_number()));
  ASSERT_EQ(post(*a.qp, {.wr_id = 1}, {source.slice(0, 8)}), 0);
  run_for(5 * 67'108'864);  // timeout 14, retry_cnt 3
  const completion done = only(*a.sent);
  EXPECT_EQ(done.status, completion_status::retry_exceeded);
  EXPECT_NE(explain(done).find("; 3 retries, timeout 67108 us"), std::string::npos)
      << explain(done);
}

TEST_F(explained, read_without_depth_tells_queue_pair_and_opcode) {
  a.qp->modify({.state = queue_pair_state::reset}, attribute::state).value();
  queue_pair_attributes shallow = connection_to(b.qp->number());
  shallow.max_rd_atomic = 0;
  connect(*a.qp, shallow);
  ASSERT_EQ(post(*a.qp, {.wr_id = 1, .opcode = opcode::fetch_add}, {source.slice(0, 8)}), 0);
  const completion done = only(*a.sent);
  char number[16];
  std::snprintf(number, sizeof number, "0x%x ", a.qp->number());
  EXPECT_NE(explain(done).find(number), std::string::npos) << explain(done);
  EXPECT_NE(explain(done).find("opcode 6 (fetch and add)"), std::string::npos) << explain(done);
}

TEST_F(explained, refused_operation_tells_the_number_of_the_peer) {
  b.qp->modify({.rights = access::remote_read}, attribute::access_flags).value();
  ASSERT_EQ(post(*a.qp,
                 {.wr_id = 1,
                  .opcode = opcode::rdma_write,
                  .remote_address = target.address(),
                  .remote_key = target.key()},
                 {source.slice(0, 8)}),
            0);
  char number[64];
  std::snprintf(number, sizeof number, "qp_access_flags of queue pair 0x%x ", b.qp->number());
  const completion done = only(*a.sent);
  EXPECT_NE(explain(done).find(number), std::string::npos) << explain(done);
}

TEST_F(explained, missing_receive_tells_queue_pair_retries_and_timer) {
  ASSERT_EQ(post(*a.qp, {.wr_id = 1}, {source.slice(0, 8)}), 0);
  run_for(10'000'000);
  char text[96];
  std::snprintf(
      text, sizeof text,
      "queue pair 0x%x had no receive request posted; 3 retries, RNR timer code 12 (640 us)",
      b.qp->number());
  EXPECT_EQ(explain(only(*a.sent)), text);
}

}  // namespace
}  // namespace verbena::softdev::testing
