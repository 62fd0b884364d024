// SPDX-License-Identifier: MIT
#include "verbena/base/post_status.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <type_traits>

#include "verbena/base/exception.hpp"

namespace verbena {
namespace {

static_assert(sizeof(post_status) == 8, "one register");
static_assert(std::is_trivially_copyable_v<post_status>);

TEST(post_status, success_has_no_number_and_does_not_raise) {
  const post_status done;
  EXPECT_TRUE(done.ok());
  EXPECT_TRUE(static_cast<bool>(done));
  EXPECT_EQ(done.code(), 0);
  done.value();
}

TEST(post_status, failure_says_which_request_was_refused) {
  const post_status failed(ENOMEM, 3);
  EXPECT_FALSE(failed.ok());
  EXPECT_FALSE(static_cast<bool>(failed));
  EXPECT_EQ(failed.accepted(), 3U);
  EXPECT_EQ(failed.error().code(), ENOMEM);
  const std::string message = failed.error().message();
  EXPECT_NE(message.find("request 3 of the list"), std::string::npos) << message;
  EXPECT_NE(message.find("the queue is full"), std::string::npos) << message;
}

TEST(post_status, a_number_that_a_provider_negated_is_the_same_number) {
  const post_status failed(-ENOMEM, 0);
  EXPECT_FALSE(failed.ok());
  EXPECT_EQ(failed.code(), ENOMEM);
  EXPECT_EQ(failed.error().message(), post_status(ENOMEM, 0).error().message());
}

TEST(post_status, every_usual_number_has_a_cause) {
  const auto diagnosis = [](int code) { return post_status(code, 0).error().diagnosis(); };
  EXPECT_NE(diagnosis(EINVAL).find("state"), std::string::npos);
  EXPECT_NE(diagnosis(EOPNOTSUPP).find("does not have this operation"), std::string::npos);
  EXPECT_EQ(post_status(EOPNOTSUPP, 0).error().kind(), error_kind::not_supported);
  EXPECT_NE(diagnosis(ENODEV).find("gone"), std::string::npos);
  EXPECT_EQ(diagnosis(EIO), diagnosis(ENODEV));
  EXPECT_EQ(diagnosis(ENOSPC), diagnosis(ENOMEM));
  EXPECT_EQ(diagnosis(EINTR), "the 0 before it were accepted");
}

#ifndef VERBENA_NO_EXCEPTIONS
TEST(post_status, value_raises_the_failure) {
  EXPECT_THROW(post_status(ENOMEM, 0).value(), exception);
}
#endif

TEST(post_status_death, error_of_a_success_breaks_a_rule) {
  EXPECT_DEATH(static_cast<void>(post_status().error()),
               "error\\(\\) is asked of a post_status only when the post failed");
}

}  // namespace
}  // namespace verbena
