// SPDX-License-Identifier: MIT
// Two connected channels on the tested device, and memory for them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <optional>
#include <utility>

#include "tests/unit/channel/tested_device.hpp"
#include "tests/unit/verbs/soft_device.hpp"
#include "verbena/channel/channel.hpp"
#include "verbena/channel/prepared_channel.hpp"
#include "verbena/memory/buffer_pool.hpp"
#include "verbena/verbs/memory_region.hpp"
#include "verbena/verbs/protection_domain.hpp"
#include "verbena/verbs/read_sink.hpp"

namespace verbena::test {

using namespace std::chrono_literals;

inline constexpr access_flags all_access =
    access::local_write | access::remote_read | access::remote_write | access::remote_atomic;

/// A deadline that passes only if a test hangs.
inline deadline long_deadline() { return deadline::after(20s); }

/// Two connected channels of one context, with all access flags. Connected by a handshake, or on
/// iWARP by the connection manager.
class channel_pair {
 public:
  explicit channel_pair(const channel_options& options = default_options())
      : channel_pair(open_tested(), options) {}
  channel_pair(verbena::context opened, const channel_options& options)
      : context_(std::move(opened)), pd_(context_.allocate_pd().value()) {
    auto connected =
        is_iwarp(context_) ? connect_on_iwarp(options) : connect_by_handshake(pd_, options);
    a_.emplace(std::move(connected.asking));
    b_.emplace(std::move(connected.answering));
  }

  static channel_options default_options() {
    return {.queues = {.max_send_wr = 16,
                       .max_recv_wr = 16,
                       .max_send_sge = 4,
                       .max_recv_sge = 4,
                       .max_inline_data = 64},
            .access = access::remote_read | access::remote_write | access::remote_atomic};
  }

  [[nodiscard]] const verbena::context& context() const { return context_; }
  [[nodiscard]] const protection_domain& pd() const { return pd_; }
  [[nodiscard]] channel& a() { return *a_; }
  [[nodiscard]] channel& b() { return *b_; }
  void drop_a() { a_.reset(); }
  void drop_b() { b_.reset(); }

  [[nodiscard]] memory_region memory(std::size_t bytes, unsigned char filled_with = 0) const {
    auto made = pd_.allocate(bytes, all_access).value();
    std::ranges::fill(made.bytes(), std::byte{filled_with});
    return made;
  }
  [[nodiscard]] buffer_pool pool(std::uint32_t count = 64) const {
    return buffer_pool::create(pd_, {.classes = {{.bytes = 4096, .count = count}},
                                     .access = read_sink_access(context_)})
        .value();
  }

 private:
  [[nodiscard]] connected_channels connect_on_iwarp(const channel_options& options) {
    const tested_manager manager;
    auto listener = manager.open();
    auto peer = manager.find(listener.port());
    context_ = peer.context().value();
    pd_ = context_.allocate_pd().value();
    return connect_by_manager(peer, listener, pd_, options);
  }

  verbena::context context_;
  protection_domain pd_;
  std::optional<channel> a_;
  std::optional<channel> b_;
};

inline bool all_are(std::span<const std::byte> bytes, unsigned char value) {
  return std::ranges::all_of(bytes, [&](std::byte each) { return each == std::byte{value}; });
}

}  // namespace verbena::test
