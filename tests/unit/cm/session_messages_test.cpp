// SPDX-License-Identifier: MIT
// Sessions: advertised buffers, and waits that end when the connection ends.
#include <gtest/gtest.h>

#include <cerrno>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tests/unit/cm/sessions.hpp"
#include "verbena/check/checker.hpp"

namespace verbena {
namespace {

using namespace std::chrono_literals;
using bringup::advertisement_kind;
using test::test_deadline;

class session_buffers : public test::sessions {};
class session_ends : public test::sessions {};

constexpr auto remote_access = access::remote_read | access::remote_write;

// parity: libiwarp-22, libiwarp-24, libiwarp-27
TEST_F(session_buffers, either_side_advertises_first) {
  auto [active, passive] = connect();
  // The passive side sends first, also on iWARP.
  for (auto [from, to] : {std::pair{&passive, &active}, std::pair{&active, &passive}}) {
    const auto buffer = buffer_of(*from, "text");
    to->expect_advertisement().value();
    const auto number = from->advertise(buffer, access::remote_read, "greeting").value();
    const auto remote = to->wait_advertisement(test_deadline()).value();
    EXPECT_EQ(remote.number, number);
    EXPECT_EQ(remote.name, "greeting");
    EXPECT_EQ(remote.region, buffer.region().remote());
    EXPECT_EQ(remote.access, access::remote_read);
    const auto sink = buffer_of(*to, "");
    to->read({.id = 1, .signaled = true}, sink.slice(0, 4), remote).value();
    to->wait(sending, 1, test_deadline()).value();
    EXPECT_EQ(text_at(sink, 0, 4), "text");
    EXPECT_TRUE(from->is_advertised(number));
    // On iWARP a message fails if no receive is posted, so post it before release().
    from->expect_advertisement().value();
    to->release(remote).value();
    const auto back = from->wait_update(test_deadline()).value();
    EXPECT_EQ(back.kind, advertisement_kind::released);
    EXPECT_FALSE(from->is_advertised(number));
  }
}

// parity: libiwarp-25
TEST_F(session_buffers, advertisement_receives_are_posted_before_connect) {
  auto listener = serve();
  auto peer = call(listener);
  peer.expect_advertisement().value();
  auto [active, passive] = join(peer, listener);
  const auto buffer = buffer_of(passive, "");
  passive.advertise(buffer, access::remote_write).value();
  EXPECT_TRUE(active.wait_advertisement(test_deadline()));
}

// parity: libiwarp-28, libiwarp-29
TEST_F(session_buffers, advertisements_and_messages_keep_their_order) {
  auto [active, passive] = connect();
  const auto words = buffer_of(active, "onetwo");
  const auto shared = buffer_of(active, "");
  const auto sink = passive.create_buffer(64).value();
  passive.receive({.id = 1}, sink.slice(0, 8)).value();
  for (int i = 0; i < 2; ++i) passive.expect_advertisement().value();
  passive.receive({.id = 2}, sink.slice(8, 8)).value();
  passive.expect_advertisement().value();

  active.send({.id = 1}, words.slice(0, 3)).value();
  active.advertise(shared, access::remote_read, "first").value();
  active.advertise(shared, access::remote_write, "second").value();
  active.send({.id = 2, .signaled = true}, words.slice(3, 3)).value();
  active.advertise(words, access::remote_read, "third").value();
  const auto came = passive.wait(receiving, 2, test_deadline()).value();
  EXPECT_EQ(came.at(0).id(), 1U);
  EXPECT_EQ(came.at(1).id(), 2U);
  EXPECT_EQ(text_at(sink, 0, 3) + text_at(sink, 8, 3), "onetwo");
  // Pending advertisements are taken in order or by name.
  EXPECT_EQ(passive.wait_advertisement(test_deadline()).value().name, "first");
  EXPECT_EQ(passive.wait_advertisement(test_deadline()).value().name, "second");
  EXPECT_EQ(passive.wait_advertisement(test_deadline()).value().name, "third");
  EXPECT_EQ(passive.find("second")->access, access::remote_write);
  EXPECT_FALSE(passive.find("fourth"));
  EXPECT_EQ(active.wait(sending, 1, test_deadline()).value().at(0).id(), 2U);
}

// parity: libiwarp-23, libiwarp-30
TEST_F(session_buffers, revoked_buffer_is_released) {
  auto [active, passive] = connect();
  const auto buffer = buffer_of(passive, "x");
  const auto sink = buffer_of(active, "");
  active.expect_advertisement().value();
  const auto number = passive.advertise(buffer, remote_access, "lent").value();
  const auto remote = active.wait_advertisement(test_deadline()).value();
  EXPECT_TRUE(active.is_usable(remote));

  active.expect_advertisement().value();
  passive.expect_advertisement().value();
  passive.revoke(number).value();
  const auto twice = passive.revoke(number);
  ASSERT_FALSE(twice);
  EXPECT_EQ(twice.error().code(), EALREADY);
  const auto revocation = active.wait_update(test_deadline()).value();
  EXPECT_EQ(revocation.kind, advertisement_kind::revoked);
  EXPECT_EQ(revocation.number, remote.number);
  EXPECT_FALSE(active.is_usable(remote));
  EXPECT_FALSE(active.find("lent"));
  for (const auto& outcome :
       {active.read({}, sink.slice(0, 1), remote), active.write({}, sink.slice(0, 1), remote)}) {
    ASSERT_FALSE(outcome);
    EXPECT_EQ(outcome.error().code(), ENOENT);
  }
  EXPECT_TRUE(passive.is_advertised(number)) << "the peer may still be using it";
  active.release(remote).value();
  EXPECT_EQ(passive.wait_update(test_deadline()).value().kind, advertisement_kind::released);
  EXPECT_FALSE(passive.is_advertised(number));
  const auto gone = active.release(remote);
  ASSERT_FALSE(gone);
  EXPECT_EQ(gone.error().code(), ENOENT);
}

// parity: libiwarp-31
TEST_F(session_buffers, access_flags_beyond_the_registration_are_rejected) {
  auto [active, passive] = connect();
  const auto buffer = active.create_buffer(64, access::remote_read).value();
  const auto refused = active.advertise(buffer, access::remote_write);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message().find("registered with"), std::string::npos);
  const auto nameless = active.advertise(buffer, access::remote_read, std::string(45, 'n'));
  ASSERT_FALSE(nameless);
  EXPECT_EQ(nameless.error().kind(), error_kind::invalid_argument);
  // Rejected buffers are not sent: the peer's first advertisement is this one.
  passive.expect_advertisement().value();
  active.advertise(buffer, access::remote_read, "good").value();
  EXPECT_EQ(passive.wait_advertisement(test_deadline()).value().name, "good");
}

// parity: libiwarp-26, libiwarp-32
TEST_F(session_buffers, wait_without_posted_receive_returns_enomsg) {
  auto [active, passive] = connect();
  for (const auto code : {active.wait_advertisement(test_deadline()).error().code(),
                          active.wait_update(test_deadline()).error().code()})
    EXPECT_EQ(code, ENOMSG);
  active.expect_advertisement().value();
  EXPECT_EQ(active.wait_advertisement(deadline::after(20ms)).error().kind(), error_kind::timed_out);
  // A message of the program returns a protocol error if an advertisement was expected.
  const auto words = buffer_of(passive, "hello");
  passive.send({.signaled = true}, words.slice(0, 5)).value();
  passive.wait(sending, 1, test_deadline()).value();
  const auto other = active.wait_advertisement(test_deadline());
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().kind(), error_kind::protocol) << other.error().message();
  // The connection remains usable.
  EXPECT_TRUE(advertise_to(passive, words, active).number != 0);
}

// parity: libiwarp-33
TEST_F(session_buffers, advertise_succeeds_without_waiting_for_sends) {
  auto [active, passive] = connect({.max_messages = 1});
  const auto buffer = buffer_of(active, "");
  for (int i = 0; i < 5; ++i) {
    const auto remote = advertise_to(active, buffer, passive);
    active.expect_advertisement().value();
    passive.release(remote).value();
    EXPECT_EQ(active.wait_update(test_deadline()).value().number, remote.number);
  }
}

// The second call processes completions to get a slot, among them those of the peer's messages.
TEST_F(session_buffers, messages_that_arrive_while_advertising_are_kept) {
  auto [active, passive] = connect({.max_messages = 1});
  const auto own = buffer_of(active, "");
  const auto lent = buffer_of(passive, "");
  const auto advertise = [&from = active, &own] {
    for (const auto limit = test_deadline();;) {
      const auto number = from.advertise(own, access::remote_read);
      // The acknowledgement of the previous message may be missing.
      if (number || number.error().code() != ENOBUFS || limit.expired()) return number.value();
    }
  };
  // Lets the passive side send a message. The active side sends two before it takes the message.
  std::vector<std::uint32_t> numbers;
  const auto cross = [&, &from = active, &to = passive](auto act) {
    from.expect_advertisement().value();
    act(to);
    for (int i = 0; i < 2; ++i) {
      to.expect_advertisement().value();
      numbers.push_back(advertise());
      EXPECT_TRUE(to.wait_advertisement(test_deadline()));
    }
  };
  std::uint32_t number = 0;
  cross([&](cm::session& to) { number = to.advertise(lent, access::remote_read).value(); });
  const auto remote = active.wait_advertisement(test_deadline()).value();
  EXPECT_EQ(remote.number, number);
  cross([&](cm::session& to) { to.revoke(number).value(); });
  EXPECT_EQ(active.wait_update(test_deadline()).value().kind, advertisement_kind::revoked);
  EXPECT_FALSE(active.is_usable(remote));
  cross([&](cm::session& to) { to.release({.number = numbers.front()}).value(); });
  EXPECT_EQ(active.wait_update(test_deadline()).value().kind, advertisement_kind::released);
  EXPECT_FALSE(active.is_advertised(numbers.front()));
}

// Results of four threads that wait on `on`, one for each kind of wait, when `close`
// is called while all of them wait.
template <class Close>
std::vector<int> codes_of_waiters(cm::session& on, Close close) {
  const auto sink = on.create_buffer(64).value();
  on.receive({.id = 1}, sink.slice()).value();
  on.expect_advertisement().value();
  std::vector<std::future<int>> waiters;
  const auto start = [&](auto wait) { waiters.push_back(std::async(std::launch::async, wait)); };
  const auto code_of = [](const auto& outcome) { return outcome ? 0 : outcome.error().code(); };
  start([&] { return code_of(on.wait(cm::session_queue::send, 1, test_deadline())); });
  start([&] { return code_of(on.wait(cm::session_queue::receive, 1, test_deadline())); });
  start([&] { return code_of(on.wait_advertisement(deadline::never())); });
  start([&] { return on.wait_disconnected(deadline::never()).value() ? -1 : 0; });
  close();
  std::vector<int> codes;
  codes.reserve(waiters.size());
  for (auto& each : waiters) codes.push_back(each.get());
  return codes;
}

// parity: libiwarp-43, libiwarp-45
TEST_F(session_ends, disconnect_wakes_all_waiting_threads) {
  auto [active, passive] = connect();
  const auto codes =
      codes_of_waiters(active, [&closing = active] { closing.disconnect().value(); });
  EXPECT_EQ(codes, (std::vector{ECONNABORTED, ECONNABORTED, ECONNABORTED, -1}));
  EXPECT_TRUE(active.disconnect()) << "the second disconnect succeeds too";
  EXPECT_TRUE(passive.wait_disconnected(test_deadline()).value());
}

// parity: libiwarp-7, libiwarp-45
TEST_F(session_ends, disconnect_of_the_peer_wakes_all_waiting_threads) {
  auto [active, passive] = connect();
  const auto codes =
      codes_of_waiters(passive, [&closing = active] { closing.disconnect().value(); });
  EXPECT_EQ(codes, (std::vector{ECONNRESET, ECONNRESET, ECONNRESET, -1}));
  const auto late = passive.expect_advertisement();
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code(), ECONNRESET);
}

// parity: libiwarp-46, libiwarp-44
TEST_F(session_ends, destruction_at_the_peer_keeps_received_messages) {
  auto [active, passive] = connect();
  EXPECT_FALSE(passive.wait_disconnected(deadline::after(10ms)).value());
  const auto sink = passive.create_buffer(64).value();
  for (std::uint64_t id = 1; id <= 2; ++id)
    passive.receive({.id = id}, sink.slice(id * 8, 8)).value();
  {
    auto dropped = std::move(active);
    const auto out = buffer_of(dropped, "last");
    dropped.send({.id = 1, .signaled = true}, out.slice(0, 4)).value();
    dropped.wait(sending, 1, test_deadline()).value();
  }
  EXPECT_TRUE(passive.wait_disconnected(test_deadline()).value());
  EXPECT_EQ(passive.wait(receiving, 1, test_deadline()).value().at(0).id(), 1U);
  // The disconnect may be reported before the flushed receive: rxe completes it later.
  std::string message;
  const auto until = test_deadline();
  while (message.find("work request 2 was flushed") == std::string::npos && !until.expired()) {
    const auto flushed = passive.wait(receiving, 1, test_deadline());
    ASSERT_FALSE(flushed);
    EXPECT_EQ(flushed.error().code(), ECONNRESET);
    message = flushed.error().message();
  }
  EXPECT_NE(message.find("work request 2 was flushed"), std::string::npos) << message;
}

// parity: libiwarp-20
TEST_F(session_ends, buffers_outlive_the_session) {
  std::optional<cm::local_buffer> kept;
  {
    auto [active, passive] = connect();
    kept = buffer_of(active, "kept");
  }
  EXPECT_EQ(text_at(*kept, 0, 4), "kept");
  EXPECT_TRUE(std::move(*kept).release());
}

// parity: libiwarp-6, libiwarp-1, rrddmma-96
TEST_F(session_ends, verbs_and_session_are_used_together) {
  auto [active, passive] = connect();
  const auto out = buffer_of(active, "raw");
  const auto sink = passive.create_buffer(64).value();
  passive.receive({.id = 1}, sink.slice()).value();
  ibv_sge piece = out.slice(0, 3).native();
  ibv_send_wr request{};
  request.wr_id = 6;
  request.sg_list = &piece;
  request.num_sge = 1;
  request.opcode = IBV_WR_SEND;
  request.send_flags = IBV_SEND_SIGNALED;
  ibv_send_wr* bad = nullptr;
  check::posted_elsewhere(active.connection().qp().native());
  ASSERT_EQ(ibv_post_send(active.connection().qp().native(), &request, &bad), 0);
  EXPECT_EQ(active.wait(sending, 1, test_deadline()).value().at(0).id(), 6U);
  passive.wait(receiving, 1, test_deadline()).value();
  EXPECT_EQ(text_at(sink, 0, 3), "raw");
}

// parity: libiwarp-7, libiwarp-1
TEST_F(session_ends, each_thread_gets_its_completions) {
  auto [active, passive] = connect();
  constexpr int count = 40;
  const auto out = buffer_of(active, "x");
  const auto sink = passive.create_buffer(64).value();
  for (std::uint64_t id = 0; id < count; ++id)
    passive.receive({.id = id}, sink.slice(id, 1)).value();
  const auto take = [](cm::session& of, cm::session_queue queue) {
    for (int i = 0; i < count / 2; ++i) of.wait(queue, 1, test_deadline()).value();
    return true;
  };
  std::vector<std::future<bool>> takers;
  for (int i = 0; i < 2; ++i) {
    takers.push_back(std::async(std::launch::async, take, std::ref(passive), receiving));
    takers.push_back(std::async(std::launch::async, take, std::ref(active), sending));
  }
  for (std::uint64_t id = 0; id < count; ++id)
    active.send({.id = id, .signaled = true}, out.slice(0, 1)).value();
  for (auto& each : takers) EXPECT_TRUE(each.get());
}

}  // namespace
}  // namespace verbena
