// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cerrno>
#include <string>
#include <system_error>

#include "verbena/base/error.hpp"
#include "verbena/verbs/completion_status.hpp"

namespace verbena {
namespace {

TEST(error_code, errno_becomes_a_code_of_the_generic_category) {
  const auto code = make_error_code(error::from_errno(ENOMEM, "ibv_reg_mr", "soft0"));
  EXPECT_EQ(code.category(), std::generic_category());
  EXPECT_EQ(code.value(), ENOMEM);
  EXPECT_EQ(code, std::errc::not_enough_memory);
  EXPECT_EQ(make_error_code(error::unavailable(ENOENT, "open", "o", "d")),
            std::errc::no_such_file_or_directory);
  EXPECT_EQ(make_error_code(error::not_supported("ibv_alloc_mw", "soft0", "")),
            std::errc::operation_not_supported);
}

TEST(error_code, kind_with_an_implied_errno_becomes_a_code_of_category) {
  const auto timeout = make_error_code(error::timed_out("accept", "o", "d"));
  EXPECT_EQ(timeout.category(), category());
  EXPECT_EQ(timeout, error_kind::timed_out);
  EXPECT_EQ(timeout, std::errc::timed_out);
  EXPECT_EQ(make_error_code(error::invalid_argument("f", "o", "d")), std::errc::invalid_argument);
  EXPECT_EQ(make_error_code(error::protocol("f", "o", "d")), std::errc::protocol_error);
}

TEST(error_code, error_without_an_errno_becomes_its_kind_and_never_success) {
  const auto code = make_error_code(error::from_errno(0, "ibv_create_qp_ex"));
  EXPECT_TRUE(static_cast<bool>(code));
  EXPECT_EQ(code, error_kind::os);
  EXPECT_EQ(make_error_code(error::unavailable(0, "f", "o", "d")), error_kind::unavailable);
}

TEST(error_code, completion_status_becomes_a_code_of_completion_category) {
  const auto code = make_error_code(error(error_kind::completion, 5, "work request 1"));
  EXPECT_EQ(code.category(), completion_category());
  EXPECT_EQ(code, completion_status::flushed);
  EXPECT_EQ(code, std::errc::operation_canceled);
  EXPECT_EQ(code.message(), "WR_FLUSH_ERR (flushed)");
  EXPECT_EQ(make_error_code(completion_status::retries_exceeded), std::errc::timed_out);
  EXPECT_FALSE(static_cast<bool>(make_error_code(completion_status::success)));
  EXPECT_EQ(make_error_code(completion_status::bad_response).default_error_condition().category(),
            completion_category());
}

TEST(error_code, every_kind_has_a_message) {
  EXPECT_STREQ(category().name(), "verbena");
  EXPECT_STREQ(completion_category().name(), "verbena.completion");
  for (const auto kind : {error_kind::os, error_kind::completion, error_kind::not_supported,
                          error_kind::invalid_argument, error_kind::timed_out, error_kind::protocol,
                          error_kind::unavailable}) {
    const auto message = make_error_code(kind).message();
    EXPECT_EQ(message.find("unknown"), std::string::npos) << message;
  }
  EXPECT_EQ(category().message(99), "unknown error 99");
}

}  // namespace
}  // namespace verbena
