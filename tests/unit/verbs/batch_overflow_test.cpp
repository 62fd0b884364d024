// SPDX-License-Identifier: MIT
// Batches that get more requests than they can hold, on soft0: submit() posts nothing, and the
// queue works afterwards.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "tests/unit/efa/recording_queue.hpp"
#include "tests/unit/verbs/loopback.hpp"
#include "verbena/verbs/shared_receive_queue.hpp"

namespace verbena {
namespace {

using test::fill;
using test::loopback;
using test::pattern;
using test::take;

/// Calls `add(i)` for i from 0 to capacity() + beyond - 1 and checks size() and full().
template <class Batch, class Add>
void overfill(Batch& batch, std::size_t beyond, Add add) {
  constexpr std::size_t room = Batch::capacity();
  for (std::size_t i = 0; i < room + beyond; ++i) {
    EXPECT_EQ(batch.size(), std::min(i, room));
    EXPECT_EQ(batch.full(), i >= room);
    add(i);
  }
  EXPECT_EQ(batch.size(), room);
  EXPECT_TRUE(batch.full());
}

/// submit() refuses the batch, now and later.
template <class Batch>
void expect_refused(Batch& batch, std::size_t beyond) {
  const post_status refused = batch.submit();
  EXPECT_EQ(refused.code(), ENOBUFS);
  EXPECT_EQ(refused.accepted_before_failure(), 0U);
  EXPECT_EQ(refused.excess(), beyond);
  EXPECT_EQ(batch.submit(), refused);
  EXPECT_EQ(batch.size(), Batch::capacity());
}

template <class Interface>
class overfull_batch : public ::testing::Test {
 protected:
  loopback pair{{.queues = {.max_send_wr = 64, .max_recv_wr = 64},
                 .access = access::remote_read | access::remote_write}};
  memory_region memory = pair.memory(4096);
};
TYPED_TEST_SUITE(overfull_batch, test::both_interfaces);

TYPED_TEST(overfull_batch, of_sends_posts_nothing_and_the_next_batch_completes) {
  const auto from = this->memory.slice(0, 64);
  const auto to = this->memory.remote().slice(1024, 64);
  fill(this->memory.bytes().first(64), 1);
  TypeParam::with(this->pair.a().queue, [&](auto& poster) {
    const auto write = [&](auto& batch) {
      return [&](std::size_t i) { batch.write({.id = i, .signaled = true}, from, to); };
    };
    // More requests in all than the send queue holds: refused batches do not use it up.
    for (std::size_t beyond = 1; beyond <= 8; ++beyond) {
      auto batch = poster.start_send();
      overfill(batch, beyond, write(batch));
      expect_refused(batch, beyond);
      // A refused batch is no longer open.
      auto next = poster.template start_send<1>();
      overfill(next, beyond, write(next));
      expect_refused(next, beyond);
    }
    auto one = poster.template start_send<1>();
    overfill(one, 1, write(one));
    expect_refused(one, 1);
  });
  std::array<completion, 1> room;
  EXPECT_TRUE(this->pair.a().sends.poll(room).value().empty());
  EXPECT_EQ(this->memory.bytes()[1024], std::byte{0}) << "a refused write was executed";

  TypeParam::with(this->pair.a().queue, [&](auto& poster) {
    auto batch = poster.start_send();
    overfill(batch, 0,
             [&](std::size_t i) { batch.write({.id = 100 + i, .signaled = true}, from, to); });
    EXPECT_TRUE(batch.submit());
  });
  const auto done = take(this->pair.a().sends, 16);
  for (std::size_t i = 0; i < done.size(); ++i) {
    EXPECT_TRUE(done[i].ok()) << to_string(done[i]);
    EXPECT_EQ(done[i].id(), 100 + i);
  }
  EXPECT_TRUE(std::ranges::equal(this->memory.bytes().subspan(1024, 64), pattern(64, 1)));
}

TYPED_TEST(overfull_batch, of_receives_posts_nothing_and_the_next_batch_completes) {
  TypeParam::with(this->pair.b().queue, [&](auto& poster) {
    for (std::size_t beyond = 1; beyond <= 20; ++beyond) {
      auto batch = poster.template start_receive<4>();
      overfill(batch, beyond,
               [&](std::size_t i) { batch.receive({.id = i}, this->memory.slice(0, 64)); });
      expect_refused(batch, beyond);
    }
    auto batch = poster.template start_receive<4>();
    overfill(batch, 0, [&](std::size_t i) {
      batch.receive({.id = 100 + i}, this->memory.slice(1024 + i * 64, 64));
    });
    EXPECT_TRUE(batch.submit());
  });
  fill(this->memory.bytes().first(64), 2);
  this->pair.a().queue.post_send({.signaled = true}, this->memory.slice(0, 64)).value();
  const auto done = take(this->pair.b().receives, 1).at(0);
  EXPECT_TRUE(done.ok()) << to_string(done);
  EXPECT_EQ(done.id(), 100U) << "a refused receive received the message";
  EXPECT_TRUE(std::ranges::equal(this->memory.bytes().subspan(1024, 64), pattern(64, 2)));
  take(this->pair.a().sends, 1);
  this->pair.b().queue.modify(queue_pair_attributes().set_state(queue_pair_state::reset)).value();
}

// The lists of a poster are used again by its next batch.
TEST(overfull, batch_of_classic_poster_posts_nothing_and_the_next_batch_completes) {
  auto options = loopback::default_options();
  options.extended = false;
  loopback pair(options);
  const auto memory = pair.memory(4096);
  fill(memory.bytes().first(64), 3);
  const auto post = [&](auto& poster, std::size_t into) {
    {
      auto sends = poster.start_send();
      auto receives = poster.start_receive();
      overfill(sends, 3, [&](std::size_t i) { sends.send({.id = i}, memory.slice(0, 64)); });
      overfill(receives, 2,
               [&](std::size_t i) { receives.receive({.id = i}, memory.slice(0, 64)); });
      expect_refused(sends, 3);
      expect_refused(receives, 2);
      sends.send({.id = 99}, memory.slice(0, 64));
      receives.receive({.id = 99}, memory.slice(0, 64));
      expect_refused(sends, 4);
      expect_refused(receives, 3);
    }
    auto receives = poster.start_receive();
    receives.receive({.id = 7}, memory.slice(into, 64));
    EXPECT_TRUE(receives.submit());
    auto sends = poster.start_send();
    sends.send({.id = 8, .signaled = true}, memory.slice(0, 64));
    EXPECT_TRUE(sends.submit());
  };
  pair.a().queue.with_poster([&](auto& poster) { post(poster, 1024); });
  pair.b().queue.with_poster([&](auto& poster) { post(poster, 2048); });
  EXPECT_EQ(take(pair.a().sends, 1).at(0).id(), 8U);
  EXPECT_EQ(take(pair.b().sends, 1).at(0).id(), 8U);
  EXPECT_EQ(take(pair.a().receives, 1).at(0).id(), 7U);
  EXPECT_EQ(take(pair.b().receives, 1).at(0).id(), 7U);
  for (const std::size_t into : {1024U, 2048U})
    EXPECT_TRUE(std::ranges::equal(memory.bytes().subspan(into, 64), pattern(64, 3)));
}

TEST(overfull, batch_of_shared_receives_posts_nothing_and_the_next_batch_completes) {
  const auto context = open_device("soft0").value();
  const auto pd = context.allocate_pd().value();
  const auto cq = context.create_cq(16).value();
  const auto memory = pd.allocate(4096, access::local_write).value();
  const auto shared = pd.create_srq({.max_wr = 4}).value();
  auto prepared = pd.create_qp<rc>(cq, cq, shared).value();
  const auto self = prepared.endpoint();
  auto queue = std::move(prepared).handshake(self).value();
  for (std::size_t beyond = 1; beyond <= 8; ++beyond) {
    auto batch = shared.start_receive<2>();
    overfill(batch, beyond, [&](std::size_t i) { batch.receive({.id = i}, memory.slice(0, 64)); });
    expect_refused(batch, beyond);
  }
  auto one = shared.start_receive<1>();
  overfill(one, 1, [&](std::size_t i) { one.receive({.id = i}, memory.slice(0, 64)); });
  expect_refused(one, 1);
  EXPECT_EQ(one.submit().error().call(), "ibv_post_srq_recv");

  auto batch = shared.start_receive<2>();
  overfill(batch, 0,
           [&](std::size_t i) { batch.receive({.id = 100 + i}, memory.slice(1024 + i * 64, 64)); });
  EXPECT_TRUE(batch.submit());
  fill(memory.bytes().first(64), 4);
  auto sends = queue.start_send<2>();
  sends.send({.id = 1}, memory.slice(0, 64));
  sends.send({.id = 2}, memory.slice(0, 64));
  EXPECT_TRUE(sends.submit());
  const auto done = take(cq, 2);
  for (std::size_t i = 0; i < done.size(); ++i) {
    EXPECT_TRUE(done[i].ok()) << to_string(done[i]);
    EXPECT_EQ(done[i].id(), 100 + i) << "a refused receive received the message";
  }
  EXPECT_TRUE(std::ranges::equal(memory.bytes().subspan(1024 + 64, 64), pattern(64, 4)));
}

// One call of ibv_wr_abort() inside submit() discards the requests: the provider can hold the lock
// of the send queue until then.
TEST(overfull, batch_of_extended_queue_is_aborted_by_submit) {
  test::recording_queue queue;
  queue.native()->qp_base.qp_num = 0x11;
  extended_queue<rc> poster(queue.native());
  const local_slice slice(1000, 8, local_key(3));
  {
    auto batch = poster.start_send<1>();
    overfill(batch, 1, [&](std::size_t i) { batch.send({.id = i}, slice); });
    EXPECT_EQ(batch.submit().code(), ENOBUFS);
    EXPECT_EQ(queue.text(), "start; 0 send sge(3,1000)8; 1 send sge(3,1000)8 abort");
    expect_refused(batch, 1);
    EXPECT_EQ(batch.submit().error().message(),
              "ibv_wr_complete on queue pair 0x11 failed: No buffer space available (errno 105): "
              "no request was posted: 2 requests were added to a batch of 1; open it with "
              "start_send<2>() or submit earlier");
  }
  EXPECT_EQ(queue.text(), "start; 0 send sge(3,1000)8; 1 send sge(3,1000)8 abort");
  auto next = poster.start_send<1>();
  next.send({.id = 2}, slice);
  EXPECT_TRUE(next.submit());
  EXPECT_TRUE(queue.text().ends_with(" abortstart; 2 send sge(3,1000)8 complete")) << queue.text();
}

#ifdef VERBENA_CHECKED
TEST(overfull_death, add_or_submit_after_submit_stops_the_program) {
  const char* const added = "a request was added to a batch after submit";
  const char* const submitted = "submit\\(\\) of a batch that was submitted before";
  test::recording_queue queue;
  const local_slice slice(1000, 8, local_key(3));
  auto sends = extended_queue<rc>(queue.native()).start_send<1>();
  sends.send({}, slice);
  EXPECT_TRUE(sends.submit());
  EXPECT_DEATH(sends.send({}, slice), added);
  EXPECT_DEATH(static_cast<void>(sends.submit()), submitted);
  auto refused = extended_queue<rc>(queue.native()).start_send<1>();
  overfill(refused, 1, [&](std::size_t i) { refused.send({.id = i}, slice); });
  expect_refused(refused, 1);
  EXPECT_DEATH(refused.send({}, slice), added);

  const auto pd = open_device("soft0").value().allocate_pd().value();
  const auto memory = pd.allocate(64, access::local_write).value();
  const auto shared = pd.create_srq({}).value();
  auto receives = shared.start_receive<1>();
  receives.receive({}, memory.slice());
  EXPECT_TRUE(receives.submit());
  EXPECT_DEATH(receives.receive({}, memory.slice()), added);
  EXPECT_DEATH(static_cast<void>(receives.submit()), submitted);
}
#endif

}  // namespace
}  // namespace verbena
