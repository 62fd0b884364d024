// SPDX-License-Identifier: MIT
#include "verbena/base/result.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <concepts>
#include <memory>
#include <string>

#include "verbena/base/exception.hpp"

namespace verbena {
namespace {

error refused() { return error::from_errno(EBUSY, "f", "o"); }
result<int> seven() { return 7; }
result<int> no_number() { return refused(); }
result<void> done() { return {}; }
result<void> not_done() { return refused(); }

TEST(result, success_returns_its_value) {
  result<std::string> text = std::string("hi");
  EXPECT_TRUE(text.has_value());
  EXPECT_TRUE(static_cast<bool>(text));
  EXPECT_EQ(*text, "hi");
  EXPECT_EQ(text->size(), 2U);
  EXPECT_EQ(text.value(), "hi");
  text.value() += "!";
  EXPECT_EQ(std::move(text).value(), "hi!");
}

class explicit_number {
 public:
  explicit explicit_number(int value) : value_(value) {}
  [[nodiscard]] int value() const { return value_; }

 private:
  int value_;
};
struct truth {
  explicit operator bool() const { return true; }
};
static_assert(std::convertible_to<bool, result<bool>>);
static_assert(!std::constructible_from<result<bool>, result<void>>);  // it would drop an error
static_assert(!std::constructible_from<result<bool>, result<int>>);
static_assert(!std::convertible_to<truth, result<bool>>);
static_assert(!std::convertible_to<int, result<explicit_number>>);
static_assert(std::constructible_from<result<explicit_number>, int>);
static_assert(std::convertible_to<const char*, result<std::string>>);

TEST(result, explicit_conversion_needs_an_explicit_result) {
  EXPECT_EQ(result<explicit_number>(7).value().value(), 7);
}

TEST(result, failure_returns_its_error) {
  const auto none = no_number();
  EXPECT_FALSE(none.has_value());
  EXPECT_EQ(none.error().code(), EBUSY);
  EXPECT_EQ(no_number().error().call(), "f");
}

TEST(result_death, wrong_alternative_stops_the_program) {
  const result<int> failed = error::from_errno(EIO, "call");
  const result<int> succeeded = 3;
  EXPECT_DEATH(static_cast<void>(*failed), "a result with an error was dereferenced");
  EXPECT_DEATH(static_cast<void>(succeeded.error()), "error\\(\\) of a result that succeeded");
  EXPECT_DEATH(static_cast<void>(result<void>().error()), "error\\(\\) of a result that succeeded");
}

TEST(result, value_or_of_an_error_returns_the_alternative) {
  EXPECT_EQ(seven().value_or(1), 7);
  EXPECT_EQ(no_number().value_or(1), 1);
  const auto none = no_number();
  EXPECT_EQ(none.value_or(2), 2);
}

result<std::string> long_text() { return std::string(100, 'x'); }

TEST(result, value_of_a_temporary_is_returned_by_value) {
  int letters = 0;
  for (const char letter : long_text().value()) letters += letter == 'x' ? 1 : 0;
  EXPECT_EQ(letters, 100);
}

TEST(result, move_only_value_can_be_moved_out) {
  result<std::unique_ptr<int>> owner = std::make_unique<int>(5);
  const std::unique_ptr<int> taken = std::move(owner).value();
  EXPECT_EQ(*taken, 5);
}

TEST(result, and_then_and_transform_skip_errors) {
  const auto twice = [](int value) -> result<int> { return 2 * value; };
  const auto text = [](int value) { return std::to_string(value); };
  EXPECT_EQ(seven().and_then(twice).transform(text).value(), "14");
  EXPECT_EQ(no_number().and_then(twice).transform(text).error().code(), EBUSY);
}

TEST(result, or_else_and_transform_error_skip_values) {
  const auto rescue = [](const error&) -> result<int> { return 1; };
  const auto explain = [](error what) { return std::move(what).with_diagnosis("because"); };
  EXPECT_EQ(no_number().or_else(rescue).value(), 1);
  EXPECT_EQ(seven().or_else(rescue).value(), 7);
  EXPECT_EQ(no_number().transform_error(explain).error().diagnosis(), "because");
  EXPECT_EQ(seven().transform_error(explain).value(), 7);
}

TEST(result, transform_to_void_returns_result_void) {
  int seen = 0;
  const result<void> kept = seven().transform([&](int value) { seen = value; });
  EXPECT_TRUE(kept.has_value());
  EXPECT_EQ(seen, 7);
  EXPECT_FALSE(no_number().transform([&](int) { seen = 0; }).has_value());
  EXPECT_EQ(seen, 7);
}

TEST(result_void, members_behave_like_those_of_result) {
  EXPECT_TRUE(done().has_value());
  EXPECT_FALSE(static_cast<bool>(not_done()));
  EXPECT_EQ(not_done().error().code(), EBUSY);
  EXPECT_EQ(done().and_then(seven).value(), 7);
  EXPECT_FALSE(not_done().and_then(seven).has_value());
  EXPECT_EQ(done().transform([] { return 3; }).value(), 3);
  EXPECT_FALSE(not_done().transform([] {}).has_value());
  EXPECT_TRUE(done().transform([] {}).has_value());
  EXPECT_TRUE(not_done().or_else([](const error&) -> result<void> { return {}; }).has_value());
  EXPECT_TRUE(done().or_else([](error what) -> result<void> { return what; }).has_value());
  EXPECT_EQ(not_done()
                .transform_error([](error what) { return std::move(what).with_diagnosis("x"); })
                .error()
                .diagnosis(),
            "x");
}

result<int> sum_of(result<int> (*first)(), result<void> (*second)()) {
  VERBENA_TRY(const int a, first());
  VERBENA_TRY(const int b, first());
  VERBENA_TRY_VOID(second());
  return a + b;
}

TEST(verbena_try, error_is_returned_and_value_is_declared) {
  EXPECT_EQ(sum_of(seven, done).value(), 14);
  EXPECT_EQ(sum_of(no_number, done).error().code(), EBUSY);
  EXPECT_EQ(sum_of(seven, not_done).error().code(), EBUSY);
}

#ifndef VERBENA_NO_EXCEPTIONS
TEST(result, value_of_an_error_throws_exception) {
  EXPECT_THROW(static_cast<void>(no_number().value()), exception);
  const auto none = no_number();
  EXPECT_THROW(static_cast<void>(none.value()), exception);
  EXPECT_THROW(not_done().value(), exception);
  const auto undone = not_done();
  EXPECT_THROW(undone.value(), exception);
}
#endif

}  // namespace
}  // namespace verbena
