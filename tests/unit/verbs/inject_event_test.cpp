// SPDX-License-Identifier: MIT
// Faults with typed arguments, on the software device.
#include "verbena/verbs/inject_event.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <string>
#include <thread>

#include "tests/unit/verbs/loopback.hpp"

namespace verbena {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

class injected_faults : public ::testing::Test {
 protected:
  ~injected_faults() override {
    inject_event(link_.context(), "clear-faults").value();
    link_.b().queue.reset().value();  // discards receives that took no message
  }
  completion_status write() {
    link_.a()
        .queue.post_write({.signaled = true}, memory_.slice(0, 8), memory_.remote().slice(8, 8))
        .value();
    return test::take(link_.a().sends, 1).at(0).status();
  }
  completion_status send() {
    link_.b().queue.post_receive({}, memory_.slice(16, 8)).value();
    link_.a().queue.post_send({.signaled = true}, memory_.slice(0, 8)).value();
    const auto status = test::take(link_.a().sends, 1).at(0).status();
    if (status == completion_status::success) test::take(link_.b().receives, 1);
    return status;
  }

  test::loopback link_{[] {
    auto options = test::loopback::default_options();
    options.reliability.rnr_retry_count = 1;
    return options;
  }()};
  memory_region memory_ = link_.memory(64);
};

TEST_F(injected_faults, failure_selects_operation_number_and_queue_pair) {
  inject_failure(link_.context(), completion_status::remote_access_error,
                 {.queue_pair = link_.b().queue.number()})
      .value();
  inject_failure(link_.context(), completion_status::remote_operation_error,
                 {.queue_pair = link_.a().queue.number(),
                  .operations = send_operation::write | send_operation::read,
                  .at = 2})
      .value();
  EXPECT_EQ(write(), completion_status::success);
  EXPECT_EQ(send(), completion_status::success);
  EXPECT_EQ(write(), completion_status::remote_operation_error);
}

TEST_F(injected_faults, rnr_beyond_the_retries_fails_the_request) {
  inject_rnr(link_.context(), 1, {.at = 1}).value();
  inject_rnr(link_.context(), 2, {.at = 2}).value();
  EXPECT_EQ(send(), completion_status::success);
  EXPECT_EQ(send(), completion_status::rnr_retries_exceeded);
}

TEST_F(injected_faults, delay_postpones_the_completion) {
  inject_delay(link_.context(), 30ms, {.every = 2, .count = 1}).value();
  EXPECT_EQ(write(), completion_status::success);
  const auto start = steady_clock::now();
  EXPECT_EQ(write(), completion_status::success);
  EXPECT_GE(steady_clock::now() - start, 30ms);
}

TEST_F(injected_faults, probability_has_a_seed) {
  inject_failure(link_.context(), completion_status::remote_operation_error,
                 {.operations = send_operation::write, .probability = 1, .seed = 17, .count = 1})
      .value();
  EXPECT_EQ(write(), completion_status::remote_operation_error);
}

TEST_F(injected_faults, revoked_access_refuses_the_next_remote_request) {
  const memory_region other = link_.memory(64);
  inject_faults(link_.context(), {{.kind = fault_kind::revoked_access, .key = other.remote_key()}})
      .value();
  EXPECT_EQ(write(), completion_status::success);
  inject_faults(link_.context(),
                {{.kind = fault_kind::revoked_access, .key = memory_.remote_key()}})
      .value();
  EXPECT_EQ(write(), completion_status::remote_access_error);
}

TEST_F(injected_faults, port_goes_down_before_a_request_and_returns_later) {
  inject_faults(link_.context(),
                {{.kind = fault_kind::port_down,
                  .before = request_selection{.operations = send_operation::write, .at = 2}}})
      .value();
  EXPECT_EQ(write(), completion_status::success);
  EXPECT_EQ(write(), completion_status::retries_exceeded);
  inject_faults(link_.context(), {{.kind = fault_kind::gid_move},
                                  {.kind = fault_kind::gid_change},
                                  {.kind = fault_kind::port_up, .after = 1ms}})
      .value();
  const auto end = deadline::after(20s);
  const auto is_up = [&] {
    return link_.context().query_port(port_number(1)).value().state() == port_state::active;
  };
  while (!is_up() && !end.expired()) std::this_thread::yield();
  EXPECT_TRUE(is_up());
}

TEST_F(injected_faults, faults_of_absent_objects_fail_with_enoent) {
  const injected_fault absent[] = {
      {.kind = fault_kind::completion_queue_overrun, .index = 99'999},
      {.kind = fault_kind::revoked_access, .index = 99'999},
      {.kind = fault_kind::peer_exit},
      {.kind = fault_kind::peer_exit, .pid = 1},
  };
  for (const injected_fault& fault : absent) {
    const auto outcome = inject_faults(link_.context(), {&fault, 1});
    ASSERT_FALSE(outcome.has_value());
    EXPECT_EQ(outcome.error().code(), ENOENT) << outcome.error().message();
  }
  EXPECT_EQ(write(), completion_status::success);
}

TEST_F(injected_faults, list_with_an_invalid_fault_injects_nothing) {
  const auto outcome = inject_faults(
      link_.context(), {{.kind = fault_kind::failure}, {.kind = fault_kind::revoked_access}});
  ASSERT_FALSE(outcome.has_value());
  EXPECT_EQ(outcome.error().code(), EINVAL);
  EXPECT_NE(outcome.error().message().find("line 2"), std::string::npos)
      << outcome.error().message();
  EXPECT_EQ(write(), completion_status::success);
  inject_faults(link_.context(), {}).value();
}

TEST_F(injected_faults, overrun_queue_can_no_longer_be_polled) {
  // All queues of this process; the numbers of destroyed ones are unused.
  unsigned overrun = 0;
  for (std::uint32_t index = 1; index < 2000; ++index) {
    const auto outcome = inject_faults(
        link_.context(), {{.kind = fault_kind::completion_queue_overrun, .index = index}});
    overrun += outcome.has_value() ? 1U : 0U;
  }
  EXPECT_EQ(overrun, 4U);
  link_.a()
      .queue.post_write({.signaled = true}, memory_.slice(0, 8), memory_.remote().slice(8, 8))
      .value();
  std::array<completion, 1> room;
  const auto end = deadline::after(20s);
  while (link_.a().sends.poll(room) && !end.expired()) {
  }
  EXPECT_FALSE(link_.a().sends.poll(room));
  link_.a().queue.reset().value();  // discards the request without a completion
}

TEST_F(injected_faults, invalid_value_is_refused_and_named) {
  const struct {
    result<void> outcome;
    const char* text;
  } rows[] = {
      {inject_failure(link_.context(), completion_status::success), "'0' is not valid here"},
      {inject_rnr(link_.context(), 0), "a number from 1"},
      {inject_rnr(link_.context(), 1, {.operations = send_operation::read}), "'rdma_read'"},
      {inject_delay(link_.context(), -1us), "a duration of at most one day"},
      {inject_failure(link_.context(), completion_status::fatal, {.probability = 2}), "at most 1"},
      {inject_event(link_.context(), "port 1\ndown"), "line 1, column 7"},
      {inject_event(link_.context(), "overrun-cq index=99999"), "check that its objects exist"},
  };
  for (const auto& [outcome, text] : rows) {
    ASSERT_FALSE(outcome.has_value()) << text;
    EXPECT_NE(outcome.error().message().find(text), std::string::npos) << outcome.error().message();
  }
  EXPECT_EQ(rows[0].outcome.error().code(), EINVAL);
  EXPECT_EQ(rows[6].outcome.error().code(), ENOENT);
  EXPECT_EQ(write(), completion_status::success);
}

}  // namespace
}  // namespace verbena
