// SPDX-License-Identifier: MIT
// The blocking level, and operations that all levels refuse.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
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

// parity: ibverbs-rs-21
TEST(blocking_channel, send_is_received_on_another_thread) {
  channel_pair pair;
  auto outbox = pair.memory(100, 7);
  auto inbox = pair.memory(200);
  operation_result received;
  std::thread peer([&] { received = pair.b().receive(sink(inbox), abort_at(long_deadline())); });
  const auto sent =
      pair.a().send(source(outbox), abort_at(long_deadline()), {.immediate = 0x12345678});
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

// siw fills only the first slice of a read, and reports success.
TEST(blocking_channel, read_into_more_slices_than_device_fills_is_refused) {
  channel_pair pair;
  const auto limits = pair.context().query().value();
  const auto most = static_cast<std::size_t>(std::clamp(
      limits.max_read_sge(), 1, static_cast<int>(pair.default_options().queues.max_send_sge)));
  auto mine = pair.memory(64, 1);
  auto theirs = pair.memory(64, 2);
  std::vector<sink> into;
  into.reserve(most);
  for (std::size_t i = 0; i < most; ++i) into.emplace_back(mine, i * 4, 4);
  ASSERT_TRUE(pair.a().read(into, theirs.remote(), abort_at(long_deadline())));
  EXPECT_TRUE(all_are(mine.bytes().first(most * 4), 2));
  into.emplace_back(mine, 32, 4);
  const auto refused = pair.a().read(into, theirs.remote(), abort_at(long_deadline()));
  EXPECT_EQ(refused.refusal(), refusal::too_many_slices);
  EXPECT_TRUE(all_are(mine.bytes().subspan(32), 1));
}

// parity: ibverbs-rs-22
TEST(blocking_channel, scattered_write_and_read_transfer_all_slices) {
  channel_pair pair;
  auto mine = pair.memory(64, 1);
  auto theirs = pair.memory(64, 2);
  const std::array pieces{source(mine, 0, 8), source(mine, 16, 8)};
  ASSERT_TRUE(pair.a().write(pieces, theirs.remote(), abort_at(long_deadline())));
  EXPECT_TRUE(all_are(theirs.bytes().first(16), 1));
  EXPECT_TRUE(all_are(theirs.bytes().subspan(16), 2));
  std::vector<sink> into;
  into.emplace_back(mine, 32, 4);
  into.emplace_back(mine, 40, 4);
  const auto read = pair.a().read(into, theirs.remote().slice(12), abort_at(long_deadline()));
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(read.byte_length(), 8U);
  EXPECT_TRUE(all_are(mine.bytes().subspan(32, 4), 1));
  EXPECT_TRUE(all_are(mine.bytes().subspan(40, 4), 2));
}

// parity: ibverbs-rs-23
TEST(blocking_channel, inline_data_and_empty_messages_arrive) {
  channel_pair pair;
  auto theirs = pair.memory(64);
  const std::array bytes{std::byte{9}, std::byte{9}};
  ASSERT_TRUE(pair.a().write(inline_data(bytes), theirs.remote(), abort_at(long_deadline())));
  EXPECT_TRUE(all_are(theirs.bytes().first(2), 9));
  auto inbox = pair.memory(8);
  operation_result received;
  std::thread peer([&] { received = pair.b().receive(sink(inbox), abort_at(long_deadline())); });
  ASSERT_TRUE(pair.a().send({}, abort_at(long_deadline())));
  peer.join();
  EXPECT_EQ(received.byte_length(), 0U);
}

// parity: ibverbs-rs-24
TEST(blocking_channel, atomics_change_remote_word_and_return_old_value) {
  channel_pair pair;
  auto target = pair.memory(8);
  auto before = pair.memory(8);
  ASSERT_TRUE(pair.a().fetch_and_add(sink(before), target.remote(), 5, abort_at(long_deadline())));
  EXPECT_EQ(number_in(before), 0U);
  ASSERT_TRUE(pair.a().compare_and_swap(sink(before), target.remote(),
                                        {.expected = 5, .desired = 42}, abort_at(long_deadline())));
  EXPECT_EQ(number_in(before), 5U);
  EXPECT_EQ(number_in(target), 42U);
}

// parity: ibverbs-rs-26, ibverbs-rs-49
TEST(blocking_channel, invalid_operations_are_refused_before_posting) {
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
  refused(a.send(source(foreign), abort_at(long_deadline())), refusal::foreign_domain, EINVAL);
  refused(a.receive(sink(foreign), abort_at(long_deadline())), refusal::foreign_domain, EINVAL);
  const std::vector<source> many(5, source(mine, 0, 1));
  refused(a.send(many, abort_at(long_deadline())), refusal::too_many_slices, EINVAL);
  refused(a.write(source(mine), theirs.remote(), abort_at(long_deadline())), refusal::remote_bounds,
          EINVAL);
  refused(a.read(sink(mine), theirs.remote(), abort_at(long_deadline())), refusal::remote_bounds,
          EINVAL);
  refused(a.fetch_and_add(sink(mine, 0, 8), theirs.remote().slice(4), 1, abort_at(long_deadline())),
          refusal::atomic_shape, EINVAL);
  refused(a.fetch_and_add(sink(mine, 0, 4), theirs.remote(), 1, abort_at(long_deadline())),
          refusal::atomic_shape, EINVAL);
  // The connection still works.
  EXPECT_TRUE(a.write(source(mine, 0, 16), theirs.remote(), abort_at(long_deadline())));
}

// parity: ibverbs-rs-25
TEST(blocking_channel, passed_abort_at_ends_connection_and_returns_memory) {
  channel_pair pair;
  auto inbox = pair.memory(8);
  const auto received = pair.a().receive(sink(inbox), abort_after(100ms));
  EXPECT_EQ(received.end(), operation_end::aborted);
  ASSERT_NE(received.completion(), nullptr);
  EXPECT_EQ(received.completion()->status(), completion_status::flushed);
  EXPECT_EQ(received.error().kind(), error_kind::timed_out);
  EXPECT_EQ(pair.a().in_flight(), 0U);
  auto outbox = pair.memory(8);
  EXPECT_EQ(pair.a().send(source(outbox), abort_at(long_deadline())).refusal(),
            refusal::not_connected);
}

TEST(blocking_channel, posts_after_a_failure_are_refused) {
  channel_pair pair;
  auto inbox = pair.memory(8);
  const auto pool = pair.pool();
  pair.a().flush();
  ASSERT_NE(pair.a().failure(), nullptr);
  EXPECT_EQ(pair.a().receive(sink(inbox)).refusal(), refusal::not_connected);
  EXPECT_TRUE(pair.a().scope([&](operation_scope& scope) {
    EXPECT_EQ(scope.receive(sink(inbox)).wait().refusal(), refusal::not_connected);
  }));
  auto owned = pair.a().post_receive(*pool.take(64));
  EXPECT_EQ(owned.wait().refusal(), refusal::not_connected);
  EXPECT_EQ(pair.a().in_flight(), 0U);
}

// rxe of Linux 6.1 and siw do not flush a receive that is posted to a queue pair in the error
// state.
TEST(blocking_channel, receive_posted_in_the_error_state_ends_without_a_limit) {
  channel_pair pair;
  auto inbox = pair.memory(8);
  ASSERT_TRUE(pair.a().qp()->modify(queue_pair_attributes().set_state(queue_pair_state::error)));
  const auto received = pair.a().receive(sink(inbox));
  EXPECT_TRUE(received.end() == operation_end::failed || received.end() == operation_end::lost);
  ASSERT_NE(pair.a().failure(), nullptr);
  EXPECT_EQ(pair.a().failure()->cause, failure_cause::connection);
}

int (*device_poll_cq)(ibv_cq*, int, ibv_wc*) = nullptr;
const channel* polling_channel = nullptr;
std::optional<deadline> end_of_test;
bool was_too_late = false;

// Replaces ibv_poll_cq() of the device of `pair.a()` during its lifetime. The function calls
// device_poll_cq() when `polling_channel` has a failure, or when the test has already failed.
class replaced_poll {
 public:
  replaced_poll(channel_pair& pair, int (*by)(ibv_cq*, int, ibv_wc*))
      : native_(pair.context().native()) {
    device_poll_cq = native_->ops.poll_cq;
    polling_channel = &pair.a();
    end_of_test = deadline::after(std::chrono::seconds(30));
    was_too_late = false;
    native_->ops.poll_cq = by;
  }
  replaced_poll(const replaced_poll&) = delete;
  replaced_poll& operator=(const replaced_poll&) = delete;
  ~replaced_poll() { native_->ops.poll_cq = device_poll_cq; }

  static bool may_poll() {
    was_too_late = was_too_late || end_of_test->expired();
    return polling_channel->failure() != nullptr || was_too_late;
  }

 private:
  ibv_context* native_;
};

TEST(blocking_channel, receive_ends_if_the_error_state_left_no_completion) {
  channel_pair pair;
  auto inbox = pair.memory(8);
  const replaced_poll replaced(pair, [](ibv_cq* queue, int count, ibv_wc* out) {
    return replaced_poll::may_poll() ? device_poll_cq(queue, count, out) : 0;
  });
  ASSERT_TRUE(pair.a().qp()->modify(queue_pair_attributes().set_state(queue_pair_state::error)));
  EXPECT_FALSE(pair.a().scope(
      [&](operation_scope& scope) { static_cast<void>(scope.receive(sink(inbox))); }));
  ASSERT_NE(pair.a().failure(), nullptr);
  EXPECT_EQ(pair.a().failure()->cause, failure_cause::connection);
  EXPECT_FALSE(was_too_late);
}

// Another channel of the same completion queue can have a completion at each poll.
TEST(blocking_channel, limit_passes_although_each_poll_finds_completions) {
  channel_pair pair;
  auto inbox = pair.memory(8);
  const replaced_poll replaced(pair, [](ibv_cq* queue, int count, ibv_wc* out) {
    if (replaced_poll::may_poll()) return device_poll_cq(queue, count, out);
    *out = {};
    out->wr_id = ~std::uint64_t{0} >> 1;  // an operation that has lost its slot
    return 1;
  });
  EXPECT_EQ(pair.a().receive(sink(inbox), abort_after(5ms)).end(), operation_end::aborted);
  EXPECT_FALSE(was_too_late);
}

TEST(blocking_channel, call_whose_limit_has_passed_is_refused_and_the_connection_stays) {
  channel_pair pair;
  const auto pool = pair.pool();
  auto waits = pair.a().post_receive(*pool.take(64));
  auto memory = pair.memory(8);
  std::vector<sink> several;
  several.emplace_back(memory);
  for (const auto& refused : {pair.a().send(source(memory), abort_after(-1ms)),
                              pair.a().receive(several, abort_after(-1ms)),
                              pair.a().write(source(memory), memory.remote(), abort_after(-1ms))}) {
    EXPECT_EQ(refused.refusal(), refusal::limit_passed);
    EXPECT_EQ(refused.code(), ETIMEDOUT);
  }
  EXPECT_EQ(waits.poll(), nullptr);
  EXPECT_EQ(pair.a().failure(), nullptr);
  EXPECT_TRUE(pair.a().write(source(memory), memory.remote(), abort_at(long_deadline())));
}

TEST(blocking_channel, length_of_a_write_with_immediate_data_is_not_that_of_the_sink) {
  channel_pair pair;
  if (is_iwarp(pair.context())) GTEST_SKIP() << "iWARP has no immediate data";
  auto outbox = pair.memory(4096, 3);
  auto target = pair.memory(4096);
  auto inbox = pair.memory(64);
  const auto received = pair.b().scope(abort_at(long_deadline()), [&](operation_scope& scope) {
    auto receive = scope.receive(sink(inbox));
    EXPECT_TRUE(pair.a().write(source(outbox), target.remote(), abort_at(long_deadline()),
                               {.immediate = 9}));
    return receive.wait();
  });
  const operation_result& of_write = *received;
  EXPECT_EQ(of_write.immediate(), 9U);
  EXPECT_EQ(of_write.byte_length(), 0U);
  EXPECT_EQ(*of_write, 0U);
  EXPECT_EQ(of_write.value(), 0U);
  EXPECT_EQ(of_write.written_length(), 4096U);
}

TEST(blocking_channel, refused_receive_is_described_by_its_queue) {
  channel_pair pair;
  auto memory = pair.memory(8);
  std::vector<sink> several;
  several.emplace_back(memory);
  ibv_context* const native = pair.context().native();
  const ibv_context_ops before = native->ops;
  native->ops.post_recv = [](ibv_qp*, ibv_recv_wr* list, ibv_recv_wr** refused) {
    *refused = list;
    return ENOMEM;
  };
  const auto usual = pair.a().receive(sink(memory), abort_at(long_deadline()));
  const auto scattered = pair.a().receive(several, abort_at(long_deadline()));
  native->ops = before;
  for (const auto& refused : {usual, scattered}) {
    EXPECT_EQ(refused.refusal(), refusal::verb);
    EXPECT_NE(pair.a().describe(refused).message().find("receive queue"), std::string::npos)
        << pair.a().describe(refused).message();
  }
}

// Slot 0 of the table is that of the receive.
TEST(blocking_channel, failed_request_of_the_program_is_not_taken_for_an_operation) {
  channel_pair pair;
  const auto pool = pair.pool();
  auto receive = pair.a().post_receive(*pool.take(64));
  auto memory = pair.memory(8);
  auto closed = pair.pd().allocate(8, access::local_write).value();
  auto batch = pair.a().qp()->start_send<1>();
  batch.write({}, memory.slice(), closed.remote());
  ASSERT_TRUE(batch.submit());
  const auto* const ended = receive.wait(long_deadline());
  ASSERT_NE(ended, nullptr);
  ASSERT_NE(ended->completion(), nullptr);
  EXPECT_EQ(ended->completion()->status(), completion_status::flushed);
}

// parity: ibverbs-rs-49
TEST(blocking_channel, failed_completion_is_returned_with_all_fields) {
  channel_pair pair;
  auto mine = pair.memory(8);
  auto region = pair.pd().allocate(8, access::local_write).value();  // no remote access
  const auto written = pair.a().write(source(mine), region.remote(), abort_at(long_deadline()));
  EXPECT_EQ(written.end(), operation_end::failed);
  ASSERT_NE(written.completion(), nullptr);
  EXPECT_EQ(written.completion()->status(), completion_status::remote_access_error);
  EXPECT_EQ(written.error().kind(), error_kind::completion);
  EXPECT_EQ(written.error().code(), static_cast<int>(completion_status::remote_access_error));
  EXPECT_NE(pair.a().describe(written).message(), "");
  EXPECT_THROW((void)written.value(), exception);
}

// parity: ibverbs-rs-8, ibverbs-rs-15, rrddmma-73
TEST(blocking_channel, channel_connected_to_itself_works) {
  auto context = open_tested();
  auto pd = context.allocate_pd().value();
  auto prepared = pd.create_channel({.access = access::remote_write}).value();
  const auto self = prepared.endpoint();
  auto alone = std::move(prepared).handshake(self).value();
  auto target = pd.allocate(8, access::local_write | access::remote_write).value();
  auto from = pd.allocate(8, access::local_write).value();
  from.bytes()[0] = std::byte{3};
  ASSERT_TRUE(alone.write(source(from), target.remote(), abort_at(long_deadline())));
  EXPECT_EQ(target.bytes()[0], std::byte{3});
}

TEST(blocking_channel_death, sink_without_local_write_stops_program) {
  channel_pair pair;
  auto readable = pair.pd().allocate(8, {}).value();
  EXPECT_DEATH((void)sink(readable),
               "a sink was created from memory that was registered without access::local_write");
}

TEST(blocking_channel_death, use_of_moved_from_channel_stops_program) {
  channel_pair pair;
  channel taken = std::move(pair.a());
  EXPECT_DEATH((void)pair.a().in_flight(), "a moved-from channel was used");
}

TEST(blocking_channel_death, split_outside_the_sink_stops_the_program) {
  channel_pair pair;
  auto region = pair.memory(8);
  sink whole(region);
  EXPECT_DEATH((void)whole.split(8), "a sink was split into an empty part");
  const sink behind = whole.split(3);
  EXPECT_EQ(whole.length(), 3U);
  EXPECT_EQ(behind.length(), 5U);
  EXPECT_EQ(behind.slice().address(), whole.slice().address() + 3);
}

}  // namespace
}  // namespace verbena::test
