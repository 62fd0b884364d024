// SPDX-License-Identifier: MIT
#include "verbena/base/assert.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <string>

namespace verbena {
namespace {

/// Sets a handler and restores the previous one at the end of the scope.
class scoped_handler {
 public:
  explicit scoped_handler(violation_handler handler) : previous_(set_violation_handler(handler)) {}
  scoped_handler(const scoped_handler&) = delete;
  scoped_handler& operator=(const scoped_handler&) = delete;
  ~scoped_handler() { set_violation_handler(previous_); }

 private:
  violation_handler previous_;
};

TEST(assert_macro, true_condition_is_evaluated_once) {
  int evaluations = 0;
  VERBENA_ASSERT(++evaluations == 1, "counted once");
  EXPECT_EQ(evaluations, 1);
}

// parity: rrddmma-8
TEST(assert_macro_death, false_condition_aborts_with_message_and_source_location) {
  EXPECT_DEATH(VERBENA_ASSERT(1 == 2, "one equals two"),
               "verbena: usage error: one equals two \\(.*assert_test.cpp:[0-9]+\\)");
}

// parity: rrddmma-8
TEST(assert_macro_death, handler_is_called_before_the_abort) {
  EXPECT_DEATH(
      {
        set_violation_handler([](const contract_violation& broken) {
          std::fprintf(stderr, "handled: %s\n", broken.rule);
        });
        VERBENA_ASSERT(false, "a rule");
      },
      "handled: a rule");
}

TEST(assert_macro, handler_that_throws_prevents_the_abort) {
  const scoped_handler handler(
      [](const contract_violation& broken) { throw std::string(broken.rule); });
  std::string caught;
  try {
    VERBENA_ASSERT(false, "a rule for tests");
  } catch (const std::string& rule) {
    caught = rule;
  }
  EXPECT_EQ(caught, "a rule for tests");
}

TEST(assert_macro, setting_a_handler_returns_the_previous_one) {
  const violation_handler handler = [](const contract_violation&) {};
  const violation_handler before = set_violation_handler(handler);
  EXPECT_NE(before, nullptr);
  EXPECT_EQ(set_violation_handler(before), handler);
}

TEST(assert_macro_death, null_handler_restores_the_default_handler) {
  set_violation_handler([](const contract_violation&) {});
  set_violation_handler(nullptr);
  EXPECT_DEATH(VERBENA_ASSERT(false, "a rule for tests"), "usage error: a rule for tests");
}

#ifdef VERBENA_CHECKED
TEST(check_macro_death, false_condition_aborts_in_checked_builds) {
  EXPECT_DEATH(VERBENA_CHECK(false, "a checked rule"), "usage error: a checked rule");
}
#else
TEST(check_macro, condition_is_not_evaluated_in_unchecked_builds) {
  int evaluations = 0;
  VERBENA_CHECK(++evaluations == 7, "a checked rule");
  EXPECT_EQ(evaluations, 0);
}
#endif

}  // namespace
}  // namespace verbena
