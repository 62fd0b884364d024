// SPDX-License-Identifier: MIT
// Connection managers of two hosts, and a network between them.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "softdev/cm/mad_gateway.hpp"
#include "softdev/core/process_slot.hpp"
#include "tests/unit/softdev/cm/peers.hpp"

namespace verbena::softdev::cm::testing {

// Reserved addresses (RFC 1112): those of no host.
inline constexpr address host_a{.family = address_family::ipv4, .bytes = {240, 9, 0, 1}};
inline constexpr address host_b{.family = address_family::ipv4, .bytes = {240, 9, 0, 2}};

/// The carrier of one host. `deliver` gets what it sends.
class carrier final : public mad_carrier {
 public:
  using network = std::function<void(const address& from, const address& to, mad_view message)>;

  carrier(const address& own, std::uint32_t slot, network deliver)
      : own_(own), slot_(slot), deliver_(std::move(deliver)) {}
  [[nodiscard]] mad_identity identity() const noexcept override {
    return {.process_slot = slot_, .guid = slot_ + 1};
  }
  [[nodiscard]] int open() override { return open_error; }
  [[nodiscard]] int find_source(const address& host, address& source) override {
    source = own_;
    if (host.family == address_family::ipv6) return 0;  // as the kernel for ::ffff:a.b.c.d
    return same_host(host, host_a) || same_host(host, host_b) ? 0 : ENETUNREACH;
  }
  void send(const address& own, const address& peer, mad_view message) noexcept override {
    deliver_(own, peer, message);
  }
  [[nodiscard]] bool admit(const address&, const address&, const mad&) noexcept override {
    return true;
  }
  int open_error = 0;

 private:
  address own_;
  std::uint32_t slot_;
  network deliver_;
};

/// Two hosts with a process each.
class two_hosts : public ::testing::Test {
 protected:
  struct host {
    host(const address& own, std::uint32_t slot, const manager_options& options,
         carrier::network network)
        : line(own, slot, std::move(network)),
          owned(*manager::open(options, &line)),
          all(*owned),
          events(*create_channel()) {}
    event expect(event_kind kind, int status = 0) {
      return testing::expect(all, events, kind, status);
    }
    carrier line;
    std::unique_ptr<manager> owned;
    manager& all;
    channel_ptr events;
  };

  /// Returns how many copies of a message arrive.
  std::function<int(const mad& message)> copies = [](const mad&) { return 1; };
  std::vector<mad_kind> sent;  ///< read when nothing is under way
  int under_way = 0;           ///< messages that are arriving
  /// Whether the processes that have the UDP ports use the connection manager.
  bool requests_come_by_managers = false;
  /// Whether that of host b is another process than the one that listens.
  bool owner_of_b_does_not_listen = false;

  void start(const manager_options& options = {}) {
    const auto network = [this](const address& from, const address& to, mad_view message) {
      transmit(from, to, message);
    };
    a = std::make_unique<host>(host_a, 3, options, network);
    b = std::make_unique<host>(host_b, large_slots + 5, options, network);
    if (owner_of_b_does_not_listen)
      owner_of_b = std::make_unique<host>(host_b, large_slots + 6, options, network);
    listen_at_b();
  }
  void listen_at_b() {
    listener = b->all.create(b->events, port_space::tcp);
    ASSERT_EQ(b->all.bind(listener, {.family = address_family::ipv4}), 0);
    ASSERT_EQ(b->all.listen(listener, 0), 0);
    port = b->all.look(listener).source.port;
  }
  void TearDown() override {
    // A host sends until its manager has ended: nothing arrives at one that ends.
    for (std::unique_lock lock(mutex);; lock.lock()) {
      copies = [](const mad&) { return 0; };
      if (under_way == 0) break;
      lock.unlock();
      std::this_thread::yield();
    }
    // The threads of the managers end before the network.
    if (a) a->owned.reset();
    if (b) b->owned.reset();
    if (owner_of_b) owner_of_b->owned.reset();
  }

  endpoint_ptr resolve(port_space space, std::uint16_t to_port) {
    const endpoint_ptr made = a->all.create(a->events, space);
    EXPECT_EQ(a->all.resolve_address(made, std::nullopt, with_port(host_b, to_port)), 0);
    a->expect(event_kind::address_resolved);
    EXPECT_TRUE(same_host(a->all.look(made).source, host_a));
    EXPECT_EQ(a->all.resolve_route(made), 0);
    a->expect(event_kind::route_resolved);
    return made;
  }
  endpoint_ptr connect(const private_data& data = {}) {
    const endpoint_ptr made = resolve(port_space::tcp, port);
    EXPECT_EQ(a->all.connect(made, {.local = {.queue_pair = active_qpn++,
                                              .responder_resources = 2,
                                              .initiator_depth = 3,
                                              .retry_count = 5,
                                              .rnr_retry_count = 6,
                                              .path_mtu = 4},
                                    .data = data}),
              0);
    return made;
  }
  /// Connects, and returns the two ends.
  std::pair<endpoint_ptr, endpoint_ptr> established() {
    const endpoint_ptr active = connect();
    const endpoint_ptr passive = b->expect(event_kind::connect_request).about;
    EXPECT_EQ(b->all.accept(passive, {.local = {.queue_pair = passive_qpn++}, .data = {}}), 0);
    a->expect(event_kind::connect_response);
    EXPECT_EQ(a->all.establish(active), 0);
    b->expect(event_kind::established);
    return {active, passive};
  }

  /// As the process that has the UDP port of each host.
  void arrive(const address& from, const address& to, mad_view message) {
    if (!same_host(to, host_a) && !same_host(to, host_b)) return;
    host& there = same_host(to, host_a) ? *a : *b;
    host& owner = &there == b.get() && owner_of_b ? *owner_of_b : there;
    const auto receiver = receiver_of(message);
    if (receiver) {
      // A rejection of a side that does not know the ID of the other one: no process has ID 0.
      if (*receiver == 0) {
        if (requests_come_by_managers) owner.all.deliver(to, from, message);
        return;
      }
      EXPECT_EQ(slot_of_communication_id(*receiver), there.line.identity().process_slot);
      return there.all.deliver(to, from, message);
    }
    if (requests_come_by_managers) return owner.all.deliver(to, from, message);
    const auto parsed = parse_mad(message);
    ASSERT_TRUE(parsed.has_value());
    if (pass_to_listener(to, from, *parsed) == ECONNREFUSED)
      reject_request(there.line, to, from, *parsed, reject_reason::no_listener);
  }
  void transmit(const address& from, const address& to, mad_view message) {
    const auto parsed = parse_mad(message);
    ASSERT_TRUE(parsed.has_value());
    int count = 0;
    {
      const std::lock_guard lock(mutex);
      sent.push_back(parsed->kind);
      count = copies(*parsed);
      under_way += count;
    }
    for (int i = 0; i < count; ++i) {
      arrive(from, to, message);
      const std::lock_guard lock(mutex);
      --under_way;
    }
  }
  std::size_t count_of(mad_kind kind) {
    const std::lock_guard lock(mutex);
    return static_cast<std::size_t>(std::ranges::count(sent, kind));
  }

  std::unique_ptr<host> a;
  std::unique_ptr<host> b;
  std::unique_ptr<host> owner_of_b;
  endpoint_ptr listener;
  std::uint16_t port = 0;
  std::uint32_t active_qpn = 17;  ///< of the next connection
  std::uint32_t passive_qpn = 1000;
  std::mutex mutex;  ///< guards `sent` and what `copies` uses
};

}  // namespace verbena::softdev::cm::testing
