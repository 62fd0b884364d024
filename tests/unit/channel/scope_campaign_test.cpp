// SPDX-License-Identifier: MIT
// Scopes that end at each operation, by an error, an exception and a success, with and without
// abort_at, with and without a receive that does not complete. A campaign uses more operations.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/campaign_seed.hpp"
#include "tests/unit/channel/channel_pair.hpp"

namespace verbena::test {
namespace {

enum class scope_kind : std::uint8_t { collecting, manual };
enum class way_out : std::uint8_t { error, exception, success };
// How a wait for operations ends: all complete; abort_at ends a receive; abort_at is set and does
// not pass.
enum class end_of_waiting : std::uint8_t { operations, deadline, operations_before_deadline };

struct scope_trial {
  scope_kind scope;
  way_out out;
  end_of_waiting waiting;
  std::size_t operations;  // posted before the body ends
  std::uint32_t seed;
};

std::string text_of(const scope_trial& of) {
  return "scope " + std::to_string(static_cast<int>(of.scope)) + ", left by " +
         std::to_string(static_cast<int>(of.out)) + " after " + std::to_string(of.operations) +
         " operations, waiting " + std::to_string(static_cast<int>(of.waiting)) + ", seed " +
         std::to_string(of.seed);
}

// Runs one scope of mixed operations.
class scope_run {
 public:
  explicit scope_run(const scope_trial& of)
      : trial_(of),
        pair_({.queues = {.max_send_wr = 128, .max_recv_wr = 128},
               .access = access::remote_read | access::remote_write | access::remote_atomic}),
        pool_(pair_.pool(256)),
        random_(of.seed) {}

  void run() {
    {
      auto mine = pair_.memory(places * place_bytes, 1);
      auto theirs = pair_.memory(places * place_bytes, 2);
      mine_ = &mine;
      theirs_ = &theirs;
      if (trial_.scope == scope_kind::collecting) {
        collecting();
      } else {
        manual();
      }
      // The scope has returned the memory: the program writes and frees it.
      EXPECT_EQ(pair_.a().in_flight(), 0U);
      std::ranges::fill(mine.bytes(), std::byte{0xee});
      expect_all_ended();
    }
    if (!has_unmatched()) {
      const auto later = pair_.memory(8);
      EXPECT_TRUE(pair_.a().write(source(later), later.remote(), abort_at(long_deadline())));
    }
    kept_.clear();
    of_peer_.clear();
    pair_.b().flush();
    EXPECT_EQ(pool_.taken(), 0U);
  }

 private:
  static constexpr std::size_t places = 128;
  static constexpr std::size_t place_bytes = 16;

  [[nodiscard]] bool has_unmatched() const { return trial_.waiting == end_of_waiting::deadline; }
  [[nodiscard]] deadline until() const {
    if (trial_.waiting == end_of_waiting::operations) return deadline::never();
    return has_unmatched() ? deadline::after(2ms) : long_deadline();
  }
  [[nodiscard]] buffer memory_of_peer() const { return std::move(*pool_.take(place_bytes)); }

  // The body inspects, destroys or keeps a handle.
  void post(operation_scope& scope, std::size_t place) {
    auto handle = post_any(scope, place);
    const auto what = random_() % 3;
    const bool may_drop = trial_.scope == scope_kind::collecting || trial_.out != way_out::success;
    if (what == 0 && !has_unmatched()) {
      EXPECT_TRUE(handle.wait()) << text_of(trial_);
    } else if (what != 1 || !may_drop) {
      kept_.push_back(std::move(handle));
    }
  }

  scoped_operation post_any(operation_scope& scope, std::size_t place) {
    const std::size_t at = place * place_bytes;
    const source from(*mine_, at, place_bytes);
    const auto there = theirs_->remote().slice(at, place_bytes);
    auto into = sink(*mine_, at, place_bytes);
    switch (random_() % 6) {
      case 0:
        of_peer_.push_back(pair_.b().post_receive(memory_of_peer()));
        return scope.send(from);
      case 1: {
        auto handle = scope.receive(std::move(into));
        of_peer_.push_back(pair_.b().post_send(memory_of_peer(), {.length = place_bytes}));
        return handle;
      }
      case 2:
        return scope.write(from, there);
      case 3:
        return scope.read(std::move(into), there);
      case 4:
        return scope.fetch_and_add(sink(*mine_, at, 8), there, 1);
      default:
        return scope.compare_and_swap(sink(*mine_, at, 8), there, {.expected = 1, .desired = 2});
    }
  }

  void post_all(operation_scope& scope) {
    const std::size_t last = trial_.operations;
    for (std::size_t i = 0; i < last; ++i) post(scope, i);
    if (has_unmatched()) kept_.push_back(scope.receive(sink(*mine_, last * place_bytes, 8)));
    if (trial_.out == way_out::exception) throw std::runtime_error("the body's own");
  }

  [[nodiscard]] static error own_error() {
    return error::invalid_argument("test", {}, "the body's own");
  }
  [[nodiscard]] result<void> outcome_of_body() const {
    if (trial_.out == way_out::error) return own_error();
    return {};
  }

  void expect_error(const error& why) const {
    const bool names_body = why.message().find("the body's own") != std::string::npos;
    // If the limit passes within the body, later operations are refused.
    const bool names_deadline =
        why.message().find("an abort_at passed") != std::string::npos ||
        why.message().find("the limit of the call passed before") != std::string::npos;
    EXPECT_EQ(names_body, trial_.out == way_out::error) << text_of(trial_) << why.message();
    EXPECT_EQ(names_deadline, has_unmatched()) << text_of(trial_) << why.message();
  }

  void collecting() {
    try {
      const auto outcome = pair_.a().scope(abort_at(until()), [&](operation_scope& scope) {
        post_all(scope);
        return outcome_of_body();
      });
      EXPECT_NE(trial_.out, way_out::exception);
      EXPECT_EQ(outcome.has_value(), trial_.out == way_out::success && !has_unmatched());
      EXPECT_EQ(outcome.drained().empty(), !has_unmatched()) << text_of(trial_);
      if (!outcome) expect_error(outcome.error());
    } catch (const std::runtime_error& thrown) {
      EXPECT_STREQ(thrown.what(), "the body's own");
    }
  }

  void manual() {
    try {
      const auto outcome = pair_.a().manual_scope(abort_at(until()), [&](operation_scope& scope) {
        post_all(scope);
        if (trial_.out == way_out::success)
          for (auto& each : kept_) static_cast<void>(each.wait());
        return outcome_of_body();
      });
      EXPECT_EQ(outcome.has_value(), trial_.out == way_out::success);
      if (!outcome) expect_error(outcome.error());
    } catch (const std::runtime_error& thrown) {
      EXPECT_STREQ(thrown.what(), "the body's own");
    }
  }

  void expect_all_ended() {
    for (auto& each : kept_) {
      const operation_result* const ended = each.poll();
      ASSERT_NE(ended, nullptr) << text_of(trial_);
      EXPECT_TRUE(has_unmatched() || *ended) << text_of(trial_);
    }
    if (has_unmatched()) {
      const operation_result& last = *kept_.back().poll();
      EXPECT_TRUE(last.end() == operation_end::aborted || last.refusal() == refusal::limit_passed);
    }
  }

  scope_trial trial_;
  channel_pair pair_;
  buffer_pool pool_;
  std::mt19937 random_;
  memory_region* mine_ = nullptr;
  memory_region* theirs_ = nullptr;
  std::vector<scoped_operation> kept_;
  std::vector<pending_operation> of_peer_;
};

TEST(scope_campaign, scopes_complete_with_any_exit_at_any_operation) {
  const testing_support::log_catcher quiet;  // a scope that ends by an exception logs failures
  const auto most = static_cast<std::size_t>(campaign_size(8, 64));
  std::size_t trials = 0;
  for (std::size_t operations = 0; operations <= most; ++operations)
    for (const auto scope : {scope_kind::collecting, scope_kind::manual})
      for (const auto out : {way_out::error, way_out::exception, way_out::success})
        for (const auto waiting : {end_of_waiting::operations, end_of_waiting::deadline,
                                   end_of_waiting::operations_before_deadline}) {
          const scope_trial trial{.scope = scope,
                                  .out = out,
                                  .waiting = waiting,
                                  .operations = operations,
                                  .seed = campaign_seed(1) + static_cast<std::uint32_t>(++trials)};
          scope_run(trial).run();
          ASSERT_FALSE(::testing::Test::HasFailure()) << text_of(trial);
        }
  EXPECT_EQ(trials, (most + 1) * 18);
}

}  // namespace
}  // namespace verbena::test
