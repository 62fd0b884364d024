// SPDX-License-Identifier: MIT
#include "src/net/store_message.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "tests/unit/verbs/soft_device.hpp"
#include "verbena/base/bytes.hpp"

namespace verbena::test {
namespace {

using namespace net::detail;
using testing_support::expect_error;

blob bytes(std::string_view text) {
  const auto of = bytes_of(text);
  return {of.begin(), of.end()};
}

blob example_exchange() {
  const blob first = bytes("one");
  const blob second;
  const std::array<std::span<const std::byte>, 2> parts{first, second};
  return encode_exchange({.number = 4, .timeout_ms = 1500, .name = "table"}, parts);
}

TEST(store_message, hello_is_decoded) {
  const auto decoded = decode_request(encode(store_hello{.rank = 3, .size = 8, .name = "job"}));
  const auto& hello = std::get<store_hello>(decoded.value());
  EXPECT_EQ(hello.version, store_version);
  EXPECT_EQ(hello.rank, 3U);
  EXPECT_EQ(hello.size, 8U);
  EXPECT_EQ(hello.name, "job");
}

TEST(store_message, exchange_is_decoded) {
  const auto decoded = decode_request(example_exchange());
  const auto& exchange = std::get<store_exchange>(decoded.value());
  EXPECT_EQ(exchange.number, 4U);
  EXPECT_EQ(exchange.timeout_ms, 1500U);
  EXPECT_EQ(exchange.name, "table");
  EXPECT_EQ(exchange.parts, (blobs{bytes("one"), {}}));
}

TEST(store_message, answers_are_decoded) {
  const blob part = bytes("two");
  const std::span<const std::byte> view = part;
  const auto done = encode_done(std::span(&view, 1));
  EXPECT_EQ(done.size(), done_bytes(std::span(&view, 1)));
  EXPECT_EQ(std::get<blobs>(decode_answer(done).value()), blobs{part});
  const store_failed why{
      .why = store_failure::missing, .rank = 1, .ranks = {2, 5}, .name = "table"};
  const auto answer = decode_answer(encode(why));
  const auto& failed = std::get<store_failed>(answer.value());
  EXPECT_EQ(failed.why, why.why);
  EXPECT_EQ(failed.rank, why.rank);
  EXPECT_EQ(failed.ranks, why.ranks);
  EXPECT_EQ(failed.name, why.name);
}

TEST(store_message, departed_ranks_are_decoded) {
  const std::array<std::uint32_t, 2> ranks{7, 3};
  const auto message = encode_left(ranks);
  const auto left = decode_answer(message);
  EXPECT_EQ(std::get<store_left>(left.value()).ranks, (std::vector<std::uint32_t>{7, 3}));
  for (std::size_t length = 0; length < message.size(); ++length)
    EXPECT_FALSE(decode_answer(std::span(message).first(length))) << length;
  auto many = message;
  store_network_order(many.data() + 1, std::uint32_t{4097});
  expect_error(decode_answer(many), "more than 4096 parts or ranks");
}

TEST(store_message, agreements_are_decoded) {
  const blob part = bytes("state");
  const std::span<const std::byte> view = part;
  const store_agreement sent{.number = 3,
                             .timeout_ms = 70,
                             .kind = agreement_kind::waits,
                             .renewal = 5,
                             .awaited = {4, 2},
                             .name = "readmit"};
  const auto message = encode_agreement(sent, std::span(&view, 1));
  const auto request = decode_request(message);
  const auto& agreement = std::get<store_agreement>(request.value());
  EXPECT_EQ(agreement.number, 3U);
  EXPECT_EQ(agreement.timeout_ms, 70U);
  EXPECT_EQ(agreement.kind, agreement_kind::waits);
  EXPECT_EQ(agreement.renewal, 5U);
  EXPECT_EQ(agreement.awaited, sent.awaited);
  EXPECT_EQ(agreement.name, "readmit");
  EXPECT_EQ(agreement.parts, blobs{part});
  for (std::size_t length = 0; length < message.size(); ++length)
    EXPECT_FALSE(decode_request(std::span(message).first(length))) << length;
  auto unknown = message;
  unknown[9] = std::byte{2};
  expect_error(decode_request(unknown), "unknown entry, kind of agreement or outcome");

  const auto agreed = encode_agreed(6, std::array{3U}, std::span(&view, 1));
  const auto answer = decode_answer(agreed);
  EXPECT_EQ(agreed.size(), agreed_bytes(std::array{3U}, std::span(&view, 1)));
  EXPECT_EQ(std::get<store_agreed>(answer.value()).renewal, 6U);
  EXPECT_EQ(std::get<store_agreed>(answer.value()).ranks, std::vector{3U});
  EXPECT_EQ(std::get<store_agreed>(answer.value()).parts, blobs{part});
  for (std::size_t length = 0; length < agreed.size(); ++length)
    EXPECT_FALSE(decode_answer(std::span(agreed).first(length))) << length;
  const auto returned = decode_answer(encode_returned(std::array{6U, 1U}));
  EXPECT_EQ(std::get<store_returned>(returned.value()).ranks, (std::vector{6U, 1U}));
}

TEST(store_message, proofs_and_challenges_are_decoded) {
  store_challenge challenge;
  challenge.random[3] = std::byte{7};
  challenge.proof[31] = std::byte{9};
  const auto sent = encode(challenge);
  const auto answer = decode_answer(sent);
  EXPECT_EQ(std::get<store_challenge>(answer.value()).random, challenge.random);
  EXPECT_EQ(std::get<store_challenge>(answer.value()).proof, challenge.proof);
  const auto proof = encode(store_proof{.proof = challenge.proof});
  const auto request = decode_request(proof);
  EXPECT_EQ(std::get<store_proof>(request.value()).proof, challenge.proof);
  for (std::size_t length = 0; length < sent.size(); ++length)
    EXPECT_FALSE(decode_answer(std::span(sent).first(length))) << length;
  for (std::size_t length = 0; length < proof.size(); ++length)
    EXPECT_FALSE(decode_request(std::span(proof).first(length))) << length;
}

TEST(store_message, requests_about_values_are_decoded) {
  const blob value = bytes("value");
  const auto published = encode_publish(7, "weights", value);
  const auto publish = std::get<store_publish>(decode_request(published).value());
  EXPECT_EQ(publish.number, 7U);
  EXPECT_EQ(publish.name, "weights");
  EXPECT_EQ(publish.value, value);
  const auto withdrawn = encode(store_withdraw{.number = 8, .name = "weights"});
  const auto withdraw = std::get<store_withdraw>(decode_request(withdrawn).value());
  EXPECT_EQ(withdraw.number, 8U);
  EXPECT_EQ(withdraw.name, "weights");
  const auto sought =
      encode(store_find{.number = 9, .timeout_ms = 50, .rank = 3, .name = "weights"});
  const auto find = std::get<store_find>(decode_request(sought).value());
  EXPECT_EQ(find.number, 9U);
  EXPECT_EQ(find.timeout_ms, 50U);
  EXPECT_EQ(find.rank, 3U);
  EXPECT_EQ(find.name, "weights");
  for (const auto& message : {published, withdrawn, sought})
    for (std::size_t length = 0; length < message.size(); ++length)
      EXPECT_FALSE(decode_request(std::span(message).first(length))) << length;
}

TEST(store_message, numbered_answers_are_decoded) {
  const std::span<const std::byte> part;
  const auto failed = encode(store_failed{.why = store_failure::gone, .ranks = {1}, .name = "x"});
  for (const auto& answer : {encode_done(std::span(&part, 1)), failed,
                             encode_agreed(6, std::array{3U}, std::span(&part, 1))}) {
    const auto message = encode_numbered(0x01020304, answer);
    EXPECT_EQ(message.size(), answer.size() + bytes_of_number);
    const auto decoded = decode_message(message).value();
    EXPECT_EQ(decoded.number, 0x01020304U);
    EXPECT_EQ(decoded.what.index(), decode_answer(answer).value().index());
    EXPECT_EQ(decode_message(answer).value().number, 0U);
    for (std::size_t length = 0; length < message.size(); ++length)
      EXPECT_FALSE(decode_message(std::span(message).first(length))) << length;
    expect_error(decode_message(encode_numbered(0, answer)), "with the number 0");
  }
  const auto news = encode_left(std::array{2U});
  EXPECT_EQ(decode_message(news).value().number, 0U);
  expect_error(decode_message(encode_numbered(5, news)), "the number 5 has the type 3");
  expect_error(decode_message(encode_numbered(5, encode_numbered(5, failed))), "has the type 8");
}

TEST(store_message, checks_are_decoded) {
  const auto message = encode(store_check{.number = 5});
  EXPECT_EQ(std::get<store_check>(decode_request(message).value()).number, 5U);
  for (std::size_t length = 0; length < message.size(); ++length)
    EXPECT_FALSE(decode_request(std::span(message).first(length))) << length;
}

TEST(store_message, requests_with_number_0_are_refused) {
  for (const auto& message :
       {encode_exchange({.name = "x"}, {}), encode_agreement({.name = "shrink"}, {}),
        encode_publish(0, "x", {}), encode(store_withdraw{.name = "x"}),
        encode(store_find{.name = "x"}), encode(store_check{})})
    expect_error(decode_request(message), "the number of a request is 0");
}

// Processes with other versions of the library receive store_failure::other_version. Version 6
// encoded and decoded the same bytes.
TEST(store_message, hello_and_failure_of_all_versions_have_the_same_format) {
  blob hello{std::byte{1}, std::byte{6}, std::byte{0}};
  for (const std::uint32_t number : {3U, 8U}) {
    hello.resize(hello.size() + 4);
    store_network_order(hello.data() + hello.size() - 4, number);
  }
  hello.resize(hello.size() + 16 + 2 + 3);
  hello[hello.size() - 4] = std::byte{3};
  std::ranges::copy(bytes("job"), hello.end() - 3);
  EXPECT_EQ(encode(store_hello{.version = 6, .rank = 3, .size = 8, .name = "job"}), hello);
  blob refusal(12);
  refusal[0] = std::byte{2};
  refusal[1] = std::byte{9};
  EXPECT_EQ(encode(store_failed{.why = store_failure::other_version}), refusal);
}

TEST(store_message, replies_are_decoded) {
  const auto message = encode(store_reply{
      .number = 9, .outcome = value_outcome::full, .detail = 1ULL << 40U, .value = bytes("x")});
  const auto reply = std::get<store_reply>(decode_answer(message).value());
  EXPECT_EQ(reply.number, 9U);
  EXPECT_EQ(reply.outcome, value_outcome::full);
  EXPECT_EQ(reply.detail, 1ULL << 40U);
  EXPECT_EQ(reply.value, bytes("x"));
  for (std::size_t length = 0; length < message.size(); ++length)
    EXPECT_FALSE(decode_answer(std::span(message).first(length))) << length;
  auto unknown = message;
  unknown[5] = std::byte{8};
  expect_error(decode_answer(unknown), "unknown entry, kind of agreement or outcome");
}

TEST(store_message, names_and_values_beyond_the_limits_are_refused) {
  for (const auto& name : {std::string(), std::string("a\nb"), std::string("a\0b", 3)})
    expect_error(decode_request(encode_publish(1, name, {})),
                 "the name of a value is empty or has characters that are not printable");
  expect_error(decode_request(encode(store_find{.name = std::string(256, 'x')})),
               "a name of more than 255 bytes");
  expect_error(decode_request(encode_publish(1, "x", blob(max_value_bytes + 1))),
               "a value of more than 65536 bytes");
  expect_error(decode_answer(encode(store_reply{.value = blob(max_value_bytes + 1)})),
               "a value of more than 65536 bytes");
}

// The proof depends on each value that the two sides must agree on.
TEST(store_message, proof_depends_on_all_values) {
  const store_hello hello{.rank = 1, .size = 2, .name = "x"};
  const auto proof = prove("secret", "rank", hello, {});
  EXPECT_NE(prove("secret", "store", hello, {}), proof);
  EXPECT_NE(prove("other", "rank", hello, {}), proof);
  EXPECT_NE(prove("secret", "rank", hello, {std::byte{1}}), proof);
  auto changed = hello;
  changed.rank = 0;
  EXPECT_NE(prove("secret", "rank", changed, {}), proof);
  changed = hello;
  changed.size = 3;
  EXPECT_NE(prove("secret", "rank", changed, {}), proof);
  changed = hello;
  changed.entry = store_entry::rejoins;
  EXPECT_NE(prove("secret", "rank", changed, {}), proof);
  changed = hello;
  changed.name = "y";
  EXPECT_NE(prove("secret", "rank", changed, {}), proof);
  changed = hello;
  changed.random[0] = std::byte{1};
  EXPECT_NE(prove("secret", "rank", changed, {}), proof);
}

TEST(store_message, every_shorter_message_is_refused) {
  const auto whole = example_exchange();
  for (std::size_t length = 0; length < whole.size(); ++length)
    EXPECT_FALSE(decode_request(std::span(whole).first(length))) << length;
  const auto failed = encode(store_failed{.ranks = {1}, .name = "x"});
  for (std::size_t length = 0; length < failed.size(); ++length)
    EXPECT_FALSE(decode_answer(std::span(failed).first(length))) << length;
}

TEST(store_message, bytes_after_the_message_are_refused) {
  auto longer = example_exchange();
  longer.push_back({});
  expect_error(decode_request(longer), "1 extra bytes after the message");
}

TEST(store_message, counts_beyond_the_limits_are_refused) {
  auto many = example_exchange();
  const std::size_t count_at = 1 + 4 + 4 + 2 + 5;
  store_network_order(many.data() + count_at, std::uint32_t{4097});
  expect_error(decode_request(many), "more than 4096 parts or ranks");
  auto large = example_exchange();
  store_network_order(large.data() + count_at + 4, std::uint32_t{0xffff'ffff});
  expect_error(decode_request(large), "the message ends before its last value");
  expect_error(decode_request(encode(store_hello{.name = std::string(256, 'x')})),
               "a name of more than 255 bytes");
}

TEST(store_message, unknown_types_are_refused) {
  auto changed = example_exchange();
  changed[0] = std::byte{9};
  expect_error(decode_request(changed), "unknown type 9");
  expect_error(decode_answer(changed), "unknown type 9");
  auto failed = encode(store_failed{});
  failed[1] = std::byte{77};
  expect_error(decode_answer(failed), "unknown failure 77");
}

}  // namespace
}  // namespace verbena::test
