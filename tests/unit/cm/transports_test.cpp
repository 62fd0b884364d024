// SPDX-License-Identifier: MIT
// Differences between the transports of the connection manager.
#include <gtest/gtest.h>

#include <array>

#include "tests/unit/cm/served.hpp"
#include "verbena/verbs/device_attributes.hpp"
#include "verbena/verbs/read_sink.hpp"

namespace verbena {
namespace {

using namespace std::chrono_literals;
using test::end;
using test::test_deadline;
using test::text_of;

class transports : public test::served {
 protected:
  struct ends {
    end active;
    end passive;
  };

  /// Returns both sides of one connection. The active side connects on another thread.
  [[nodiscard]] ends connect(const cm::connection_options& active = {},
                             const cm::connection_options& passive = {}) {
    auto listener = open();
    auto peer = find(listener.port());
    auto asked = std::async(std::launch::async, [&] { return test::connect_to(peer, active); });
    auto answered = test::accept_request(listener.accept(test_deadline()).value(), passive);
    auto connected = asked.get();
    return {std::move(connected).value(), std::move(answered).value()};
  }
};

TEST_F(transports, read_into_memory_with_sink_access_succeeds) {
  auto [active, passive] = connect();
  for (auto [reader, peer] : {std::pair{&active, &passive}, std::pair{&passive, &active}}) {
    std::ranges::copy(test::bytes_of("from the peer"), peer->own->memory.bytes().begin());
    const auto device = reader->own->pd.context();
    const auto sink = reader->own->pd.allocate(4096, read_sink_access(device)).value();
    const auto fits = check_read_sink(device, sink.access());
    ASSERT_TRUE(fits) << fits.error().message();
    auto batch = reader->link.qp().start_send();
    batch.read({.id = 1, .signaled = true}, sink.slice(0, 13),
               peer->own->memory.remote().slice(0, 13));
    batch.submit().value();
    reader->own->take(1).at(0).result().value();
    EXPECT_EQ(text_of(sink.bytes().first(16)), "from the peer");
  }
}

TEST_F(transports, passive_side_sends_first) {
  using cm::first_sender;
  for (int round = 0; round < 4; ++round) {
    auto listener = open();
    auto peer = find(listener.port());
    test::objects own(peer.context().value());
    auto asked = std::async(std::launch::async, [&] {
      auto prepared = peer.create_qp(own.pd, own.cq, own.cq).value();
      return peer.connect(std::move(prepared), {.first = first_sender::passive}, test_deadline(),
                          [&](queue_pair<rc>& queue) -> result<void> {
                            queue.post_receive({.id = 7}, own.memory.slice(0, 64)).value();
                            return {};
                          });
    });
    auto passive = test::accept_request(
        listener.accept(test_deadline()).value(),
        {.private_data = test::bytes_of("welcome"), .first = first_sender::passive});
    ASSERT_TRUE(passive) << passive.error().message();
    std::ranges::copy(test::bytes_of("me first"), passive->own->memory.bytes().begin());
    auto batch = passive->link.qp().start_send();
    batch.send({.id = 1, .signaled = true}, passive->own->memory.slice(0, 8));
    batch.submit().value();
    passive->own->take(1).at(0).result().value();
    const auto link = asked.get();
    ASSERT_TRUE(link) << link.error().message();
    EXPECT_EQ(text_of(link->peer_private_data()), "welcome");
    const auto came = own.take(1);
    EXPECT_EQ(came.at(0).id(), 7U) << "the library posts no receive of its own";
    came.at(0).result().value();
    EXPECT_EQ(text_of(own.memory.bytes().first(16)), "me first");
  }
}

TEST_F(transports, missing_first_sender_is_named_in_the_error) {
  using cm::first_sender;
  const bool is_iwarp = find(1).id().is_iwarp();
  const auto meet = [&](first_sender active, first_sender passive) {
    auto listener = open();
    auto peer = find(listener.port());
    auto asked =
        std::async(std::launch::async, [&] { return test::connect_to(peer, {.first = active}); });
    auto request = listener.accept(test_deadline()).value();
    test::objects own(request.context().value());
    auto prepared = request.create_qp(own.pd, own.cq, own.cq).value();
    const auto until = is_iwarp ? deadline::after(300ms) : test_deadline();
    const auto answered = std::move(request).accept(std::move(prepared), {.first = passive}, until);
    const auto outcome = asked.get();
    const bool fails = is_iwarp && active != passive;
    EXPECT_EQ(outcome.has_value() && answered.has_value(), !fails);
    return (answered ? "" : answered.error().message()) +
           (outcome ? "" : outcome.error().message());
  };
  const std::string active_side_waits = meet(first_sender::passive, first_sender::active);
  const std::string passive_side_waits = meet(first_sender::active, first_sender::passive);
  EXPECT_EQ(active_side_waits.find("first_sender::passive") != std::string::npos, is_iwarp);
  EXPECT_EQ(passive_side_waits.find("first_sender::passive") != std::string::npos, is_iwarp);
}

TEST_F(transports, failed_first_receives_end_the_connection) {
  const auto refuse = [](queue_pair<rc>&) -> result<void> {
    return error::invalid_argument("post_receives", "the test", "no receives");
  };
  for (const bool at_active_side : {true, false}) {
    auto listener = open();
    auto peer = find(listener.port());
    test::objects own(peer.context().value());
    auto asked = std::async(std::launch::async, [&] {
      auto prepared = peer.create_qp(own.pd, own.cq, own.cq).value();
      return peer.connect(std::move(prepared), {}, test_deadline(),
                          at_active_side ? cm::receive_poster(refuse) : cm::receive_poster());
    });
    auto request = listener.accept(test_deadline()).value();
    test::objects others(request.context().value());
    auto prepared = request.create_qp(others.pd, others.cq, others.cq).value();
    auto answered = std::move(request).accept(
        std::move(prepared), {}, test_deadline(),
        at_active_side ? cm::receive_poster() : cm::receive_poster(refuse));
    const auto outcome = asked.get();
    ASSERT_FALSE(outcome);
    const auto& failed = at_active_side ? outcome.error() : answered.error();
    EXPECT_EQ(failed.call(), "post_receives") << failed.message();
    // On iWARP the passive side connects first and is then disconnected.
    if (at_active_side && answered) {
      EXPECT_TRUE(answered->wait_disconnected(test_deadline()).value());
    }
  }
}

TEST_F(transports, missing_sink_access_is_named_in_the_error) {
  const auto device = find(1).context().value();
  const bool is_iwarp = find(1).id().is_iwarp();
  EXPECT_EQ(read_sink_access(device).contains(access::remote_write), is_iwarp);
  const auto without_access = check_read_sink(device, access::remote_read);
  ASSERT_FALSE(without_access);
  EXPECT_EQ(without_access.error().kind(), error_kind::invalid_argument);
  const std::string needed = is_iwarp ? "local_write | remote_write" : "local_write";
  EXPECT_NE(without_access.error().message().find("needs the access flags " + needed +
                                                  ", not remote_read"),
            std::string::npos)
      << without_access.error().message();
  const auto with_local_write_only = check_read_sink(device, access::local_write);
  EXPECT_EQ(with_local_write_only.has_value(), !is_iwarp);
  if (is_iwarp) {
    EXPECT_NE(with_local_write_only.error().message().find("the response to a read is a write"),
              std::string::npos);
  }

  const auto most = static_cast<std::size_t>(device.query().value().max_read_sge());
  ASSERT_GE(most, 1U);
  EXPECT_EQ(most == 1, is_iwarp);
  EXPECT_TRUE(check_read_sink(device, read_sink_access(device), most));
  const auto many = check_read_sink(device, read_sink_access(device), most + 1);
  ASSERT_FALSE(many);
  EXPECT_NE(many.error().message().find("the read has " + std::to_string(most + 1) + " slices"),
            std::string::npos)
      << many.error().message();
}

}  // namespace
}  // namespace verbena
