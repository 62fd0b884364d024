// SPDX-License-Identifier: MIT
// Failed calls: the error names call, object, errno and cause, and no object leaks.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <limits>
#include <memory>
#include <vector>

#include "tests/unit/cm/served.hpp"
#include "verbena/cm/address_info.hpp"
#include "verbena/sys/cm_table.hpp"
#include "verbena/sys/failing_provider.hpp"

namespace verbena {
namespace {

using namespace std::chrono_literals;

class cm_failures : public test::served {
 protected:
  /// Expects that `outcome` failed in `call` with errno `code`, and its message contains `words`.
  template <class Result>
  static void expect(const Result& outcome, const char* call, int code, std::string_view words) {
    ASSERT_FALSE(outcome) << call;
    EXPECT_EQ(outcome.error().call(), call);
    EXPECT_EQ(outcome.error().code(), code) << call;
    EXPECT_NE(outcome.error().message().find(words), std::string::npos)
        << outcome.error().message();
  }
};

TEST_F(cm_failures, function_that_the_library_lacks_is_named_with_the_version) {
  provider older = from();
  sys::cm_table calls = *older.cm;
  calls.set_local_ece.set(nullptr);
  calls.get_remote_ece.set(nullptr);
  calls.reject_ece.set(nullptr);
  older.cm = std::make_shared<const sys::cm_table>(calls);
  const auto channel = cm::event_channel::create(older).value();
  auto id = cm::identifier::create(channel).value();
  expect(id.set_local_ece({}), "rdma_set_local_ece", EOPNOTSUPP,
         "does not have rdma_set_local_ece, which needs rdma-core 31 or newer");
  expect(id.remote_ece(), "rdma_get_remote_ece", EOPNOTSUPP, "needs rdma-core 31 or newer");
  expect(id.reject_ece(), "rdma_reject_ece", EOPNOTSUPP, "needs rdma-core 31 or newer");
}

// Timeouts in milliseconds that librdmacm has received.
int timeout_of_address = 0;
int timeout_of_route = 0;

// Durations beyond the range of milliseconds must not wrap to short ones.
TEST_F(cm_failures, timeouts_of_any_unit_reach_librdmacm_within_its_range) {
  provider recording = from();
  sys::cm_table calls = *recording.cm;
  calls.resolve_addr.set([](rdma_cm_id*, sockaddr*, sockaddr*, int timeout) {
    timeout_of_address = timeout;
    return 0;
  });
  calls.resolve_route.set([](rdma_cm_id*, int timeout) {
    timeout_of_route = timeout;
    return 0;
  });
  recording.cm = std::make_shared<const sys::cm_table>(calls);
  const auto channel = cm::event_channel::create(recording).value();
  auto id = cm::identifier::create(channel).value();
  id.bind(here()).value();
  const auto expect_timeout = [&](auto timeout, int expected) {
    id.resolve_address(here(), timeout).value();
    id.resolve_route(timeout).value();
    EXPECT_EQ(timeout_of_address, expected);
    EXPECT_EQ(timeout_of_route, expected);
  };
  constexpr int longest = std::numeric_limits<int>::max();
  expect_timeout(5s, 5000);
  expect_timeout(1500us, 2);
  expect_timeout(0ms, 1);
  expect_timeout(-1h, 1);
  expect_timeout(std::chrono::duration<double>(0.25), 250);
  expect_timeout(std::chrono::milliseconds::max(), longest);
  expect_timeout(std::chrono::hours::max(), longest);
  expect_timeout(std::chrono::hours::min(), 1);
}

TEST_F(cm_failures, failed_calls_name_call_errno_and_cause) {
  failing_provider wrapped(from());
  const auto fail = [&](const char* call, int code) { wrapped.fail_verb(call, code); };
  fail("rdma_create_event_channel", ENOENT);
  expect(cm::event_channel::create(wrapped.get()), "rdma_create_event_channel", ENOENT,
         "load the module rdma_ucm");
  wrapped.fail_call(0, 0);
  const auto channel = cm::event_channel::create(wrapped.get()).value();
  fail("rdma_create_id", ENOMEM);
  expect(cm::identifier::create(channel), "rdma_create_id", ENOMEM, "port space TCP");
  wrapped.fail_call(0, 0);
  auto id = cm::identifier::create(channel).value();
  fail("rdma_bind_addr", EACCES);
  expect(id.bind(here().with_port(80)), "rdma_bind_addr", EACCES, "CAP_NET_BIND_SERVICE");
  fail("rdma_resolve_addr", ENODEV);
  expect(id.resolve_address(here(), 1s), "rdma_resolve_addr", ENODEV, "no RDMA device serves");
  wrapped.fail_call(0, 0);
  id.bind(here()).value();

  fail("rdma_resolve_route", EINVAL);
  expect(id.resolve_route(1s), "rdma_resolve_route", EINVAL,
         "is invalid in the identifier's state");
  fail("rdma_listen", EADDRINUSE);
  expect(id.listen(), "rdma_listen", EADDRINUSE, "identifier at ");
  fail("rdma_connect", EINVAL);
  expect(id.connect({}), "rdma_connect", EINVAL, "state");
  fail("rdma_accept", EINVAL);
  expect(id.accept({}), "rdma_accept", EINVAL, "state");
  fail("rdma_reject", EINVAL);
  expect(id.reject(), "rdma_reject", EINVAL, "state");
  fail("rdma_establish", ENOTCONN);
  expect(id.establish(), "rdma_establish", ENOTCONN, "is not connected");
  fail("rdma_disconnect", ENOTCONN);
  expect(id.disconnect(), "rdma_disconnect", ENOTCONN, "is not connected");
  fail("rdma_notify", EINVAL);
  expect(id.notify(async_event_kind::communication_established), "rdma_notify", EINVAL, "state");
  fail("rdma_set_option", ENOSYS);
  expect(id.set_type_of_service(1), "rdma_set_option", ENOSYS, "identifier at ");
  fail("rdma_init_qp_attr", EINVAL);
  expect(id.attributes(queue_pair_state::init), "rdma_init_qp_attr", EINVAL, "state");
  fail("rdma_migrate_id", EMFILE);
  expect(id.migrate(channel), "rdma_migrate_id", EMFILE, "identifier at ");
  fail("rdma_join_multicast_ex", EOPNOTSUPP);
  expect(id.join_multicast(cm::socket_address::parse("239.1.1.1").value()),
         "rdma_join_multicast_ex", EOPNOTSUPP, "identifier at ");
  fail("rdma_leave_multicast", EADDRNOTAVAIL);
  expect(id.leave_multicast(here()), "rdma_leave_multicast", EADDRNOTAVAIL, "identifier at ");
  fail("rdma_set_local_ece", ENOSYS);
  expect(id.set_local_ece({}), "rdma_set_local_ece", ENOSYS, "identifier at ");
  fail("rdma_get_remote_ece", ENOSYS);
  expect(id.remote_ece(), "rdma_get_remote_ece", ENOSYS, "identifier at ");
  fail("rdma_get_cm_event", EIO);
  expect(channel.poll_event(), "rdma_get_cm_event", EIO, "event channel");
  fail("rdma_getaddrinfo", ENODEV);
  expect(cm::resolve({.node = here().host()}, wrapped.get()), "rdma_getaddrinfo", ENODEV,
         "no RDMA device");
  wrapped.fail_call(0, 0);
}

TEST_F(cm_failures, failure_at_any_step_leaks_no_object) {
  failing_provider wrapped(from());
  const auto with = &wrapped.get();
  const bringup::address to{.host = here().host(), .port = 1};
  const auto succeed_after_failures = [&](const auto& step) {
    std::size_t n = 1;
    for (bool done = false; !done && n < 100; ++n) {
      wrapped.fail_call(n, EIO);
      const auto outcome = step();
      // The step succeeds if the failed call does not matter, such as one of a destructor.
      done = wrapped.failed_verb().empty();
      if (done) {
        EXPECT_TRUE(outcome) << outcome.error().message();
      }
    }
    wrapped.fail_call(0, 0);
    EXPECT_LT(n, 100U);
    EXPECT_GT(n, 4U);
  };
  succeed_after_failures(
      [&] { return cm::connector::resolve(to, test::test_deadline(), {.provider = with}); });
  succeed_after_failures(
      [&] { return cm::listener::open({.host = here().host(), .port = 0}, {.provider = with}); });
}

// The first attempt resolves an address that no device reaches. Its failure is reported as that of
// a neighbour that did not answer in time.
TEST_F(cm_failures, address_is_resolved_in_several_short_attempts) {
  static const sys::cm_table* real;
  static std::vector<int> limits;
  limits.clear();
  provider missing_first = from();
  real = missing_first.cm.get();
  sys::cm_table calls = *real;
  calls.resolve_addr.set([](rdma_cm_id* id, sockaddr* source, sockaddr* to, int limit) {
    limits.push_back(limit);
    sockaddr_storage nowhere{};
    const auto address = cm::socket_address::parse("240.0.0.1").value().with_port(1);
    std::memcpy(&nowhere, address.native(), address.native_length());
    auto* const first = reinterpret_cast<sockaddr*>(&nowhere);
    return real->resolve_addr(id, source, limits.size() == 1 ? first : to, limit);
  });
  calls.get_cm_event.set([](rdma_event_channel* channel, rdma_cm_event** event) {
    const int code = real->get_cm_event(channel, event);
    if (code == 0 && (*event)->event == RDMA_CM_EVENT_ADDR_ERROR) (*event)->status = -ETIMEDOUT;
    return code;
  });
  missing_first.cm = std::make_shared<const sys::cm_table>(calls);
  const auto found = cm::connector::resolve({.host = here().host(), .port = 1},
                                            deadline::after(60s), {.provider = &missing_first});
  ASSERT_TRUE(found) << found.error().message();
  ASSERT_EQ(limits.size(), 2U);
  EXPECT_LE(limits[0], 2000);
  EXPECT_LE(limits[1], 2000);
}

}  // namespace
}  // namespace verbena
