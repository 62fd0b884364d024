// SPDX-License-Identifier: MIT
// The blocking level, and what all levels refuse.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <thread>
#include <vector>

#include "tests/unit/channel/channel_pair.hpp"
#include "verbena/base/exception.hpp"

namespace verbena::test {
namespace {

std::uint64_t number_in(const memory_region& region) {
  std::uint64_t value = 0;
  std::memcpy(&value, region.bytes().data(), sizeof value);
  return value;
}

TEST(blocking_channel, sends_what_the_peer_receives_on_another_thread) {
  channel_pair pair;
  auto outbox = pair.memory(100, 7);
  auto inbox = pair.memory(200);
  operation_result received;
  std::thread peer([&] { received = pair.b().receive(sink(inbox), patiently()); });
  const auto sent = pair.a().send(source(outbox), patiently(), {.immediate = 0x12345678});
  peer.join();
  ASSERT_TRUE(sent) << sent.error().message();
  ASSERT_TRUE(received) << received.error().message();
  EXPECT_EQ(received.byte_length(), 100U);
  EXPECT_EQ(received.immediate(), 0x12345678U);
  EXPECT_TRUE(all_are(inbox.bytes().first(100), 7));
  EXPECT_TRUE(all_are(inbox.bytes().subspan(100), 0));
  EXPECT_EQ(pair.a().in_flight(), 0U);
  EXPECT_EQ(pair.b().in_flight(), 0U);
}

// siw fills the first piece alone of a read, and completes it as a success.
TEST(blocking_channel, reads_into_no_more_pieces_than_the_device_fills) {
  channel_pair pair;
  const auto limits = pair.context().query().value();
  const auto most = static_cast<std::size_t>(std::clamp(
      limits.max_read_slices(), 1, static_cast<int>(pair.default_options().max_send_sge)));
  auto mine = pair.memory(64, 1);
  auto theirs = pair.memory(64, 2);
  std::vector<sink> into;
  for (std::size_t i = 0; i < most; ++i) into.emplace_back(mine, i * 4, 4);
  ASSERT_TRUE(pair.a().read(into, theirs.remote(), patiently()));
  EXPECT_TRUE(all_are(mine.bytes().first(most * 4), 2));
  into.emplace_back(mine, 32, 4);
  const auto refused = pair.a().read(into, theirs.remote(), patiently());
  EXPECT_EQ(refused.refusal(), refusal::too_many_pieces);
  EXPECT_TRUE(all_are(mine.bytes().subspan(32), 1));
}

TEST(blocking_channel, writes_and_reads_scattered_memory_of_the_peer) {
  channel_pair pair;
  auto mine = pair.memory(64, 1);
  auto theirs = pair.memory(64, 2);
  const std::array pieces{source(mine, 0, 8), source(mine, 16, 8)};
  ASSERT_TRUE(pair.a().write(pieces, theirs.remote(), patiently()));
  EXPECT_TRUE(all_are(theirs.bytes().first(16), 1));
  EXPECT_TRUE(all_are(theirs.bytes().subspan(16), 2));
  std::vector<sink> into;
  into.emplace_back(mine, 32, 4);
  into.emplace_back(mine, 40, 4);
  const auto read = pair.a().read(into, theirs.remote().slice(12), patiently());
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(read.byte_length(), 8U);
  EXPECT_TRUE(all_are(mine.bytes().subspan(32, 4), 1));
  EXPECT_TRUE(all_are(mine.bytes().subspan(40, 4), 2));
}

TEST(blocking_channel, sends_bytes_of_any_memory_inline_and_messages_without_bytes) {
  channel_pair pair;
  auto theirs = pair.memory(64);
  const std::array bytes{std::byte{9}, std::byte{9}};
  ASSERT_TRUE(pair.a().write(inline_data(bytes), theirs.remote(), patiently()));
  EXPECT_TRUE(all_are(theirs.bytes().first(2), 9));
  auto inbox = pair.memory(8);
  operation_result received;
  std::thread peer([&] { received = pair.b().receive(sink(inbox), patiently()); });
  ASSERT_TRUE(pair.a().send({}, patiently()));
  peer.join();
  EXPECT_EQ(received.byte_length(), 0U);
}

TEST(blocking_channel, changes_eight_bytes_of_the_peer_atomically) {
  channel_pair pair;
  auto target = pair.memory(8);
  auto before = pair.memory(8);
  ASSERT_TRUE(pair.a().fetch_and_add(sink(before), target.remote(), 5, patiently()));
  EXPECT_EQ(number_in(before), 0U);
  ASSERT_TRUE(pair.a().compare_and_swap(sink(before), target.remote(),
                                        {.expected = 5, .desired = 42}, patiently()));
  EXPECT_EQ(number_in(before), 5U);
  EXPECT_EQ(number_in(target), 42U);
}

TEST(blocking_channel, refuses_what_cannot_work_before_it_is_posted) {
  channel_pair pair;
  auto other_domain = pair.context().allocate_pd().value();
  auto foreign = other_domain.allocate(8, access::local_write).value();
  auto mine = pair.memory(64);
  auto theirs = pair.memory(16);
  const auto refused = [](const operation_result& outcome, refusal why, int code) {
    EXPECT_EQ(outcome.end(), operation_end::refused);
    EXPECT_EQ(outcome.refusal(), why);
    EXPECT_EQ(outcome.code(), code);
    EXPECT_EQ(outcome.completion(), nullptr);
    EXPECT_NE(outcome.error().message().find("blocking_test.cpp"), std::string::npos)
        << outcome.error().message();
  };
  auto& a = pair.a();
  refused(a.send(source(foreign), patiently()), refusal::foreign_domain, EINVAL);
  refused(a.receive(sink(foreign), patiently()), refusal::foreign_domain, EINVAL);
  const std::vector<source> many(5, source(mine, 0, 1));
  refused(a.send(many, patiently()), refusal::too_many_pieces, EINVAL);
  refused(a.write(source(mine), theirs.remote(), patiently()), refusal::remote_bounds, EINVAL);
  refused(a.read(sink(mine), theirs.remote(), patiently()), refusal::remote_bounds, EINVAL);
  refused(a.fetch_and_add(sink(mine, 0, 8), theirs.remote().slice(4), 1, patiently()),
          refusal::atomic_shape, EINVAL);
  refused(a.fetch_and_add(sink(mine, 0, 4), theirs.remote(), 1, patiently()), refusal::atomic_shape,
          EINVAL);
  // None of that has harmed the connection.
  EXPECT_TRUE(a.write(source(mine, 0, 16), theirs.remote(), patiently()));
}

TEST(blocking_channel, gives_the_memory_back_when_the_deadline_passes) {
  channel_pair pair;
  auto inbox = pair.memory(8);
  const auto received = pair.a().receive(sink(inbox), deadline::after(1ms));
  EXPECT_EQ(received.end(), operation_end::deadline);
  ASSERT_NE(received.completion(), nullptr);
  EXPECT_EQ(received.completion()->status(), completion_status::flushed);
  EXPECT_EQ(received.error().kind(), error_kind::timed_out);
  EXPECT_EQ(pair.a().in_flight(), 0U);
  // What is posted afterwards finds the channel in its error state.
  auto outbox = pair.memory(8);
  EXPECT_EQ(pair.a().send(source(outbox), patiently()).end(), operation_end::failed);
}

TEST(blocking_channel, says_all_that_a_failed_completion_says) {
  channel_pair pair;
  auto mine = pair.memory(8);
  auto region = pair.pd().allocate(8, access::local_write).value();  // peers may do nothing
  const auto written = pair.a().write(source(mine), region.remote(), patiently());
  EXPECT_EQ(written.end(), operation_end::failed);
  ASSERT_NE(written.completion(), nullptr);
  EXPECT_EQ(written.completion()->status(), completion_status::remote_access_error);
  EXPECT_EQ(written.error().kind(), error_kind::completion);
  EXPECT_EQ(written.error().code(), static_cast<int>(completion_status::remote_access_error));
  EXPECT_NE(pair.a().describe(written).message(), "");
  EXPECT_THROW((void)written.value(), exception);
}

TEST(blocking_channel, works_with_itself) {
  auto context = open_tested();
  auto pd = context.allocate_pd().value();
  auto prepared = pd.create_channel({.access = access::remote_write}).value();
  const auto self = prepared.endpoint();
  auto alone = std::move(prepared).handshake(self).value();
  auto target = pd.allocate(8, access::local_write | access::remote_write).value();
  auto from = pd.allocate(8, access::local_write).value();
  from.bytes()[0] = std::byte{3};
  ASSERT_TRUE(alone.write(source(from), target.remote(), patiently()));
  EXPECT_EQ(target.bytes()[0], std::byte{3});
}

TEST(blocking_channel_death, memory_that_may_not_be_written_is_no_sink) {
  channel_pair pair;
  auto readable = pair.pd().allocate(8, {}).value();
  EXPECT_DEATH((void)sink(readable), "a sink is memory that was registered with local_write");
}

TEST(blocking_channel_death, moved_from_channel_is_not_used) {
  channel_pair pair;
  channel taken = std::move(pair.a());
  EXPECT_DEATH((void)pair.a().in_flight(), "a moved-from channel must not be used");
}

TEST(blocking_channel_death, sink_is_split_inside) {
  channel_pair pair;
  auto region = pair.memory(8);
  sink whole(region);
  EXPECT_DEATH((void)whole.split(8), "split in two parts that are not empty");
  const sink behind = whole.split(3);
  EXPECT_EQ(whole.length(), 3U);
  EXPECT_EQ(behind.length(), 5U);
  EXPECT_EQ(behind.slice().address(), whole.slice().address() + 3);
}

}  // namespace
}  // namespace verbena::test
