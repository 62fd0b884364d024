// SPDX-License-Identifier: MIT
// Channels of an engine whose peers disconnect.
#include <gtest/gtest.h>

#include <future>
#include <optional>
#include <utility>

#include "tests/unit/channel/channel_pair.hpp"
#include "verbena/async/channel.hpp"
#include "verbena/async/engine.hpp"
#include "verbena/async/task.hpp"
#include "verbena/channel/prepared_channel.hpp"

namespace verbena::test {
namespace {

using async::task;

constexpr cm::connection_options passive_sends_first{.first = cm::first_sender::passive};

/// Receives once into `inbox` and stores the result.
task<void> receive_once(async::channel& on, memory_region& inbox,
                        std::optional<operation_result>& ended) {
  ended = co_await on.receive(sink(inbox), abort_at(long_deadline()));
}

/// A channel of an engine, connected by the connection manager to a channel of another thread.
class managed_async_channels : public ::testing::Test {
 protected:
  managed_async_channels()
      : listener_(manager_.open()),
        peer_(manager_.find(listener_.port())),
        pd_(peer_.context().value().allocate_pd().value()),
        engine_(async::engine::create(pd_.context(), {.operations = 8}).value()) {
    const channel_options options{.queues = {.max_send_wr = 4, .max_recv_wr = 4},
                                  .route = {.port = peer_.port()}};
    auto asked = std::async(std::launch::async, [&] {
      return pd_.create_channel(engine_.hub(), options)
          .value()
          .connect(peer_, passive_sends_first, long_deadline());
    });
    other_ =
        pd_.create_channel(options)
            .value()
            .accept(listener_.accept(long_deadline()).value(), passive_sends_first, long_deadline())
            .value();
    connected_ = asked.get().value();
  }

  const tested_manager manager_;
  cm::listener listener_;
  cm::connector peer_;
  protection_domain pd_;
  async::engine engine_;
  memory_region inbox_ = pd_.allocate(64, access::local_write).value();
  std::optional<channel> other_;
  std::optional<channel> connected_;
};

TEST_F(managed_async_channels, receive_ends_if_the_peer_disconnects) {
  async::channel asking(engine_, *std::move(connected_));
  std::optional<operation_result> ended;
  auto waiting = receive_once(asking, inbox_, ended);
  other_.reset();
  engine_.run(std::move(waiting));
  ASSERT_TRUE(ended);
  EXPECT_FALSE(*ended);
  ASSERT_NE(asking.get().failure(), nullptr);
  EXPECT_EQ(asking.get().failure()->cause, failure_cause::connection);
}

TEST_F(managed_async_channels, disconnect_that_was_read_before_is_detected) {
  other_.reset();
  ASSERT_TRUE(connected_->connection()->wait_disconnected(long_deadline()).value());
  async::channel asking(engine_, *std::move(connected_));
  std::optional<operation_result> ended;
  engine_.run(receive_once(asking, inbox_, ended));
  ASSERT_TRUE(ended);
  EXPECT_FALSE(*ended);
  ASSERT_NE(asking.get().failure(), nullptr);
  EXPECT_EQ(asking.get().failure()->cause, failure_cause::connection);
}

TEST_F(managed_async_channels, released_channel_detects_the_disconnect_itself) {
  std::optional<channel> released;
  {
    async::channel asking(engine_, *std::move(connected_));
    released = std::move(asking).release();
  }
  other_.reset();
  EXPECT_FALSE(released->receive(sink(inbox_), abort_at(long_deadline())));
  ASSERT_NE(released->failure(), nullptr);
  EXPECT_EQ(released->failure()->cause, failure_cause::connection);
}

}  // namespace
}  // namespace verbena::test
