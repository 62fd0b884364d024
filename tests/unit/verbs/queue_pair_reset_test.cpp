// SPDX-License-Identifier: MIT
// queue_pair::reset() discards the outstanding requests; afterwards the queue pair can be
// connected.
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <span>

#include "tests/unit/verbs/loopback.hpp"
#include "tests/unit/verbs/soft_device.hpp"
#include "verbena/sys/failing_provider.hpp"

namespace verbena {
namespace {

using test::fill;
using test::loopback;
using test::pattern;
using test::take;
using testing_support::expect_error;

// The three transitions of a queue pair to its peer.
using transitions = std::array<queue_pair_attributes, 3>;

transitions transitions_to(const prepared_queue_pair<rc>& prepared, const endpoint& peer) {
  return {prepared.init_attributes(), prepared.rtr_attributes(peer).value(),
          prepared.rts_attributes(peer)};
}
void apply(queue_pair<rc>& queue, const transitions& steps) {
  for (const auto& step : steps) queue.modify(step).value();
}

TEST(queue_pair_reset, discards_outstanding_requests_without_completions) {
  loopback pair;
  const auto memory = pair.memory(4096);
  auto& side = pair.b();
  for (std::uint64_t id = 0; id < 3; ++id)
    side.queue.post_receive({.id = id}, memory.slice(id * 64, 64)).value();
  side.queue.reset().value();
  EXPECT_EQ(side.queue.current_state().value(), queue_pair_state::reset);
  std::array<completion, 4> done;
  EXPECT_TRUE(side.receives.poll(done).value().empty());
  EXPECT_EQ(side.queue.post_receive({}, memory.slice(0, 64)).code(), EINVAL);
}

// parity: ibverbs-225, rrddmma-77
TEST(queue_pair_reset, queue_pairs_connect_again_after_reset) {
  const auto device = testing_support::open_soft();
  const auto pd = device.allocate_pd().value();
  const auto sends = device.create_cq(16).value();
  const auto receives = device.create_cq(16).value();
  const auto memory = pd.allocate(256, access::local_write).value();
  auto first = pd.create_qp<rc>(sends, receives, {}).value();
  auto second = pd.create_qp<rc>(sends, receives, {}).value();
  const auto to_first = first.endpoint();
  const auto to_second = second.endpoint();
  const auto steps_of_first = transitions_to(first, to_second);
  const auto steps_of_second = transitions_to(second, to_first);
  auto a = std::move(first).handshake(to_second).value();
  auto b = std::move(second).handshake(to_first).value();
  for (std::uint32_t round = 0; round < 3; ++round) {
    b.post_receive({.id = 100 + round}, memory.slice(128, 64)).value();  // discarded
    a.reset().value();
    b.reset().value();
    apply(a, steps_of_first);
    apply(b, steps_of_second);
    fill(memory.bytes().first(64), round);
    b.post_receive({.id = round}, memory.slice(128, 64)).value();
    a.post_send({.id = round, .signaled = true}, memory.slice(0, 64)).value();
    EXPECT_TRUE(take(sends, 1).at(0).ok());
    const auto received = take(receives, 1).at(0);
    EXPECT_EQ(received.id(), round) << to_string(received);
    EXPECT_TRUE(received.ok()) << to_string(received);
    const auto expected = pattern(64, round);
    EXPECT_TRUE(std::ranges::equal(memory.bytes().subspan(128, 64), expected));
  }
  a.reset().value();
  b.reset().value();
}

TEST(queue_pair_reset, refused_reset_keeps_the_state) {
  failing_provider provider(*soft_provider().value());
  const auto device = testing_support::open_soft(provider.get()).value();
  const auto pd = device.allocate_pd().value();
  const auto cq = device.create_cq(16).value();
  auto prepared = pd.create_qp<rc>(cq, cq, {}).value();
  const auto own = prepared.endpoint();
  auto queue = std::move(prepared).handshake(own).value();
  provider.fail_verb("ibv_modify_qp", EIO);
  expect_error(queue.reset(), "ibv_modify_qp on queue pair");
  EXPECT_EQ(queue.current_state().value(), queue_pair_state::ready_to_send);
}

}  // namespace
}  // namespace verbena
