// SPDX-License-Identifier: MIT
// Descriptors of events in the event loop of another library: Asio waits, the library owns them.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <chrono>
#include <utility>

#include "tests/unit/verbs/loopback.hpp"

namespace verbena {
namespace {

using namespace std::chrono_literals;

// A descriptor in a loop; the destructor releases it before the loop closes it.
class watched {
 public:
  watched(asio::io_context& loop, int fd) : descriptor_(loop, fd) {}
  watched(const watched&) = delete;
  watched& operator=(const watched&) = delete;
  ~watched() { descriptor_.release(); }

  template <class Handler>
  void when_readable(Handler handler) {
    descriptor_.async_wait(asio::posix::stream_descriptor::wait_read, std::move(handler));
  }

 private:
  asio::posix::stream_descriptor descriptor_;
};

TEST(event_loop, completion_event_wakes_epoll) {
  const auto device = open_device("soft0").value();
  const auto pd = device.allocate_pd().value();
  const auto channel = device.create_completion_channel().value();
  const auto cq = device.create_cq(16, {.channel = channel}).value();
  auto prepared = pd.create_qp<rc>(cq, cq, {.access = access::remote_write}).value();
  const auto self = prepared.endpoint();
  auto queue = std::move(prepared).handshake(self).value();
  const auto memory = pd.allocate(64, access::local_write | access::remote_write).value();
  asio::io_context loop;
  int woken = 0;
  {
    watched readable(loop, channel.fd());
    for (int round = 0; round < 3; ++round) {
      cq.request_notification(notify::any_completion).value();
      readable.when_readable([&](const asio::error_code& failed) {
        EXPECT_FALSE(failed);
        const auto event = channel.poll_event().value();
        ASSERT_TRUE(event.has_value());
        EXPECT_TRUE(event->is_from(cq));
        ++woken;
      });
      loop.restart();
      EXPECT_EQ(loop.poll(), 0U) << "no request has completed";
      auto batch = queue.start_send();
      batch.write({.signaled = true}, memory.slice(0, 8), memory.remote());
      batch.submit().value();
      loop.restart();
      EXPECT_EQ(loop.run_for(20s), 1U);
      test::take(cq, 1);
    }
  }
  EXPECT_EQ(woken, 3);
  EXPECT_NE(::fcntl(channel.fd(), F_GETFD), -1) << "the channel still owns the descriptor";
}

// Cause: the transition to SQD with drained_notification.
TEST(event_loop, asynchronous_event_wakes_epoll) {
  test::loopback link;
  const auto& device = link.context();
  asio::io_context loop;
  bool woken = false;
  {
    watched readable(loop, device.async_fd());
    readable.when_readable([&](const asio::error_code& failed) {
      EXPECT_FALSE(failed);
      const auto event = device.poll_event().value();
      ASSERT_TRUE(event.has_value());
      EXPECT_TRUE(event->concerns(link.a().queue));
      woken = true;
    });
    EXPECT_EQ(loop.poll(), 0U) << "no event has occurred";
    link.a()
        .queue
        .modify(queue_pair_attributes()
                    .set_state(queue_pair_state::send_queue_drain)
                    .set_drained_notification(true))
        .value();
    loop.restart();
    EXPECT_EQ(loop.run_for(20s), 1U);
  }
  EXPECT_TRUE(woken);
  EXPECT_FALSE(device.poll_event().value().has_value());
}

}  // namespace
}  // namespace verbena
