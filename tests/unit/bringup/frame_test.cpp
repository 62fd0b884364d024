// SPDX-License-Identifier: MIT
#include "verbena/bringup/frame.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "verbena/base/bytes.hpp"

namespace {

using namespace verbena::bringup;
using testing::HasSubstr;
using bytes = std::vector<std::byte>;

constexpr std::size_t limit = 1000;

bytes from_text(std::string_view text) {
  const auto view = verbena::bytes_of(text);
  return {view.begin(), view.end()};
}

/// Feeds `input` in pieces of at most `piece` bytes. Returns the number of consumed bytes.
verbena::result<std::size_t> feed(frame_decoder& decoder, std::span<const std::byte> input,
                                  std::size_t piece) {
  std::size_t taken = 0;
  while (taken < input.size() && !decoder.complete()) {
    const auto room = decoder.room();
    const auto count = std::min({room.size(), piece, input.size() - taken});
    std::ranges::copy(input.subspan(taken, count), room.begin());
    taken += count;
    VERBENA_TRY_VOID(decoder.filled(count));
  }
  return taken;
}

TEST(greeting, encoded_greeting_round_trips) {
  const version_range versions{.lowest = 3, .highest = 0x1234};
  EXPECT_EQ(decode_greeting(encode_greeting(versions)).value(), versions);
}

TEST(greeting, other_protocol_returns_an_error_with_its_bytes) {
  std::array<std::byte, greeting_bytes> http;
  std::ranges::copy(verbena::bytes_of("GET / HT"), http.begin());
  const auto decoded = decode_greeting(http);
  ASSERT_FALSE(decoded);
  EXPECT_EQ(decoded.error().kind(), verbena::error_kind::protocol);
  EXPECT_THAT(decoded.error().diagnosis(), HasSubstr("47 45 54 20 2f 20 48 54"));
}

TEST(greeting, flipped_bits_change_versions_or_are_rejected) {
  const auto greeting = encode_greeting({.lowest = 3, .highest = 0x1234});
  for (std::size_t bit = 0; bit < greeting_bytes * 8; ++bit) {
    auto flipped = greeting;
    flipped[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
    const auto decoded = decode_greeting(flipped);
    EXPECT_TRUE(!decoded || (bit >= 32 && encode_greeting(*decoded) == flipped)) << bit;
  }
}

TEST(greeting, empty_version_range_is_rejected) {
  EXPECT_FALSE(decode_greeting(encode_greeting({.lowest = 2, .highest = 1})));
}

TEST(version_negotiation, highest_common_version_is_selected) {
  EXPECT_EQ(negotiate({1, 4}, {2, 9}).value(), 4);
  EXPECT_EQ(negotiate({2, 9}, {1, 4}).value(), 4);
  EXPECT_EQ(negotiate({3, 3}, {1, 3}).value(), 3);
}

TEST(version_negotiation, no_common_version_names_both_ranges) {
  const auto agreed = negotiate({1, 1}, {2, 3});
  ASSERT_FALSE(agreed);
  EXPECT_THAT(agreed.error().diagnosis(),
              HasSubstr("version 2 to 3 of the connection setup protocol, this side version 1"));
}

TEST(frame_decoder, fragments_of_any_size_are_assembled) {
  std::mt19937 random(1);
  for (const std::size_t length : {0, 1, 7, 8, 9, 999, 1000}) {
    bytes payload(length);
    for (auto& byte : payload) byte = static_cast<std::byte>(random());
    const auto encoded = encode_frame(frame_type::blob, payload);
    for (const std::size_t piece : {1, 3, 8, 4096}) {
      frame_decoder decoder(limit);
      EXPECT_EQ(feed(decoder, encoded, piece).value(), encoded.size());
      ASSERT_TRUE(decoder.complete());
      EXPECT_TRUE(decoder.room().empty());
      const auto got = decoder.take();
      EXPECT_EQ(got.type, frame_type::blob);
      EXPECT_EQ(got.payload, payload);
    }
  }
}

TEST(frame_decoder, truncated_frame_is_incomplete) {
  const auto encoded = encode_frame(frame_type::blob, from_text("seven b"));
  for (std::size_t length = 0; length < encoded.size(); ++length) {
    frame_decoder decoder(limit);
    EXPECT_EQ(feed(decoder, std::span(encoded).first(length), 5).value(), length);
    EXPECT_FALSE(decoder.complete());
    EXPECT_EQ(decoder.started(), length != 0);
    feed(decoder, std::span(encoded).subspan(length), 5).value();
    EXPECT_EQ(decoder.take().payload, from_text("seven b"));
  }
}

TEST(frame_decoder, bytes_after_the_frame_are_not_requested) {
  auto stream = encode_frame(frame_type::blob, from_text("one"));
  const auto first_size = stream.size();
  std::ranges::copy(encode_frame(frame_type::endpoint, from_text("two")),
                    std::back_inserter(stream));
  frame_decoder decoder(limit);
  EXPECT_EQ(feed(decoder, stream, 4096).value(), first_size);
  EXPECT_EQ(decoder.take().payload, from_text("one"));
  EXPECT_FALSE(decoder.started());
  feed(decoder, std::span(stream).subspan(first_size), 4096).value();
  EXPECT_EQ(decoder.type(), frame_type::endpoint);
  EXPECT_EQ(decoder.take().payload, from_text("two"));
}

struct bad_header {
  std::array<unsigned, 8> header;
  const char* words;
};

TEST(frame_decoder, invalid_header_returns_an_error) {
  for (const auto& [header, words] : {
           bad_header{{0, 0, 0, 0, 0, 0, 0, 0}, "an unknown frame"},
           bad_header{{7, 0, 0, 0, 0, 0, 0, 0}, "an unknown frame"},
           bad_header{{1, 1, 0, 0, 0, 0, 0, 0}, "an unknown frame"},
           bad_header{{1, 0, 0, 1, 0, 0, 0, 0}, "an unknown frame"},
           bad_header{{1, 0, 0, 0, 0, 0, 3, 0xe9}, "`blob` of 1001 bytes; the limit is 1000"},
           bad_header{{1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff}, "4294967295 bytes"},
           bad_header{{3, 0, 0, 0, 0, 0, 0, 65}, "`ready` of 65 bytes; the limit is 64"},
           bad_header{{4, 0, 0, 0, 0, 0, 2, 1}, "`refusal` of 513 bytes; the limit is 512"},
           bad_header{{5, 0, 0, 0, 0, 0, 4, 1}, "`offer` of 1025 bytes; the limit is 1024"},
       }) {
    bytes input;
    for (const auto value : header) input.push_back(static_cast<std::byte>(value));
    frame_decoder decoder(limit);
    const auto fed = feed(decoder, input, 8);
    ASSERT_FALSE(fed) << words;
    EXPECT_EQ(fed.error().kind(), verbena::error_kind::protocol);
    EXPECT_THAT(fed.error().diagnosis(), HasSubstr(words));
  }
}

/// Checks that the decoder stores no more than its limit, and that an accepted frame encodes to its
/// input bytes.
void check_one_input(std::span<const std::byte> input, std::mt19937& random) {
  frame_decoder decoder(limit);
  const auto fed = feed(decoder, input, 1 + random() % 64);
  if (!fed) {
    EXPECT_EQ(fed.error().kind(), verbena::error_kind::protocol);
    return;
  }
  if (!decoder.complete()) {
    EXPECT_LE(decoder.room().size(), limit);
    return;
  }
  const auto got = decoder.take();
  EXPECT_LE(got.payload.size(), limit);
  EXPECT_TRUE(std::ranges::equal(encode_frame(got.type, got.payload), input.first(*fed)));
}

TEST(frame_decoder, random_mutations_are_decoded_or_rejected) {
  std::mt19937 random(20240229);
  std::size_t accepted = 0;
  for (int round = 0; round < 20000; ++round) {
    bytes payload(random() % 64);
    for (auto& byte : payload) byte = static_cast<std::byte>(random());
    auto input = encode_frame(static_cast<frame_type>(1 + random() % 4), payload);
    for (auto mutations = random() % 4; mutations > 0; --mutations) {
      const auto where = random() % std::min<std::size_t>(input.size(), 12);
      input[where] ^= static_cast<std::byte>(1U << random() % 8);
    }
    if (random() % 4 == 0) input.resize(random() % input.size());
    frame_decoder probe(limit);
    accepted += feed(probe, input, 4096).has_value() && probe.complete() ? 1 : 0;
    check_one_input(input, random);
  }
  EXPECT_GT(accepted, 1000U);   // some mutated frames are valid
  EXPECT_LT(accepted, 19000U);  // others are invalid
}

TEST(refusal, control_characters_are_replaced_and_long_text_is_truncated) {
  EXPECT_EQ(printable_refusal(from_text("disk\x1b[2Jfull\n")), "disk?[2Jfull?");
  EXPECT_EQ(printable_refusal({}), "without a reason");
  EXPECT_EQ(printable_refusal(bytes(2000, std::byte{'a'})), std::string(512, 'a'));
}

TEST(refusal, valid_utf_8_is_kept_and_other_bytes_are_replaced) {
  const std::string letters = "größer, \u65e5\u672c, \U0001f600";
  EXPECT_EQ(printable_refusal(from_text(letters)), letters);
  EXPECT_EQ(printable_refusal(from_text("\xc2\x9b[2J")), "?[2J");  // also a control sequence
  for (const std::string_view wrong :
       {"\x9b", "\xff", "\xc3", "\xe6\x97", "\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80"})
    EXPECT_EQ(printable_refusal(from_text(wrong)), std::string(wrong.size(), '?'));
}

TEST(frame_decoder_death, violated_precondition_aborts) {
  frame_decoder decoder(limit);
  EXPECT_DEATH(static_cast<void>(decoder.filled(9)), "more bytes than room\\(\\) has");
  EXPECT_DEATH(static_cast<void>(decoder.take()), "take\\(\\) of an incomplete frame");
}

}  // namespace
