// SPDX-License-Identifier: MIT
#include "verbena/net/multi_channel.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/net/ranks.hpp"
#include "verbena/memory/buffer_pool.hpp"

namespace verbena::test {
namespace {

using testing_support::expect_error;

constexpr std::uint32_t peers = 3;
constexpr access_flags all_access =
    access::local_write | access::remote_read | access::remote_write;

/// Three peers of `here` in the same process: `there[r]` is the channel of peer r.
class three_peers {
 public:
  explicit three_peers(std::uint32_t depth = 16)
      : options_{.queues = {.max_send_wr = depth, .max_recv_wr = depth},
                 .access = access::remote_read | access::remote_write} {
    auto ours = net::prepared_multi_channel::create(pd, peers, options_).value();
    auto theirs = net::prepared_multi_channel::create(pd, peers, options_).value();
    std::vector<endpoint> our_endpoints;
    std::vector<endpoint> their_endpoints;
    for (std::uint32_t each = 0; each < peers; ++each) {
      our_endpoints.push_back(ours.endpoint(each));
      their_endpoints.push_back(theirs.endpoint(each));
    }
    here.emplace(std::move(ours).handshake(their_endpoints).value());
    there.emplace(std::move(theirs).handshake(our_endpoints).value());
  }

  /// The number of bytes of a region per peer.
  static constexpr std::size_t part = 64;
  [[nodiscard]] std::byte* at(memory_region& of, std::size_t index) {
    return of.bytes().data() + index * part;
  }
  [[nodiscard]] std::vector<pending_operation> receive_there(buffer_pool& from) {
    std::vector<pending_operation> receives;
    receives.reserve(peers);
    for (std::uint32_t each = 0; each < peers; ++each)
      receives.push_back((*there)[each].post_receive(*from.take(part)));
    return receives;
  }

  context device = testing_support::open_soft();
  protection_domain pd = device.allocate_pd().value();
  memory_region local = pd.allocate(4096, all_access).value();
  memory_region remote = pd.allocate(4096, all_access).value();
  buffer_pool pool = buffer_pool::create(pd, {}).value();
  std::optional<net::multi_channel> here;
  std::optional<net::multi_channel> there;

 private:
  channel_options options_;
};

// parity: ibverbs-rs-66
TEST(multi_channel, scatter_sends_each_rank_its_message) {
  three_peers all;
  auto receives = all.receive_there(all.pool);
  std::vector<net::peer_send> parts;
  for (std::uint32_t each = 0; each < peers; ++each) {
    *all.at(all.local, each) = std::byte(each + 1);
    parts.push_back({.rank = each,
                     .data = source(all.local, each * three_peers::part, 1),
                     .options = {.immediate = each}});
  }
  ASSERT_TRUE(all.here->scatter(parts));
  for (std::uint32_t each = 0; each < peers; ++each) {
    EXPECT_TRUE(parts[each].result);
    EXPECT_EQ(receives[each].wait().immediate(), each);
    EXPECT_EQ(receives[each].take_buffer().bytes()[0], std::byte(each + 1));
  }
}

// parity: ibverbs-rs-66
TEST(multi_channel, multicast_sends_the_same_message_to_the_ranks) {
  three_peers all;
  auto receives = all.receive_there(all.pool);
  *all.at(all.local, 0) = std::byte{7};
  const std::array<std::uint32_t, 2> to{0, 2};
  ASSERT_TRUE(all.here->multicast(to, source(all.local, 0, 1)));
  for (const std::uint32_t each : to) {
    ASSERT_TRUE(receives[each].wait());
    EXPECT_EQ(receives[each].take_buffer().bytes()[0], std::byte{7});
  }
  EXPECT_EQ(receives[1].poll(), nullptr);
}

// parity: ibverbs-rs-65
TEST(multi_channel, scatter_writes_and_gather_reads_the_memory_of_ranks) {
  three_peers all;
  std::vector<net::peer_write> writes;
  writes.reserve(300);
  for (std::uint32_t each = 0; each < peers; ++each) {
    *all.at(all.local, each) = std::byte(each + 10);
    const net::peer_region region{.rank = each, .region = all.remote.remote()};
    writes.push_back({.to = region.slice(each * three_peers::part, 1),
                      .data = source(all.local, each * three_peers::part, 1)});
  }
  ASSERT_TRUE(all.here->scatter(writes));
  std::vector<net::peer_read> reads;
  for (std::uint32_t each = 0; each < peers; ++each) {
    EXPECT_EQ(*all.at(all.remote, each), std::byte(each + 10));
    reads.push_back(
        {.from = writes[each].to, .into = sink(all.local, 2048 + each * three_peers::part, 1)});
  }
  ASSERT_TRUE(all.here->gather(reads));
  for (std::uint32_t each = 0; each < peers; ++each) {
    EXPECT_EQ(reads[each].result.value(), 1U);
    EXPECT_EQ(all.local.bytes()[2048 + each * three_peers::part], std::byte(each + 10));
  }
}

// parity: ibverbs-rs-66
TEST(multi_channel, gather_receives_one_message_of_each_rank) {
  three_peers all;
  std::thread sender([&] {
    for (std::uint32_t each = 0; each < peers; ++each) {
      *all.at(all.remote, each) = std::byte(each + 20);
      EXPECT_TRUE((*all.there)[each].send(source(all.remote, each * three_peers::part, 1)));
    }
  });
  std::vector<net::peer_receive> parts;
  parts.reserve(peers);
  for (std::uint32_t each = 0; each < peers; ++each)
    parts.push_back(
        {.rank = peers - 1 - each, .into = sink(all.local, each * three_peers::part, 64)});
  EXPECT_TRUE(all.here->gather(parts));
  sender.join();
  for (std::uint32_t each = 0; each < peers; ++each) {
    EXPECT_EQ(parts[each].result.value(), 1U);
    EXPECT_EQ(*all.at(all.local, each), std::byte(peers - 1 - each + 20));
  }
}

TEST(multi_channel, more_parts_than_a_queue_has_room_for_are_posted) {
  three_peers all(2);
  std::vector<net::peer_write> writes;
  writes.reserve(300);
  for (std::uint32_t i = 0; i < 300; ++i)
    writes.push_back({.to = {.rank = i % peers, .region = all.remote.remote().slice(i * 8, 8)},
                      .data = source(all.local, i * 8, 8)});
  std::ranges::fill(all.local.bytes(), std::byte{3});
  ASSERT_TRUE(all.here->scatter(writes));
  EXPECT_TRUE(std::ranges::all_of(writes, [](const auto& each) { return bool(each.result); }));
  EXPECT_TRUE(std::ranges::all_of(all.remote.bytes().first(300 * 8),
                                  [](std::byte each) { return each == std::byte{3}; }));
}

// parity: ibverbs-rs-67
TEST(multi_channel, rank_that_does_not_exist_is_refused_before_posting) {
  three_peers all;
  std::array parts{net::peer_write{.to = {.rank = 0, .region = all.remote.remote()},
                                   .data = source(all.local, 0, 8)},
                   net::peer_write{.to = {.rank = 3, .region = all.remote.remote()},
                                   .data = source(all.local, 0, 8)}};
  *all.at(all.local, 0) = std::byte{1};
  expect_error(all.here->scatter(parts), "rank 3 is not less than the number of channels, 3");
  EXPECT_EQ(*all.at(all.remote, 0), std::byte{0});
  const std::array<std::uint32_t, 1> nobody{9};
  expect_error(all.here->multicast(nobody, source(all.local, 0, 8)), "rank 9");
}

// parity: ibverbs-rs-66
TEST(multi_channel, error_names_the_ranks_of_all_failures) {
  three_peers all;
  std::vector<net::peer_write> writes;
  writes.reserve(300);
  for (std::uint32_t each = 0; each < peers; ++each)
    writes.push_back({.to = {.rank = each, .region = all.remote.remote().slice(0, 8)},
                      .data = source(all.local, 0, each == 1 ? 8 : 16)});
  const auto failed = all.here->scatter(writes);
  expect_error(failed, "operations failed with ranks 0 and 2");
  EXPECT_EQ(writes[0].result.refusal(), refusal::remote_bounds);
  EXPECT_TRUE(writes[1].result);
}

TEST(multi_channel, passed_limit_ends_only_the_connection_of_its_operation) {
  three_peers all;
  std::array parts{net::peer_receive{.rank = 1, .into = sink(all.local, 0, 64)}};
  expect_error(all.here->gather(parts, abort_after(50ms)), "operations failed with rank 1");
  EXPECT_EQ(parts[0].result.end(), operation_end::aborted);
  EXPECT_NE((*all.here)[1].failure(), nullptr);
  EXPECT_TRUE((*all.here)[0].write(source(all.local, 0, 8), all.remote.remote()));
}

// A batch has at most 64 operations, so the last part is not in flight when the limit passes.
TEST(multi_channel, operation_after_the_limit_is_refused_and_its_connection_remains) {
  three_peers all(128);
  std::vector<net::peer_receive> parts;
  for (std::uint32_t each = 0; each < 65; ++each)
    parts.push_back(
        {.rank = each < 64 ? 1U : 2U, .into = sink(all.local, std::size_t{each} * 32, 32)});
  expect_error(all.here->gather(parts, abort_after(50ms)), "operations failed with ranks 1 and 2");
  EXPECT_EQ(parts[0].result.end(), operation_end::aborted);
  EXPECT_EQ(parts[64].result.refusal(), refusal::limit_passed);
  EXPECT_EQ(parts[64].result.code(), ETIMEDOUT);
  EXPECT_EQ((*all.here)[2].failure(), nullptr);
  EXPECT_TRUE((*all.here)[2].write(source(all.local, 0, 8), all.remote.remote()));
}

TEST(multi_channel, limit_that_has_passed_before_the_call_ends_no_connection) {
  three_peers all;
  const std::array<std::uint32_t, peers> ranks{0, 1, 2};
  std::vector<net::peer_send> sends;
  std::vector<net::peer_write> writes;
  std::vector<net::peer_receive> receives;
  std::vector<net::peer_read> reads;
  sends.reserve(peers);
  writes.reserve(peers);
  receives.reserve(peers);
  reads.reserve(peers);
  for (const std::uint32_t each : ranks) {
    const net::peer_region region{.rank = each, .region = all.remote.remote().slice(0, 8)};
    sends.push_back({.rank = each, .data = source(all.local, 0, 8)});
    writes.push_back({.to = region, .data = source(all.local, 0, 8)});
    receives.push_back({.rank = each, .into = sink(all.local, 0, 8)});
    reads.push_back({.from = region, .into = sink(all.local, 0, 8)});
  }
  const auto past = abort_after(0ns);
  const auto expect_refused = [&](const result<void>& outcome, const auto& parts) {
    expect_error(outcome, "operations failed with ranks 0, 1 and 2");
    for (const auto& each : parts) EXPECT_EQ(each.result.refusal(), refusal::limit_passed);
  };
  expect_refused(all.here->scatter(sends, past), sends);
  expect_refused(all.here->scatter(writes, past), writes);
  expect_refused(all.here->gather(receives, past), receives);
  expect_refused(all.here->gather(reads, past), reads);
  expect_error(all.here->multicast(ranks, source(all.local, 0, 8), past),
               "operations failed with ranks 0, 1 and 2");
  for (const std::uint32_t each : ranks) {
    EXPECT_EQ((*all.here)[each].failure(), nullptr);
    EXPECT_TRUE((*all.here)[each].write(source(all.local, 0, 8), all.remote.remote()));
  }
}

// parity: ibverbs-rs-65
TEST(multi_channel, number_of_endpoints_must_be_that_of_channels) {
  const auto device = testing_support::open_soft();
  const auto pd = device.allocate_pd().value();
  auto prepared = net::prepared_multi_channel::create(pd, 2).value();
  const std::array<endpoint, 1> one{prepared.endpoint(0)};
  expect_error(std::move(prepared).handshake(one), "1 endpoints for 2 channels");
}

TEST(multi_channel, too_many_operations_are_refused) {
  const auto device = testing_support::open_soft();
  const auto pd = device.allocate_pd().value();
  expect_error(net::prepared_multi_channel::create(
                   pd, 4096, {.queues = {.max_send_wr = 1U << 20U, .max_recv_wr = 1U << 20U}}),
               "reduce max_send_wr");
}

// parity: ibverbs-rs-81
TEST(multi_scope, scatters_gathers_and_multicasts) {
  three_peers all;
  auto receives = all.receive_there(all.pool);
  std::vector<net::peer_write> writes;
  std::vector<net::peer_read> reads;
  writes.reserve(peers);
  reads.reserve(peers);
  const std::array<std::uint32_t, 3> everyone{0, 1, 2};
  std::ranges::fill(all.local.bytes().first(64), std::byte{5});
  const auto done = all.here->scope(abort_after(20s), [&](net::multi_scope& scope) {
    for (std::uint32_t each = 0; each < peers; ++each)
      writes.push_back(
          {.to = {.rank = each, .region = all.remote.remote().slice(std::uint64_t{each} * 8, 8)},
           .data = source(all.local, 0, 8)});
    for (auto& each : scope.scatter(writes)) EXPECT_TRUE(each.wait());
    for (std::uint32_t each = 0; each < peers; ++each)
      reads.push_back(
          {.from = writes[each].to, .into = sink(all.local, 1024 + std::size_t{each} * 8, 8)});
    auto read = scope.gather(reads);
    EXPECT_TRUE(reads[0].into.empty());
    auto sent = scope.multicast(everyone, source(all.local, 0, 4));
    for (auto& each : sent) EXPECT_TRUE(each.wait());
    for (auto& each : read) EXPECT_EQ(each.wait().value(), 8U);
  });
  EXPECT_TRUE(done);
  for (auto& each : receives) EXPECT_EQ(each.wait().value(), 4U);
  EXPECT_TRUE(std::ranges::all_of(all.local.bytes().subspan(1024, 24),
                                  [](std::byte each) { return each == std::byte{5}; }));
}

// parity: ibverbs-rs-81
TEST(multi_scope, gathers_and_scatters_messages) {
  three_peers all;
  std::vector<net::peer_receive> receives;
  std::vector<net::peer_send> sends;
  receives.reserve(peers);
  sends.reserve(peers);
  for (std::uint32_t each = 0; each < peers; ++each) {
    receives.push_back({.rank = each, .into = sink(all.remote, std::size_t{each} * 64, 64)});
    sends.push_back({.rank = each, .data = source(all.local, 0, each + 1)});
  }
  const auto done = all.there->scope([&](net::multi_scope& there) {
    auto received = there.gather(receives);
    const auto inner = all.here->scope([&](net::multi_scope& here) -> result<int> {
      static_cast<void>(here.scatter(sends));
      return 7;
    });
    EXPECT_EQ(inner.body().value(), 7);
    for (std::uint32_t each = 0; each < peers; ++each)
      EXPECT_EQ(received[each].wait().value(), each + 1);
  });
  EXPECT_TRUE(done);
}

// parity: ibverbs-rs-82
TEST(multi_scope, waits_for_operations_of_all_channels) {
  three_peers all;
  std::ranges::fill(all.local.bytes(), std::byte{1});
  EXPECT_TRUE(all.here->scope([&](net::multi_scope& scope) {
    for (std::uint32_t each = 0; each < peers; ++each)
      static_cast<void>(
          scope[each].write(source(all.local, 0, 8), all.remote.remote().slice(each * 8ULL, 8)));
  }));
  for (std::uint32_t each = 0; each < peers; ++each) EXPECT_EQ((*all.here)[each].in_flight(), 0U);
  EXPECT_TRUE(std::ranges::all_of(all.remote.bytes().first(24),
                                  [](std::byte each) { return each == std::byte{1}; }));
}

// parity: ibverbs-rs-82
TEST(multi_scope, error_names_the_ranks_of_unmatched_receives) {
  three_peers all;
  const auto failed = all.here->scope(abort_after(50ms), [&](net::multi_scope& scope) {
    static_cast<void>(scope[0].receive(sink(all.local, 0, 8)));
    static_cast<void>(scope[2].receive(sink(all.local, 8, 8)));
  });
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.failures().size(), 2U);
  EXPECT_NE(failed.error().message().find("operations failed with ranks 0 and 2"),
            std::string::npos);
}

// parity: ibverbs-rs-82
TEST(multi_scope, error_of_the_body_comes_first) {
  three_peers all;
  const auto failed =
      all.here->scope(abort_after(50ms), [&](net::multi_scope& scope) -> result<void> {
        static_cast<void>(scope[1].receive(sink(all.local, 0, 8)));
        return error::unavailable(0, "body", {}, "no value");
      });
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().call(), "body");
  EXPECT_NE(failed.error().message().find("operations failed with rank 1"), std::string::npos);
}

TEST(multi_scope, exception_continues_after_the_operations_have_completed) {
  three_peers all;
  EXPECT_THROW(static_cast<void>(all.here->scope([&](net::multi_scope& scope) {
                 static_cast<void>(scope[1].write(source(all.local, 0, 8), all.remote.remote()));
                 throw std::runtime_error("body");
               })),
               std::runtime_error);
  EXPECT_EQ((*all.here)[1].in_flight(), 0U);
}

/// Returns the number of buffers that are taken from the pool.
std::size_t taken_from(const buffer_pool& pool) {
  std::vector<buffer> free;
  while (auto next = pool.take(1)) free.push_back(*std::move(next));
  return pool.count() - free.size();
}

// parity: ibverbs-rs-97
TEST(pending_operations, scatter_and_gather_own_their_buffers) {
  three_peers all;
  std::vector<net::owned_receive> receives;
  std::vector<net::owned_send> sends;
  for (std::uint32_t each = 0; each < peers; ++each) {
    receives.push_back({.rank = each, .memory = *all.pool.take(64)});
    auto text = *all.pool.take(64);
    text.bytes()[1] = std::byte(each + 1);
    sends.push_back({.rank = each,
                     .memory = std::move(text),
                     .part = {.offset = 1, .length = 1},
                     .options = {.immediate = each}});
  }
  auto received = all.there->post_gather(receives);
  auto sent = all.here->post_scatter(sends);
  EXPECT_TRUE(sent.wait(test_deadline()));
  EXPECT_TRUE(received.wait(test_deadline()));
  ASSERT_EQ(received.size(), peers);
  for (std::uint32_t each = 0; each < peers; ++each) {
    EXPECT_EQ(received.rank(each), each);
    EXPECT_EQ(received[each].wait().immediate(), each);
    EXPECT_EQ(received[each].take_buffer().bytes()[0], std::byte(each + 1));
    EXPECT_EQ(sent[each].take_buffer().bytes()[1], std::byte(each + 1));
  }
  EXPECT_EQ(taken_from(all.pool), 0U);
}

// parity: ibverbs-rs-97
TEST(pending_operations, scatter_writes_and_gather_reads) {
  three_peers all;
  std::vector<net::owned_write> writes;
  for (std::uint32_t each = 0; each < peers; ++each) {
    auto text = *all.pool.take(64);
    text.bytes()[0] = std::byte(each + 1);
    writes.push_back({.to = {.rank = each, .region = all.remote.remote().slice(each * 8ULL, 8)},
                      .memory = std::move(text),
                      .part = {.length = 8}});
  }
  ASSERT_TRUE(all.here->post_scatter(writes).wait(test_deadline()));
  std::vector<net::owned_read> reads;
  reads.reserve(peers);
  for (std::uint32_t each = 0; each < peers; ++each)
    reads.push_back({.from = {.rank = each, .region = all.remote.remote().slice(each * 8ULL, 8)},
                     .memory = *all.pool.take(64),
                     .part = {.offset = 8, .length = 8}});
  auto read = all.here->post_gather(reads);
  ASSERT_TRUE(read.wait(test_deadline()));
  for (std::uint32_t each = 0; each < peers; ++each)
    EXPECT_EQ(read[each].take_buffer().bytes()[8], std::byte(each + 1));
}

// parity: ibverbs-rs-97
TEST(pending_operations, multicast_owns_one_buffer) {
  three_peers all;
  auto receives = all.receive_there(all.pool);
  auto text = *all.pool.take(64);
  text.bytes()[0] = std::byte{7};
  const auto* const memory = text.bytes().data();
  const std::array<std::uint32_t, 2> to{0, 2};
  auto sent = all.here->post_multicast(to, std::move(text), {.length = 1});
  ASSERT_TRUE(sent.wait(test_deadline()));
  const auto back = sent.take_buffer();
  EXPECT_EQ(back.bytes().data(), memory);
  EXPECT_TRUE(sent.take_buffer().empty());
  for (const std::uint32_t each : to) {
    ASSERT_TRUE(receives[each].wait());
    EXPECT_EQ(receives[each].take_buffer().bytes()[0], std::byte{7});
  }
  EXPECT_EQ(receives[1].poll(), nullptr);
}

TEST(pending_operations, destroyed_multicast_returns_the_buffer_when_the_last_send_has_ended) {
  three_peers all;
  {
    const std::array<std::uint32_t, 2> to{0, 1};
    auto dropped = all.here->post_multicast(to, *all.pool.take(64), {.length = 1});
    expect_error(dropped.wait(deadline::after(1ms)),
                 "operations are still in flight with ranks 0 and 1");
  }
  EXPECT_EQ(taken_from(all.pool), 1U);
  auto first = (*all.there)[0].post_receive(*all.pool.take(64));
  EXPECT_TRUE(first.wait());
  EXPECT_EQ(taken_from(all.pool), 2U);
  auto second = (*all.there)[1].post_receive(*all.pool.take(64));
  EXPECT_TRUE(second.wait());
  const auto until = test_deadline();
  while (taken_from(all.pool) != 2 && !until.expired())
    static_cast<void>(all.here->hub().progress());
  EXPECT_EQ(taken_from(all.pool), 2U);  // the buffers of the receives
}

TEST(pending_operations, error_names_the_ranks_of_the_failures) {
  three_peers all;
  std::vector<net::owned_receive> receives;
  for (const std::uint32_t each : {2U, 0U, 2U})
    receives.push_back({.rank = each, .memory = *all.pool.take(64)});
  auto waiting = all.here->post_gather(receives);
  expect_error(waiting.wait(deadline::after(1ms)),
               "operations are still in flight with ranks 0 and 2");
  (*all.here)[2].flush();
  (*all.here)[0].flush();
  expect_error(waiting.wait(test_deadline()), "operations failed with ranks 0 and 2");
}

TEST(pending_operations, multicast_to_no_rank_returns_its_buffer) {
  three_peers all;
  auto none = all.here->post_multicast({}, *all.pool.take(64));
  EXPECT_TRUE(none.wait());
  EXPECT_FALSE(none.take_buffer().empty());
}

TEST(multi_channel_death, rank_out_of_range_stops_the_program) {
  three_peers all;
  EXPECT_DEATH(static_cast<void>((*all.here)[3]), "a rank is not less than the number of channels");
}

TEST(multi_scope_death, error_of_a_success_stops_the_program) {
  three_peers all;
  const auto done = all.here->scope([](net::multi_scope& /*scope*/) {});
  ASSERT_TRUE(done);
  EXPECT_DEATH(static_cast<void>(done.error()), "error\\(\\) of a scope that succeeded");
}

}  // namespace
}  // namespace verbena::test
