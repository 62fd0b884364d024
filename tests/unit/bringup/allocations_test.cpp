// SPDX-License-Identifier: MIT
// Timeout errors do not allocate, so loops of short waits do not allocate.
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <utility>

#include "tests/unit/allocations.hpp"
#include "verbena/base/error.hpp"
#include "verbena/base/result.hpp"
#include "verbena/bringup/listener.hpp"

#ifdef VERBENA_COUNTS_ALLOCATIONS

namespace verbena {
namespace {

using test::allocations;

result<int> time_out(const shared_text& object) {
  return error::timed_out("accept", object, "no peer connected and completed its greeting");
}
result<int> pass_on(const shared_text& object) {
  VERBENA_TRY(const int value, time_out(object));
  return value;
}

TEST(allocations, timeout_with_a_shared_object_name_allocates_nothing) {
  const shared_text name(std::string("connection 192.0.2.1:7471 -> 192.0.2.2:50123"));
  const std::size_t before = allocations;
  const auto outcome = pass_on(name);
  const error copy = outcome.error();
  const auto code = make_error_code(copy);
  const std::size_t after = allocations;
  EXPECT_EQ(after - before, 0U);
  EXPECT_EQ(code, error_kind::timed_out);
  EXPECT_EQ(copy.message(),
            "accept on connection 192.0.2.1:7471 -> 192.0.2.2:50123 failed: Connection timed out "
            "(errno 110): no peer connected and completed its greeting");
}

TEST(allocations, error_of_other_text_allocates) {
  const std::string text(100, 'x');
  const std::size_t before = allocations;
  const auto what = error::timed_out("accept", text, "d");
  EXPECT_GT(allocations, before) << "the counter does not count";
  EXPECT_EQ(what.object(), text);
}

TEST(allocations, accept_of_a_listener_that_times_out_allocates_nothing) {
  auto listener = bringup::listener::open({"127.0.0.1", 0}).value();
  static_cast<void>(listener.accept(deadline::after(std::chrono::nanoseconds(0))));
  const std::size_t before = allocations;
  const auto outcome = listener.accept(deadline::after(std::chrono::nanoseconds(0)));
  const std::size_t after = allocations;
  EXPECT_EQ(outcome.error().kind(), error_kind::timed_out);
  EXPECT_EQ(after - before, 0U);
}

}  // namespace
}  // namespace verbena

#endif
