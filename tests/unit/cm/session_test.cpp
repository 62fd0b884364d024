// SPDX-License-Identifier: MIT
// Sessions: creation, buffers, requests and completions.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <numeric>
#include <optional>
#include <vector>

#include "tests/unit/cm/sessions.hpp"
#include "verbena/sys/failing_provider.hpp"
#include "verbena/verbs/device_list.hpp"

namespace verbena {
namespace {

using namespace std::chrono_literals;
using test::test_deadline;
using test::text_of;

class sessions : public test::sessions {};

// parity: libiwarp-13, libiwarp-14, libiwarp-9
TEST_F(sessions, request_is_inspected_before_accept) {
  auto listener = serve({.backlog = 4});
  auto peer = call(listener);
  auto asked = std::async(std::launch::async, [&] {
    return peer.connect(test::bytes_of("question"), test_deadline());
  });
  auto guest = listener.next_request({}, test_deadline()).value();
  EXPECT_EQ(text_of(guest.private_data()), "question");
  EXPECT_TRUE(guest.peer_address());
  EXPECT_GE(guest.parameters().responder_resources, 1);
  auto inbox = guest.create_buffer(64).value();
  guest.receive({.id = 7}, inbox.slice()).value();
  auto passive = std::move(guest).accept(test::bytes_of("answer"), test_deadline()).value();
  auto active = asked.get().value();
  EXPECT_EQ(text_of(active.peer_private_data()), "answer");
  EXPECT_EQ(text_of(passive.peer_private_data()), "question");

  const auto outbox = buffer_of(active, "over");
  active.send({.id = 2, .signaled = true}, outbox.slice(0, 4)).value();
  EXPECT_EQ(active.wait(sending, 1, test_deadline()).value().at(0).id(), 2U);
  const auto came = passive.wait(receiving, 1, test_deadline()).value();
  EXPECT_EQ(came.at(0).id(), 7U);
  EXPECT_EQ(came.at(0).byte_length(), 4U);
  EXPECT_EQ(text_of(inbox.bytes()), "over");
}

// parity: libiwarp-8
TEST_F(sessions, receives_are_posted_before_connect) {
  auto listener = serve();
  auto peer = call(listener);
  auto answers = peer.create_buffer(64).value();
  peer.receive({.id = 5}, answers.slice()).value();
  auto [active, passive] = join(peer, listener);
  const auto back = buffer_of(passive, "back");
  passive.send({.id = 3, .signaled = true}, back.slice(0, 4)).value();
  EXPECT_EQ(active.wait(receiving, 1, test_deadline()).value().at(0).id(), 5U);
  EXPECT_EQ(text_of(answers.bytes()), "back");
  passive.wait(sending, 1, test_deadline()).value();
}

// parity: libiwarp-9
TEST_F(sessions, deadline_ends_connect_and_wait) {
  auto listener = serve();
  auto peer = call(listener);
  const auto begin = deadline::clock::now();
  const auto outcome = peer.connect({}, deadline::after(50ms));
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().kind(), error_kind::timed_out) << outcome.error().message();
  EXPECT_GE(deadline::clock::now() - begin, 50ms);
}

// parity: libiwarp-10, libiwarp-15
TEST_F(sessions, request_is_rejected_by_call_or_destruction) {
  auto listener = serve();
  for (const bool with_words : {true, false}) {
    auto peer = call(listener);
    const auto kept = peer.create_buffer(64).value();
    auto asked = std::async(std::launch::async, [&] { return peer.connect({}, test_deadline()); });
    {
      auto guest = listener.next_request({}, test_deadline()).value();
      if (with_words) std::move(guest).reject(test::bytes_of("busy")).value();
    }
    const auto outcome = asked.get();
    ASSERT_FALSE(outcome);
    EXPECT_EQ(outcome.error().code(), ECONNREFUSED) << outcome.error().message();
    ASSERT_TRUE(peer.rejection());
    if (with_words) {
      EXPECT_EQ(text_of(peer.rejection()->private_data), "busy");
    }
    const auto late = peer.receive({.id = 1}, kept.slice());
    ASSERT_FALSE(late);
    EXPECT_EQ(late.error().code(), ENOTCONN);
  }
}

// parity: libiwarp-11, libiwarp-12
TEST_F(sessions, pending_requests_wait_in_the_backlog) {
  auto listener = serve({.backlog = 8});
  std::vector<cm::session_connector> peers;
  peers.reserve(3);
  for (int i = 0; i < 3; ++i) peers.push_back(call(listener));
  std::vector<std::future<result<cm::session>>> asked;
  asked.reserve(peers.size());
  for (auto& peer : peers)
    asked.push_back(
        std::async(std::launch::async, [&] { return peer.connect({}, test_deadline()); }));
  std::vector<cm::session_request> guests;
  guests.reserve(3);
  for (int i = 0; i < 3; ++i) guests.push_back(listener.next_request({}, test_deadline()).value());
  std::vector<cm::session> passive;
  passive.reserve(guests.size());
  for (auto& guest : guests)
    passive.push_back(std::move(guest).accept({}, test_deadline()).value());
  for (auto& each : asked) EXPECT_TRUE(each.get());
  const auto nobody = listener.next_request({}, deadline::after(20ms));
  ASSERT_FALSE(nobody);
  EXPECT_EQ(nobody.error().kind(), error_kind::timed_out);
}

// parity: libiwarp-4
TEST_F(sessions, protection_domain_is_shared_or_own) {
  auto listener = serve();
  auto alone = call(listener);
  auto first = call(listener);
  auto second = call(listener, {.domain = first.domain()});
  EXPECT_NE(alone.domain().native(), first.domain().native());
  EXPECT_EQ(second.domain().native(), first.domain().native());

  auto [active, passive] = join(second, listener);
  const auto shared = first.create_buffer(64, access::local_write | access::remote_read).value();
  const auto foreign = alone.create_buffer(64, access::local_write | access::remote_read).value();
  passive.expect_advertisement().value();
  const auto refused = active.advertise(foreign, access::remote_read);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message().find("another protection domain"), std::string::npos);
  EXPECT_TRUE(active.advertise(shared, access::remote_read));
  EXPECT_EQ(passive.wait_advertisement(test_deadline()).value().region, shared.region().remote());
}

// parity: libiwarp-5
TEST_F(sessions, protection_domain_of_another_device_is_rejected) {
  auto listener = serve();
  const auto other = list_devices(from()).value().at(0).open().value();
  const auto outcome =
      cm::session_connector::resolve({.host = here().host(), .port = listener.port()},
                                     {.domain = other.allocate_pd().value()}, test_deadline());
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().kind(), error_kind::invalid_argument);
  EXPECT_NE(outcome.error().message().find("belongs to a different device"), std::string::npos);
}

// parity: libiwarp-2
TEST_F(sessions, queue_sizes_exclude_advertisement_messages) {
  auto [active, passive] =
      connect({.queues = {.max_send_wr = 6, .max_recv_wr = 5}, .max_messages = 2});
  const auto into = passive.create_buffer(64).value();
  const auto out = buffer_of(active, "x");
  for (int i = 0; i < 2; ++i) passive.expect_advertisement().value();
  const auto third = passive.expect_advertisement();
  ASSERT_FALSE(third);
  EXPECT_EQ(third.error().code(), ENOBUFS);
  for (std::uint64_t id = 0; id < 5; ++id) passive.receive({.id = id}, into.slice(id, 1)).value();
  for (int i = 0; i < 2; ++i) active.advertise(out, access::remote_read).value();
  for (std::uint64_t id = 0; id < 5; ++id) {
    const auto sent = active.send({.id = id, .signaled = true}, out.slice(0, 1));
    ASSERT_TRUE(sent) << sent.error().message();
  }
  EXPECT_EQ(passive.wait(receiving, 5, test_deadline()).value().at(4).id(), 4U);
  EXPECT_EQ(active.wait(sending, 5, test_deadline()).value().size(), 5U);
}

// parity: libiwarp-3
TEST_F(sessions, post_to_a_full_queue_returns_enomem) {
  constexpr std::size_t most = 100'000;
  std::optional<cm::local_buffer> into;  // outlives the sessions, whose receives use it
  auto [active, passive] = connect({.queues = {.max_recv_wr = 4}});
  into = passive.create_buffer(most).value();
  std::optional<error> refused;
  for (std::uint64_t id = 0; id < most && !refused; ++id)
    if (auto posted = passive.receive({.id = id}, into->slice(id, 1)); !posted)
      refused = std::move(posted).error();
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->code(), ENOMEM) << refused->message();
  const auto marked = passive.receive({.id = std::uint64_t{1} << 63}, into->slice(0, 1));
  ASSERT_FALSE(marked);
  EXPECT_EQ(marked.error().kind(), error_kind::invalid_argument);
}

// Some devices round the size of a queue up. The completion queues hold what the device grants.
TEST_F(sessions, all_requests_that_the_device_grants_complete) {
  static const provider* real;
  real = &from();
  provider rounding = *real;
  rounding.verbs.create_qp.set([](ibv_pd* pd, ibv_qp_init_attr* asked) {
    asked->cap.max_send_wr *= 4;
    asked->cap.max_recv_wr *= 4;
    return real->verbs.create_qp(pd, asked);
  });
  auto listener = serve({.provider = &rounding});
  auto peer = call(listener, {.max_messages = 1}, {.provider = &rounding});
  std::optional<cm::local_buffer> into;  // outlives the sessions, whose receives use it
  auto [active, passive] = join(peer, listener, {.max_messages = 1});
  into = passive.create_buffer(4096).value();
  const auto out = buffer_of(active, "x");
  std::size_t receives = 0;
  while (passive.receive({.id = receives}, into->slice(receives, 1))) ++receives;
  EXPECT_GT(receives, queue_sizes{}.max_recv_wr + 2);
  std::size_t sends = 0;
  while (sends < receives && active.send({.id = sends, .signaled = true}, out.slice(0, 1))) ++sends;
  EXPECT_GT(sends, queue_sizes{}.max_send_wr + 2);
  EXPECT_EQ(active.wait(sending, sends, test_deadline()).value().size(), sends);
  EXPECT_EQ(passive.wait(receiving, sends, test_deadline()).value().size(), sends);
}

// A device that reads into one slice per request, like iWARP, and has room for one of two requests.
TEST_F(sessions, read_that_is_posted_in_part_closes_the_connection) {
  static const provider* real;
  real = &from();
  provider iwarp_like = *real;
  iwarp_like.verbs.query_device.set([](ibv_context* device, ibv_device_attr* out) {
    const int code = real->verbs.query_device(device, out);
    out->max_sge_rd = 1;
    return code;
  });
  auto listener = serve();
  auto peer = call(listener, {.queues = {.max_send_wr = 4}}, {.provider = &iwarp_like});
  std::optional<cm::local_buffer> local;  // outlives the session, whose reads use it
  auto [active, passive] = join(peer, listener);
  const auto shared = buffer_of(passive, "remote");
  const auto remote = advertise_to(passive, shared, active);
  local = buffer_of(active, "");
  const std::array slices = {local->slice(0, 1), local->slice(1, 1)};
  const auto write = [&to = active, &local, &remote] {
    return to.write({.id = 1, .signaled = true}, local->slice(8, 1), remote, 8);
  };
  std::size_t room = 0;
  while (write()) ++room;
  active.wait(sending, room, test_deadline()).value();
  for (std::size_t i = 1; i < room; ++i) write().value();

  const auto refused = active.read({.id = 2, .signaled = true}, slices, remote);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ECONNABORTED);
  EXPECT_NE(refused.error().message().find("1 of 2 slices were posted before"), std::string::npos)
      << refused.error().message();
  EXPECT_EQ(write().error().code(), ECONNABORTED);
  EXPECT_TRUE(active.wait_disconnected(test_deadline()).value());
  EXPECT_TRUE(passive.wait_disconnected(test_deadline()).value());
}

TEST_F(sessions, buffer_that_is_moved_to_itself_keeps_its_memory) {
  auto listener = serve();
  auto peer = call(listener);
  auto buffer = peer.register_buffer(std::vector(64, std::byte{7})).value();
  auto& itself = buffer;
  buffer = std::move(itself);
  EXPECT_EQ(buffer.length(), 64U);
  EXPECT_TRUE(
      std::ranges::all_of(buffer.bytes(), [](std::byte each) { return each == std::byte{7}; }));
}

// parity: libiwarp-16, libiwarp-17, libiwarp-18
TEST_F(sessions, release_returns_all_kinds_of_memory) {
  auto [active, passive] = connect();
  auto of_library = active.create_buffer(100).value();
  std::ranges::fill(of_library.bytes(), std::byte{1});
  EXPECT_EQ(of_library.length(), 100U);
  auto freed = std::move(of_library).release().value();
  EXPECT_TRUE(freed.bytes.empty());
  EXPECT_TRUE(freed.storage.empty());

  std::vector<std::byte> mine(4096, std::byte{2});
  auto borrowed = active.register_buffer(std::span(mine)).value();
  EXPECT_EQ(borrowed.bytes().data(), mine.data());
  EXPECT_EQ(std::move(borrowed).release().value().bytes.data(), mine.data());

  const auto* const place = mine.data();
  auto owned = active.register_buffer(std::move(mine)).value();
  EXPECT_EQ(owned.bytes().data(), place);
  owned = active.register_buffer(std::vector<std::byte>(64)).value();  // drops the first one
  auto back = std::move(owned).release().value();
  EXPECT_EQ(back.storage.size(), 64U);
  EXPECT_EQ(back.bytes.data(), back.storage.data());
}

// parity: libiwarp-19
TEST_F(sessions, failed_release_keeps_the_buffer) {
  failing_provider wrapped(from());
  auto listener = serve();
  auto peer = call(listener, {}, {.provider = &wrapped.get()});
  std::vector<std::byte> mine(64);
  auto buffer = peer.register_buffer(std::span(mine)).value();
  wrapped.fail_verb("ibv_dereg_mr", EBUSY);
  const auto refused = std::move(buffer).release();
  wrapped.fail_call(0, 0);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), EBUSY);
  // NOLINTNEXTLINE(bugprone-use-after-move,*.Move): a failed release keeps the buffer
  EXPECT_EQ(std::move(buffer).release().value().bytes.data(), mine.data());
}

// parity: libiwarp-36, libiwarp-37
TEST_F(sessions, write_and_read_at_offsets) {
  auto [active, passive] = connect({.queues = {.max_send_sge = 3, .max_recv_sge = 2}});
  const auto ours = buffer_of(active, "abcdefghijkl");
  const auto theirs = buffer_of(passive, "");
  const auto remote = advertise_to(passive, theirs, active);
  active.write({.id = 1}, ours.slice(2, 3), remote, 10).value();
  const std::array gathered = {ours.slice(0, 2), ours.slice(6, 2), ours.slice(11, 1)};
  active.write({.id = 2}, gathered, remote, 20).value();
  // Only the last request is signaled; its completion implies those of earlier requests.
  active.read({.id = 3}, ours.slice(100, 3), remote, 10).value();
  const std::array scattered = {ours.slice(110, 1), ours.slice(120, 2), ours.slice(130, 2)};
  active.read({.id = 4, .signaled = true}, scattered, remote, 20).value();
  EXPECT_EQ(active.wait(sending, 1, test_deadline()).value().at(0).id(), 4U);
  EXPECT_EQ(text_at(theirs, 10, 3), "cde");
  EXPECT_EQ(text_at(theirs, 20, 5), "abghl");
  EXPECT_EQ(text_at(ours, 100, 3), "cde");
  EXPECT_EQ(text_at(ours, 110, 1) + text_at(ours, 120, 2) + text_at(ours, 130, 2), "abghl");
}

// parity: libiwarp-34, libiwarp-35
TEST_F(sessions, slices_and_lists_are_sent_and_received) {
  auto [active, passive] = connect({.queues = {.max_send_sge = 3, .max_recv_sge = 2}});
  const auto ours = buffer_of(active, "abcdefghijkl");
  const auto theirs = buffer_of(passive, "");
  const std::array gathered = {ours.slice(0, 2), ours.slice(6, 2), ours.slice(11, 1)};
  const std::array into = {theirs.slice(40, 3), theirs.slice(50, 4)};
  passive.receive({.id = 5}, into).value();
  passive.receive({.id = 6}, theirs.slice(60, 8)).value();
  passive.receive({.id = 7}, theirs.slice(70, 8)).value();
  active.send({.id = 8}, gathered).value();
  active.send({.id = 9}, ours.slice(4, 2)).value();
  active.send({.id = 10, .signaled = true}, std::span<const local_slice>()).value();
  std::array<completion, 3> came;
  passive.wait(receiving, came, test_deadline()).value();
  active.wait(sending, 1, test_deadline()).value();
  EXPECT_EQ(came[0].byte_length(), 5U);
  EXPECT_EQ(text_at(theirs, 40, 3) + text_at(theirs, 50, 2), "abghl");
  EXPECT_EQ(text_at(theirs, 60, 2), "ef");
  EXPECT_EQ(came[2].id(), 7U);
  EXPECT_EQ(came[2].byte_length(), 0U);
}

// parity: libiwarp-39
TEST_F(sessions, only_signaled_requests_complete) {
  auto [active, passive] = connect();
  const auto ours = buffer_of(active, "x");
  const auto theirs = buffer_of(passive, "");
  const auto remote = advertise_to(passive, theirs, active);
  for (const std::uint64_t id : {1, 2, 3})
    active.write({.id = id, .signaled = id == 2}, ours.slice(0, 1), remote).value();
  active.write({.id = 4, .signaled = true}, ours.slice(0, 1), remote).value();
  const auto done = active.wait(sending, 2, test_deadline()).value();
  EXPECT_EQ(done.at(0).id(), 2U);
  EXPECT_EQ(done.at(1).id(), 4U);
  const auto second_wait = active.wait(sending, 1, deadline::after(0ms));
  ASSERT_FALSE(second_wait);
  EXPECT_EQ(second_wait.error().kind(), error_kind::timed_out);
}

// parity: libiwarp-38
TEST_F(sessions, access_beyond_a_remote_buffer_is_rejected) {
  auto [active, passive] = connect();
  const auto ours = buffer_of(active, "");
  const auto theirs = buffer_of(passive, "");
  const auto readable = advertise_to(passive, theirs, active, access::remote_read);
  const auto writable = advertise_to(passive, theirs, active, access::remote_write);
  const auto expect = [](const result<void>& outcome, std::string_view words) {
    ASSERT_FALSE(outcome);
    EXPECT_EQ(outcome.error().kind(), error_kind::invalid_argument);
    EXPECT_NE(outcome.error().message().find(words), std::string::npos)
        << outcome.error().message();
  };
  expect(active.write({}, ours.slice(), readable), "the peer permits only remote_read");
  expect(active.read({}, ours.slice(), writable), "the peer permits only remote_write");
  expect(active.write({}, ours.slice(0, 2), writable, 255),
         "2 bytes at offset 255 exceeds the buffer of 256 bytes");
  expect(active.read({}, ours.slice(0, 1), readable, ~std::uint64_t{0}), "exceeds the buffer");
  // The rejected requests have no effect.
  active.read({.id = 1, .signaled = true}, ours.slice(), readable).value();
  EXPECT_TRUE(active.wait(sending, 1, test_deadline()));
}

// parity: libiwarp-40, libiwarp-41, rrddmma-54
TEST_F(sessions, timed_out_wait_keeps_completions) {
  auto [active, passive] = connect();
  const auto into = passive.create_buffer(64).value();
  const auto out = buffer_of(active, "x");
  for (std::uint64_t id = 1; id <= 3; ++id) passive.receive({.id = id}, into.slice(id, 1)).value();
  for (std::uint64_t id = 1; id <= 2; ++id)
    active.send({.id = id, .signaled = true}, out.slice(0, 1)).value();
  active.wait(sending, 2, test_deadline()).value();
  const auto begin = deadline::clock::now();
  const auto early = passive.wait(receiving, 3, deadline::after(30ms));
  ASSERT_FALSE(early);
  EXPECT_EQ(early.error().kind(), error_kind::timed_out);
  EXPECT_GE(deadline::clock::now() - begin, 30ms);
  EXPECT_TRUE(passive.wait(receiving, 0, test_deadline()).value().empty());
  auto third = std::async(std::launch::async,
                          [&] { return passive.wait(receiving, 3, test_deadline()).value(); });
  active.send({.id = 3, .signaled = true}, out.slice(0, 1)).value();
  const auto came = third.get();
  active.wait(sending, 1, test_deadline()).value();
  EXPECT_EQ(came.at(0).id(), 1U);
  EXPECT_EQ(came.at(2).id(), 3U);
}

// parity: libiwarp-42
TEST_F(sessions, failed_request_is_named_and_others_are_kept) {
  auto [active, passive] = connect();
  const auto ours = buffer_of(active, "x");
  const auto theirs = buffer_of(passive, "");
  const auto good = advertise_to(passive, theirs, active);
  auto bad = good;
  bad.number = 0;
  bad.region = remote_region({.address = good.region.address(),
                              .length = 256,
                              .key = remote_key(good.region.key().value() ^ 0x5a5a00)});
  const auto sink = active.create_buffer(64).value();
  active.receive({.id = 9}, sink.slice()).value();
  auto waiter =
      std::async(std::launch::async, [&] { return active.wait(receiving, 1, test_deadline()); });
  active.write({.id = 1, .signaled = true}, ours.slice(0, 1), good).value();
  active.write({.id = 77, .signaled = true}, ours.slice(0, 1), bad).value();
  const auto failed = active.wait(sending, 2, test_deadline());
  if (!is_iwarp(active)) {  // an iWARP write completes before the peer checks it
    ASSERT_FALSE(failed);
    const auto words = failed.error().message();
    EXPECT_EQ(failed.error().kind(), error_kind::completion);
    EXPECT_NE(words.find("work request 77"), std::string::npos) << words;
    EXPECT_EQ(active.wait(sending, 1, test_deadline()).value().at(0).id(), 1U);
  }
  const auto woken = waiter.get();
  ASSERT_FALSE(woken);
  if (!is_iwarp(active)) {
    EXPECT_NE(woken.error().message().find("work request 77"), std::string::npos)
        << woken.error().message();
  }
  EXPECT_FALSE(active.send({.id = 3}, ours.slice(0, 1)));
}

using sessions_death = sessions;

// parity: libiwarp-38
TEST_F(sessions_death, slice_outside_of_a_buffer_aborts) {
  auto listener = serve();
  const auto peer = call(listener);
  const auto buffer = peer.create_buffer(64).value();
  EXPECT_DEATH(static_cast<void>(buffer.slice(60, 5)), "slice \\[60, 65\\) exceeds the region of");
}

}  // namespace
}  // namespace verbena
