// SPDX-License-Identifier: MIT
// Kills the peer process at random times of operations and messages, and at each system call of
// connecting. The surviving side must return within its time limit with an error that has a cause,
// must have all its buffers back, and must be able to connect a new channel. A campaign kills more
// often.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <future>
#include <limits>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>

#include "tests/unit/campaign_seed.hpp"
#include "tests/unit/channel/killed_process.hpp"
#include "tests/unit/channel/message_traffic.hpp"
#include "tests/unit/channel/mixed_traffic.hpp"

namespace verbena::test {
namespace {

using namespace std::chrono_literals;

std::set<std::string> shared_memory_of_the_library() {
  std::set<std::string> names;
  for (const auto& each : std::filesystem::directory_iterator("/dev/shm"))
    if (each.path().string().find("verbena") != std::string::npos) names.insert(each.path());
  return names;
}

// Both types of channels: how the surviving side connects and uses one, and its state afterwards.
struct operations {
  static constexpr const char* name = "operations";
  using side = channel_side;
  using traffic = mixed_traffic;
  using failure = operation_result;

  static void expect_given_back(channel_side& between, mixed_traffic& used,
                                const operation_result& failed) {
    EXPECT_NE(failed.end(), operation_end::success);
    // Posts are refused after the connection manager has reported the disconnect.
    if (failed.refusal() != refusal::not_connected || between.over.failure() == nullptr) {
      EXPECT_NE(failed.end(), operation_end::refused) << failed.error().message();
    }
    EXPECT_GT(between.over.describe(failed).message().size(), 40U);
    used.end();
    between.over.flush();
    EXPECT_EQ(between.over.in_flight(), 0U);
    EXPECT_EQ(between.pool.taken(), 0U);
    // A new channel of the same domain.
    auto prepared = between.pd.create_channel({.access = access::remote_write}).value();
    const auto self = prepared.endpoint();
    auto made = std::move(prepared).handshake(self).value();
    EXPECT_TRUE(made.write(source(between.region, 0, 8), between.region.remote().slice(8, 8),
                           abort_at(mixed_traffic::bound())));
  }
};

struct messages {
  static constexpr const char* name = "messages";
  using side = message_channel_side;
  using traffic = message_traffic;
  using failure = message_failure;

  static void expect_given_back(message_channel_side& between, message_traffic& used,
                                const message_failure& failed) {
    EXPECT_TRUE(failed.done.has_value() || failed.part == failed_part::connection)
        << static_cast<int>(failed.part);
    EXPECT_GT(between.over.describe().message().size(), 40U);
    EXPECT_LE(between.over.delivered(), between.over.sent());
    between.over.flush();
    used.end();
    EXPECT_EQ(between.pool.taken(), 0U);
    auto prepared = message_channel::prepare(between.pd, between.pool,
                                             {.message_bytes = 256, .queues = {.max_recv_wr = 8}})
                        .value();
    const auto self = prepared.endpoint();
    auto made = std::move(prepared).handshake(self).value();
    EXPECT_TRUE(made.send(known_message(1, 1, 256).bytes(), mixed_traffic::bound()));
    EXPECT_TRUE(made.receive(mixed_traffic::bound()));
  }
};

std::string text_of(connect_method way, connect_side side) {
  return std::string(way == connect_method::stream ? "by a stream" : "by the manager") +
         (side == connect_side::active ? ", active side" : ", passive side");
}

constexpr std::array ways{connect_method::stream, connect_method::manager};
constexpr std::array sides{connect_side::active, connect_side::passive};

// Uses the channel until it fails.
template <class Kind>
void expect_failure(typename Kind::side& between, typename Kind::traffic& used) {
  std::optional<typename Kind::failure> failed;
  const auto bound = deadline::after(20s);
  while (!failed && !bound.expired()) failed = used.step();
  ASSERT_TRUE(failed) << "the surviving side reported no failure";
  Kind::expect_given_back(between, used, *failed);
}

// Kills the peer after a number of operations.
template <class Kind>
void kill_in_traffic(connect_method way, connect_side side, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::optional<side_listener> place;
  if (side == connect_side::active) place.emplace(way);
  killed_process peer(Kind::name, way, side, place ? place->port() : std::uint16_t{0}, tracing::no);
  const auto until = deadline::after(20s);
  auto between = place ? place->accept<typename Kind::side>(until, until)
                       : connect_to<typename Kind::side>(way, peer.port().value(), until);
  ASSERT_TRUE(between) << between.error().message();
  typename Kind::traffic used(*between, random());
  for (auto left = random() % 300; left > 0; --left) {
    const auto failed = used.step();
    ASSERT_FALSE(failed) << "before the peer was killed";
  }
  peer.kill();
  expect_failure<Kind>(*between, used);
}

// The result of the side whose peer is killed while they connect.
template <class Kind>
void survive(connect_method way, side_listener* place, const killed_process& peer,
             const std::atomic<bool>& killed) {
  using side = typename Kind::side;
  const auto meet = [&]() -> result<side> {
    if (place == nullptr) {
      const auto port = peer.port();
      if (!port)
        return error::unavailable(0, "killed_process", {}, "the process exited before it listened");
      return connect_to<side>(way, *port, deadline::after(3s));
    }
    // The peer connects before it is killed, or not at all.
    for (;;) {
      const bool last = killed;
      auto found = place->accept<side>(deadline::after(20ms), deadline::after(3s));
      if (found || last || found.error().kind() != error_kind::timed_out) return found;
    }
  };
  const auto begun = deadline::clock::now();
  auto between = meet();
  if (!between) {
    EXPECT_GT(between.error().message().size(), 20U);
  } else {
    typename Kind::traffic used(*between, 1);
    expect_failure<Kind>(*between, used);
  }
  EXPECT_LT(deadline::clock::now() - begun, 40s);
}

// Kills the peer after `steps` system calls of connecting; returns the number of executed calls.
template <class Kind>
int kill_after(int steps, connect_method way, connect_side side) {
  std::optional<side_listener> place;
  if (side == connect_side::active) place.emplace(way);
  killed_process peer(Kind::name, way, side, place ? place->port() : std::uint16_t{0},
                      tracing::yes);
  if (!peer.begin()) {
    ADD_FAILURE() << "the peer cannot be traced";
    return 0;
  }
  std::atomic<bool> killed{false};
  auto survivor = std::async(std::launch::async,
                             [&] { survive<Kind>(way, place ? &*place : nullptr, peer, killed); });
  const int made = peer.step(steps);
  peer.kill();
  killed = true;
  survivor.get();
  return made;
}

template <class Kind>
class killed_peers : public ::testing::Test {
 protected:
  // Shared memory that was not there before was left by this test.
  void TearDown() override { EXPECT_EQ(shared_memory_of_the_library(), before_); }

 private:
  std::set<std::string> before_ = shared_memory_of_the_library();
};

struct kind_names {
  template <class Kind>
  static std::string GetName(int /*index*/) {
    return Kind::name;
  }
};
using kinds = ::testing::Types<operations, messages>;
TYPED_TEST_SUITE(killed_peers, kinds, kind_names);

TYPED_TEST(killed_peers, at_random_moments_of_traffic) {
  std::mt19937 random(campaign_seed(11));
  for (int round = 0; round < campaign_size(1, 32); ++round)
    for (const auto way : ways)
      for (const auto side : sides) {
        SCOPED_TRACE(text_of(way, side) + ", round " + std::to_string(round));
        kill_in_traffic<TypeParam>(way, side, random());
        ASSERT_FALSE(this->HasFailure());
      }
}

TYPED_TEST(killed_peers, at_every_step_of_getting_a_channel) {
  std::mt19937 random(campaign_seed(5));
  for (const auto way : ways)
    for (const auto side : sides) {
      SCOPED_TRACE(text_of(way, side));
      const int all = kill_after<TypeParam>(std::numeric_limits<int>::max(), way, side);
      EXPECT_GT(all, 20);
      this->RecordProperty(text_of(way, side), all);
      // One system call; a campaign takes each 8th, and in eight rounds each of them once.
      const int stride = is_campaign() ? 8 * campaign_share() : all;
      const unsigned first = is_campaign() ? campaign_round() : random();
      for (int step = static_cast<int>(first % static_cast<unsigned>(stride)); step < all;
           step += stride) {
        SCOPED_TRACE("step " + std::to_string(step) + " of " + std::to_string(all));
        static_cast<void>(kill_after<TypeParam>(step, way, side));
        ASSERT_FALSE(this->HasFailure());
      }
    }
}

}  // namespace
}  // namespace verbena::test
