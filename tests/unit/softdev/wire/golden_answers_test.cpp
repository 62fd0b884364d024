// SPDX-License-Identifier: MIT
// Compares the responses to recorded requests with the responses of the kernel's rxe: opcode, PSN,
// syndrome and MSN. Known differences: rxe sends a sequence-error NAK after an RNR NAK. Captures
// with losses lack responses. Responses are also not compared if the time of a receive request is
// unknown.
#include <gtest/gtest.h>

#include <cstring>
#include <iterator>
#include <ostream>
#include <string_view>

#include "tests/unit/softdev/wire/lone_host.hpp"

namespace verbena::softdev::wire {
namespace {

struct golden_row {
  std::string_view origin;
  bool is_answer;
  unsigned opcode;
  std::uint32_t psn;
  bool ack_requested;
  unsigned syndrome;
  std::uint32_t msn;
  std::uint64_t offset;
  std::uint32_t length;
  std::size_t payload_bytes;
  std::uint64_t swap_or_add;
  std::uint64_t compare;
  std::uint64_t original;
};

constexpr golden_row golden_rows[] = {
#include "tests/unit/softdev/wire/golden_answers.inc"
};

/// The compared fields of a response.
struct short_answer {
  unsigned opcode;
  std::uint32_t psn;
  unsigned syndrome;
  std::uint32_t msn;
  std::uint64_t original;
  std::size_t payload_bytes;

  bool operator==(const short_answer&) const = default;
};

std::ostream& operator<<(std::ostream& to, const short_answer& what) {
  return to << std::hex << "opcode " << what.opcode << " PSN " << what.psn << " syndrome "
            << what.syndrome << " MSN " << what.msn << " original " << what.original << " bytes "
            << what.payload_bytes;
}

bool is_nak(unsigned syndrome) { return syndrome > syndrome_ack; }

class GoldenAnswers : public lone_host {
 protected:
  static constexpr std::uint8_t mtu_1024 = 3;
  static constexpr std::uint8_t mtu_4096 = 5;

  GoldenAnswers() { attributes.path_mtu = mtu_1024; }

  static std::vector<golden_row> rows_of(std::string_view origin) {
    std::vector<golden_row> rows;
    std::ranges::copy_if(golden_rows, std::back_inserter(rows),
                         [&](const golden_row& each) { return each.origin == origin; });
    return rows;
  }
  /// Returns the recorded responses that a correct responder also sends.
  static std::vector<short_answer> recorded(const std::vector<golden_row>& rows) {
    std::vector<short_answer> all;
    std::uint32_t not_ready_psn = ~0U;
    for (const golden_row& each : rows) {
      if (!each.is_answer) continue;
      if ((each.syndrome & 0xe0U) == syndrome_rnr_nak) not_ready_psn = each.psn;
      if (each.syndrome == syndrome_sequence_error && each.psn == not_ready_psn) continue;
      all.push_back(
          {each.opcode, each.psn, each.syndrome, each.msn, each.original, each.payload_bytes});
    }
    return all;
  }
  [[nodiscard]] packet packet_of(const golden_row& row) {
    packet made;
    made.opcode = static_cast<packet_opcode>(row.opcode);
    made.destination_qpn = mine.pair().number();
    made.psn = row.psn;
    made.ack_requested = row.ack_requested;
    made.remote = {target.address() + row.offset, target.key(), row.length};
    made.atomic = {target.address() + row.offset, target.key(), row.swap_or_add, row.compare};
    made.payload = std::span(peer_memory).first(row.payload_bytes);
    return made;
  }
  /// Posts the receive request that the recorded responder had. If it sent an RNR NAK, it had none.
  void prepare_receive(const std::vector<golden_row>& rows, std::size_t at) {
    const auto code = static_cast<operation>(rows[at].opcode);
    const bool takes_receive = code == operation::send_first || code == operation::send_only ||
                               code == operation::write_only_with_imm;
    if (!takes_receive || rows[at].psn != expected_) return;
    const golden_row* next = nullptr;
    for (std::size_t i = at + 1; i < rows.size() && next == nullptr; ++i)
      if (rows[i].is_answer) next = &rows[i];
    const bool not_ready = next != nullptr && next->psn == rows[at].psn &&
                           (next->syndrome & 0xe0U) == syndrome_rnr_nak;
    if (!not_ready) post_receives(1);
  }
  /// Stores the value that the recorded responder had in its memory.
  void prepare_word(const std::vector<golden_row>& rows, std::size_t at) {
    for (std::size_t i = at + 1; i < rows.size(); ++i)
      if (rows[i].is_answer && rows[i].psn == rows[at].psn) {
        std::memcpy(target.data() + rows[at].offset, &rows[i].original, sizeof rows[i].original);
        return;
      }
  }
  std::vector<short_answer> replay(const std::vector<golden_row>& rows) {
    attributes.min_rnr_timer = 12;
    std::uint32_t first = rows.front().psn;
    for (const golden_row& each : rows)
      if (!each.is_answer) first = std::min(first, each.psn);
    attributes.receive_psn = expected_ = first;
    connect();
    std::vector<short_answer> all;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (rows[i].is_answer) continue;
      prepare_receive(rows, i);
      if (static_cast<operation>(rows[i].opcode) >= operation::compare_swap) prepare_word(rows, i);
      const auto answers = exchange({packet_of(rows[i])});
      const bool refused = !answers.empty() && is_nak(answers.back().what.answer.syndrome);
      if (rows[i].psn == expected_ && !refused)
        expected_ += static_cast<operation>(rows[i].opcode) == operation::read_request
                         ? (rows[i].length + 1023) / 1024
                         : 1;
      for (const sent_packet& each : answers) all.push_back(shortened(each));
    }
    return all;
  }
  void expect_same(std::string_view origin) {
    const auto rows = rows_of(origin);
    EXPECT_EQ(replay(rows), recorded(rows));
  }
  /// Expects the recorded responses in their order. Other responses can be between them.
  void expect_all_recorded(std::string_view origin, std::size_t count = ~std::size_t{0}) {
    auto rows = rows_of(origin);
    rows.resize(std::min(count, rows.size()));
    const auto given = replay(rows);
    auto at = given.begin();
    for (const short_answer& each : recorded(rows)) {
      at = std::find(at, given.end(), each);
      ASSERT_NE(at, given.end()) << each;
      ++at;
    }
  }

 private:
  static short_answer shortened(const sent_packet& which) {
    const bool has_syndrome = which.name() != operation::read_response_middle;
    return {static_cast<unsigned>(which.what.opcode),
            which.what.psn,
            has_syndrome ? which.what.answer.syndrome : 0U,
            has_syndrome ? which.what.answer.msn : 0U,
            which.what.original,
            which.payload.size()};
  }

  std::uint32_t expected_ = 0;
};

// parity: rocev2-37
TEST_F(GoldenAnswers, send) { expect_same("rc_send"); }
// parity: rocev2-37
TEST_F(GoldenAnswers, write) { expect_same("rc_write"); }
TEST_F(GoldenAnswers, short_write) { expect_same("rc_write_lat"); }
// parity: rocev2-38
TEST_F(GoldenAnswers, write_with_pad) { expect_same("rc_pad"); }
// parity: rocev2-38
TEST_F(GoldenAnswers, write_with_immediate) {
  attributes.path_mtu = mtu_4096;
  expect_same("rstream_write_imm");
}
// parity: rocev2-37
TEST_F(GoldenAnswers, read) { expect_same("rc_read"); }
// parity: rocev2-38
TEST_F(GoldenAnswers, compare_swap) { expect_same("rc_cswap"); }
TEST_F(GoldenAnswers, fetch_add) { expect_same("rc_fadd"); }
TEST_F(GoldenAnswers, rping) { expect_same("cm_rping"); }
// parity: rocev2-43
TEST_F(GoldenAnswers, receiver_not_ready) { expect_all_recorded("rc_rnr"); }
// parity: rocev2-30
TEST_F(GoldenAnswers, lost_sends) { expect_all_recorded("loss_rc_send"); }
// parity: rocev2-30
TEST_F(GoldenAnswers, lost_writes) { expect_all_recorded("loss_rc_write"); }
// parity: rocev2-31
TEST_F(GoldenAnswers, lost_reads) {
  constexpr std::size_t rows = 32;  // the next responses belong to a request that the capture lacks
  expect_all_recorded("loss_rc_read", rows);
}

}  // namespace
}  // namespace verbena::softdev::wire
