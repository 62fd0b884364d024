// SPDX-License-Identifier: MIT
// Fixtures of asynchronous entries: channels on an engine, and coroutines as programs write them.
#pragma once

#include <coroutine>
#include <cstddef>
#include <optional>
#include <span>
#include <utility>

#include "tests/zoo/pair.hpp"
#include "verbena/async.hpp"

namespace verbena::zoo {

/// Two connected channels on an engine that sleeps at once.
class coroutines {
 public:
  coroutines() {
    auto one = pd.create_channel(engine.hub(), channels::default_options()).value();
    auto other = pd.create_channel(engine.hub(), channels::default_options()).value();
    const auto to_one = one.endpoint();
    const auto to_other = other.endpoint();
    a.emplace(engine, std::move(one).handshake(to_other).value());
    b.emplace(engine, std::move(other).handshake(to_one).value());
  }
  [[nodiscard]] std::span<std::byte> at(std::size_t offset) const {
    return memory.bytes().subspan(offset, 64);
  }
  [[nodiscard]] auto send(std::size_t offset) { return a->send(source(memory, offset, 64)); }
  [[nodiscard]] auto receive(std::size_t offset, abort_at limit = {}) {
    return b->receive(sink(memory, offset, 64), limit);
  }

  context device = open_device("soft0").value();
  protection_domain pd = device.allocate_pd().value();
  memory_region memory = pd.allocate(64 * 1024, all_access).value();
  async::engine engine = async::engine::create(device, {.spin = 0ns}).value();
  std::optional<async::channel> a;
  std::optional<async::channel> b;
};

/// Two connected message channels.
struct messages : coroutines {
  messages() {
    auto one = message_channel::prepare(pd, engine.hub(), {.message_bytes = 64}).value();
    auto other = message_channel::prepare(pd, engine.hub(), {.message_bytes = 64}).value();
    const auto ends = std::pair(one.endpoint(), other.endpoint());
    sender.emplace(engine, std::move(one).handshake(ends.second).value());
    receiver.emplace(engine, std::move(other).handshake(ends.first).value());
  }
  std::optional<async::message_channel> sender;
  std::optional<async::message_channel> receiver;
};

/// A coroutine as programs write it: it starts at once, and its handle can destroy it.
struct raw_coroutine {
  struct promise_type {
    raw_coroutine get_return_object() {
      return {std::coroutine_handle<promise_type>::from_promise(*this)};
    }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { throw; }
  };
  std::coroutine_handle<promise_type> handle;
};
/// Suspends a raw_coroutine; the loop of the program resumes `slot`.
struct raw_wait {
  std::coroutine_handle<>& slot;
  [[nodiscard]] bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> caller) const noexcept { slot = caller; }
  void await_resume() const noexcept {}
};

}  // namespace verbena::zoo
