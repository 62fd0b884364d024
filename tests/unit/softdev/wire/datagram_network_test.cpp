// SPDX-License-Identifier: MIT
// Datagrams between two hosts over the simulated network, which loses, duplicates, reorders and
// damages packets. The tests compare each received datagram with the sent one.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "softdev/core/datagram.hpp"
#include "tests/unit/softdev/random_source.hpp"
#include "tests/unit/softdev/wire/simulation/end.hpp"
#include "tests/unit/softdev/wire/simulation/host.hpp"
#include "tests/unit/softdev/wire/simulation/network.hpp"

namespace verbena::softdev::wire::simulation {
namespace {

constexpr std::uint32_t header = grh_bytes;
constexpr std::uint32_t largest = 1024;  ///< the path MTU
constexpr std::uint8_t mtu_code = 3;
constexpr std::size_t receives = 16;  ///< the maximum number of posted receives
constexpr std::size_t room = header + largest;

/// Returns the length of datagram `number`.
std::uint32_t bytes_of(std::uint32_t number) { return 4 + number * 37 % (largest - 3); }

/// A host with a UD queue pair. Threads: one thread at a time.
class station {
 public:
  station(std::size_t number, network& net)
      : number_(number), device_(number, net, {.packet_time = 100, .queue_packets = 8}) {
    queue_.connect(attributes_for(0));
  }

  void receive(std::span<const std::byte> bytes) { device_.receive(bytes); }
  void post_receives() {
    for (; posted_ - completed_ < receives; ++posted_)
      ASSERT_TRUE(queue_.post_receive(posted_, sinks_.slice(posted_ % receives * room, room)));
  }
  void send(station& to, std::uint32_t number) {
    sources_.fill(0, bytes_of(number), number);
    std::memcpy(sources_.data(), &number, sizeof number);
    datagram_destination there{.address = {{.source = host::address_of(number_),
                                            .destination = host::address_of(to.number_)},
                                           {}},
                               .qpn = to.queue_.pair().number(),
                               .qkey = qkey,
                               .known = true};
    there.address.set_wire_mtu(mtu_code);
    const send_request request{
        .wr_id = number, .opcode = opcode::send, .flags = send_flag::signaled};
    ASSERT_TRUE(queue_.post(request, {sources_.slice(0, bytes_of(number))}, &there));
  }
  /// Runs until the request has completed. Only the rate of the link can delay the request.
  void complete(std::uint32_t number) {
    std::array<completion, 1> done;
    device_.run();
    while (queue_.sent().poll(done) == 0) {
      now = std::max(now + 1, std::min(device_.next_deadline(), now + 1'000));
      device_.run();
    }
    EXPECT_EQ(done[0].status, completion_status::success);
    EXPECT_EQ(done[0].wr_id, number);
  }
  /// Checks the datagrams received from `other`, and counts them in `arrived`.
  void check(station& other, std::map<std::uint32_t, unsigned>& arrived) {
    std::array<completion, receives> some;
    for (const completion& each : std::span(some).first(queue_.received().poll(some))) {
      ASSERT_EQ(each.wr_id, completed_);
      ++completed_;
      ASSERT_EQ(each.status, completion_status::success);
      const std::size_t at = each.wr_id % receives * room;
      std::uint32_t number = 0;
      std::memcpy(&number, sinks_.data() + at + header, sizeof number);
      EXPECT_EQ(each.byte_count, header + bytes_of(number));
      EXPECT_EQ(each.source_qp, other.queue_.pair().number());
      expected_.fill(0, bytes_of(number), number);
      EXPECT_TRUE(std::equal(expected_.data() + 4, expected_.data() + bytes_of(number),
                             sinks_.data() + at + header + 4));
      const datagram_route way =
          route_of(std::span<const std::byte, grh_bytes>(sinks_.data() + at, header));
      EXPECT_EQ(way.source, host::address_of(other.number_));
      EXPECT_EQ(way.destination, host::address_of(number_));
      ++arrived[number];
    }
  }
  [[nodiscard]] std::uint64_t damaged() const { return device_.damaged(); }
  [[nodiscard]] std::uint64_t without_receive() {
    return queue_.pair().diagnosis().drops.count(reason::receiver_not_ready);
  }

 private:
  std::size_t number_;
  host device_;
  memory sources_{device_.device(), largest};
  memory expected_{device_.device(), largest};
  memory sinks_{device_.device(), receives* room};
  end queue_{device_.device(), transport::ud};
  std::uint64_t posted_ = 0;
  std::uint64_t completed_ = 0;
};

struct arrivals {
  std::map<std::uint32_t, unsigned> arrived;  ///< the number of arrivals of each datagram
  std::uint64_t damaged = 0;
  std::uint64_t without_receive = 0;
};

/// Sends `count` datagrams from the first to the second station.
arrivals run(const network_faults& faults, std::uint64_t seed, std::uint32_t count) {
  now = 1'000'000;
  random_source random(seed);
  network net(faults, random);
  station first(0, net);
  station second(1, net);
  arrivals made;
  const auto deliver_until = [&](time_ns limit) {
    while (net.next_arrival() <= limit) {
      const travelling_packet each = net.take();
      now = std::max(now, each.arrival);
      (each.host == 0 ? first : second).receive(each.bytes);
      second.check(first, made.arrived);
      if (random.below(4) != 0) second.post_receives();
    }
  };
  second.post_receives();
  for (std::uint32_t number = 1; number <= count; ++number) {
    first.send(second, number);
    first.complete(number);
    deliver_until(now);
  }
  deliver_until(never - 1);
  made.damaged = second.damaged();
  made.without_receive = second.without_receive();
  return made;
}

constexpr std::uint32_t many = 300;

TEST(datagram_network, datagrams_arrive_once_over_a_network_without_faults) {
  const arrivals what = run({}, 1, many);
  EXPECT_EQ(what.arrived.size() + what.without_receive, many);
  for (const auto& [number, times] : what.arrived) EXPECT_EQ(times, 1U) << number;
}

// parity: rocev2-106
TEST(datagram_network, what_arrives_over_a_network_with_faults_is_what_was_sent) {
  const network_faults faults{.loss = 50,
                              .duplication = 50,
                              .corruption = 50,
                              .reordering = 100,
                              .jitter = 3'000,
                              .longest_detour = 50'000};
  std::uint64_t damaged = 0;
  std::size_t repeated = 0;
  std::size_t missing = 0;
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    const arrivals what = run(faults, seed, many);
    damaged += what.damaged;
    missing += many - what.arrived.size();
    for (const auto& [number, times] : what.arrived) {
      EXPECT_TRUE(number >= 1 && number <= many && times <= 2) << number;
      repeated += times == 2 ? 1 : 0;
    }
  }
  // All kinds of faults occurred.
  EXPECT_GT(damaged, 10U);
  EXPECT_GT(repeated, 10U);
  EXPECT_GT(missing, 10U);
}

}  // namespace
}  // namespace verbena::softdev::wire::simulation
