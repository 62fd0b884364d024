// SPDX-License-Identifier: MIT
// Connections from this process to itself: by the software device's connection manager, or the
// kernel's where there is hardware. VERBENA_TEST_DEVICE names another device than the first one.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/unit/cm/served_address.hpp"
#include "verbena/cm/connector.hpp"
#include "verbena/cm/event_channel.hpp"
#include "verbena/cm/identifier.hpp"
#include "verbena/cm/listener.hpp"
#include "verbena/verbs/completion_queue.hpp"
#include "verbena/verbs/memory_region.hpp"
#include "verbena/verbs/protection_domain.hpp"

namespace verbena::test {

using namespace std::chrono_literals;

/// The time limit of each wait. The virtual machine is slow.
inline deadline test_deadline() { return deadline::after(60s); }

inline std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}
/// Returns the text at the start of private data, which is padded with zeros.
inline std::string text_of(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte each : bytes) {
    if (each == std::byte{}) break;
    text += static_cast<char>(each);
  }
  return text;
}

/// The base class of all tests that connect.
class served : public ::testing::Test {
 protected:
  void SetUp() override {
    from_ = cm::default_provider().value();
    channel_ = cm::event_channel::create(*from_).value();
    for (const auto& each : addresses_of_host())
      if (!here_ && is_served(*channel_, each, std::getenv("VERBENA_TEST_DEVICE"))) here_ = each;
    ASSERT_TRUE(here_) << "no IPv4 address of this host has an RDMA device";
  }

  [[nodiscard]] const provider& from() const { return *from_; }
  [[nodiscard]] const cm::event_channel& channel() const { return *channel_; }
  /// An address of this host that belongs to an RDMA device, with port 0.
  [[nodiscard]] const cm::socket_address& here() const { return *here_; }

  /// Opens a listener on a free port of here().
  [[nodiscard]] cm::listener open(const cm::listener_options& options = {}) const {
    return cm::listener::open({.host = here().host(), .port = 0}, options).value();
  }
  /// Returns a connector that has resolved `port` of here().
  [[nodiscard]] cm::connector find(std::uint16_t port) const {
    return cm::connector::resolve({.host = here().host(), .port = port}, test_deadline()).value();
  }

  /// Waits for the next event of `channel`. The test fails if it has another kind.
  static cm::event next(const cm::event_channel& channel, cm::event_kind kind) {
    auto taken = channel.wait_event(test_deadline()).value();
    if (!taken) raise(error::timed_out("wait_event", to_string(kind), "no event arrived"));
    EXPECT_EQ(taken->kind(), kind) << to_string(*taken);
    return *std::move(taken);
  }

 private:
  const provider* from_ = nullptr;
  std::optional<cm::event_channel> channel_;
  std::optional<cm::socket_address> here_;
};

/// The verbs objects of one side.
struct objects {
  explicit objects(const context& device)
      : pd(device.allocate_pd().value()),
        cq(device.create_cq(64).value()),
        memory(pd.allocate(4096, access::local_write | access::remote_write | access::remote_read)
                   .value()) {}

  protection_domain pd;
  completion_queue cq;
  memory_region memory;

  /// Waits for `count` completions.
  [[nodiscard]] std::vector<completion> take(std::size_t count) const {
    std::vector<completion> taken;
    taken.reserve(count);
    std::array<completion, 16> room;
    const auto end = test_deadline();
    while (taken.size() < count && !end.expired())
      for (const auto& done : cq.poll(room).value()) taken.push_back(done);
    EXPECT_EQ(taken.size(), count);
    return taken;
  }
};

/// One end of a connection.
struct end {
  std::unique_ptr<objects> own;
  cm::connection link;
};

inline queue_pair_options<rc> remote_read_and_write() {
  return {.access = access::remote_write | access::remote_read};
}

/// Connects to `peer` on this thread.
inline result<end> connect_to(cm::connector& peer, const cm::connection_options& options = {},
                              const queue_pair_options<rc>& queue = remote_read_and_write()) {
  auto own = std::make_unique<objects>(peer.context().value());
  auto prepared = peer.create_qp(own->pd, own->cq, own->cq, queue).value();
  VERBENA_TRY(auto link, peer.connect(std::move(prepared), options, test_deadline()));
  return end{std::move(own), std::move(link)};
}

/// Accepts `request` on this thread.
inline result<end> accept_request(cm::connection_request request,
                                  const cm::connection_options& options = {},
                                  const queue_pair_options<rc>& queue = remote_read_and_write()) {
  auto own = std::make_unique<objects>(request.context().value());
  auto prepared = request.create_qp(own->pd, own->cq, own->cq, queue).value();
  VERBENA_TRY(auto link, std::move(request).accept(std::move(prepared), options, test_deadline()));
  return end{std::move(own), std::move(link)};
}

}  // namespace verbena::test
