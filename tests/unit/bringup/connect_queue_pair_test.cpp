// SPDX-License-Identifier: MIT
// Both sides in one process, on the software device. Where a message could arrive too early, the
// retries of the device are disabled, so that it arrives only because of the ready handshake.
#include "verbena/bringup/connect_queue_pair.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>

#include "tests/unit/bringup/peers.hpp"
#include "verbena/verbs/device_list.hpp"

namespace {

using namespace peers;
using namespace verbena;
using testing::HasSubstr;
using verbena::bringup::connect_queue_pair;
using verbena::bringup::stream;

constexpr std::size_t message_bytes = 4096;

/// One side, with its own context, protection domain, completion queue, buffer and queue pair.
struct connecting_side {
  verbena::context device = open_device("soft0").value();
  protection_domain pd = device.allocate_pd().value();
  completion_queue queue = device.create_cq(16).value();
  memory_region buffer = pd.allocate(2 * message_bytes, access::local_write).value();

  prepared_queue_pair<rc> prepare() {
    return pd.create_qp<rc>(queue, queue, {.reliability = {.rnr_retry_count = 0}}).value();
  }
  result<void> post_receive(queue_pair<rc>& on) {
    const auto posted = on.post_receive({.id = 7}, buffer.slice(0, message_bytes));
    if (!posted) return posted.error();
    return {};
  }
  result<queue_pair<rc>> connect(stream& peer, deadline until = soon()) {
    return connect_queue_pair(prepare(), peer, until,
                              [this](queue_pair<rc>& made) { return post_receive(made); });
  }
  /// Sends a pattern immediately and returns the bytes that the peer sent.
  std::vector<std::byte> send_and_receive(queue_pair<rc>& over, unsigned char seed) {
    const auto out = buffer.bytes().last(message_bytes);
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<std::byte>(seed + i * 7);
    auto batch = over.start_send();
    batch.send({.id = 8, .signaled = true}, buffer.slice(message_bytes, message_bytes));
    batch.submit().value();
    std::array<completion, 2> done;
    const auto until = soon();
    for (int left = 2; left > 0 && !until.expired();)
      for (const auto& each : queue.poll(done).value()) {
        each.result().value();
        --left;
      }
    const auto in = buffer.bytes().first(message_bytes);
    return {in.begin(), in.end()};
  }
};

/// Returns the offer of a peer of `of`, with the number of a queue pair that does not exist.
std::vector<std::byte> offer_to(connecting_side& of) {
  auto [server, client] = connected();
  bringup::offer heard;
  std::thread other([&, &end = client] {
    const auto bytes = end.exchange(bringup::frame_type::offer, bringup::offer().encode(), soon());
    heard = bringup::offer::decode(*bytes).value();
  });
  const auto made = of.connect(server);
  other.join();
  EXPECT_FALSE(made);
  return heard.encode();
}

// parity: rrddmma-106
TEST(connect_queue_pair, returns_after_both_sides_posted_receives) {
  for (int round = 0; round < 50; ++round) {
    auto [server, client] = connected();
    connecting_side here;
    connecting_side there;
    std::vector<std::byte> result_there;
    std::thread other([&, &end = client] {
      auto connected = there.connect(end).value();
      result_there = there.send_and_receive(connected, 1);
      end.send({}, soon()).value();  // keep the queue pair until the peer has finished
      end.receive(soon()).value();
    });
    auto connected = here.connect(server).value();
    const auto at_here = here.send_and_receive(connected, 2);
    server.exchange({}, soon()).value();
    other.join();
    const auto sent_here = here.buffer.bytes().last(message_bytes);
    const auto sent_there = there.buffer.bytes().last(message_bytes);
    ASSERT_TRUE(std::ranges::equal(result_there, sent_here));
    ASSERT_TRUE(std::ranges::equal(at_here, sent_there));
    ASSERT_FALSE(std::ranges::equal(at_here, sent_here));
  }
}

TEST(connect_queue_pair, stream_is_usable_after_connecting) {
  auto [server, client] = connected();
  connecting_side here;
  connecting_side there;
  const auto region = there.buffer.remote();
  std::thread other([&, &end = client] {
    const auto connected = there.connect(end).value();
    end.send(there.buffer.remote().encode(), soon()).value();
  });
  const auto connected = here.connect(server).value();
  EXPECT_EQ(remote_region::decode(server.receive(soon()).value()).value(), region);
  other.join();
}

TEST(connect_queue_pair, local_failure_is_reported_to_the_peer) {
  auto [server, client] = connected();
  connecting_side here;
  connecting_side there;
  result<void> result_there;
  std::thread other([&, &end = client] {
    if (auto made = there.connect(end); !made) result_there = std::move(made).error();
  });
  const auto made =
      connect_queue_pair(here.prepare(), server, soon(), [](queue_pair<rc>&) -> result<void> {
        return error::from_errno(ENOMEM, "post_receive", "here", "no memory for the receives");
      });
  other.join();
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code(), ENOMEM);
  ASSERT_FALSE(result_there);
  EXPECT_EQ(result_there.error().code(), ECONNABORTED);
  EXPECT_THAT(result_there.error().message(), HasSubstr("no memory for the receives"));
}

TEST(connect_queue_pair, invalid_offer_fails_on_both_sides) {
  auto [server, client] = connected();
  connecting_side here;
  result<void> result_there;
  std::thread other([&, &end = client] {
    const std::vector<std::byte> nonsense(80, std::byte{0xff});
    static_cast<void>(end.exchange(bringup::frame_type::offer, nonsense, soon()));
    auto answer = end.exchange(bringup::frame_type::ready, {}, soon());
    if (!answer) result_there = std::move(answer).error();
  });
  const auto made = here.connect(server);
  other.join();
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().kind(), error_kind::protocol);
  ASSERT_FALSE(result_there);
  EXPECT_EQ(result_there.error().code(), ECONNABORTED);
}

TEST(connect_queue_pair, peer_closing_before_ready_returns_econnreset) {
  auto [server, client] = connected();
  connecting_side here;
  const auto offered = offer_to(here);
  std::thread other([&, end = std::move(client)]() mutable {
    end.exchange(bringup::frame_type::offer, offered, soon()).value();
    end.shut_down();
  });
  const auto made = here.connect(server);
  other.join();
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code(), ECONNRESET);
}

// parity: rrddmma-109, ibverbs-rs-17
TEST(connect_queue_pair, deadline_applies_to_all_steps) {
  auto [server, client] = connected();
  connecting_side here;
  const auto offered = offer_to(here);
  std::thread other(
      [&, &end = client] { end.exchange(bringup::frame_type::offer, offered, soon()).value(); });
  const auto made = here.connect(server, deadline::after(200ms));  // the peer never gets ready
  other.join();
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().kind(), error_kind::timed_out);
}

TEST(connect_queue_pair, unexpected_frame_returns_a_protocol_error) {
  auto [server, client] = connected();
  connecting_side here;
  client.send(bytes_from("not an endpoint"), soon()).value();
  const auto made = here.connect(server);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().kind(), error_kind::protocol);
  EXPECT_THAT(made.error().diagnosis(), HasSubstr("`offer` was due"));
}

}  // namespace
