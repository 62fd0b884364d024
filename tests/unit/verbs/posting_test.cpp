// SPDX-License-Identifier: MIT
// Transfers between two queue pairs, with both interfaces. The tests compare the transferred bytes
// with the pattern that was sent.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <thread>
#include <vector>

#include "tests/unit/efa/recording_queue.hpp"
#include "tests/unit/verbs/loopback.hpp"
#include "verbena/base/bytes.hpp"
#include "verbena/verbs/extended_queue.hpp"
#include "verbena/verbs/poster.hpp"

namespace verbena {
namespace {

using test::fill;
using test::loopback;
using test::pattern;
using test::take;

// Discards requests that will not complete, because their memory is freed before the queue pair.
void forget(queue_pair<rc>& queue) { queue.reset().value(); }

template <class Interface>
class posting : public ::testing::Test {
 protected:
  // Opens a batch of side A, calls `add` with it, and submits it.
  template <class Add>
  post_status post(Add&& add) {
    return Interface::with(pair.a().queue, [&](auto& poster) {
      auto batch = poster.start_send();
      add(batch);
      return batch.submit();
    });
  }
  void receive(std::uint64_t id, const local_slice& into) {
    pair.b().queue.post_receive({.id = id}, into).value();
  }
  // Returns the next completion of the sends of A, or of the receives of B.
  completion sent() { return take(pair.a().sends, 1).at(0); }
  completion received() { return take(pair.b().receives, 1).at(0); }

  bool send_cq_is_empty() {
    std::array<completion, 1> room;
    return pair.a().sends.poll(room).value().empty();
  }

  static bool equal(const memory_region& memory, std::size_t offset,
                    std::span<const std::byte> expected) {
    return std::ranges::equal(memory.bytes().subspan(offset, expected.size()), expected);
  }

  loopback pair;
  memory_region source = pair.memory(1 << 20);
  memory_region target = pair.memory(1 << 20);
};
TYPED_TEST_SUITE(posting, test::both_interfaces);

TYPED_TEST(posting, send_arrives_in_the_posted_receive) {
  for (const std::size_t bytes : {1U, 5U, 1024U, 1025U, 65536U, 1U << 20}) {
    fill(this->source.bytes(), static_cast<std::uint32_t>(bytes));
    this->receive(7, this->target.slice());
    this->post([&](auto& batch) {
          batch.send({.id = 8, .signaled = true}, this->source.slice(0, bytes));
        })
        .value();
    const completion arrived = this->received();
    arrived.result().value();
    EXPECT_EQ(arrived.id(), 7U);
    EXPECT_EQ(arrived.opcode(), completion_opcode::receive);
    EXPECT_EQ(arrived.byte_length(), bytes);
    EXPECT_EQ(arrived.immediate(), std::nullopt);
    EXPECT_EQ(arrived.queue_pair(), this->pair.b().queue.number());
    const completion done = this->sent();
    done.result().value();
    EXPECT_EQ(done.id(), 8U);
    EXPECT_EQ(done.opcode(), completion_opcode::send);
    EXPECT_TRUE(this->equal(this->target, 0, this->source.bytes().first(bytes))) << bytes;
  }
}

TYPED_TEST(posting, send_without_bytes_arrives) {
  this->receive(1, this->target.slice());
  this->post([&](auto& batch) { batch.send({.signaled = true}, std::span<const local_slice>()); })
      .value();
  EXPECT_EQ(this->received().byte_length(), 0U);
  EXPECT_TRUE(this->sent().ok());
}

TYPED_TEST(posting, receive_of_send_with_immediate_has_the_immediate_data) {
  fill(this->source.bytes(), 1);
  this->receive(1, this->target.slice());
  this->post([&](auto& batch) {
        batch.send_with_immediate({.signaled = true}, 0xdeadbeef, this->source.slice(0, 100));
      })
      .value();
  const completion arrived = this->received();
  arrived.result().value();
  EXPECT_EQ(arrived.immediate(), 0xdeadbeefU);
  EXPECT_EQ(arrived.byte_length(), 100U);
  EXPECT_TRUE(this->equal(this->target, 0, this->source.bytes().first(100)));
  this->sent().result().value();
}

TYPED_TEST(posting, write_changes_only_its_target) {
  fill(this->source.bytes(), 2);
  std::ranges::fill(this->target.bytes(), std::byte{0x55});
  this->post([&](auto& batch) {
        batch.write({.id = 3, .signaled = true}, this->source.slice(10, 5000),
                    this->target.remote().slice(100, 5000));
      })
      .value();
  const completion done = this->sent();
  done.result().value();
  EXPECT_EQ(done.opcode(), completion_opcode::write);
  EXPECT_TRUE(this->equal(this->target, 100, this->source.bytes().subspan(10, 5000)));
  EXPECT_EQ(this->target.bytes()[99], std::byte{0x55});
  EXPECT_EQ(this->target.bytes()[5100], std::byte{0x55});
}

TYPED_TEST(posting, write_with_immediate_consumes_a_receive) {
  fill(this->source.bytes(), 3);
  this->receive(77, this->target.slice(0, 8));
  this->post([&](auto& batch) {
        batch.write_with_immediate({.signaled = true}, 42, this->source.slice(0, 3000),
                                   this->target.remote().slice(4096));
      })
      .value();
  const completion arrived = this->received();
  arrived.result().value();
  EXPECT_EQ(arrived.id(), 77U);
  EXPECT_EQ(arrived.opcode(), completion_opcode::receive_write_with_immediate);
  EXPECT_EQ(arrived.immediate(), 42U);
  EXPECT_EQ(arrived.byte_length(), 3000U);
  this->sent().result().value();
  EXPECT_TRUE(this->equal(this->target, 4096, this->source.bytes().first(3000)));
}

TYPED_TEST(posting, read_fetches_the_bytes_of_the_peer) {
  fill(this->target.bytes(), 4);
  this->post([&](auto& batch) {
        batch.read({.id = 5, .signaled = true}, this->source.slice(50, 7000),
                   this->target.remote().slice(333, 7000));
      })
      .value();
  const completion done = this->sent();
  done.result().value();
  EXPECT_EQ(done.opcode(), completion_opcode::read);
  EXPECT_TRUE(this->equal(this->source, 50, this->target.bytes().subspan(333, 7000)));
}

TYPED_TEST(posting, compare_and_swap_changes_only_the_expected_value) {
  std::uint64_t value = 100;
  std::memcpy(this->target.bytes().data(), &value, 8);
  const auto swap = [&](compare_and_swap_operands operands) {
    this->post([&](auto& batch) {
          batch.compare_and_swap({.signaled = true}, this->source.slice(0, 8),
                                 this->target.remote().slice(0, 8), operands);
        })
        .value();
    const completion done = this->sent();
    done.result().value();
    EXPECT_EQ(done.opcode(), completion_opcode::compare_and_swap);
    std::uint64_t before = 0;
    std::memcpy(&before, this->source.bytes().data(), 8);
    std::memcpy(&value, this->target.bytes().data(), 8);
    return before;
  };
  EXPECT_EQ(swap({.expected = 99, .desired = 1}), 100U);
  EXPECT_EQ(value, 100U);
  EXPECT_EQ(swap({.expected = 100, .desired = 1}), 100U);
  EXPECT_EQ(value, 1U);
}

TYPED_TEST(posting, fetch_and_add_adds_and_returns_the_old_value) {
  std::uint64_t value = 0xffff'ffff'ffff'fffe;
  std::memcpy(this->target.bytes().data() + 8, &value, 8);
  this->post([&](auto& batch) {
        batch.fetch_and_add({.signaled = true}, this->source.slice(16, 8),
                            this->target.remote().slice(8, 8), 5);
      })
      .value();
  const completion done = this->sent();
  done.result().value();
  EXPECT_EQ(done.opcode(), completion_opcode::fetch_and_add);
  std::uint64_t before = 0;
  std::memcpy(&before, this->source.bytes().data() + 16, 8);
  std::memcpy(&value, this->target.bytes().data() + 8, 8);
  EXPECT_EQ(before, 0xffff'ffff'ffff'fffeU);
  EXPECT_EQ(value, 3U);
}

TYPED_TEST(posting, gathered_slices_are_scattered_in_order) {
  fill(this->source.bytes(), 6);
  const std::array from = {this->source.slice(0, 100), this->source.slice(500, 1),
                           this->source.slice(300, 2000)};
  const std::array into = {this->target.slice(1000, 50), this->target.slice(0, 60),
                           this->target.slice(2000, 4000)};
  this->pair.b().queue.post_receive({.id = 1}, into).value();
  this->post([&](auto& batch) { batch.send({.signaled = true}, from); }).value();
  EXPECT_EQ(this->received().byte_length(), 2101U);
  this->sent().result().value();

  std::vector<std::byte> expected;
  for (const auto& [offset, length] : {std::pair(0, 100), {500, 1}, {300, 2000}}) {
    const auto part = this->source.bytes().subspan(offset, length);
    expected.insert(expected.end(), part.begin(), part.end());
  }
  EXPECT_TRUE(this->equal(this->target, 1000, std::span(expected).first(50)));
  EXPECT_TRUE(this->equal(this->target, 0, std::span(expected).subspan(50, 60)));
  EXPECT_TRUE(this->equal(this->target, 2000, std::span(expected).subspan(110)));
}

TYPED_TEST(posting, inline_data_can_change_after_the_post) {
  auto bytes = pattern(64, 7);
  const auto expected = bytes;
  this->receive(1, this->target.slice());
  this->post([&](auto& batch) { batch.send({.signaled = true}, inline_data(bytes)); }).value();
  std::ranges::fill(bytes, std::byte{0});
  EXPECT_EQ(this->received().byte_length(), 64U);
  this->sent().result().value();
  EXPECT_TRUE(this->equal(this->target, 0, expected));
}

TYPED_TEST(posting, list_of_inline_data_is_one_message) {
  const std::array pieces = {inline_data(bytes_of("one ")), inline_data(bytes_of("two ")),
                             inline_data(bytes_of("three"))};
  this->post([&](auto& batch) {
        batch.write({.signaled = true}, pieces, this->target.remote().slice(9));
      })
      .value();
  this->sent().result().value();
  EXPECT_TRUE(this->equal(this->target, 9, bytes_of("one two three")));
}

TYPED_TEST(posting, batch_completes_in_order_and_only_signaled_requests_are_reported) {
  fill(this->source.bytes(), 8);
  this->post([&](auto& batch) {
        for (std::uint64_t i = 0; i < 16; ++i)
          batch.write({.id = i, .signaled = i % 5 == 0}, this->source.slice(i * 64, 64),
                      this->target.remote().slice(i * 64));
      })
      .value();
  const auto done = take(this->pair.a().sends, 4);
  for (std::size_t i = 0; i < 4; ++i) {
    done.at(i).result().value();
    EXPECT_EQ(done.at(i).id(), i * 5);
  }
  EXPECT_TRUE(this->equal(this->target, 0, this->source.bytes().first(16 * 64)));
  EXPECT_TRUE(this->send_cq_is_empty());
}

TYPED_TEST(posting, destroyed_batch_posts_nothing_and_closes) {
  TypeParam::with(this->pair.a().queue, [&](auto& poster) {
    auto batch = poster.start_send();
    batch.write({.id = 1, .signaled = true}, this->source.slice(0, 8), this->target.remote());
  });
  fill(this->source.bytes(), 9);
  this->post([&](auto& batch) {
        batch.write({.id = 2, .signaled = true}, this->source.slice(0, 8), this->target.remote());
      })
      .value();
  EXPECT_EQ(this->sent().id(), 2U);
  EXPECT_TRUE(this->send_cq_is_empty());
}

TYPED_TEST(posting, fenced_send_has_the_bytes_of_the_earlier_read) {
  fill(this->target.bytes().first(4096), 10);
  this->post([&](auto& batch) {
        batch.read({.id = 1}, this->source.slice(0, 4096), this->target.remote().slice(0, 4096));
        batch.write({.id = 2, .signaled = true, .fenced = true}, this->source.slice(0, 4096),
                    this->target.remote().slice(8192));
      })
      .value();
  this->sent().result().value();
  EXPECT_TRUE(this->equal(this->target, 8192, pattern(4096, 10)));
}

TYPED_TEST(posting, batched_receives_are_consumed_in_order) {
  fill(this->source.bytes(), 11);
  TypeParam::with(this->pair.b().queue, [&](auto& poster) {
    auto batch = poster.start_receive();
    for (std::uint64_t i = 0; i < 8; ++i)
      batch.receive({.id = 100 + i}, this->target.slice(i * 1000, 1000));
    batch.submit().value();
  });
  this->post([&](auto& batch) {
        for (std::uint64_t i = 0; i < 8; ++i)
          batch.send({.id = i, .signaled = true}, this->source.slice(i * 500, 500));
      })
      .value();
  const auto arrived = take(this->pair.b().receives, 8);
  for (std::size_t i = 0; i < 8; ++i) {
    arrived.at(i).result().value();
    EXPECT_EQ(arrived.at(i).id(), 100 + i);
    EXPECT_TRUE(this->equal(this->target, i * 1000, this->source.bytes().subspan(i * 500, 500)));
  }
  take(this->pair.a().sends, 8);
}

// parity: ibverbs-301
TYPED_TEST(posting, queue_pair_can_be_used_by_another_thread) {
  fill(this->source.bytes(), 12);
  std::thread other([&] {
    this->receive(1, this->target.slice());
    this->post([&](auto& batch) { batch.send({.signaled = true}, this->source.slice(0, 9999)); })
        .value();
    this->received().result().value();
    this->sent().result().value();
  });
  other.join();
  EXPECT_TRUE(this->equal(this->target, 0, this->source.bytes().first(9999)));
}

TYPED_TEST(posting, full_send_queue_refuses_the_excess) {
  const auto room = this->pair.a().queue.capabilities().max_send_wr;
  ASSERT_GT(room, 0U);
  std::uint32_t accepted = 0;
  post_status status;
  // B has no receives, so no send completes.
  while (accepted < 100'000) {
    status =
        this->post([&](auto& batch) { batch.send({.signaled = true}, this->source.slice(0, 1)); });
    if (!status) break;
    ++accepted;
  }
  EXPECT_EQ(status.code(), ENOMEM);
  EXPECT_EQ(status.accepted_before_failure(), 0U);
  EXPECT_GE(accepted, 64U);
  EXPECT_NE(status.error().message().find("queue is full"), std::string::npos);
  forget(this->pair.a().queue);
}

TEST(posting_classic, refused_request_reports_accepted_count) {
  loopback pair({.queues = {.max_send_wr = 4}, .access = access::remote_write});
  const auto memory = pair.memory(64);
  const auto room = pair.a().queue.capabilities().max_send_wr;
  auto batch = pair.a().queue.start_send<256>();
  ASSERT_LT(room, 256U);
  for (std::uint32_t i = 0; i <= room; ++i)
    batch.send({.id = i, .signaled = true}, memory.slice(0, 1));
  const auto status = batch.submit();
  EXPECT_EQ(status.code(), ENOMEM);
  EXPECT_EQ(status.accepted_before_failure(), room);
  forget(pair.a().queue);
}

// parity: ibverbs-164
TEST(with_poster, uses_extended_interface_if_available) {
  loopback both;
  EXPECT_TRUE(both.a().queue.is_extended());
  const bool is_extended = both.a().queue.with_poster(
      [](auto& poster) { return std::same_as<decltype(poster), extended_queue<rc>&>; });
  EXPECT_TRUE(is_extended);

  auto options = loopback::default_options();
  options.extended = false;
  loopback classic(options);
  EXPECT_FALSE(classic.a().queue.is_extended());
  EXPECT_FALSE(classic.a().queue.extended().has_value());
  EXPECT_EQ(classic.a().queue.native_extended(), nullptr);
  const bool is_classic = classic.a().queue.with_poster(
      [](auto& poster) { return std::same_as<decltype(poster), classic_poster<rc>&>; });
  EXPECT_TRUE(is_classic);
}

#ifdef VERBENA_CHECKED
/// Returns a pattern for the message of a rule about two objects.
std::string both_places(const std::string& rule, int line, const std::string& earlier) {
  return rule + " \\(.*posting_test.cpp:" + std::to_string(line) + "; the earlier call is at .*" +
         earlier + "\\)";
}

// parity: ibverbs-tests-87, ibverbs-230
TEST(with_poster_death, second_open_batch_stops_the_program) {
  for (const bool is_extended : {true, false}) {
    auto options = loopback::default_options();
    options.extended = is_extended;
    loopback pair(options);
    pair.b().queue.post_receive({}, std::span<const local_slice>()).value();
    const char* const rule =
        is_extended ? "a second batch of the extended interface was opened on a queue pair"
                    : "a second batch of the same kind was opened on a queue";
    pair.a().queue.with_poster([&](auto& poster) {
      {
        const auto dropped = poster.start_send();
        const std::string earlier = "posting_test.cpp:" + std::to_string(__LINE__ - 1);
        const int here = __LINE__ + 1;
        EXPECT_DEATH(static_cast<void>(poster.start_send()), both_places(rule, here, earlier));
      }
      auto submitted = poster.start_send();
      submitted.send({}, std::span<const local_slice>());
      EXPECT_TRUE(submitted.submit());
      const auto next = poster.start_send();
    });
  }
}
#endif

TEST(extended_batch, only_requests_with_inline_data_have_the_inline_flag) {
  test::recording_queue queue;
  const local_slice word(0x1000, 8, local_key(7));
  const remote_region remote({.address = 0x2000, .length = 8, .key = remote_key(9)});
  const auto data = inline_data(bytes_of("x"));
  auto batch = extended_queue<rc>(queue.native()).start_send();
  batch.send({}, word);
  batch.send_with_immediate({}, 1, word);
  batch.write({}, word, remote);
  batch.write_with_immediate({}, 1, word, remote);
  batch.read({}, word, remote);
  batch.compare_and_swap({}, word, remote, {});
  batch.fetch_and_add({}, word, remote, 1);
  batch.send({}, data);
  batch.send_with_immediate({}, 1, data);
  batch.write({}, data, remote);
  batch.write_with_immediate({}, 1, data, remote);
  EXPECT_TRUE(batch.submit());
  std::vector<unsigned> expected(7, 0U);
  expected.resize(11, IBV_SEND_INLINE);
  EXPECT_EQ(queue.flags(), expected);
}

TEST(with_poster, moves_the_same_bytes_by_both_interfaces) {
  for (const bool is_extended : {true, false}) {
    auto options = loopback::default_options();
    options.extended = is_extended;
    loopback pair(options);
    const auto memory = pair.memory(4096);
    fill(memory.bytes().first(1000), 13);
    pair.b().queue.with_poster([&]<connected_poster Poster>(Poster& poster) {
      poster.post_receive({.id = 1}, memory.slice(2000, 1000)).value();
    });
    pair.a().queue.with_poster([&]<connected_poster Poster>(Poster& poster) {
      auto batch = poster.start_send();
      batch.send({.signaled = true}, memory.slice(0, 1000));
      batch.submit().value();
    });
    take(pair.b().receives, 1).at(0).result().value();
    take(pair.a().sends, 1).at(0).result().value();
    EXPECT_TRUE(std::ranges::equal(memory.bytes().subspan(2000, 1000), pattern(1000, 13)));
  }
}

}  // namespace
}  // namespace verbena
