// SPDX-License-Identifier: MIT
// Two connected message channels on the tested device.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <future>
#include <optional>
#include <utility>

#include "tests/unit/channel/known_messages.hpp"
#include "tests/unit/channel/tested_device.hpp"
#include "tests/unit/verbs/soft_device.hpp"
#include "verbena/channel/message_channel.hpp"
#include "verbena/channel/prepared_message_channel.hpp"
#include "verbena/verbs/protection_domain.hpp"

namespace verbena::test {

/// Two connected message channels of one context. Connected by a handshake, or on iWARP by the
/// connection manager.
class message_pair {
 public:
  explicit message_pair(const message_channel_options& both = {}) : message_pair(both, both) {}
  message_pair(const message_channel_options& of_a, const message_channel_options& of_b,
               verbena::context opened = open_tested())
      : context_(std::move(opened)), pd_(context_.allocate_pd().value()) {
    if (is_iwarp(context_)) {
      connect_on_iwarp(of_a, of_b);
    } else {
      connect_by_handshake(of_a, of_b);
    }
  }

  [[nodiscard]] const verbena::context& context() const { return context_; }
  [[nodiscard]] const protection_domain& pd() const { return pd_; }
  [[nodiscard]] message_channel& a() { return *a_; }
  [[nodiscard]] message_channel& b() { return *b_; }
  [[nodiscard]] const message_endpoint& end_of_a() const { return ends_[0]; }
  void drop_b() { b_.reset(); }

 private:
  void connect_by_handshake(const message_channel_options& of_a,
                            const message_channel_options& of_b) {
    auto first = message_channel::prepare(pd_, of_a).value();
    auto second = message_channel::prepare(pd_, of_b).value();
    ends_[0] = first.endpoint();
    ends_[1] = second.endpoint();
    a_.emplace(std::move(first).handshake(ends_[1]).value());
    b_.emplace(std::move(second).handshake(ends_[0]).value());
  }
  void connect_on_iwarp(const message_channel_options& of_a, const message_channel_options& of_b) {
    const auto until = deadline::after(std::chrono::seconds(20));
    const tested_manager manager;
    auto listener = manager.open();
    auto peer = manager.find(listener.port());
    context_ = peer.context().value();
    pd_ = context_.allocate_pd().value();
    auto asking = std::async(std::launch::async, [&] {
      return message_channel::prepare(pd_, of_a).value().connect(peer, until);
    });
    auto answering =
        message_channel::prepare(pd_, of_b).value().accept(listener.accept(until).value(), until);
    a_.emplace(asking.get().value());
    b_.emplace(std::move(answering).value());
  }

  verbena::context context_;
  protection_domain pd_;
  message_endpoint ends_[2];
  std::optional<message_channel> a_;
  std::optional<message_channel> b_;
};

/// Options with windows of `window` messages and without RNR retries.
inline message_channel_options tiny(std::uint32_t window, std::uint32_t bytes = 256) {
  return {.message_bytes = bytes,
          .queues = {.max_send_wr = window, .max_recv_wr = window},
          .credits = credits::required,
          .reliability = {.rnr_retry_count = 0}};
}

}  // namespace verbena::test
