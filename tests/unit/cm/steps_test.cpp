// SPDX-License-Identifier: MIT
// Connections in steps: both sides on one thread, ends and deadlines at each step.
#include "tests/unit/steps.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include "tests/unit/cm/served.hpp"

namespace verbena::test {
namespace {

/// Both sides on this thread.
class connection_steps : public served {
 public:
  void SetUp() override {
    served::SetUp();
    listener_.emplace(open());
  }
  [[nodiscard]] driven<cm::connector> resolve(deadline until) const {
    return driven(
        cm::connector::resolve_in_steps({.host = here().host(), .port = listener_->port()}, until));
  }
  [[nodiscard]] cm::connector found() const {
    auto resolving = resolve(test_deadline());
    drive(resolving);
    return resolving.take();
  }
  [[nodiscard]] driven<cm::connection> connect(cm::connector& peer, const objects& own,
                                               deadline until,
                                               const cm::connection_options& options = {}) const {
    auto prepared = peer.create_qp(own.pd, own.cq, own.cq).value();
    return driven(peer.connect_in_steps(std::move(prepared), options, until));
  }
  [[nodiscard]] driven<cm::connection_request> next_request(deadline until) {
    return driven(listener_->accept_in_steps(until));
  }
  [[nodiscard]] driven<cm::connection> accept(cm::connection_request request, const objects& own,
                                              deadline until,
                                              const cm::connection_options& options = {},
                                              cm::kept_receive_poster post = {}) const {
    auto prepared = request.create_qp(own.pd, own.cq, own.cq).value();
    return driven(
        std::move(request).accept_in_steps(std::move(prepared), options, until, std::move(post)));
  }

 protected:
  std::optional<cm::listener> listener_;
};

TEST_F(connection_steps, both_sides_connect_on_one_thread) {
  for (const auto first : {cm::first_sender::active, cm::first_sender::passive}) {
    auto peer = found();
    const objects here_objects(peer.context().value());
    auto connecting = connect(peer, here_objects, test_deadline(),
                              {.private_data = bytes_of("request"), .first = first});
    auto waiting = next_request(test_deadline());
    while (!waiting.has_ended()) step(connecting, waiting);
    auto request = waiting.take();
    EXPECT_EQ(text_of(request.private_data()), "request");
    const objects there(request.context().value());
    int posts = 0;
    auto accepting =
        accept(std::move(request), there, test_deadline(),
               {.private_data = bytes_of("reply"), .first = first},
               [&](queue_pair<rc>& queue) -> result<void> {
                 ++posts;
                 if (auto posted = queue.post_receive({.id = 5}, there.memory.slice()); !posted)
                   return posted.error();
                 return {};
               });
    drive(connecting, accepting);
    auto active = connecting.take();
    auto passive = accepting.take();
    EXPECT_EQ(posts, 1);
    EXPECT_EQ(text_of(active.peer_private_data()), "reply");
    active.qp().post_send({.id = 1, .signaled = true}, here_objects.memory.slice(0, 16)).value();
    EXPECT_TRUE(there.take(1).front().ok());
  }
}

TEST_F(connection_steps, rejection_reaches_the_connector) {
  auto peer = found();
  const objects own(peer.context().value());
  auto connecting = connect(peer, own, test_deadline());
  auto waiting = next_request(test_deadline());
  while (!waiting.has_ended()) step(connecting, waiting);
  waiting.take().reject(bytes_of("no")).value();
  drive(connecting);
  EXPECT_EQ(connecting.outcome().error().code(), ECONNREFUSED);
  ASSERT_TRUE(peer.rejection());
}

TEST_F(connection_steps, deadline_ends_the_steps_of_each_side) {
  auto waiting = next_request(deadline::after(10ms));
  drive(waiting);
  EXPECT_EQ(waiting.outcome().error().kind(), error_kind::timed_out);
  auto peer = found();
  const objects own(peer.context().value());
  auto connecting = connect(peer, own, deadline::after(50ms));  // nothing accepts it
  drive(connecting);
  EXPECT_EQ(connecting.outcome().error().kind(), error_kind::timed_out)
      << connecting.outcome().error().message();
}

TEST_F(connection_steps, listener_serves_clients_after_each_kind_of_end) {
  // The active side is destroyed after any number of steps, then the passive side.
  for (int count = 0; count < 6; ++count) {
    for (const bool active_ends : {true, false}) {
      auto peer = found();
      const objects own(peer.context().value());
      auto connecting = connect(peer, own, test_deadline());
      auto waiting = next_request(test_deadline());
      while (!waiting.has_ended()) step(connecting, waiting);
      auto request = waiting.take();
      const objects there(request.context().value());
      auto accepting = accept(std::move(request), there, deadline::after(200ms));
      for (int i = 0; i < count; ++i) step(connecting, accepting);
      if (active_ends) {
        connecting.destroy();
        drive(accepting);
      } else {
        accepting.destroy();
        drive(connecting);
      }
    }
  }
  for (int count = 0; count < 4; ++count) {
    auto resolving = resolve(test_deadline());
    for (int i = 0; i < count; ++i) resolving.progress();
  }
  auto peer = found();
  const objects own(peer.context().value());
  auto connecting = connect(peer, own, test_deadline());
  // Requests of connectors that were destroyed before may come first.
  while (!connecting.has_ended()) {
    auto waiting = next_request(test_deadline());
    while (!waiting.has_ended()) step(connecting, waiting);
    auto request = waiting.take();
    const objects there(request.context().value());
    auto accepting = accept(std::move(request), there, deadline::after(5s));
    while (!accepting.has_ended()) step(connecting, accepting);
    if (accepting.outcome()) drive(connecting);
  }
  EXPECT_TRUE(connecting.outcome()) << connecting.outcome().error().message();
}

}  // namespace
}  // namespace verbena::test
