// SPDX-License-Identifier: MIT
// The negotiation without I/O: both sides in one thread; the test transfers their bytes.
#include "verbena/bringup/negotiation.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/verbs/soft_device.hpp"
#include "verbena/base/bytes.hpp"
#include "verbena/bringup/frame.hpp"
#include "verbena/sys/failing_provider.hpp"
#include "verbena/verbs/device_list.hpp"

namespace {

using namespace std::chrono_literals;
using namespace verbena;
using bringup::frame_type;
using bringup::negotiation_options;
using bringup::negotiation_status;
using bringup::probing;
using testing::HasSubstr;
using bytes = std::vector<std::byte>;
using steps = bringup::negotiation<rc>;

/// One side of a negotiation, on the software device.
struct local_side {
  verbena::context device = open_device("soft0").value();
  protection_domain pd = device.allocate_pd().value();
  completion_queue queue = device.create_cq(16).value();
  memory_region buffer = pd.allocate(64, access::local_write).value();

  local_side() = default;
  /// Opens the device of a provider.
  explicit local_side(const provider& from) : device(testing_support::open_soft(from).value()) {}

  steps negotiate(const negotiation_options& options = {}, bringup::negotiation_peer peer = {}) {
    return steps(pd.create_qp<rc>(queue, queue, {.reliability = {.rnr_retry_count = 0}}).value(),
                 options, std::move(peer));
  }
  /// Negotiates with the first entry of the GID table.
  steps negotiate_with_gid_index(const negotiation_options& options) {
    return steps(pd.create_qp<rc>(queue, queue,
                                  {.route = {.gid_index = gid_index(0)},
                                   .reliability = {.rnr_retry_count = 0}})
                     .value(),
                 options, {});
  }
  void inject_event(const char* command) const {
    ASSERT_EQ(device.provider().soft_inject_event(device.native(), command), 0);
  }
};

/// Transfers the outgoing bytes of `from` to `to`, at most `fragment` bytes at once.
void transfer(steps& from, steps& to, std::size_t fragment) {
  const auto out = from.outgoing();
  const auto count = std::min({out.size(), fragment, to.bytes_wanted()});
  if (count == 0) return;
  EXPECT_EQ(to.received(out.first(count)), count);
  from.sent(count);
}

/// Runs both sides until they have exchanged their offers, or wait for their devices.
void run_offers(steps& one, steps& other) {
  for (int i = 0; i < 4; ++i) {
    one.advance(deadline::clock::now());
    other.advance(deadline::clock::now());
    transfer(one, other, 4096);
    transfer(other, one, 4096);
  }
}

void post_receive(steps& of, local_side& side) {
  side.buffer.bytes()[0] = {};
  of.qp().post_receive({.id = 7}, side.buffer.slice(0, 32)).value();
  of.set_ready();
}

/// Runs both sides until both have succeeded or failed.
void run(steps& one, local_side& first, steps& other, local_side& second,
         std::size_t fragment = 4096) {
  const auto limit = deadline::after(30s);
  while (!(one.is_done() && other.is_done()) && !limit.expired()) {
    const auto now = deadline::clock::now();
    one.advance(now);
    other.advance(now);
    transfer(one, other, fragment);
    transfer(other, one, fragment);
    if (one.status() == negotiation_status::waiting_for_receives) post_receive(one, first);
    if (other.status() == negotiation_status::waiting_for_receives) post_receive(other, second);
  }
}

/// Returns the bytes that a peer sends in a complete negotiation.
bytes bytes_of_peer() {
  local_side here;
  local_side there;
  auto one = here.negotiate();
  auto other = there.negotiate();
  bytes sent;
  const auto limit = deadline::after(30s);
  while (!one.is_done() && !limit.expired()) {
    const auto now = deadline::clock::now();
    one.advance(now);
    other.advance(now);
    transfer(one, other, 4096);
    const auto out = other.outgoing();
    const auto count = std::min(out.size(), one.bytes_wanted());
    sent.insert(sent.end(), out.begin(), out.begin() + static_cast<std::ptrdiff_t>(count));
    transfer(other, one, 4096);
    if (one.status() == negotiation_status::waiting_for_receives) post_receive(one, here);
    if (other.status() == negotiation_status::waiting_for_receives) post_receive(other, there);
  }
  return sent;
}

/// Feeds `input` until the negotiation accepts no more bytes.
void feed(steps& to, std::span<const std::byte> input) {
  for (int calls = 0; calls < 1000; ++calls) {
    to.advance(deadline::clock::now());
    to.sent(to.outgoing().size());
    if (to.status() == negotiation_status::waiting_for_receives) to.set_ready();
    const auto count = std::min(to.bytes_wanted(), input.size());
    if (count == 0) break;
    EXPECT_EQ(to.received(input.first(count)), count);
    input = input.subspan(count);
  }
  to.advance(deadline::clock::now());
}

TEST(negotiation_without_io, connects_two_queue_pairs_in_one_thread) {
  local_side here;
  local_side there;
  const auto words = bytes_of("hello");
  auto one = here.negotiate({.probing = probing::always, .message = words});
  auto other = there.negotiate({.probing = probing::always});
  run(one, here, other, there);
  auto at_here = std::move(one).finish().value();
  auto result_there = std::move(other).finish().value();
  EXPECT_EQ(result_there.message, bytes(words.begin(), words.end()));
  EXPECT_EQ(at_here.terms->ours, result_there.terms->theirs);

  std::ranges::copy(words, here.buffer.bytes().begin() + 32);
  auto batch = at_here.queue.start_send();
  batch.send({.id = 8, .signaled = true}, here.buffer.slice(32, words.size()));
  batch.submit().value();
  const auto limit = deadline::after(30s);
  std::array<completion, 1> done;
  while (there.queue.poll(done).value().empty() && !limit.expired()) continue;
  EXPECT_TRUE(std::ranges::equal(there.buffer.bytes().first(words.size()), words));
}

// The objects of the probe belong to the same protection domain.
TEST(negotiation_without_io, finished_negotiation_keeps_no_object_of_the_device) {
  local_side there;
  auto other = there.negotiate({.probing = probing::always});
  auto device = open_device("soft0").value();
  auto pd = device.allocate_pd().value();
  auto queue = device.create_cq(16).value();
  auto one =
      steps(pd.create_qp<rc>(queue, queue).value(), {.probing = probing::always}, {.name = "peer"});
  const auto limit = deadline::after(30s);
  while (!(one.is_done() && other.is_done()) && !limit.expired()) {
    const auto now = deadline::clock::now();
    one.advance(now);
    other.advance(now);
    transfer(one, other, 4096);
    transfer(other, one, 4096);
    for (auto* const each : {&one, &other})
      if (each->status() == negotiation_status::waiting_for_receives) each->set_ready();
  }
  ASSERT_EQ(one.status(), negotiation_status::finished);
  EXPECT_TRUE(std::move(std::move(one).finish().value().queue).close());
  EXPECT_TRUE(std::move(queue).close());
  EXPECT_TRUE(std::move(pd).close());
  EXPECT_TRUE(std::move(device).close());
}

TEST(negotiation_without_io, input_in_single_bytes_connects) {
  local_side here;
  local_side there;
  auto one = here.negotiate();
  auto other = there.negotiate();
  run(one, here, other, there, 1);
  EXPECT_TRUE(std::move(one).finish());
  EXPECT_TRUE(std::move(other).finish());
}

TEST(negotiation_without_io, bytes_after_the_last_frame_are_not_consumed) {
  local_side here;
  auto input = bytes_of_peer();
  const auto end = input.size();
  const auto program = bytes_of("the program's own bytes");
  input.insert(input.end(), program.begin(), program.end());
  auto one = here.negotiate();
  std::span<const std::byte> rest = input;
  while (!one.is_done()) {
    one.advance(deadline::clock::now());
    one.sent(one.outgoing().size());
    if (one.status() == negotiation_status::waiting_for_receives) one.set_ready();
    rest = rest.subspan(one.received(rest));
  }
  EXPECT_EQ(one.status(), negotiation_status::finished);
  EXPECT_EQ(rest.size(), input.size() - end);
  EXPECT_EQ(one.bytes_wanted(), 0U);
}

TEST(negotiation_without_io, truncated_input_reports_a_closed_connection) {
  local_side here;
  const auto input = bytes_of_peer();
  for (std::size_t length = 0; length < input.size(); length += length < 24 ? 1 : 5) {
    auto one = here.negotiate();
    feed(one, std::span(input).first(length));
    ASSERT_NE(one.status(), negotiation_status::finished) << length;
    one.peer_closed();
    ASSERT_EQ(one.status(), negotiation_status::failed) << length;
    EXPECT_EQ(one.failure().code(), ECONNRESET) << length;
    EXPECT_TRUE(one.outgoing().empty());
  }
}

TEST(negotiation_without_io, modified_input_does_not_crash_or_hang) {
  local_side here;
  const auto input = bytes_of_peer();
  for (std::size_t at = 0; at < input.size(); at += 3) {
    auto broken = input;
    broken[at] ^= std::byte{0xff};
    auto one = here.negotiate();
    feed(one, broken);
    if (one.status() == negotiation_status::failed) {
      EXPECT_FALSE(one.failure().message().empty()) << at;
    }
    one.time_out();
    EXPECT_TRUE(one.status() == negotiation_status::failed ||
                one.status() == negotiation_status::finished)
        << at;
  }
}

TEST(negotiation_without_io, invalid_greeting_returns_an_error_with_peer_and_bytes) {
  local_side here;
  auto one = here.negotiate({}, {.name = "10.0.0.2:80", .version = {}});
  feed(one, bytes_of("GET / HTTP/1.1\r\n"));
  ASSERT_EQ(one.status(), negotiation_status::failed);
  EXPECT_EQ(one.failure().kind(), error_kind::protocol);
  EXPECT_THAT(one.failure().message(), HasSubstr("10.0.0.2:80"));
  EXPECT_THAT(one.failure().message(), HasSubstr("47 45 54 20"));
  EXPECT_TRUE(one.outgoing().empty()) << "a peer of another protocol receives no frame";
}

TEST(negotiation_without_io, failure_is_reported_to_the_peer) {
  local_side here;
  local_side there;
  auto one = here.negotiate();
  auto other = there.negotiate();
  run_offers(one, other);
  one.abandon(error::from_errno(ENOMEM, "post_receive", "here", "no memory for the receives"));
  EXPECT_EQ(one.failure().code(), ENOMEM);
  EXPECT_FALSE(one.outgoing().empty());
  run(one, here, other, there);
  ASSERT_EQ(other.status(), negotiation_status::failed);
  EXPECT_EQ(other.failure().code(), ECONNABORTED);
  EXPECT_THAT(other.failure().message(), HasSubstr("no memory for the receives"));
}

TEST(negotiation_without_io, refusal_by_the_peer_ends_the_wait_for_the_port) {
  local_side here;
  auto one = here.negotiate({.port_timeout = 1h}, {.name = "peer", .version = 3});
  here.inject_event("port 1 down");
  one.advance(deadline::clock::now());
  EXPECT_EQ(one.status(), negotiation_status::waiting_for_device);
  EXPECT_TRUE(one.next_advance().has_value());
  feed(one, bringup::encode_frame(frame_type::refusal, bytes_of("no disk")));
  here.inject_event("port 1 up");
  ASSERT_EQ(one.status(), negotiation_status::failed);
  EXPECT_THAT(one.failure().message(), HasSubstr("no disk"));
}

TEST(negotiation_without_io, timeout_error_names_the_port_that_is_down) {
  local_side here;
  auto one = here.negotiate({.port_timeout = 1h});
  here.inject_event("port 1 down");
  feed(one, bringup::encode_greeting(bringup::supported_versions));
  one.time_out();
  here.inject_event("port 1 up");
  ASSERT_EQ(one.status(), negotiation_status::failed);
  EXPECT_EQ(one.failure().kind(), error_kind::timed_out);
  EXPECT_THAT(one.failure().message(), HasSubstr("the port of soft0 here is down"));
}

TEST(negotiation_without_io, timeout_error_without_an_answer_names_the_peer) {
  local_side here;
  auto one = here.negotiate({}, {.name = "10.0.0.2:7471", .version = {}});
  one.advance(deadline::clock::now());
  one.time_out();
  EXPECT_THAT(one.failure().message(), HasSubstr("10.0.0.2:7471"));
  EXPECT_THAT(one.failure().message(), HasSubstr("did not answer in time"));
}

TEST(negotiation_without_io, port_that_becomes_active_connects) {
  local_side here;
  local_side there;
  auto one = here.negotiate({.port_timeout = 1h});
  auto other = there.negotiate({.port_timeout = 1h});
  here.inject_event("port 1 down");
  run_offers(one, other);
  EXPECT_EQ(one.status(), negotiation_status::waiting_for_device);
  here.inject_event("port 1 up");
  run(one, here, other, there);
  EXPECT_TRUE(std::move(one).finish());
  EXPECT_TRUE(std::move(other).finish());
}

/// Makes the entries of the GID table of a device empty, or shows them again.
void hide_gids(failing_provider& of, bool are_hidden) {
  of.fail_verb("_ibv_query_gid_ex", are_hidden ? ENODATA : 0);
}

TEST(negotiation_without_io, chosen_gid_that_appears_within_the_port_timeout_connects) {
  failing_provider failing(*soft_provider().value());
  local_side here(failing.get());
  local_side there;
  auto one = here.negotiate_with_gid_index({.port_timeout = 1h});
  auto other = there.negotiate();
  hide_gids(failing, true);
  run_offers(one, other);
  EXPECT_EQ(one.status(), negotiation_status::waiting_for_device);
  EXPECT_TRUE(one.next_advance().has_value());
  hide_gids(failing, false);
  run(one, here, other, there);
  EXPECT_TRUE(std::move(one).finish());
  EXPECT_TRUE(std::move(other).finish());
}

TEST(negotiation_without_io, chosen_gid_that_does_not_appear_is_named) {
  failing_provider failing(*soft_provider().value());
  local_side here(failing.get());
  for (const auto patience : {0ns, std::chrono::nanoseconds(1h)}) {
    hide_gids(failing, false);
    auto one = here.negotiate_with_gid_index({.port_timeout = patience});
    hide_gids(failing, true);
    feed(one, bringup::encode_greeting(bringup::supported_versions));
    if (patience != 0ns) one.time_out();
    ASSERT_EQ(one.status(), negotiation_status::failed);
    EXPECT_EQ(one.failure().kind() == error_kind::timed_out, patience != 0ns);
    EXPECT_THAT(one.failure().message(), HasSubstr("GID 0 of port 1 of soft0"));
  }
}

// The peer sends everything, but reads nothing.
TEST(negotiation_without_io, peer_that_does_not_read_ends_at_the_deadline) {
  const auto input = bytes_of_peer();
  local_side here;
  auto one = here.negotiate();
  std::span<const std::byte> left(input);
  for (int calls = 0; calls < 1000 && one.status() != negotiation_status::finished; ++calls) {
    one.advance(deadline::clock::now());
    if (one.status() == negotiation_status::waiting_for_receives) one.set_ready();
    left = left.subspan(one.received(left.first(std::min(one.bytes_wanted(), left.size()))));
  }
  EXPECT_EQ(one.status(), negotiation_status::finished);
  EXPECT_FALSE(one.is_done());
  one.time_out();
  EXPECT_TRUE(one.is_done());
  EXPECT_EQ(one.failure().kind(), error_kind::timed_out);
  EXPECT_THAT(one.failure().message(), HasSubstr("did not read"));
}

TEST(negotiation_without_io, second_failure_keeps_the_first_error) {
  local_side here;
  auto one = here.negotiate();
  one.peer_closed();
  one.time_out();
  one.abandon(error::from_errno(EIO, "x"));
  EXPECT_EQ(one.failure().code(), ECONNRESET);
  EXPECT_FALSE(std::move(one).finish());
}

TEST(negotiation, move_transfers_the_negotiation) {
  local_side here;
  steps made = here.negotiate();
  const auto count = made.outgoing().size();
  steps moved = std::move(made);
  EXPECT_EQ(moved.outgoing().size(), count);
  moved = here.negotiate();
  EXPECT_EQ(moved.status(), bringup::negotiation_status::waiting_for_peer);
}

TEST(negotiation_death, use_of_a_moved_from_negotiation_stops_the_program) {
  local_side here;
  steps made = here.negotiate();
  const steps moved = std::move(made);
  // NOLINTNEXTLINE(bugprone-use-after-move,clang-analyzer-cplusplus.Move): the use is the test
  EXPECT_DEATH(static_cast<void>(made.status()), "a moved-from negotiation was used");
}

// The peer waits for the last frame of this side, which is in outgoing().
TEST(negotiation_death, finish_with_bytes_left_to_send_stops_the_program) {
  const auto input = bytes_of_peer();
  local_side here;
  auto one = here.negotiate();
  std::span<const std::byte> left(input);
  for (int calls = 0; calls < 1000 && one.status() != negotiation_status::finished; ++calls) {
    one.advance(deadline::clock::now());
    if (one.status() == negotiation_status::waiting_for_receives) one.set_ready();
    left = left.subspan(one.received(left.first(std::min(one.bytes_wanted(), left.size()))));
  }
  ASSERT_EQ(one.status(), negotiation_status::finished);
  EXPECT_DEATH(static_cast<void>(std::move(one).finish()),
               "finish\\(\\) of a negotiation with bytes left to send");
  one.sent(one.outgoing().size());
  // NOLINTNEXTLINE(bugprone-use-after-move): only the child process has moved it
  EXPECT_TRUE(std::move(one).finish());
}

}  // namespace
