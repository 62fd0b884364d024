// SPDX-License-Identifier: MIT
// Connections over rails.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <thread>
#include <utility>

#include "src/net/rail_message.hpp"
#include "tests/unit/bringup/peers.hpp"
#include "tests/unit/net/rails.hpp"
#include "tests/unit/net/ranks.hpp"
#include "verbena/net/multi_rail_channel.hpp"
#include "verbena/net/rail_memory.hpp"
#include "verbena/net/rail_responder.hpp"

namespace verbena::test {
namespace {

using testing_support::expect_error;

TEST(rails, region_survives_encoding_and_invalid_bytes_are_refused) {
  two_rails here;
  const auto memory = net::rail_memory::allocate(here.ports, 4096, rail_access).value();
  const auto region = memory.remote();
  EXPECT_NE(region.on(0).key(), region.on(1).key());
  EXPECT_EQ(net::rail_region::decode(region.encode()).value(), region);
  EXPECT_EQ(region.slice(64, 8).on(1).address(), region.on(0).address() + 64);
  auto bytes = region.encode();
  bytes[1] = std::byte{3};
  expect_error(net::rail_region::decode(bytes), "no region of rails");
  bytes = region.encode();
  bytes[0] = std::byte{2};
  expect_error(net::rail_region::decode(bytes), "version 2");
  bytes = region.encode();
  std::fill(bytes.begin() + 2, bytes.begin() + 18, std::byte{0xff});
  expect_error(net::rail_region::decode(bytes), "address space");
}

TEST(rails, long_write_is_striped_over_both_rails) {
  connected_rails both;
  both.fill(both.local, 1);
  both.channel->write(net::rail_source(both.local), both.remote.remote(), test_deadline()).value();
  EXPECT_EQ(both.wrong_words(both.remote, 1), 0U);
  EXPECT_GT(both.counters(0).bytes_written, 0U);
  EXPECT_GT(both.counters(1).bytes_written, 0U);
  EXPECT_EQ(both.counters(0).bytes_written + both.counters(1).bytes_written, rail_block);
}

TEST(rails, long_read_is_striped_over_both_rails) {
  connected_rails both;
  both.fill(both.remote, 7);
  both.channel->read(net::rail_sink(both.local), both.remote.remote(), test_deadline()).value();
  EXPECT_EQ(both.wrong_words(both.local, 7), 0U);
  EXPECT_EQ(both.counters(0).bytes_read + both.counters(1).bytes_read, rail_block);
  EXPECT_GT(both.counters(0).bytes_read, 0U);
  EXPECT_GT(both.counters(1).bytes_read, 0U);
}

TEST(rails, short_writes_use_the_rails_in_turn) {
  connected_rails both;
  for (int each = 0; each < 10; ++each)
    both.channel
        ->write(net::rail_source(both.local, 0, 4096), both.remote.remote(), test_deadline())
        .value();
  EXPECT_EQ(both.counters(0).pieces, 5U);
  EXPECT_EQ(both.counters(1).pieces, 5U);
}

TEST(rails, short_writes_use_three_rails_in_turn) {
  two_rails here;
  two_rails there;
  for (two_rails* const side : {&here, &there}) side->ports.push_back(side->ports.front());
  connected_rails all(quick(), std::move(here), std::move(there));
  for (int each = 0; each < 9; ++each)
    all.channel->write(net::rail_source(all.local, 0, 4096), all.remote.remote(), test_deadline())
        .value();
  for (const std::uint32_t rail : {0, 1, 2}) EXPECT_EQ(all.counters(rail).pieces, 3U) << rail;
}

TEST(rails, failed_rail_returns_while_only_short_writes_are_made) {
  connected_rails both;
  both.faults.down(2);
  ASSERT_TRUE(both.becomes(1, net::rail_state::down));
  both.faults.up(2);
  const auto until = test_deadline();
  while (both.channel->status(1).state != net::rail_state::active && !until.expired())
    both.channel->write(net::rail_source(both.local, 0, 64), both.remote.remote(), until).value();
  EXPECT_EQ(both.channel->status(1).state, net::rail_state::active);
}

/// Polls of the first completion queue that is polled fail from then on.
class broken_queue {
 public:
  explicit broken_queue(const context& of) : native_(of.native()) {
    poll_ = native_->ops.poll_cq;
    broken_ = nullptr;
    native_->ops.poll_cq = [](ibv_cq* queue, int count, ibv_wc* out) {
      if (broken_ == nullptr) broken_ = queue;
      return queue == broken_ ? -EIO : poll_(queue, count, out);
    };
  }
  broken_queue(const broken_queue&) = delete;
  broken_queue& operator=(const broken_queue&) = delete;
  ~broken_queue() { native_->ops.poll_cq = poll_; }

 private:
  static inline ibv_cq* broken_ = nullptr;
  static inline decltype(ibv_context_ops::poll_cq) poll_ = nullptr;
  ibv_context* native_;
};

TEST(rails, failed_completion_queue_is_replaced) {
  connected_rails both;
  both.fill(both.local, 5);
  const broken_queue broken(both.here.ports[0].domain.context());
  both.channel->write(net::rail_source(both.local), both.remote.remote(), test_deadline()).value();
  EXPECT_EQ(both.wrong_words(both.remote, 5), 0U);
  EXPECT_EQ(both.counters(0).failures, 1U);
  EXPECT_EQ(both.channel->status(0).cause, net::rail_cause::device);
  EXPECT_TRUE(both.becomes(0, net::rail_state::active));
  both.channel->write(net::rail_source(both.local), both.remote.remote(), test_deadline()).value();
  EXPECT_EQ(both.counters(0).failures, 1U);
}

TEST(rails, flap_under_load_fails_no_operation) {
  connected_rails both;
  for (std::uint64_t round = 0; round < 16; ++round) {
    both.fill(both.local, round << 32U);
    // The command is executed by the device, in the middle of the write.
    if (round == 4) both.faults.inject("when opcode=rdma_write at=2 do port 2 down");
    if (round == 10) both.faults.inject("clear-faults; port 2 up");
    both.channel->write(net::rail_source(both.local), both.remote.remote(), test_deadline())
        .value();
    ASSERT_EQ(both.wrong_words(both.remote, round << 32U), 0U) << round;
    if (round == 9) {
      EXPECT_EQ(both.channel->status(1).state, net::rail_state::down);
    }
  }
  ASSERT_TRUE(both.becomes(1, net::rail_state::active));
  const auto before = both.counters(1).bytes_written;
  both.channel->write(net::rail_source(both.local), both.remote.remote(), test_deadline()).value();
  EXPECT_GT(both.counters(1).bytes_written, before);
  EXPECT_EQ(both.counters(1).failures, 1U);
  EXPECT_EQ(both.counters(1).connections, 2U);
  EXPECT_EQ(both.counters(0).failures, 0U);
}

TEST(rails, failed_requests_of_all_rails_are_repeated) {
  connected_rails both;
  both.fill(both.local, 3);
  // Each queue pair fails with its third write, so several connections are needed.
  both.faults.inject("fail retry_exc_err opcode=rdma_write at=3");
  both.channel->write(net::rail_source(both.local), both.remote.remote(), test_deadline()).value();
  EXPECT_EQ(both.wrong_words(both.remote, 3), 0U);
  EXPECT_GT(both.counters(0).failures + both.counters(1).failures, 1U);
  EXPECT_GT(both.counters(0).lost_pieces + both.counters(1).lost_pieces, 1U);
}

TEST(rails, failed_reads_are_repeated) {
  connected_rails both;
  both.fill(both.remote, 9);
  both.faults.inject("fail retry_exc_err opcode=rdma_read at=3");
  both.channel->read(net::rail_sink(both.local), both.remote.remote(), test_deadline()).value();
  EXPECT_EQ(both.wrong_words(both.local, 9), 0U);
  EXPECT_GT(both.counters(0).failures + both.counters(1).failures, 1U);
}

TEST(rails, failed_rail_is_held_down_after_its_port_is_active) {
  net::rail_options options = quick();
  options.hold_down = 200ms;
  connected_rails both(options);
  both.faults.down(1);
  ASSERT_TRUE(both.becomes(0, net::rail_state::down));
  EXPECT_EQ(both.channel->status(0).cause, net::rail_cause::port_error);
  both.faults.up(1);
  ASSERT_TRUE(both.becomes(0, net::rail_state::held_down));
  both.faults.down(1);
  ASSERT_TRUE(both.becomes(0, net::rail_state::down));
  const auto again = deadline::clock::now();
  both.faults.up(1);
  ASSERT_TRUE(both.becomes(0, net::rail_state::active));
  EXPECT_GE(deadline::clock::now() - again, options.hold_down);
  EXPECT_EQ(both.counters(0).failures, 1U);
  EXPECT_EQ(both.counters(0).connections, 2U);
  EXPECT_EQ(both.counters(1).failures, 0U);
}

TEST(rails, operation_without_a_rail_fails_at_its_deadline_and_names_the_causes) {
  connected_rails both;
  both.faults.down(1);
  both.faults.down(2);
  ASSERT_TRUE(both.becomes(0, net::rail_state::down));
  ASSERT_TRUE(both.becomes(1, net::rail_state::down));
  const auto failed = both.channel->write(net::rail_source(both.local), both.remote.remote(),
                                          deadline::after(50ms));
  EXPECT_EQ(failed.delivery(), delivery::not_done);
  expect_error(failed,
               "rail 0 (port 1 of soft0): down, the local port is down; rail 1 (port 2 of "
               "soft0): down, the local port is down");
  EXPECT_EQ(failed.error().kind(), error_kind::timed_out);
  both.faults.up(1);
  both.fill(both.local, 11);
  both.channel->write(net::rail_source(both.local), both.remote.remote(), test_deadline()).value();
  EXPECT_EQ(both.wrong_words(both.remote, 11), 0U);
}

TEST(rails, lost_write_is_unknown_if_no_rail_can_repeat_it) {
  connected_rails both;
  both.faults.down(2);
  ASSERT_TRUE(both.becomes(1, net::rail_state::down));
  both.faults.inject("when opcode=rdma_write at=1 do port 1 down");
  const auto failed = both.channel->write(net::rail_source(both.local, 0, 64), both.remote.remote(),
                                          deadline::after(1s));
  expect_error(failed, "0 of 64 bytes are confirmed");
  EXPECT_EQ(failed.delivery(), delivery::unknown);
}

TEST(rails, deadline_that_has_passed_does_not_harm_the_rails) {
  connected_rails both;
  const auto failed =
      both.channel->write(net::rail_source(both.local), both.remote.remote(), deadline::after(0ms));
  expect_error(failed, "the deadline had passed before the operation began");
  EXPECT_EQ(failed.delivery(), delivery::not_done);
  for (const std::uint32_t rail : {0U, 1U}) {
    EXPECT_EQ(both.channel->status(rail).state, net::rail_state::active);
    EXPECT_EQ(both.counters(rail).failures, 0U);
  }
}

TEST(rails, refused_write_fails_and_the_rails_return) {
  connected_rails both;
  const auto constant =
      net::rail_memory::allocate(both.there.ports, rail_block, access::remote_read).value();
  const auto refused =
      both.channel->write(net::rail_source(both.local), constant.remote(), test_deadline());
  EXPECT_EQ(refused.delivery(), delivery::unknown);
  expect_error(refused, "remote");
  both.fill(both.local, 13);
  both.channel->write(net::rail_source(both.local), both.remote.remote(), test_deadline()).value();
  EXPECT_EQ(both.wrong_words(both.remote, 13), 0U);
}

TEST(rails, end_of_the_peer_fails_operations) {
  connected_rails both;
  both.peer.reset();
  const auto failed =
      both.channel->write(net::rail_source(both.local), both.remote.remote(), test_deadline());
  ASSERT_FALSE(failed);
  expect_error(failed, "rail 0");
  ASSERT_NE(both.channel->failure(), nullptr);
  const auto later =
      both.channel->read(net::rail_sink(both.local), both.remote.remote(), test_deadline());
  EXPECT_EQ(later.delivery(), delivery::not_done);
}

TEST(rails, end_of_the_channel_ends_the_responder) {
  connected_rails both;
  EXPECT_TRUE(both.peer->is_connected());
  both.channel.reset();
  const auto until = test_deadline();
  while (both.peer->is_connected() && !until.expired()) std::this_thread::yield();
  EXPECT_FALSE(both.peer->is_connected());
}

TEST(rails, arguments_that_do_not_fit_are_refused) {
  connected_rails both;
  const auto too_short = both.remote.remote().slice(0, 8);
  const auto longer = both.channel->write(net::rail_source(both.local), too_short, test_deadline());
  expect_error(longer, "exceed the remote region of 8 bytes");
  EXPECT_EQ(longer.delivery(), delivery::not_done);
  const auto one =
      net::rail_memory::allocate(std::span(both.there.ports).first(1), 64, rail_access).value();
  expect_error(
      both.channel->write(net::rail_source(both.local, 0, 8), one.remote(), test_deadline()),
      "the connection has 2 rails, the local memory 2, the remote region 1");
  expect_error(net::rail_memory::allocate({}, 64, rail_access), "0 rails");
  expect_error(both.channel->write(net::rail_source(both.remote, 0, 8), both.remote.remote(),
                                   test_deadline()),
               "the memory of rail 0 is registered in another protection domain");
}

TEST(rails, lost_write_is_repeated_only_after_the_fence) {
  delayed_stream between;
  connected_rails both(quick(), *std::move(between.active), *std::move(between.responder));
  both.fill(both.remote, 1);
  both.fill(both.local, 2);
  between.hold();
  // The port goes down before the request is sent: the piece is in flight when its rail fails.
  both.faults.inject("when opcode=rdma_write at=1 do port 1 down");
  const auto write = [&](deadline until) {
    return both.channel->write(net::rail_source(both.local, 0, 4096), both.remote.remote(), until);
  };
  const auto lost = write(deadline::after(100ms));
  EXPECT_EQ(lost.delivery(), delivery::unknown);
  expect_error(lost, "0 of 4096 bytes are confirmed");
  EXPECT_EQ(both.wrong_words(both.remote, 1), 0U) << "the write was repeated before the fence";
  EXPECT_EQ(both.channel->status(1).state, net::rail_state::active);
  // A later operation could be overwritten by the lost one.
  const auto waiting = write(deadline::after(20ms));
  EXPECT_EQ(waiting.delivery(), delivery::not_done);
  EXPECT_EQ(both.wrong_words(both.remote, 1), 0U) << "a write began before the fence";
  between.release();
  write(test_deadline()).value();
  EXPECT_EQ(both.wrong_words(both.remote, 1), 4096U / 8);
}

TEST(rails, port_of_the_peer_takes_the_rail_down_and_up) {
  delayed_stream between;
  connected_rails both(quick(), *std::move(between.active), *std::move(between.responder));
  net::detail::rail_message port{.kind = net::detail::rail_message_kind::port, .rail = 1};
  between.say(encode(port));
  ASSERT_TRUE(both.becomes(1, net::rail_state::down));
  EXPECT_EQ(both.channel->status(1).cause, net::rail_cause::peer_port_error);
  EXPECT_EQ(both.counters(1).port_errors, 1U);
  both.channel->write(net::rail_source(both.local), both.remote.remote(), test_deadline()).value();
  EXPECT_EQ(both.counters(0).bytes_written, rail_block);
  port.generation = 1;
  between.say(encode(port));
  EXPECT_TRUE(both.becomes(1, net::rail_state::active));
}

TEST(rails, invalid_message_ends_the_connection) {
  delayed_stream between;
  connected_rails both(quick(), *std::move(between.active), *std::move(between.responder));
  between.say({std::byte{7}, std::byte{2}});
  const auto until = test_deadline();
  while (both.channel->failure() == nullptr && !until.expired()) both.channel->progress();
  ASSERT_NE(both.channel->failure(), nullptr);
  EXPECT_EQ(both.channel->failure()->kind(), error_kind::protocol);
  EXPECT_EQ(
      both.channel->write(net::rail_source(both.local), both.remote.remote(), until).delivery(),
      delivery::not_done);
}

TEST(rails, messages_survive_encoding_and_invalid_ones_are_refused) {
  using net::detail::decode_rail_message;
  using net::detail::rail_message;
  using net::detail::rail_message_kind;
  const endpoint local{.queue_pair = queue_pair_number(17)};
  for (const auto& each :
       {rail_message{.kind = rail_message_kind::connect, .generation = 9, .endpoint = local},
        rail_message{.kind = rail_message_kind::refused, .rail = 1, .reason = "no port"},
        rail_message{.kind = rail_message_kind::fenced, .rail = 1, .generation = 3}}) {
    const auto again = decode_rail_message(encode(each), 2).value();
    EXPECT_EQ(again.kind, each.kind);
    EXPECT_EQ(again.rail, each.rail);
    EXPECT_EQ(again.generation, each.generation);
    EXPECT_EQ(again.endpoint, each.endpoint);
    EXPECT_EQ(again.reason, each.reason);
    const auto bytes = encode(each);
    for (std::size_t length = 0; length < 6; ++length)
      EXPECT_FALSE(decode_rail_message(std::span(bytes).first(length), 2)) << length;
  }
  const auto refuses = [](const rail_message& what, std::size_t at, int value) {
    auto bytes = encode(what);
    bytes.resize(std::max(bytes.size(), at + 1));
    bytes[at] = static_cast<std::byte>(value);
    return !decode_rail_message(bytes, 2);
  };
  const rail_message fence{.kind = rail_message_kind::fence};
  EXPECT_TRUE(refuses(fence, 0, 1));
  EXPECT_TRUE(refuses(fence, 0, 8));
  EXPECT_TRUE(refuses(fence, 1, 2));  // a rail that does not exist
  EXPECT_TRUE(refuses(fence, 6, 0));  // surplus bytes
  EXPECT_TRUE(refuses({.kind = rail_message_kind::port}, 5, 2));
  EXPECT_TRUE(refuses({.kind = rail_message_kind::connect, .endpoint = local}, 6, 9));
  EXPECT_EQ(decode_rail_message(
                encode(rail_message{.kind = rail_message_kind::refused, .reason = "a\nb\x80"}), 2)
                .value()
                .reason,
            "a?b?");
}

TEST(rails, deadline_with_pieces_in_flight_flushes_their_rails) {
  auto options = quick();
  options.hold_down = std::chrono::nanoseconds::max();  // the rails did not fail
  connected_rails both(options);
  both.channel->write(net::rail_source(both.local), both.remote.remote(), test_deadline()).value();
  both.faults.inject("delay 10s opcode=rdma_write");
  const auto late = both.channel->write(net::rail_source(both.local), both.remote.remote(),
                                        deadline::after(500ms));
  EXPECT_EQ(late.delivery(), delivery::unknown);
  expect_error(late, "the deadline of an operation passed");
  both.faults.inject("clear-faults");
  both.fill(both.local, 21);
  both.channel->write(net::rail_source(both.local), both.remote.remote(), test_deadline()).value();
  EXPECT_EQ(both.wrong_words(both.remote, 21), 0U);
}

TEST(rails, program_that_reads_events_passes_them_on) {
  auto options = quick();
  options.reads_async_events = false;
  connected_rails both(options);
  const auto context = both.here.ports[1].domain.context();
  both.faults.down(2);
  both.channel->take(1, context.wait_event(test_deadline()).value().value());
  EXPECT_EQ(both.channel->status(1).state, net::rail_state::down);
  EXPECT_EQ(both.channel->status(0).state, net::rail_state::active);
}

TEST(rails, event_concerns_all_rails_of_its_context) {
  auto options = quick();
  options.reads_async_events = false;
  connected_rails both(options, contexts::one);
  const auto context = both.here.ports[0].domain.context();
  both.faults.down(2);
  both.channel->take(0, context.wait_event(test_deadline()).value().value());
  EXPECT_EQ(both.channel->status(0).state, net::rail_state::active);
  EXPECT_EQ(both.channel->status(1).state, net::rail_state::down);
}

TEST(rails, sides_with_the_same_role_are_refused) {
  two_rails here;
  auto [ours, theirs] = peers::connected();
  std::thread other([&, stream = std::move(theirs)]() mutable {
    expect_error(net::rail_responder::accept(std::move(stream), here.ports, test_deadline()),
                 "the peer called the same function");
  });
  expect_error(net::rail_responder::accept(std::move(ours), here.ports, test_deadline()),
               "one side calls multi_rail_channel::connect()");
  other.join();
}

TEST(rails, options_that_do_not_fit_are_refused) {
  two_rails here;
  const auto refused = [&](const net::rail_options& options, const char* why) {
    auto [ours, theirs] = peers::connected();
    expect_error(
        net::multi_rail_channel::connect(std::move(ours), here.ports, test_deadline(), options),
        why);
  };
  refused({.piece_bytes = 0}, "pieces of 0 bytes");
  refused({.pieces_in_flight = 0}, "1 to 32767 pieces");
  refused({.pieces_in_flight = 32768}, "1 to 32767 pieces");
  refused({.hold_down = -1ms}, "negative hold_down");
}

// The active side of the protocol, without the fence of multi_rail_channel.
TEST(rails, fenced_queue_pair_of_the_responder_executes_no_requests) {
  using net::detail::rail_message_kind;
  two_rails here;
  two_rails there;
  auto local = net::rail_memory::allocate(here.ports, 64, rail_access).value();
  auto remote = net::rail_memory::allocate(there.ports, 64, rail_access).value();
  auto [ours, theirs] = peers::connected();
  std::optional<net::rail_responder> peer;
  std::thread passive([&, stream = std::move(theirs)]() mutable {
    peer.emplace(
        net::rail_responder::accept(std::move(stream), there.ports, test_deadline()).value());
  });
  ASSERT_TRUE(net::detail::exchange_hellos("test", ours, net::detail::rail_role::active, 2,
                                           test_deadline()));
  passive.join();
  net::detail::rail_control control(std::move(ours), 2);
  const auto answer = [&](rail_message_kind kind) {
    std::optional<net::detail::rail_message> found;
    const auto until = test_deadline();
    while ((!found || found->kind != kind) && !until.expired()) found = control.poll();
    return found.value();
  };
  auto prepared =
      here.ports[0]
          .domain.create_channel({.route = here.ports[0].route, .reliability = quick().reliability})
          .value();
  control.send(
      {.kind = rail_message_kind::connect, .generation = 1, .endpoint = prepared.endpoint()});
  auto channel =
      std::move(prepared).handshake(*answer(rail_message_kind::connected).endpoint).value();
  const auto write = [&] {
    return channel.write(source(local.region(0), 0, 8), remote.remote().on(0));
  };
  local.bytes()[0] = std::byte{1};
  write().value();
  EXPECT_EQ(remote.bytes()[0], std::byte{1});
  control.send({.kind = rail_message_kind::fence, .generation = 1});
  EXPECT_EQ(answer(rail_message_kind::fenced).generation, 1U);
  local.bytes()[0] = std::byte{2};
  EXPECT_FALSE(write());
  EXPECT_EQ(remote.bytes()[0], std::byte{1});
}

}  // namespace
}  // namespace verbena::test
