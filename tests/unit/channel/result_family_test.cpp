// SPDX-License-Identifier: MIT
// All result types have one interface: bool, has_value(), value(), error(), and operator* for types
// with a value. VERBENA_TRY and VERBENA_TRY_VOID work with all of them.
#include <gtest/gtest.h>

#include <cerrno>
#include <concepts>
#include <cstdint>
#include <source_location>
#include <span>
#include <utility>
#include <vector>

#include "verbena/base/exception.hpp"
#include "verbena/base/post_status.hpp"
#include "verbena/base/result.hpp"
#include "verbena/channel/operation_result.hpp"
#include "verbena/channel/operation_scope.hpp"
#include "verbena/channel/send_result.hpp"
#include "verbena/verbs/close_result.hpp"
#include "verbena/verbs/completion_queue.hpp"

namespace verbena {
namespace {

template <class T>
concept like_result = requires(const T& each, T&& mine) {
  static_cast<bool>(each);
  { each.has_value() } -> std::same_as<bool>;
  { each.error() } -> std::convertible_to<error>;
  std::move(mine).value();
};
template <class T>
concept like_result_with_value = like_result<T> && requires(T&& mine) { *std::move(mine); };

static_assert(like_result_with_value<result<int>>);
static_assert(like_result<result<void>>);
static_assert(like_result<post_status>);
static_assert(like_result_with_value<poll_result>);
static_assert(like_result<close_result<int>>);
static_assert(like_result_with_value<operation_result>);
static_assert(like_result_with_value<send_result>);
static_assert(like_result_with_value<scope_result<int>>);
static_assert(like_result<scope_result<void>>);

ibv_wc completion_of(ibv_wc_status status) {
  ibv_wc native{};
  native.status = status;
  native.byte_len = 7;
  return native;
}

operation_result operation_with(ibv_wc_status status) {
  return operation_result::of(completion_of(status), false, std::source_location::current());
}

// Returns the value that VERBENA_TRY takes from `each`, or the error.
template <class T>
result<std::uint64_t> value_by_try(T each) {
  VERBENA_TRY(const auto value, std::move(each));
  return static_cast<std::uint64_t>(value);
}
template <class T>
result<void> success_by_try(T each) {
  VERBENA_TRY_DISCARD(std::move(each));
  return {};
}

template <class T>
void expect_success(T each) {
  EXPECT_TRUE(each.has_value());
  EXPECT_TRUE(static_cast<bool>(each));
  EXPECT_TRUE(success_by_try(std::move(each)).has_value());
}

template <class T>
void expect_failure(T each, int code) {
  EXPECT_FALSE(each.has_value());
  EXPECT_FALSE(static_cast<bool>(each));
  EXPECT_EQ(each.error().code(), code);
#ifndef VERBENA_NO_EXCEPTIONS
  T copy = each;
  EXPECT_THROW(static_cast<void>(std::move(copy).value()), exception);
#endif
  EXPECT_EQ(success_by_try(std::move(each)).error().code(), code);
}

error refused() { return error::from_errno(EBUSY, "f"); }

TEST(result_family, success_of_every_type_converts_to_true_and_passes_try) {
  expect_success(result<int>(7));
  expect_success(result<void>());
  expect_success(post_status());
  expect_success(poll_result(nullptr, 0));
  expect_success(close_result<int>());
  expect_success(operation_with(IBV_WC_SUCCESS));
  expect_success(send_result::of(1));
  expect_success(scope_result<int>(7, {}));
  expect_success(scope_result<void>(result<void>(), {}));
}

TEST(result_family, failure_of_every_type_converts_to_false_raises_and_leaves_by_try) {
  expect_failure(result<int>(refused()), EBUSY);
  expect_failure(result<void>(refused()), EBUSY);
  expect_failure(post_status(refused_post{.code = ENOMEM}), ENOMEM);
  expect_failure(poll_result(nullptr, -EIO), EIO);
  expect_failure(close_result<int>(refused(), 1), EBUSY);
  expect_failure(operation_with(IBV_WC_REM_ACCESS_ERR), IBV_WC_REM_ACCESS_ERR);
  expect_failure(send_result::refuse(send_refusal::too_long, EMSGSIZE), EMSGSIZE);
  expect_failure(scope_result<int>(refused(), {}), EBUSY);
  expect_failure(scope_result<void>(refused(), {}), EBUSY);
  expect_failure(scope_result<int>(7, {operation_with(IBV_WC_RETRY_EXC_ERR)}),
                 IBV_WC_RETRY_EXC_ERR);
}

TEST(result_family, value_and_star_return_the_same_value) {
  EXPECT_EQ(*operation_with(IBV_WC_SUCCESS), 7U);
  EXPECT_EQ(operation_with(IBV_WC_SUCCESS).value(), 7U);
  EXPECT_EQ(*send_result::of(3), 3U);
  const scope_result<int> scope(7, {});
  EXPECT_EQ(*scope, 7);
  EXPECT_EQ(scope.value(), 7);
  EXPECT_EQ(scope_result<int>(8, {}).value(), 8);
  scope_result<void>(result<void>(), {}).value();
}

TEST(result_family, try_declares_the_value_of_every_type_that_has_one) {
  EXPECT_EQ(value_by_try(result<int>(7)).value(), 7U);
  EXPECT_EQ(value_by_try(operation_with(IBV_WC_SUCCESS)).value(), 7U);
  EXPECT_EQ(value_by_try(send_result::of(3)).value(), 3U);
  EXPECT_EQ(value_by_try(scope_result<int>(8, {})).value(), 8U);
  EXPECT_EQ(value_by_try(operation_with(IBV_WC_WR_FLUSH_ERR)).error().code(), IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(value_by_try(scope_result<int>(refused(), {})).error().code(), EBUSY);
}

}  // namespace
}  // namespace verbena
