// SPDX-License-Identifier: MIT
// The scoped level: all operations have completed when a scope returns, fails or throws.
#include <gtest/gtest.h>

#include <cerrno>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/allocations.hpp"
#include "tests/unit/channel/channel_pair.hpp"

namespace verbena::test {
namespace {

using testing_support::log_catcher;

error some_error() { return error::invalid_argument("test", {}, "the body's own"); }

// parity: ibverbs-rs-27
TEST(operation_scope, scope_waits_for_operations_without_wait) {
  channel_pair pair;
  auto outbox = pair.memory(32, 5);
  auto inbox = pair.memory(32);
  const auto outcome = pair.b().scope(abort_at(long_deadline()), [&](operation_scope& receives) {
    (void)receives.receive(sink(inbox));
    EXPECT_EQ(receives.in_flight(), 1U);
    return pair.a()
        .scope(abort_at(long_deadline()),
               [&](operation_scope& sends) { (void)sends.send(source(outbox)); })
        .has_value();
  });
  ASSERT_TRUE(outcome) << outcome.error().message();
  EXPECT_TRUE(*outcome.body());
  EXPECT_TRUE(all_are(inbox.bytes(), 5));
  EXPECT_EQ(pair.b().in_flight(), 0U);
}

// parity: ibverbs-rs-34
TEST(operation_scope, buffer_is_used_again_within_the_scope) {
  channel_pair pair;
  auto outbox = pair.memory(4);
  auto inbox = pair.memory(4);
  const auto outcome = pair.b().scope(abort_at(long_deadline()), [&](operation_scope& scope) {
    sink into(inbox);
    for (unsigned char round = 1; round < 50; ++round) {
      auto receive = scope.receive(std::move(into));
      EXPECT_TRUE(into.empty());  // NOLINT(bugprone-use-after-move,*.Move): that is what is tested
      outbox.bytes()[0] = std::byte{round};
      EXPECT_TRUE(pair.a().send(source(outbox), abort_at(long_deadline())));
      EXPECT_TRUE(receive.wait());
      EXPECT_EQ(inbox.bytes()[0], std::byte{round});
      into = receive.take_sink();
    }
  });
  EXPECT_TRUE(outcome);
}

// parity: ibverbs-rs-33
TEST(operation_scope, results_are_polled_in_any_order_and_read_again) {
  channel_pair pair;
  auto outbox = pair.memory(64);
  auto inbox = pair.memory(64);
  std::vector<scoped_operation> kept;
  const auto outcome = pair.b().scope(abort_at(long_deadline()), [&](operation_scope& scope) {
    sink rest(inbox);
    for (int i = 0; i < 8; ++i) {
      sink behind = i < 7 ? rest.split(8) : sink();
      kept.push_back(scope.receive(std::move(rest)));  // the vector grows: handles are moved
      rest = std::move(behind);
    }
    for (std::size_t i = 0; i < 8; ++i)
      EXPECT_TRUE(pair.a().send(source(outbox, 0, i + 1), abort_at(long_deadline())));
    EXPECT_EQ(kept[7].wait().byte_length(), 8U);
    EXPECT_EQ(kept[0].wait().byte_length(), 1U);
    const operation_result* third = kept[3].poll();
    ASSERT_NE(third, nullptr);
    EXPECT_EQ(third->byte_length(), 4U);
  });
  ASSERT_TRUE(outcome) << outcome.error().message();
  // The results of all operations remain after the end of the scope.
  for (std::size_t i = 0; i < 8; ++i) {
    const operation_result* again = kept[i].poll();
    ASSERT_NE(again, nullptr);
    EXPECT_EQ(again->byte_length(), i + 1);
  }
}

// parity: ibverbs-rs-36
TEST(operation_scope, scattered_sinks_are_returned) {
  channel_pair pair;
  auto outbox = pair.memory(8, 6);
  auto inbox = pair.memory(16);
  const auto outcome = pair.b().scope(abort_at(long_deadline()), [&](operation_scope& scope) {
    std::vector<sink> pieces;
    pieces.emplace_back(inbox, 0, 4);
    pieces.emplace_back(inbox, 8, 4);
    auto receive = scope.receive(std::move(pieces));
    EXPECT_TRUE(pair.a().send(source(outbox), abort_at(long_deadline())));
    EXPECT_TRUE(receive.wait());
    return receive.take_sinks().size();
  });
  ASSERT_TRUE(outcome);
  EXPECT_EQ(*outcome.body(), 2U);
  EXPECT_TRUE(all_are(inbox.bytes().first(4), 6));
  EXPECT_TRUE(all_are(inbox.bytes().subspan(4, 4), 0));
  EXPECT_TRUE(all_are(inbox.bytes().subspan(8, 4), 6));
}

TEST(operation_scope, timed_wait_leaves_receive_in_flight_and_connection_intact) {
  channel_pair pair;
  auto outbox = pair.memory(8, 3);
  auto inbox = pair.memory(8);
  auto outcome = pair.b().scope([&](operation_scope& scope) {
    auto receive = scope.receive(sink(inbox));
    EXPECT_EQ(receive.wait(deadline::after(1ms)), nullptr);
    EXPECT_EQ(receive.wait(deadline::after(1ms)), nullptr);
    EXPECT_EQ(pair.b().failure(), nullptr);
    EXPECT_TRUE(pair.a().send(source(outbox)));
    const operation_result* const done = receive.wait(long_deadline());
    return done != nullptr && *done;
  });
  EXPECT_TRUE(std::move(outcome).value());
  EXPECT_TRUE(all_are(inbox.bytes(), 3));
}

TEST(operation_scope, flush_in_the_body_ends_a_scope_without_limit) {
  channel_pair pair;
  auto inbox = pair.memory(8);
  const auto outcome = pair.b().scope([&](operation_scope& scope) {
    auto receive = scope.receive(sink(inbox));
    pair.b().flush();
    return receive.wait().end();
  });
  ASSERT_TRUE(outcome) << outcome.error().message();
  EXPECT_EQ(*outcome.body(), operation_end::failed);
}

// parity: ibverbs-rs-31, rrddmma-55
TEST(operation_scope, passed_abort_at_ends_unmatched_receives) {
  channel_pair pair;
  auto inbox = pair.memory(32);
  const auto outcome = pair.a().scope(abort_after(30ms), [&](operation_scope& scope) {
    (void)scope.receive(sink(inbox, 0, 16));
    (void)scope.receive(sink(inbox, 16, 16));
  });
  EXPECT_FALSE(outcome);
  EXPECT_TRUE(outcome.body());
  ASSERT_EQ(outcome.drained().size(), 2U);
  EXPECT_EQ(outcome.drained()[0].end(), operation_end::aborted);
  EXPECT_EQ(outcome.drained()[1].end(), operation_end::aborted);
  EXPECT_NE(outcome.error().message().find("also: "), std::string::npos);
  EXPECT_EQ(pair.a().in_flight(), 0U);
}

TEST(operation_scope, post_after_the_limit_is_refused_and_the_connection_stays) {
  channel_pair pair;
  auto inbox = pair.memory(32);
  const auto outcome = pair.a().scope(abort_after(-1ms), [&](operation_scope& scope) {
    const auto is_refused = [](scoped_operation&& each) {
      const operation_result* const how = each.poll();
      return how != nullptr && how->refusal() == refusal::limit_passed && how->code() == ETIMEDOUT;
    };
    EXPECT_TRUE(is_refused(scope.receive(sink(inbox))));
    EXPECT_TRUE(is_refused(scope.send(source(inbox))));
    EXPECT_TRUE(is_refused(scope.write(source(inbox), inbox.remote())));
    EXPECT_TRUE(is_refused(scope.read(sink(inbox), inbox.remote())));
  });
  EXPECT_TRUE(outcome);
  EXPECT_EQ(pair.a().failure(), nullptr);
  EXPECT_TRUE(pair.a().write(source(inbox), inbox.remote(), abort_at(long_deadline())));
}

#ifdef VERBENA_COUNTS_ALLOCATIONS
// A failure is recorded when its handle is destroyed, where no exception can be thrown.
TEST(operation_scope, failure_without_memory_for_its_result_is_counted) {
  channel_pair pair;
  auto memory = pair.memory(8);
  auto closed = pair.pd().allocate(8, access::local_write).value();
  const auto outcome = pair.a().scope(abort_at(long_deadline()), [&](operation_scope& scope) {
    std::optional<scoped_operation> kept(scope.write(source(memory), closed.remote()));
    while (scope.in_flight() != 0) pair.a().progress();
    fails_allocations = true;
    kept.reset();
    fails_allocations = false;
  });
  EXPECT_FALSE(outcome);
  EXPECT_TRUE(outcome.body());
  EXPECT_TRUE(outcome.drained().empty());
  EXPECT_EQ(outcome.unrecorded(), 1U);
  EXPECT_NE(outcome.error().message().find("1 operations failed"), std::string::npos)
      << outcome.error().message();
}
#endif

// parity: ibverbs-rs-28, ibverbs-rs-30
TEST(operation_scope, error_of_body_comes_first_with_other_failures_appended) {
  channel_pair pair;
  auto inbox = pair.memory(32);
  const auto outcome = pair.a().scope(abort_after(30ms), [&](operation_scope& scope) {
    (void)scope.receive(sink(inbox));
    return result<int>(some_error());
  });
  ASSERT_FALSE(outcome.body());
  EXPECT_EQ(outcome.drained().size(), 1U);
  const std::string text = outcome.error().message();
  EXPECT_NE(text.find("the body's own"), std::string::npos) << text;
  EXPECT_NE(text.find("an abort_at passed"), std::string::npos) << text;
}

// parity: ibverbs-rs-32
TEST(operation_scope, inspected_failure_is_not_reported_again) {
  channel_pair pair;
  auto inbox = pair.memory(32);
  auto refused = pair.pd().allocate(8, access::local_write).value();
  const auto outcome = pair.a().scope(abort_at(long_deadline()), [&](operation_scope& scope) {
    auto write = scope.write(source(inbox, 0, 8), refused.remote());
    EXPECT_EQ(write.wait().end(), operation_end::failed);
    return 17;
  });
  ASSERT_TRUE(outcome) << outcome.error().message();
  EXPECT_EQ(*outcome.body(), 17);
}

// parity: ibverbs-rs-29
TEST(operation_scope, exception_propagates_after_operations_have_completed) {
  channel_pair pair;
  auto inbox = pair.memory(32);
  const log_catcher log;
  EXPECT_THROW((void)pair.a().scope(abort_after(30ms),
                                    [&](operation_scope& scope) {
                                      (void)scope.receive(sink(inbox));
                                      throw std::runtime_error("of the body");
                                    }),
               std::runtime_error);
  EXPECT_EQ(pair.a().in_flight(), 0U);
  EXPECT_TRUE(log.contains("while an exception ended its scope")) << log.text();
}

// parity: ibverbs-rs-18, ibverbs-rs-37
TEST(operation_scope, post_to_full_queue_returns_queue_full) {
  channel_pair pair;
  auto inbox = pair.memory(32);
  const auto outcome = pair.a().scope(abort_after(30ms), [&](operation_scope& scope) {
    for (std::size_t i = 0; i < 16; ++i) (void)scope.receive(sink(inbox, i, 1));
    EXPECT_EQ(pair.a().free_receives(), 0U);
    auto one_too_many = scope.receive(sink(inbox, 1, 1));
    const operation_result* refused = one_too_many.poll();
    ASSERT_NE(refused, nullptr);
    EXPECT_EQ(refused->refusal(), refusal::queue_full);
    EXPECT_FALSE(one_too_many.take_sink().empty());
  });
  EXPECT_EQ(outcome.drained().size(), 16U);
  EXPECT_EQ(pair.a().free_receives(), 16U);
}

TEST(operation_scope, channel_can_be_destroyed_in_the_body) {
  channel_pair pair;
  auto inbox = pair.memory(32);
  auto& a = pair.a();
  const auto outcome = a.scope(abort_after(30ms), [&](operation_scope& scope) {
    (void)scope.receive(sink(inbox));
    pair.drop_a();
  });
  EXPECT_EQ(outcome.drained().size(), 1U);
}

// parity: ibverbs-rs-39
TEST(manual_scope, returns_what_the_body_returns) {
  channel_pair pair;
  auto outbox = pair.memory(8, 1);
  auto target = pair.memory(8);
  const int value = pair.a().manual_scope(abort_at(long_deadline()), [&](operation_scope& scope) {
    auto write = scope.write(source(outbox), target.remote());
    EXPECT_TRUE(write.wait());
    return 4;
  });
  EXPECT_EQ(value, 4);
  const result<int> failed =
      pair.a().manual_scope(abort_after(30ms), [&](operation_scope& scope) -> result<int> {
        (void)scope.receive(sink(target));
        return some_error();
      });
  ASSERT_FALSE(failed);
  EXPECT_NE(failed.error().message().find("an abort_at passed"), std::string::npos);
  EXPECT_EQ(pair.a().in_flight(), 0U);
  const result<bool> refused = pair.a().manual_scope(
      [](operation_scope& /*unused*/) -> result<bool> { return some_error(); });
  EXPECT_FALSE(refused.has_value());
}

// parity: ibverbs-rs-40
TEST(manual_scope_death, success_without_inspecting_an_operation_stops_program) {
  const auto forgetful = [](bool keep) {
    channel_pair pair;  // of the process that dies
    auto outbox = pair.memory(8, 1);
    auto target = pair.memory(8);
    pair.a().manual_scope(abort_at(long_deadline()), [&](operation_scope& scope) {
      std::optional<scoped_operation> kept(scope.write(source(outbox), target.remote()));
      if (!keep) kept.reset();
    });
  };
  EXPECT_DEATH(forgetful(true), "without inspecting an operation.*operation_scope_test.cpp");
  EXPECT_DEATH(forgetful(false), "without inspecting an operation.*operation_scope_test.cpp");
}

// parity: ibverbs-rs-35
TEST(operation_scope_death, second_post_of_a_sink_stops_the_program) {
  const auto twice = [] {
    channel_pair pair;  // of the process that dies
    auto inbox = pair.memory(8);
    (void)pair.a().scope(abort_after(30ms), [&](operation_scope& scope) {
      sink into(inbox);
      (void)scope.receive(std::move(into));
      (void)scope.receive(std::move(into));  // NOLINT(bugprone-use-after-move,*.Move): the mistake
    });
  };
  EXPECT_DEATH(twice(), "a sink that was posted or moved from was used");
}

// Memory that is released while an operation of a scope uses it stops the program in all builds.
constexpr const char* released_in_use =
    "memory was released while an operation of a scope used it.*operation_scope_test.cpp";

TEST(operation_scope_death, region_that_ends_with_the_body_before_its_operation_stops_the_program) {
  const auto early = [](auto&& post) {
    channel_pair pair;  // of the process that dies
    (void)pair.a().scope(abort_at(long_deadline()), [&](operation_scope& scope) {
      auto short_lived = pair.memory(64);
      post(pair, scope, short_lived);
    });
  };
  EXPECT_DEATH(early([](auto&, operation_scope& scope, memory_region& memory) {
                 (void)scope.receive(sink(memory, 8, 8));
               }),
               released_in_use);
  EXPECT_DEATH(early([](auto&, operation_scope& scope, memory_region& memory) {
                 std::vector<sink> pieces;
                 pieces.emplace_back(memory, 0, 4);
                 pieces.emplace_back(memory, 8, 4);
                 (void)scope.receive(std::move(pieces));
               }),
               released_in_use);
  EXPECT_DEATH(early([](channel_pair& pair, operation_scope& scope, memory_region& memory) {
                 const auto first = pair.memory(8);
                 std::vector<sink> pieces;
                 pieces.emplace_back(first, 0, 4);
                 pieces.emplace_back(memory, 8, 4);
                 const auto held = scope.receive(std::move(pieces));
                 (void)std::move(memory).close();
               }),
               released_in_use);
  EXPECT_DEATH(early([](auto&, operation_scope& scope, memory_region& memory) {
                 const auto held = scope.receive(sink(memory));
                 (void)std::move(memory).close();
               }),
               released_in_use);
  EXPECT_DEATH(early([](channel_pair& pair, operation_scope& scope, memory_region& memory) {
                 const auto target = pair.memory(8);
                 (void)scope.write(source(memory, 0, 8), target.remote());
               }),
               released_in_use);
  EXPECT_DEATH(early([](auto&, operation_scope& scope, memory_region& memory) {
                 (void)scope.receive(sink(memory));
                 (void)std::move(memory).close();
               }),
               released_in_use);
  EXPECT_DEATH(early([](channel_pair& pair, operation_scope& scope, memory_region& memory) {
                 (void)scope.receive(sink(memory));
                 memory = pair.memory(8);
               }),
               released_in_use);
}

TEST(operation_scope_death, region_that_an_exception_releases_before_its_operation_stops_program) {
  const auto thrown = [] {
    channel_pair pair;  // of the process that dies
    (void)pair.a().scope(abort_at(long_deadline()), [&](operation_scope& scope) {
      auto short_lived = pair.memory(64);
      (void)scope.receive(sink(short_lived));
      throw std::runtime_error("of the body");
    });
  };
  EXPECT_DEATH(thrown(), released_in_use);
}

TEST(operation_scope_death, buffer_that_ends_in_an_inner_scope_before_its_operation_stops_program) {
  const auto early = [] {
    channel_pair pair;  // of the process that dies
    const auto pool = pair.pool();
    (void)pair.a().scope(abort_at(long_deadline()), [&](operation_scope& outer) {
      (void)pair.b().scope(abort_at(long_deadline()), [&](operation_scope&) {
        auto short_lived = pool.take(64).value();
        (void)outer.receive(sink(short_lived));
      });
    });
  };
  EXPECT_DEATH(early(), released_in_use);
}

TEST(operation_scope, memory_that_no_operation_uses_can_be_released_in_the_body) {
  channel_pair pair;
  auto outbox = pair.memory(8, 3);
  auto inbox = pair.memory(8);
  const auto pool = pair.pool();
  const auto outcome = pair.b().scope(abort_at(long_deadline()), [&](operation_scope& scope) {
    const auto send = [&] {
      EXPECT_TRUE(pair.a().send(source(outbox), abort_at(long_deadline())));
    };
    auto first = scope.receive(sink(inbox));
    {
      const auto unused = pair.memory(8);
    }
    auto moved = std::move(inbox);
    inbox = std::move(moved);
    send();
    EXPECT_TRUE(first.wait());
    {
      const auto short_lived = pair.memory(8);
      auto second = scope.receive(sink(short_lived));
      send();
      EXPECT_TRUE(second.wait());
    }
    auto held = pool.take(64).value();
    auto third = scope.receive(sink(held));
    {
      const auto neighbour = pool.take(64).value();
    }
    send();
    EXPECT_TRUE(third.wait());
  });
  EXPECT_TRUE(outcome);
}

}  // namespace
}  // namespace verbena::test
