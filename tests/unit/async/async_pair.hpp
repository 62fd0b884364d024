// SPDX-License-Identifier: MIT
// Two channels on one engine that are connected to each other, and memory for them.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <utility>

#include "tests/unit/channel/channel_pair.hpp"
#include "verbena/async/channel.hpp"
#include "verbena/async/engine.hpp"
#include "verbena/async/scope.hpp"
#include "verbena/async/task.hpp"

namespace verbena::test {

class async_pair : public ::testing::Test {
 public:
  explicit async_pair(const async::engine_options& options = {},
                      const channel_options& channels = small_channels())
      : engine(async::engine::create(context, options).value()), channels_(channels) {}
  void SetUp() override {
    if (is_iwarp(context)) GTEST_SKIP() << "iWARP connects by the connection manager";
    auto [one, other] = connect();
    a.emplace(engine, std::move(one));
    b.emplace(engine, std::move(other));
  }
  static channel_options small_channels() {
    return {.queues = {.max_send_wr = 4, .max_recv_wr = 4, .max_inline_data = 64},
            .access = access::remote_read | access::remote_write | access::remote_atomic};
  }
  /// Returns two connected channels on the hub of the engine.
  [[nodiscard]] std::pair<channel, channel> connect() {
    auto one = pd.create_channel(engine.hub(), channels_).value();
    auto other = pd.create_channel(engine.hub(), channels_).value();
    const auto ends = std::pair(one.endpoint(), other.endpoint());
    auto first = std::move(one).handshake(ends.second).value();
    return {std::move(first), std::move(other).handshake(ends.first).value()};
  }
  /// Returns a sink of 64 bytes that does not overlap the most recent sinks.
  [[nodiscard]] sink next_sink() {
    next_ = next_ % 256 + 1;
    return {memory, 32'768 + 64 * next_, 64};
  }
  /// Fills a part of the memory with bytes that depend on `seed`.
  void fill(std::size_t at, std::size_t count, int seed) const {
    std::memset(memory.bytes().data() + at, seed, count);
  }
  [[nodiscard]] bool holds(std::size_t at, std::size_t count, int seed) const {
    for (std::size_t i = at; i < at + count; ++i)
      if (memory.bytes()[i] != static_cast<std::byte>(seed)) return false;
    return true;
  }

  verbena::context context = open_tested();
  protection_domain pd = context.allocate_pd().value();
  memory_region memory = pd.allocate(65'536, all_access).value();
  async::engine engine;
  std::optional<async::channel> a;
  std::optional<async::channel> b;

 private:
  channel_options channels_;
  std::size_t next_ = 0;
};

}  // namespace verbena::test
