// SPDX-License-Identifier: MIT
// Channels on port 2 of an adapter with a small MTU and with empty entries at the beginning of its
// GID table.
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <optional>
#include <thread>
#include <utility>

#include "tests/unit/channel/channel_pair.hpp"
#include "tests/unit/verbs/two_ports.hpp"
#include "verbena/bringup/listener.hpp"
#include "verbena/bringup/stream.hpp"
#include "verbena/channel/prepared_message_channel.hpp"

namespace verbena::test {
namespace {

using testing_support::adapter_of_two_ports;
using testing_support::expect_error;

channel_options on_port_two() {
  auto options = channel_pair::default_options();
  options.route.port = port_number(2);
  return options;
}

void expect_bytes_move(channel& from, channel& to, const protection_domain& pd) {
  auto outbox = pd.allocate(5000, all_access).value();
  auto inbox = pd.allocate(5000, all_access).value();
  std::ranges::fill(outbox.bytes(), std::byte{7});
  auto pool = buffer_pool::create(pd, {}).value();
  EXPECT_TRUE(from.write(source(outbox), inbox.remote(), abort_at(long_deadline())));
  EXPECT_TRUE(all_are(inbox.bytes(), 7));
  auto receive = to.post_receive(std::move(*pool.take(64)));
  EXPECT_TRUE(from.send(source(outbox, 0, 64), abort_at(long_deadline())));
  ASSERT_NE(receive.wait(long_deadline()), nullptr);
  EXPECT_TRUE(receive.poll()->has_value());
}

// parity: ibverbs-tests-70, ibverbs-168, ibverbs-rs-15, rrddmma-28
TEST(second_port, handshake_connects_with_gaps_in_gid_table_and_small_mtu) {
  const adapter_of_two_ports adapter;
  const auto pd = adapter.open().allocate_pd().value();
  auto connected = connect_by_handshake(pd, on_port_two());
  expect_bytes_move(connected.asking, connected.answering, pd);
}

TEST(second_port, stream_connects_with_gaps_in_gid_table_and_small_mtu) {
  const adapter_of_two_ports adapter;
  const auto pd = adapter.open().allocate_pd().value();
  const auto other = adapter.open().allocate_pd().value();
  auto listening = bringup::listener::open({.host = "127.0.0.1"}).value();
  std::optional<channel> answering;
  std::thread there([&] {
    auto peer = listening.accept(long_deadline()).value();
    answering.emplace(
        other.create_channel(on_port_two()).value().connect(peer, long_deadline()).value());
  });
  auto peer = bringup::stream::connect(listening.local_address(), long_deadline()).value();
  auto asking = pd.create_channel(on_port_two()).value().connect(peer, long_deadline());
  there.join();
  ASSERT_TRUE(asking) << asking.error().message();
  auto memory = other.allocate(5000, all_access).value();
  auto mine = pd.allocate(5000, all_access).value();
  std::ranges::fill(mine.bytes(), std::byte{9});
  EXPECT_TRUE(asking->write(source(mine), memory.remote(), abort_at(long_deadline())));
  EXPECT_TRUE(all_are(memory.bytes(), 9));
}

TEST(second_port, inactive_port_is_refused_if_another_port_is_active) {
  const adapter_of_two_ports adapter;
  const auto pd = adapter.open().allocate_pd().value();
  auto options = on_port_two();
  options.route.port = port_number(1);
  const auto refused = [&]() -> result<channel> {
    VERBENA_TRY(auto prepared, pd.create_channel(options));
    const auto self = prepared.endpoint();
    return std::move(prepared).handshake(self);
  }();
  EXPECT_FALSE(refused);
}

// The connection manager selects port 1. Both sides detect the fault before they use the
// connection, and the passive side rejects the request.
TEST(second_port, connection_of_another_port_returns_invalid_argument) {
  const adapter_of_two_ports adapter;
  const auto pd = adapter.open().allocate_pd().value();
  const tested_manager manager;
  auto listener = manager.open();
  auto peer = manager.find(listener.port());
  const auto until = long_deadline();
  const auto refused = pd.create_channel(on_port_two()).value().connect(peer, {}, until);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind(), error_kind::invalid_argument);
  expect_error(refused, "route.port of the channel is 2");

  const auto own = peer.context().value().allocate_pd().value();
  auto asked = std::async(std::launch::async, [&] {
    return own.create_channel({.route = {.port = peer.port()}}).value().connect(peer, {}, until);
  });
  const auto answered =
      pd.create_channel(on_port_two()).value().accept(listener.accept(until).value(), {}, until);
  ASSERT_FALSE(answered);
  expect_error(answered, "route.port of the channel is 2");
  EXPECT_FALSE(asked.get());
}

}  // namespace
}  // namespace verbena::test
