// SPDX-License-Identifier: MIT
// Failed requests: the fields of their completions, and the states of the queue pairs afterwards.
#include <gtest/gtest.h>

#include "tests/unit/verbs/loopback.hpp"

namespace verbena {
namespace {

using test::loopback;
using test::take;

// Opens a batch of A, calls `add` with it, submits it and returns the next completion of A.
template <class Add>
completion post(loopback& pair, Add&& add) {
  auto batch = pair.a().queue.start_send();
  add(batch);
  batch.submit().value();
  return take(pair.a().sends, 1).at(0);
}

queue_pair_options<rc> without(access_flags removed) {
  auto options = loopback::default_options();
  options.access = options.access.without(removed);
  return options;
}

TEST(queue_pair_errors, send_without_receive_fails_after_the_rnr_retries) {
  auto options = loopback::default_options();
  options.reliability.rnr_retry_count = 1;
  options.reliability.min_rnr_timer = rnr_timer::at_least(std::chrono::microseconds(10));
  loopback pair(options);
  const auto memory = pair.memory(64);
  const auto failed =
      post(pair, [&](auto& batch) { batch.send({.id = 9, .signaled = true}, memory.slice()); });
  EXPECT_EQ(failed.status(), completion_status::rnr_retries_exceeded);
  EXPECT_EQ(failed.id(), 9U);
  EXPECT_EQ(failed.queue_pair(), pair.a().queue.number());
  const auto outcome = failed.result();
  ASSERT_FALSE(outcome);
  EXPECT_NE(outcome.error().message().find("no receive posted"), std::string::npos);
  EXPECT_EQ(pair.a().queue.current_state().value(), queue_pair_state::error);
}

TEST(queue_pair_errors, send_completes_after_a_late_receive) {
  loopback pair;
  const auto memory = pair.memory(128);
  test::fill(memory.bytes().first(64), 20);
  auto batch = pair.a().queue.start_send();
  batch.send({.signaled = true}, memory.slice(0, 64));
  batch.submit().value();
  std::array<completion, 1> room;
  EXPECT_TRUE(pair.a().sends.poll(room).value().empty());
  pair.b().queue.post_receive({.id = 1}, memory.slice(64, 64)).value();
  take(pair.b().receives, 1).at(0).result().value();
  take(pair.a().sends, 1).at(0).result().value();
  EXPECT_TRUE(std::ranges::equal(memory.bytes().subspan(64), memory.bytes().first(64)));
}

TEST(queue_pair_errors, write_with_wrong_rkey_fails_and_writes_no_bytes) {
  loopback pair;
  const auto memory = pair.memory(64);
  const auto remote = memory.remote();
  const remote_region wrong({.address = remote.address(),
                             .length = remote.length(),
                             .key = remote_key(remote.key().value() ^ 0x5a5a5a5a)});
  const auto failed = post(pair, [&](auto& batch) {
    batch.write({.id = 1, .signaled = true}, memory.slice(0, 8), wrong);
  });
  EXPECT_EQ(failed.status(), completion_status::remote_access_error);
  EXPECT_FALSE(pair.a().sends.explain(failed).empty());
}

TEST(queue_pair_errors, write_beyond_the_region_fails) {
  loopback pair;
  const auto memory = pair.memory(4096);
  const auto remote = memory.remote();
  const remote_region beyond(
      {.address = remote.address() + 4090, .length = 100, .key = remote.key()});
  const auto failed =
      post(pair, [&](auto& batch) { batch.write({.signaled = true}, memory.slice(0, 7), beyond); });
  EXPECT_EQ(failed.status(), completion_status::remote_access_error);
}

TEST(queue_pair_errors, region_without_access_flag_refuses_the_peer) {
  loopback pair;
  const auto memory = pair.memory(64);
  const auto read_only = pair.pd().allocate(64, access::local_write | access::remote_read).value();
  const auto failed = post(pair, [&](auto& batch) {
    batch.write({.signaled = true}, memory.slice(0, 8), read_only.remote());
  });
  EXPECT_EQ(failed.status(), completion_status::remote_access_error);
}

TEST(queue_pair_errors, queue_pair_without_access_flag_refuses_the_peer) {
  loopback writes(without(access::remote_write));
  const auto memory = writes.memory(64);
  EXPECT_FALSE(post(writes, [&](auto& batch) {
                 batch.write({.signaled = true}, memory.slice(0, 8), memory.remote());
               }).ok());
  loopback reads(without(access::remote_read));
  const auto source = reads.memory(64);
  EXPECT_FALSE(post(reads, [&](auto& batch) {
                 batch.read({.signaled = true}, source.slice(0, 8), source.remote());
               }).ok());
  loopback atomics(without(access::remote_atomic));
  const auto word = atomics.memory(64);
  EXPECT_FALSE(post(atomics, [&](auto& batch) {
                 batch.fetch_and_add({.signaled = true}, word.slice(0, 8), word.remote(), 1);
               }).ok());
}

TEST(queue_pair_errors, message_longer_than_the_receive_fails_on_both_sides) {
  loopback pair;
  const auto memory = pair.memory(64);
  pair.b().queue.post_receive({.id = 5}, memory.slice(0, 10)).value();
  const auto failed = post(
      pair, [&](auto& batch) { batch.send({.id = 6, .signaled = true}, memory.slice(16, 11)); });
  EXPECT_EQ(failed.status(), completion_status::remote_invalid_request);
  const auto arrived = take(pair.b().receives, 1).at(0);
  EXPECT_EQ(arrived.status(), completion_status::local_length_error);
  EXPECT_EQ(arrived.id(), 5U);
}

TEST(queue_pair_errors, slice_with_stale_lkey_fails_locally) {
  loopback pair;
  const auto memory = pair.memory(64);
  const local_slice stale(memory.slice().address(), 8,
                          local_key(memory.local_key().value() ^ 0x77777777));
  pair.b().queue.post_receive({}, std::span<const local_slice>()).value();
  const auto failed = post(pair, [&](auto& batch) { batch.send({.signaled = true}, stale); });
  EXPECT_EQ(failed.status(), completion_status::local_protection_error);
}

TEST(queue_pair_errors, requests_after_a_failure_are_flushed) {
  loopback pair;
  const auto memory = pair.memory(64);
  const auto beyond = remote_region({.address = 8, .length = 8, .key = remote_key(1)});
  auto batch = pair.a().queue.start_send();
  batch.write({.id = 1, .signaled = true}, memory.slice(0, 8), beyond);
  batch.write({.id = 2, .signaled = true}, memory.slice(0, 8), memory.remote());
  batch.write({.id = 3}, memory.slice(0, 8), memory.remote());
  batch.submit().value();
  const auto done = take(pair.a().sends, 3);
  EXPECT_EQ(done.at(0).status(), completion_status::remote_access_error);
  EXPECT_EQ(done.at(1).status(), completion_status::flushed);
  EXPECT_EQ(done.at(2).status(), completion_status::flushed);  // unsignaled, but failed
  EXPECT_EQ(done.at(1).id(), 2U);
  EXPECT_EQ(done.at(2).id(), 3U);
}

TEST(queue_pair_errors, error_state_flushes_both_queues) {
  loopback pair;
  const auto memory = pair.memory(64);
  for (std::uint64_t id = 0; id < 5; ++id)
    pair.b().queue.post_receive({.id = id}, memory.slice(id * 8, 8)).value();
  pair.b().queue.modify(queue_pair_attributes().set_state(queue_pair_state::error)).value();
  const auto flushed = take(pair.b().receives, 5);
  for (std::size_t id = 0; id < 5; ++id) {
    EXPECT_EQ(flushed.at(id).status(), completion_status::flushed);
    EXPECT_EQ(flushed.at(id).id(), id);
  }
  // Requests posted now are accepted and flushed.
  pair.b().queue.post_receive({.id = 50}, memory.slice()).value();
  EXPECT_EQ(take(pair.b().receives, 1).at(0).id(), 50U);
}

TEST(queue_pair_errors, post_before_the_required_state_is_refused) {
  const auto device = open_device("soft0").value();
  const auto pd = device.allocate_pd().value();
  const auto cq = device.create_cq(4).value();
  const auto memory = pd.allocate(64, access::local_write).value();
  auto queue = pd.create_qp<rc>(cq, cq).value().into_queue_pair();
  const auto receive = queue.post_receive({}, memory.slice());
  EXPECT_EQ(receive.code(), EINVAL);
  EXPECT_EQ(receive.accepted_before_failure(), 0U);
  auto batch = queue.start_send();
  batch.send({}, memory.slice());
  const auto status = batch.submit();
  EXPECT_EQ(status.code(), EINVAL);
  EXPECT_EQ(status.accepted_before_failure(), 0U);
  EXPECT_NE(status.error().message().find("does not accept the request"), std::string::npos);
}

TEST(queue_pair_errors, inline_data_above_the_granted_size_is_refused) {
  loopback pair;
  const std::vector<std::byte> bytes(pair.a().queue.capabilities().max_inline_data + 1);
  auto batch = pair.a().queue.start_send();
  batch.send({}, inline_data(bytes));
  EXPECT_FALSE(batch.submit());
}

}  // namespace
}  // namespace verbena
