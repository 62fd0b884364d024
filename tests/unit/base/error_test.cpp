// SPDX-License-Identifier: MIT
#include "verbena/base/error.hpp"

#include <gtest/gtest.h>

#include <cerrno>

#include "verbena/base/exception.hpp"

namespace verbena {
namespace {

// parity: ibverbs-304, rrddmma-10, ibverbs-tests-44
TEST(error, message_contains_call_object_errno_and_remedy) {
  const auto what = error::from_errno(ENOMEM, "ibv_reg_mr", "soft0", "raise the limit");
  EXPECT_EQ(what.message(),
            "ibv_reg_mr on soft0 failed: Cannot allocate memory (errno 12): raise the limit");
  EXPECT_EQ(what.kind(), error_kind::os);
  EXPECT_EQ(what.code(), ENOMEM);
  EXPECT_EQ(what.call(), "ibv_reg_mr");
  EXPECT_EQ(what.object(), "soft0");
  EXPECT_EQ(what.diagnosis(), "raise the limit");
}

TEST(error, message_omits_empty_parts) {
  EXPECT_EQ(error::from_errno(EPERM, "open").message(),
            "open failed: Operation not permitted (errno 1)");
}

// parity: ibverbs-307
TEST(error, message_of_errno_0_has_no_errno) {
  EXPECT_EQ(error::from_errno(0, "ibv_create_qp_ex", "soft0").message(),
            "ibv_create_qp_ex on soft0 failed");
}

// parity: ibverbs-tests-43, ibverbs-305, ibverbs-tests-44
TEST(error, eopnotsupp_becomes_kind_not_supported) {
  for (const int code : {EOPNOTSUPP, EPROTONOSUPPORT}) {
    const auto what = error::from_errno(code, "ibv_alloc_mw", "soft0");
    EXPECT_EQ(what.kind(), error_kind::not_supported);
    EXPECT_EQ(what.code(), code);
  }
  EXPECT_EQ(error::not_supported("ibv_alloc_mw", "soft0", "").message(),
            "ibv_alloc_mw on soft0 is not supported: Operation not supported (errno 95)");
}

// parity: ibverbs-306
TEST(error, each_factory_sets_its_kind_and_code) {
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

TEST(error, completion_status_never_equals_an_errno) {
  const error what(error_kind::completion, ENOMEM, "send");
  EXPECT_EQ(what.message(), "send completed with status 12");
  EXPECT_FALSE(what.is(std::errc::not_enough_memory));
}

TEST(error, is_compares_the_code_with_an_errno) {
  const auto what = error::from_errno(EBUSY, "ibv_dealloc_pd");
  EXPECT_TRUE(what.is(std::errc::device_or_resource_busy));
  EXPECT_FALSE(what.is(std::errc::invalid_argument));
}

TEST(error, with_diagnosis_appends_with_semicolon) {
  EXPECT_EQ(
      error::from_errno(EIO, "f").with_diagnosis("first").with_diagnosis("second").diagnosis(),
      "first; second");
}

TEST(error, print_error_writes_the_message_to_standard_error_and_returns_1) {
  testing::internal::CaptureStderr();
  const int status = print_error(error::from_errno(EPERM, "open"));
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "error: open failed: Operation not permitted (errno 1)\n");
  EXPECT_EQ(status, 1);
}

TEST(error, copy_has_the_same_texts_as_the_original) {
  const auto first = error::from_errno(EIO, std::string("f"), std::string("o")).with_diagnosis("d");
  const error second = first;
  EXPECT_EQ(second.message(), first.message());
  EXPECT_EQ(second.diagnosis().data(), first.diagnosis().data());
}

#ifndef VERBENA_NO_EXCEPTIONS
TEST(error, raise_throws_an_exception_with_the_message) {
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
