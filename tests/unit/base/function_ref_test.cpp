// SPDX-License-Identifier: MIT
#include "verbena/base/function_ref.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

namespace verbena {
namespace {

using unary = function_ref<int(int)>;

int twice(int number) { return 2 * number; }

int call(unary function, int number) { return function(number); }

TEST(function_ref, default_reference_is_empty) {
  EXPECT_FALSE(unary());
  EXPECT_FALSE(unary(nullptr));
}

TEST(function_ref, reference_to_a_function_calls_it) {
  EXPECT_EQ(call(twice, 4), 8);
  EXPECT_EQ(call(&twice, 4), 8);
}

TEST(function_ref, reference_to_a_temporary_pointer_stays_valid) {
  const unary function = &twice;
  EXPECT_EQ(function(4), 8);
}

TEST(function_ref, reference_to_a_lambda_calls_it_without_a_copy) {
  int calls = 0;
  auto count = [&calls, own = 0](int number) mutable {
    ++calls;
    own += number;
    return own;
  };
  const unary function = count;
  EXPECT_EQ(function(3), 3);
  EXPECT_EQ(count(4), 7);
  EXPECT_EQ(calls, 2);
}

TEST(function_ref, reference_to_a_temporary_lambda_is_called_during_the_call) {
  EXPECT_EQ(call([](int number) { return number + 1; }, 4), 5);
}

TEST(function_ref, const_object_is_called_as_const) {
  struct overloaded {
    int operator()(int) { return 1; }
    int operator()(int) const { return 2; }
  };
  overloaded changeable;
  const overloaded constant;
  EXPECT_EQ(call(changeable, 0), 1);
  EXPECT_EQ(call(constant, 0), 2);
}

TEST(function_ref, copy_refers_to_the_object_of_the_original) {
  auto add = [sum = 0](int number) mutable { return sum += number; };
  const unary first = add;
  const unary second = first;  // NOLINT(performance-unnecessary-copy-initialization)
  EXPECT_EQ(first(1), 1);
  EXPECT_EQ(second(2), 3);
}

TEST(function_ref, reference_to_an_empty_function_is_empty) {
  std::function<int(int)> none;
  int (*null)(int) = nullptr;
  EXPECT_FALSE(unary(none));
  EXPECT_FALSE(unary(null));
  none = twice;
  EXPECT_EQ(call(none, 4), 8);
}

TEST(function_ref, arguments_and_results_may_be_move_only) {
  using mover = function_ref<std::unique_ptr<int>(std::unique_ptr<int>)>;
  auto add_one = [](std::unique_ptr<int> number) {
    ++*number;
    return number;
  };
  const mover function = add_one;
  EXPECT_EQ(*function(std::make_unique<int>(4)), 5);
}

TEST(function_ref, argument_by_reference_is_the_object_of_the_caller) {
  std::string text = "a";
  auto append = [](std::string& to) { to += 'b'; };
  const function_ref<void(std::string&)> function = append;
  function(text);
  EXPECT_EQ(text, "ab");
}

TEST(function_ref, result_is_converted_or_discarded) {
  auto number = [] { return 4; };
  const function_ref<double()> converted = number;
  const function_ref<void()> discarded = number;
  EXPECT_EQ(converted(), 4.0);
  discarded();
}

TEST(function_ref, constructor_accepts_only_callables_of_the_signature) {
  EXPECT_FALSE((std::is_constructible_v<unary, int>));
  EXPECT_FALSE((std::is_constructible_v<unary, void (*)(int)>));
  EXPECT_FALSE((std::is_constructible_v<unary, int (*)(int, int)>));
  EXPECT_TRUE((std::is_constructible_v<unary, int (*)(int)>));
}

TEST(function_ref, object_cannot_be_assigned) {
  auto lambda = [](int number) { return number; };
  EXPECT_FALSE((std::is_assignable_v<unary&, decltype(lambda)>));
  EXPECT_TRUE((std::is_assignable_v<unary&, unary>));
  EXPECT_TRUE((std::is_assignable_v<unary&, int (*)(int)>));
  EXPECT_TRUE((std::is_assignable_v<unary&, std::nullptr_t>));
}

TEST(function_ref_death_test, call_of_an_empty_reference_stops_the_program) {
  const unary none;
  EXPECT_DEATH(static_cast<void>(none(1)), "an empty function_ref was called");
}

}  // namespace
}  // namespace verbena
