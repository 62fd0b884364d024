// SPDX-License-Identifier: MIT
#include "verbena/base/error.hpp"

#include <gtest/gtest.h>

#include <cerrno>

#include "verbena/base/exception.hpp"

namespace verbena {
namespace {

TEST(error, message_names_call_object_number_and_remedy) {
  const auto what = error::from_errno(ENOMEM, "ibv_reg_mr", "soft0", "raise the limit");
  EXPECT_EQ(what.message(),
            "ibv_reg_mr on soft0 failed: Cannot allocate memory (errno 12): raise the limit");
  EXPECT_EQ(what.kind(), error_kind::os);
  EXPECT_EQ(what.code(), ENOMEM);
  EXPECT_EQ(what.call(), "ibv_reg_mr");
  EXPECT_EQ(what.object(), "soft0");
  EXPECT_EQ(what.diagnosis(), "raise the limit");
}

TEST(error, empty_parts_leave_no_trace_in_the_message) {
  EXPECT_EQ(error::from_errno(EPERM, "open").message(),
            "open failed: Operation not permitted (errno 1)");
}

TEST(error, a_verb_that_gave_no_number_just_failed) {
  EXPECT_EQ(error::from_errno(0, "ibv_create_qp_ex", "soft0").message(),
            "ibv_create_qp_ex on soft0 failed");
}

TEST(error, not_supported_is_recognised_and_keeps_its_number) {
  for (const int code : {EOPNOTSUPP, EPROTONOSUPPORT}) {
    const auto what = error::from_errno(code, "ibv_alloc_mw", "soft0");
    EXPECT_EQ(what.kind(), error_kind::not_supported);
    EXPECT_EQ(what.code(), code);
  }
  EXPECT_EQ(error::not_supported("ibv_alloc_mw", "soft0", "").message(),
            "ibv_alloc_mw on soft0 is not supported: Operation not supported (errno 95)");
}

TEST(error, every_kind_has_its_number) {
  EXPECT_EQ(error::invalid_argument("f", "o", "d").code(), EINVAL);
  EXPECT_EQ(error::invalid_argument("f", "o", "d").kind(), error_kind::invalid_argument);
  EXPECT_EQ(error::timed_out("f", "o", "d").code(), ETIMEDOUT);
  EXPECT_EQ(error::timed_out("f", "o", "d").kind(), error_kind::timed_out);
  EXPECT_EQ(error::protocol("f", "o", "d").code(), EPROTO);
  EXPECT_EQ(error::protocol("f", "o", "d").kind(), error_kind::protocol);
  EXPECT_EQ(error::unavailable(ENOENT, "f", "o", "d").code(), ENOENT);
  EXPECT_EQ(error::unavailable(ENOENT, "f", "o", "d").kind(), error_kind::unavailable);
  EXPECT_EQ(error::unavailable(0, "f", "o", "d").message(), "f on o failed: d");
}

TEST(error, a_completion_status_is_not_an_errno) {
  const error what({.kind = error_kind::completion, .code = ENOMEM, .call = "send"});
  EXPECT_EQ(what.message(), "send completed with status 12");
  EXPECT_FALSE(what.is(std::errc::not_enough_memory));
}

TEST(error, is_compares_the_errno) {
  const auto what = error::from_errno(EBUSY, "ibv_dealloc_pd");
  EXPECT_TRUE(what.is(std::errc::device_or_resource_busy));
  EXPECT_FALSE(what.is(std::errc::invalid_argument));
}

TEST(error, diagnosis_grows_by_sentences) {
  EXPECT_EQ(
      error::from_errno(EIO, "f").with_diagnosis("first").with_diagnosis("second").diagnosis(),
      "first; second");
}

#ifndef VERBENA_NO_EXCEPTIONS
TEST(error, raise_throws_the_error_with_its_message) {
  try {
    raise(error::from_errno(EBUSY, "ibv_dealloc_pd", "soft0"));
  } catch (const exception& caught) {
    EXPECT_EQ(caught.error().code(), EBUSY);
    EXPECT_STREQ(caught.what(),
                 "ibv_dealloc_pd on soft0 failed: Device or resource busy (errno 16)");
    return;
  }
  FAIL() << "raise() returned";
}
#endif

}  // namespace
}  // namespace verbena
