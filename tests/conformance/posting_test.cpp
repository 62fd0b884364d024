// SPDX-License-Identifier: MIT
// Messages arrive complete and in order, and complete on both sides.
#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <span>

#include "tests/conformance/traffic.hpp"

namespace verbena::conformance {
namespace {

constexpr std::size_t posted_bytes = 2 << 20;

class send_receive : public data_test {
 protected:
  void open(const link_options& options = {}) {
    data_test::open(options);
    if (IsSkipped()) return;
    source.emplace(connection().memory(posted_bytes));
    sink.emplace(connection().memory(posted_bytes));
  }
  // Sends `bytes` bytes to a receive of equal size and checks both completions.
  void exchange(std::size_t bytes) {
    fill(source->bytes().first(bytes), static_cast<std::uint32_t>(bytes));
    receive(7, sink->slice(0, bytes));
    post([&](auto& batch) { batch.send({.id = 8, .signaled = true}, source->slice(0, bytes)); });
    const completion arrived = received();
    ASSERT_TRUE(arrived.ok()) << to_string(arrived);
    EXPECT_EQ(arrived.id(), 7U);
    EXPECT_EQ(arrived.opcode(), completion_opcode::receive);
    EXPECT_TRUE(arrived.is_receive());
    EXPECT_EQ(arrived.byte_length(), bytes);
    EXPECT_EQ(arrived.queue_pair(), target().queue.number());
    const completion done = sent();
    ASSERT_TRUE(done.ok()) << to_string(done);
    EXPECT_EQ(done.id(), 8U);
    EXPECT_EQ(done.opcode(), completion_opcode::send);
    EXPECT_FALSE(done.is_receive());
    EXPECT_EQ(done.queue_pair(), initiator().queue.number());
    EXPECT_TRUE(holds(*sink, 0, source->bytes().first(bytes)));
  }

  std::optional<memory_region> source;
  std::optional<memory_region> sink;
};
INSTANTIATE_TEST_SUITE_P(rc, send_receive, ::testing::ValuesIn(every_variant()), name_of);

// parity: ibverbs-tests-46, rrddmma-113, rrddmma-82
TEST_P(send_receive, small_messages_arrive) {
  VERBENA_OPEN();
  for (const std::size_t bytes : {1U, 2U, 3U, 8U, 63U, 100U}) exchange(bytes);
}

// parity: ibverbs-tests-47, ibverbs-242
TEST_P(send_receive, messages_around_the_mtu_arrive) {
  VERBENA_OPEN();
  for (const std::size_t packet : {1024U, 4096U})
    for (const std::size_t bytes : {packet - 1, packet, packet + 1, 2 * packet, 2 * packet + 1})
      exchange(bytes);
}

TEST_P(send_receive, message_of_one_mebibyte_arrives) {
  VERBENA_OPEN();
  exchange(1 << 20);
}

TEST_P(send_receive, zero_length_message_arrives) {
  VERBENA_OPEN();
  receive(1, sink->slice(0, 64));
  post([&](auto& batch) {
    batch.send({.id = 2, .signaled = true}, std::span<const local_slice>());
  });
  const completion arrived = received();
  ASSERT_TRUE(arrived.ok()) << to_string(arrived);
  EXPECT_EQ(arrived.byte_length(), 0U);
  EXPECT_TRUE(sent().ok());
  EXPECT_TRUE(holds(*sink, 0, std::vector<std::byte>(64)));
}

TEST_P(send_receive, zero_length_receive_takes_a_zero_length_message) {
  VERBENA_OPEN();
  target().queue.post_receive({.id = 1}, std::span<const local_slice>()).value();
  post([&](auto& batch) {
    batch.send({.id = 2, .signaled = true}, std::span<const local_slice>());
  });
  const completion arrived = received();
  ASSERT_TRUE(arrived.ok()) << to_string(arrived);
  EXPECT_EQ(arrived.id(), 1U);
  EXPECT_TRUE(sent().ok());
}

TEST_P(send_receive, short_message_leaves_the_rest_of_the_receive_unchanged) {
  VERBENA_OPEN();
  fill(source->bytes().first(100), 1);
  fill(sink->bytes().first(300), 2);
  receive(1, sink->slice(0, 300));
  post([&](auto& batch) { batch.send({.signaled = true}, source->slice(0, 100)); });
  EXPECT_EQ(received().byte_length(), 100U);
  EXPECT_TRUE(sent().ok());
  EXPECT_TRUE(holds(*sink, 0, source->bytes().first(100)));
  EXPECT_TRUE(holds(*sink, 100, pattern_from(100, 300, 2)));
}

// parity: ibverbs-243, rrddmma-82
TEST_P(send_receive, immediate_data_arrives) {
  VERBENA_OPEN();
  VERBENA_NEEDS(!is_iwarp(), "iWARP has no immediate data");
  fill(source->bytes().first(100), 3);
  receive(1, sink->slice(0, 100));
  post([&](auto& batch) {
    batch.send_with_immediate({.signaled = true}, 0xdeadbeef, source->slice(0, 100));
  });
  const completion arrived = received();
  ASSERT_TRUE(arrived.ok()) << to_string(arrived);
  EXPECT_EQ(arrived.immediate(), 0xdeadbeefU);
  EXPECT_EQ(arrived.byte_length(), 100U);
  EXPECT_TRUE(holds(*sink, 0, source->bytes().first(100)));
  EXPECT_TRUE(sent().ok());
}

TEST_P(send_receive, immediate_data_without_payload_arrives) {
  VERBENA_OPEN();
  VERBENA_NEEDS(!is_iwarp(), "iWARP has no immediate data");
  receive(1, sink->slice(0, 100));
  post([&](auto& batch) {
    batch.send_with_immediate({.signaled = true}, 7, std::span<const local_slice>());
  });
  const completion arrived = received();
  ASSERT_TRUE(arrived.ok()) << to_string(arrived);
  EXPECT_EQ(arrived.immediate(), 7U);
  EXPECT_EQ(arrived.byte_length(), 0U);
  EXPECT_TRUE(sent().ok());
}

// parity: ibverbs-tests-48, ibverbs-237
TEST_P(send_receive, messages_are_gathered_and_scattered) {
  VERBENA_OPEN();
  fill(source->bytes().first(8192), 4);
  const std::array from{source->slice(0, 3), source->slice(1000, 4000), source->slice(6000, 1)};
  const std::array to{sink->slice(0, 1000), sink->slice(2000, 3), sink->slice(3000, 1),
                      sink->slice(4000, 3500)};
  target().queue.post_receive({.id = 1}, to).value();
  post([&](auto& batch) { batch.send({.signaled = true}, from); });
  const completion arrived = received();
  ASSERT_TRUE(arrived.ok()) << to_string(arrived);
  EXPECT_EQ(arrived.byte_length(), 4004U);
  EXPECT_TRUE(sent().ok());
  std::vector<std::byte> stream;
  for (const auto& [at, length] : {std::pair{0, 3}, {1000, 4000}, {6000, 1}}) {
    const auto part = source->bytes().subspan(at, length);
    stream.insert(stream.end(), part.begin(), part.end());
  }
  const std::span whole(stream);
  EXPECT_TRUE(holds(*sink, 0, whole.first(1000)));
  EXPECT_TRUE(holds(*sink, 2000, whole.subspan(1000, 3)));
  EXPECT_TRUE(holds(*sink, 3000, whole.subspan(1003, 1)));
  EXPECT_TRUE(holds(*sink, 4000, whole.subspan(1004)));
}

TEST_P(send_receive, sge_boundaries_need_no_packet_alignment) {
  VERBENA_OPEN();
  fill(source->bytes().first(16384), 5);
  for (const std::size_t cut : {1U, 1023U, 1024U, 1025U, 4095U, 4097U, 8191U}) {
    const std::array from{source->slice(0, cut), source->slice(cut, 8192 - cut)};
    const std::array to{sink->slice(0, 8192 - cut), sink->slice(8192 - cut, cut)};
    target().queue.post_receive({.id = cut}, to).value();
    post([&](auto& batch) { batch.send({.signaled = true}, from); });
    const completion arrived = received();
    ASSERT_TRUE(arrived.ok()) << cut << ": " << to_string(arrived);
    EXPECT_EQ(arrived.byte_length(), 8192U);
    ASSERT_TRUE(sent().ok());
    ASSERT_TRUE(holds(*sink, 0, source->bytes().first(8192))) << cut;
  }
}

// parity: ibverbs-tests-53, ibverbs-233
TEST_P(send_receive, messages_arrive_in_the_order_sent) {
  VERBENA_OPEN();
  fill(source->bytes().first(8 * 600), 6);
  for (std::uint64_t i = 0; i < 8; ++i) receive(100 + i, sink->slice(i * 600, 600));
  for (std::uint64_t i = 0; i < 8; ++i)
    post([&](auto& batch) {
      batch.send({.id = i, .signaled = true}, source->slice(i * 600, 600 - i));
    });
  const auto arrived = take(target().receives, 8);
  const auto done = take(initiator().sends, 8);
  ASSERT_EQ(arrived.size() + done.size(), 16U);
  for (std::size_t i = 0; i < 8; ++i) {
    EXPECT_TRUE(arrived[i].ok() && done[i].ok());
    EXPECT_EQ(arrived[i].id(), 100 + i);
    EXPECT_EQ(arrived[i].byte_length(), 600 - i);
    EXPECT_EQ(done[i].id(), i);
    EXPECT_TRUE(holds(*sink, i * 600, source->bytes().subspan(i * 600, 600 - i)));
  }
}

// parity: ibverbs-tests-61, ibverbs-254
TEST_P(send_receive, batch_of_receives_is_consumed_in_order) {
  VERBENA_OPEN();
  auto receives = target().queue.start_receive();
  for (std::uint64_t i = 0; i < 4; ++i) receives.receive({.id = i}, sink->slice(i * 64, 64));
  receives.submit().value();
  fill(source->bytes().first(256), 7);
  post([&](auto& batch) {
    for (std::uint64_t i = 0; i < 4; ++i)
      batch.send({.id = i, .signaled = i == 3}, source->slice(i * 64, 64));
  });
  const auto arrived = take(target().receives, 4);
  for (std::size_t i = 0; i < arrived.size(); ++i) EXPECT_EQ(arrived[i].id(), i);
  EXPECT_TRUE(sent().ok());
  EXPECT_TRUE(holds(*sink, 0, source->bytes().first(256)));
}

// parity: ibverbs-tests-52, ibverbs-232, rrddmma-91
TEST_P(send_receive, only_signaled_requests_generate_completions) {
  VERBENA_OPEN();
  for (std::uint64_t i = 0; i < 3; ++i) receive(i, sink->slice(0, 64));
  post([&](auto& batch) {
    batch.send({.id = 1}, source->slice(0, 64));
    batch.send({.id = 2}, source->slice(0, 64));
    batch.send({.id = 3, .signaled = true}, source->slice(0, 64));
  });
  EXPECT_EQ(sent().id(), 3U);
  EXPECT_EQ(take(target().receives, 3).size(), 3U);
  EXPECT_TRUE(is_empty(initiator().sends));
}

// parity: rrddmma-61
TEST_P(send_receive, sq_sig_all_generates_a_completion_per_request) {
  link_options options;
  options.initiator.signal_all = true;
  VERBENA_OPEN(options);
  receive(0, sink->slice(0, 64));
  receive(1, sink->slice(0, 64));
  post([&](auto& batch) {
    batch.send({.id = 1}, source->slice(0, 64));
    batch.send({.id = 2}, source->slice(0, 64));
  });
  EXPECT_EQ(sent().id(), 1U);
  EXPECT_EQ(sent().id(), 2U);
  EXPECT_EQ(take(target().receives, 2).size(), 2U);
}

TEST_P(send_receive, a_thousand_messages_pass_through_small_queues) {
  link_options options;
  options.initiator.queues.max_send_wr = options.initiator.queues.max_recv_wr = 8;
  options.target = options.initiator;
  VERBENA_OPEN(options);
  for (std::uint32_t i = 0; i < 1000; ++i) {
    fill(source->bytes().first(32), i);
    receive(i, sink->slice(0, 32));
    post([&](auto& batch) { batch.send({.id = i, .signaled = true}, source->slice(0, 32)); });
    ASSERT_EQ(received().id(), i);
    ASSERT_EQ(sent().id(), i);
    ASSERT_TRUE(holds(*sink, 0, source->bytes().first(32)));
  }
}

// parity: ibverbs-229, ibverbs-228
TEST_P(send_receive, dropped_batch_sends_no_message) {
  VERBENA_OPEN();
  receive(1, sink->slice(0, 64));
  const auto drop = [&](auto&& poster) {
    auto batch = poster.start_send();
    batch.send({.id = 66, .signaled = true}, source->slice(0, 64));
  };
  if (GetParam().interface == interface_kind::classic)
    drop(initiator().queue);
  else
    drop(initiator().queue.extended().value());
  post([&](auto& batch) { batch.send({.id = 5, .signaled = true}, source->slice(0, 10)); });
  EXPECT_EQ(received().byte_length(), 10U);
  EXPECT_EQ(sent().id(), 5U);
}

}  // namespace
}  // namespace verbena::conformance
