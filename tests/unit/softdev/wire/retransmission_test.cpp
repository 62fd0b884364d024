// SPDX-License-Identifier: MIT
#include "softdev/wire/engine/retransmission.hpp"

#include <gtest/gtest.h>

namespace verbena::softdev::wire {
namespace {

constexpr std::uint32_t first_sent = 0xff'fff0;  // PSNs wrap around

std::uint32_t sent_after(std::uint32_t index) { return psn_plus(first_sent, index); }

TEST(retransmission, packet_that_was_sent_again_is_not_selected) {
  retransmission some;
  some.select_all(first_sent, sent_after(20));
  for (std::uint32_t i = 0; i < 10; ++i) some.note_sent(sent_after(i));
  EXPECT_FALSE(some.sends(sent_after(9)));
  EXPECT_TRUE(some.sends(sent_after(10)));
}

TEST(retransmission, earlier_packet_that_is_sent_again_selects_no_others) {
  retransmission some;
  psn_set received{.first = sent_after(4)};
  received.insert(sent_after(8));
  some.limit_to_missing(received, sent_after(20));
  for (std::uint32_t i = 4; i < 8; ++i) some.note_sent(sent_after(i));
  some.note_sent(sent_after(2));  // a READ whose response is missing
  EXPECT_FALSE(some.sends(sent_after(4)));
  EXPECT_FALSE(some.sends(sent_after(7)));
}

TEST(retransmission, selection_ends_when_its_packets_are_acknowledged) {
  retransmission some;
  some.select_all(first_sent, sent_after(20));
  some.note_sent(sent_after(3));
  some.note_acknowledged(sent_after(20));
  EXPECT_FALSE(some.sends(sent_after(10)));
  // Half of all PSNs later, the old selection must not hide that a packet was sent again.
  const std::uint32_t far = sent_after(0x90'0000);
  some.note_acknowledged(far);
  some.note_sent(far);
  EXPECT_FALSE(some.sends(far));
}

}  // namespace
}  // namespace verbena::softdev::wire
