// SPDX-License-Identifier: MIT
// Connections of other hosts that are not established yet: they end, or no longer count as open,
// without the message that is missing.
#include <algorithm>
#include <cerrno>
#include <chrono>

#include "tests/unit/softdev/cm/two_hosts.hpp"

namespace verbena::softdev::cm::testing {
namespace {

using cm_half_open = two_hosts;

// The peer has received no answer, so its rejection does not have the ID of this side.
TEST_F(cm_half_open, request_that_is_given_up_before_an_answer_ends) {
  requests_come_by_managers = true;
  start({.first_repeat = std::chrono::minutes(1), .max_half_open = 1});
  const endpoint_ptr active = connect();
  const event request = b->expect(event_kind::connect_request);
  a->all.destroy(active);
  EXPECT_EQ(count_of(mad_kind::rejection), 1U);
  // Has the place of the request that was given up.
  established();
  EXPECT_EQ(b->all.accept(request.about, {.local = {.queue_pair = 23}, .data = {}}), EINVAL);
}

// The program that has taken the request can destroy its listener before it answers.
TEST_F(cm_half_open, request_that_is_given_up_ends_without_its_listener) {
  requests_come_by_managers = true;
  start({.first_repeat = std::chrono::minutes(1), .max_half_open = 1});
  const endpoint_ptr active = connect();
  const event request = b->expect(event_kind::connect_request);
  b->all.destroy(listener);
  a->all.destroy(active);
  EXPECT_EQ(count_of(mad_kind::rejection), 1U);
  listen_at_b();
  // Has the place of the request that was given up.
  established();
  EXPECT_EQ(b->all.accept(request.about, {.local = {.queue_pair = 23}, .data = {}}), EINVAL);
}

// The process that receives the rejection is not the one that listens.
TEST_F(cm_half_open, request_that_is_given_up_ends_in_another_process) {
  requests_come_by_managers = true;
  owner_of_b_does_not_listen = true;
  start({.first_repeat = std::chrono::minutes(1), .max_half_open = 1});
  const endpoint_ptr active = connect();
  const event request = b->expect(event_kind::connect_request);
  a->all.destroy(active);
  EXPECT_EQ(count_of(mad_kind::rejection), 1U);
  established();
  EXPECT_EQ(b->all.accept(request.about, {.local = {.queue_pair = 23}, .data = {}}), EINVAL);
}

// The program has received data, although the last message of the handshake was lost.
TEST_F(cm_half_open, connection_that_the_program_reports_is_established) {
  copies = [](const mad& message) { return message.kind == mad_kind::ready ? 0 : 1; };
  start({.first_repeat = std::chrono::milliseconds(10), .max_half_open = 1});
  const endpoint_ptr active = connect();
  const endpoint_ptr passive = b->expect(event_kind::connect_request).about;
  ASSERT_EQ(b->all.accept(passive, {.local = {.queue_pair = 23}, .data = {}}), 0);
  a->expect(event_kind::connect_response);
  ASSERT_EQ(a->all.establish(active), 0);
  ASSERT_EQ(b->all.note_established(passive), 0);
  b->expect(event_kind::established);
  // Has the place of the connection.
  static_cast<void>(connect());
  b->expect(event_kind::connect_request);
}

// ::ffff:240.9.0.2
TEST_F(cm_half_open, ipv4_address_in_ipv6_form_is_not_reached) {
  start();
  address mapped{.family = address_family::ipv6, .port = port};
  mapped.bytes[10] = mapped.bytes[11] = 0xff;
  std::copy_n(host_b.bytes.begin(), 4, mapped.bytes.begin() + 12);
  const endpoint_ptr made = a->all.create(a->events, port_space::tcp);
  ASSERT_EQ(a->all.resolve_address(made, std::nullopt, mapped), 0);
  a->expect(event_kind::address_error, -ENETUNREACH);
}

}  // namespace
}  // namespace verbena::softdev::cm::testing
