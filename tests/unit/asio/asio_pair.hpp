// SPDX-License-Identifier: MIT
// An engine in an io_context, with two channels and two message channels, connected in pairs.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <asio/io_context.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <utility>

#include "tests/unit/channel/channel_pair.hpp"
#include "tests/unit/channel/message_pair.hpp"
#include "verbena/asio/channel.hpp"
#include "verbena/asio/engine.hpp"
#include "verbena/asio/message_channel.hpp"

namespace verbena::test {

using namespace std::chrono_literals;
namespace net = ::asio;  // `asio` is verbena::asio here

class asio_pair : public ::testing::Test {
 public:
  static constexpr std::array<std::byte, 200> some_bytes{};

  explicit asio_pair(const async::engine_options& options = {})
      : io(std::in_place), engine(asio::engine::create(context, *io, options).value()) {}
  void SetUp() override {
    if (is_iwarp(context)) GTEST_SKIP() << "iWARP connects by the connection manager";
    auto [one, other] = connect();
    a.emplace(engine, std::move(one));
    b.emplace(engine, std::move(other));
    auto [left, right] = connect_messages();
    client.emplace(engine, std::move(left));
    server.emplace(engine, std::move(right));
  }
  /// Returns two connected channels. Their queues have 4 places.
  [[nodiscard]] std::pair<channel, channel> connect() {
    const channel_options options{
        .queues = {.max_send_wr = 4,
                   .max_recv_wr = 4,
                   .max_send_sge = 2,
                   .max_recv_sge = 2,
                   .max_inline_data = 64},
        .access = access::remote_read | access::remote_write | access::remote_atomic};
    auto one = pd.create_channel(engine.hub(), options).value();
    auto other = pd.create_channel(engine.hub(), options).value();
    const auto ends = std::pair(one.endpoint(), other.endpoint());
    auto first = std::move(one).handshake(ends.second).value();
    return {std::move(first), std::move(other).handshake(ends.first).value()};
  }
  /// Returns two connected message channels. Each grants 4 messages.
  [[nodiscard]] std::pair<message_channel, message_channel> connect_messages() {
    auto one = message_channel::prepare(pd, engine.hub(), tiny(4)).value();
    auto other = message_channel::prepare(pd, engine.hub(), tiny(4)).value();
    const auto ends = std::pair(one.endpoint(), other.endpoint());
    auto first = std::move(one).handshake(ends.second).value();
    return {std::move(first), std::move(other).handshake(ends.first).value()};
  }
  /// Runs the io_context until it has no work.
  void run() {
    io->restart();
    io->run_for(20s);
    EXPECT_TRUE(io->stopped()) << "work is left after 20 s";
  }
  /// Uses up the credit of the client.
  void exhaust() const {
    const auto until = deadline::after(20s);
    while (client->get().try_send(some_bytes).refusal() != send_refusal::no_credit)
      ASSERT_FALSE(until.expired());
  }
  [[nodiscard]] static std::span<const std::byte> bytes_of(const std::uint64_t& number) {
    return std::as_bytes(std::span(&number, 1));
  }
  [[nodiscard]] static std::uint64_t number_in(const receive_result& received) {
    std::uint64_t number = 0;
    EXPECT_TRUE(received.has_value());
    if (!received) return 0;
    EXPECT_EQ(received->length(), sizeof number);
    std::memcpy(&number, received->bytes().data(), sizeof number);
    return number;
  }
  [[nodiscard]] source from() const { return {memory, 0, 64}; }
  [[nodiscard]] sink into(std::size_t place = 0) const { return {memory, 4096 + 64 * place, 64}; }
  [[nodiscard]] remote_region remote() const { return memory.remote().slice(8192, 64); }

  verbena::context context = open_tested();
  protection_domain pd = context.allocate_pd().value();
  memory_region memory = pd.allocate(65'536, all_access).value();
  std::optional<net::io_context> io;
  asio::engine engine;
  std::optional<asio::channel> a;
  std::optional<asio::channel> b;
  std::optional<asio::message_channel> client;
  std::optional<asio::message_channel> server;
};

}  // namespace verbena::test
