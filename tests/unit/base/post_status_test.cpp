// SPDX-License-Identifier: MIT
#include "verbena/base/post_status.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <type_traits>

#include "verbena/base/exception.hpp"

namespace verbena {
namespace {

static_assert(sizeof(post_status) == 16, "two registers");
static_assert(std::is_trivially_copyable_v<post_status>);

post_status of_code(int code) { return post_status(refused_post{.code = code}); }

TEST(post_status, success_has_no_number_and_does_not_raise) {
  const post_status done;
  EXPECT_TRUE(done.has_value());
  EXPECT_TRUE(static_cast<bool>(done));
  EXPECT_EQ(done.code(), 0);
  EXPECT_EQ(done.accepted_before_failure(), 0U);
  EXPECT_EQ(done.excess(), 0U);
  EXPECT_EQ(done, of_code(0));
  done.value();
}

TEST(post_status, failure_reports_the_refused_request) {
  const post_status failed(
      {.code = ENOMEM, .accepted = 3, .verb = posting_verb::post_send, .queue_pair = 0x11});
  EXPECT_FALSE(failed.has_value());
  EXPECT_FALSE(static_cast<bool>(failed));
  EXPECT_EQ(failed.accepted_before_failure(), 3U);
  EXPECT_EQ(failed.excess(), 0U);
  EXPECT_EQ(failed.error().code(), ENOMEM);
  EXPECT_EQ(failed.error().call(), "ibv_post_send");
  EXPECT_EQ(failed.error().object(), "queue pair 0x11");
  EXPECT_EQ(failed.error().diagnosis(),
            "the queue accepted 3 requests and refused the request at index 3; the send queue is "
            "full: poll completions before posting more, or create it with a larger max_send_wr");
}

TEST(post_status, each_verb_has_its_name_and_queue) {
  const auto words = [](posting_verb verb) {
    return post_status({.code = ENOMEM, .verb = verb, .queue_pair = 1}).error();
  };
  EXPECT_EQ(words(posting_verb::wr_complete).call(), "ibv_wr_complete");
  EXPECT_EQ(words(posting_verb::post_receive).call(), "ibv_post_recv");
  EXPECT_NE(words(posting_verb::post_receive).diagnosis().find("max_recv_wr"), std::string::npos);
  EXPECT_EQ(words(posting_verb::post_shared_receive).call(), "ibv_post_srq_recv");
  EXPECT_EQ(words(posting_verb::post_shared_receive).object(), "shared receive queue");
  EXPECT_EQ(words(posting_verb::unknown).call(), "posting");
}

TEST(post_status, overfull_batch_is_enobufs_with_the_counts) {
  const post_status refused(overfull_batch{
      .capacity = 16, .excess = 2, .verb = posting_verb::post_send, .queue_pair = 0x11});
  EXPECT_EQ(refused.code(), ENOBUFS);
  EXPECT_EQ(refused.accepted_before_failure(), 0U);
  EXPECT_EQ(refused.excess(), 2U);
  EXPECT_EQ(refused.error().diagnosis(),
            "no request was posted: 18 requests were added to a batch of 16; open it with "
            "start_send<18>() or submit earlier");
  const post_status receives(
      overfull_batch{.capacity = 1, .excess = 1, .verb = posting_verb::post_receive});
  EXPECT_NE(receives.error().diagnosis().find("start_receive<2>()"), std::string::npos);
}

TEST(post_status, overfull_lists_of_inline_data_are_named) {
  const post_status refused(overfull_batch{
      .capacity = 4, .excess = 1, .has_long_lists = true, .verb = posting_verb::post_send});
  EXPECT_EQ(refused.code(), ENOBUFS);
  EXPECT_EQ(refused.excess(), 1U);
  EXPECT_NE(refused.error().diagnosis().find("the lists of inline data of 1 requests exceed"),
            std::string::npos);
}

TEST(post_status, negated_errno_equals_the_errno) {
  const post_status failed = of_code(-ENOMEM);
  EXPECT_FALSE(failed.has_value());
  EXPECT_EQ(failed.code(), ENOMEM);
  EXPECT_EQ(failed, of_code(ENOMEM));
}

// parity: rrddmma-11
TEST(post_status, common_errnos_have_a_cause) {
  const auto diagnosis = [](int code) { return of_code(code).error().diagnosis(); };
  EXPECT_NE(diagnosis(EINVAL).find("state"), std::string::npos);
  EXPECT_NE(diagnosis(EOPNOTSUPP).find("does not support this operation"), std::string::npos);
  EXPECT_EQ(of_code(EOPNOTSUPP).error().kind(), error_kind::not_supported);
  EXPECT_NE(diagnosis(ENODEV).find("removed"), std::string::npos);
  EXPECT_EQ(diagnosis(EIO), diagnosis(ENODEV));
  EXPECT_NE(diagnosis(ENOSPC).find("is full: poll completions"), std::string::npos);
  EXPECT_NE(diagnosis(ENOSPC).find("a list of slices with different lengths"), std::string::npos);
  EXPECT_EQ(diagnosis(ENOMEM).find("a list of slices"), std::string::npos);
  EXPECT_EQ(diagnosis(EINTR), "the queue accepted no request");
}

#ifndef VERBENA_NO_EXCEPTIONS
TEST(post_status, value_raises_the_failure) { EXPECT_THROW(of_code(ENOMEM).value(), exception); }
#endif

TEST(post_status_death, error_of_a_success_stops_the_program) {
  EXPECT_DEATH(static_cast<void>(post_status().error()),
               "error\\(\\) of a post_status that succeeded");
}

}  // namespace
}  // namespace verbena
