// SPDX-License-Identifier: MIT
#include "softdev/wire/engine/response_window.hpp"

#include <gtest/gtest.h>

namespace verbena::softdev::wire {
namespace {

constexpr std::uint32_t first = 0xff'fff0;  // PSNs wrap around

std::uint32_t at(std::uint32_t index) { return psn_plus(first, index); }

class ResponseWindow : public ::testing::Test {
 protected:
  ResponseWindow() { window.begin(first); }
  response_window window;
};

TEST_F(ResponseWindow, gap_is_new_until_it_is_requested) {
  EXPECT_FALSE(window.has_new_gap());
  window.add(at(30));
  EXPECT_TRUE(window.has_new_gap());
  window.begin_requests();
  window.add(at(31));
  EXPECT_FALSE(window.has_new_gap());
  window.add(at(33));
  EXPECT_TRUE(window.has_new_gap());
}

TEST_F(ResponseWindow, only_missing_responses_before_the_last_one_are_requested) {
  window.add(at(30));
  EXPECT_TRUE(window.requests(at(0)));
  EXPECT_TRUE(window.requests(at(29)));
  EXPECT_FALSE(window.requests(at(30)));
  EXPECT_FALSE(window.requests(at(31)));
  window.note_requested_before(at(30));
  EXPECT_FALSE(window.requests(at(29)));
  EXPECT_TRUE(window.was_requested(at(29)));
  EXPECT_FALSE(window.was_requested(at(30)));
  window.restart(at(40));
  EXPECT_TRUE(window.requests(at(0)));
  EXPECT_FALSE(window.requests(at(30)));
  EXPECT_TRUE(window.requests(at(39)));
}

TEST_F(ResponseWindow, recorded_response_is_taken_once) {
  window.add(at(30));
  EXPECT_TRUE(window.contains(at(30)));
  EXPECT_FALSE(window.contains(at(30 + response_window::capacity)));
  EXPECT_TRUE(window.take(at(30)));
  EXPECT_FALSE(window.take(at(30)));
}

TEST_F(ResponseWindow, responses_beyond_it_are_expected_when_it_moves) {
  window.add(at(5));
  window.begin_requests();
  EXPECT_FALSE(window.has_room_for(at(response_window::capacity)));
  EXPECT_FALSE(window.has_new_gap());
  window.advance(at(6));
  EXPECT_TRUE(window.has_new_gap());
  EXPECT_TRUE(window.requests(at(response_window::capacity)));
  EXPECT_FALSE(window.requests(at(response_window::capacity + 1)));
}

TEST_F(ResponseWindow, gap_in_a_repeated_rest_is_new) {
  window.add(at(5));
  window.restart(at(100));
  window.note_requested_before(at(1));
  window.note_rest_requested(at(0), at(100));
  window.note_arrival(at(2));
  window.add(at(2));
  EXPECT_FALSE(window.has_new_gap()) << "possibly not of the repetition";
  window.note_arrival(at(0));
  window.advance(at(1));
  EXPECT_FALSE(window.has_new_gap());
  EXPECT_FALSE(window.requests(at(1)));
  window.note_arrival(at(5));
  EXPECT_TRUE(window.has_new_gap());
  EXPECT_TRUE(window.requests(at(1)));
  EXPECT_FALSE(window.requests(at(2)));
  EXPECT_TRUE(window.requests(at(4)));
  EXPECT_FALSE(window.requests(at(6)));
}

TEST_F(ResponseWindow, parts_that_were_requested_can_end_after_a_repetition) {
  window.add(at(30));
  window.note_requested_before(at(30));
  window.note_rest_requested(at(0), at(100));
  window.note_arrival(at(0));
  window.advance(at(1));
  EXPECT_TRUE(window.was_requested(at(29)));
  window.restart(at(100));
  EXPECT_TRUE(window.was_requested(at(29)));
  EXPECT_FALSE(window.was_requested(at(30)));
}

TEST_F(ResponseWindow, dropped_responses_after_a_repeated_rest_are_expected_when_it_is_complete) {
  window.note_dropped(at(20));
  window.note_rest_requested(at(0), at(10));
  for (std::uint32_t i = 0; i < 9; ++i) {
    window.note_arrival(at(i));
    window.advance(at(i + 1));
    EXPECT_FALSE(window.has_new_gap()) << i;
  }
  window.note_arrival(at(9));
  window.advance(at(10));
  EXPECT_TRUE(window.has_new_gap());
  EXPECT_TRUE(window.requests(at(20)));
}

TEST_F(ResponseWindow, acknowledgement_shows_that_earlier_responses_were_sent) {
  window.note_acknowledged(at(4), at(4));
  EXPECT_TRUE(window.has_new_gap());
  EXPECT_EQ(window.acknowledged(), at(4));
  EXPECT_TRUE(window.requests(at(3)));
  window.advance(at(9));
  EXPECT_EQ(window.acknowledged(), at(9));
  EXPECT_FALSE(window.requests(at(9)));
}

TEST_F(ResponseWindow, acknowledgement_of_packets_without_response_reveals_no_gap) {
  window.note_acknowledged(at(6), at(4));
  EXPECT_TRUE(window.has_new_gap());
  window.begin_requests();
  window.note_acknowledged(at(7), at(4));
  EXPECT_FALSE(window.has_new_gap());
  EXPECT_EQ(window.acknowledged(), at(7));
  window.note_acknowledged(at(12), at(11));
  EXPECT_TRUE(window.has_new_gap());
}

}  // namespace
}  // namespace verbena::softdev::wire
