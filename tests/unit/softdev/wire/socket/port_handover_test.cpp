// SPDX-License-Identifier: MIT
// The end of the owner of the port, with several clients.
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "tests/unit/softdev/wire/socket/wired_host.hpp"
#include "verbena/base/log.hpp"

namespace verbena::softdev::wire {
namespace {

using role = port_share::role;
constexpr time_ns millisecond = 1'000'000;

/// An owner of the port and two clients, with a clock that the test advances.
class port_handover : public ::testing::Test {
 protected:
  port_handover() {
    step = millisecond;  // while the hosts open their sockets
    wired_host::clock = &test_time;
    owner = std::make_unique<wired_host>(std::uint8_t{3}, port);
    first.emplace(std::uint8_t{1}, port);
    second.emplace(std::uint8_t{2}, port);
    owner->prepare(owner->pair(), owner->route_to(*first));
    first->timeout = second->timeout = long_timeout;
    first->connect(*second);
    second->connect(*first);
    step = 0;
  }
  ~port_handover() override { wired_host::clock = &monotonic_now; }
  static time_ns test_time() { return now += step; }
  static void run(wired_host& host) {
    now += millisecond;
    host.run();
  }
  /// The owner ends while its socket has a message from `first` to `second`, and `first` becomes
  /// the owner. `second` does not run.
  void end_owner() {
    ASSERT_EQ(first->path.role(), role::client);
    ASSERT_EQ(second->path.role(), role::client);
    ASSERT_TRUE(second->mine.post_receive(3, second->memory.slice(0, 64)));
    ASSERT_TRUE(first->mine.post({.opcode = opcode::send, .flags = send_flag::signaled},
                                 {first->memory.slice(0, 64)}));
    owner.reset();
    for (int i = 0; i < 10; ++i) run(*first);
    ASSERT_EQ(first->path.role(), role::owner);
    EXPECT_EQ(first->path.counters().intake.unknown_qp, 0U);
  }
  [[nodiscard]] bool second_received() {
    std::array<completion, 1> found;
    return second->mine.received().poll(found) == 1;
  }

  inline static time_ns now = 1'000 * millisecond;
  inline static time_ns step = 0;  ///< by which each reading advances the clock
  const std::uint16_t port = free_port();
  std::unique_ptr<wired_host> owner;
  std::optional<wired_host> first;
  std::optional<wired_host> second;
};

TEST_F(port_handover, new_owner_keeps_the_packets_of_a_client_that_has_not_registered) {
  end_owner();
  for (int i = 0; i < 20 && !second_received(); ++i) {
    run(*second);
    run(*first);
  }
  EXPECT_EQ(second->path.role(), role::client);
  EXPECT_EQ(second->path.counters().intake.received, 1U);
  EXPECT_EQ(first->path.counters().events.retransmitted, 0U);
  EXPECT_EQ(first->path.counters().intake.unknown_qp, 0U);
}

TEST_F(port_handover, kept_packets_of_a_client_that_does_not_register_are_dropped_later) {
  end_owner();
  now += 100 * millisecond;
  run(*first);
  EXPECT_EQ(first->path.counters().intake.unknown_qp, 1U);
}

TEST_F(port_handover, new_owner_forwards_kept_packets_before_it_exits) {
  end_owner();
  // `second` registers while `first` exits, and receives its packet.
  second->run();  // finds that the owner has ended
  second->run();  // sends its registration
  first->path.flush_before_exit();
  EXPECT_EQ(first->path.counters().intake.forwarded, 1U);
}

/// Assigns all messages of the connection manager to the process with slot 2, and counts those that
/// arrive.
struct messages_of_second final : management_observer {
  std::optional<std::uint32_t> slot_of(management_view /*message*/) const noexcept override {
    return 2;
  }
  void message_arrived(const management_addresses& /*ends*/,
                       management_view /*message*/) noexcept override {
    ++arrived;
  }
  int arrived = 0;
};

TEST_F(port_handover, new_owner_forwards_a_kept_message_by_its_content) {
  messages_of_second of_first;
  messages_of_second of_second;
  first->path.set_management(&of_first);
  second->path.set_management(&of_second);
  constexpr std::array<std::byte, management_bytes> message{};
  first->path.send_message({.own = first->address(), .peer = second->address()}, message);
  end_owner();
  for (int i = 0; i < 20 && of_second.arrived == 0; ++i) {
    run(*second);
    run(*first);
  }
  EXPECT_EQ(of_second.arrived, 1);
  EXPECT_EQ(of_first.arrived, 0);
}

/// A client without a descriptor of the socket, whose owner has ended. Another client has the
/// socket.
class port_rejoin : public ::testing::Test {
 protected:
  port_rejoin() {
    wired_host::clock = [] { return now; };
    host.emplace(std::uint8_t{1}, port);
    owner_without_descriptor owner(port);
    EXPECT_EQ(host->path.open_sockets().value(), role::none);
    owner.answer();
    EXPECT_TRUE(host->path.connect(host->pair(), {.own = host->address(), .peer = loopback(2)}));
    EXPECT_EQ(host->path.role(), role::client);
    warnings.clear();
    set_log_hook([](log_level, std::string_view line, void*) { warnings += line; });
  }
  ~port_rejoin() override {
    set_log_hook(nullptr);
    wired_host::clock = &monotonic_now;
  }
  void run(int milliseconds) {
    for (int i = 0; i < milliseconds; ++i) {
      now += millisecond;
      host->run();
    }
  }

  inline static time_ns now = 1'000 * millisecond;
  inline static std::string warnings;
  const std::uint16_t port = free_port();
  udp_socket other = udp_socket::open(port, udp_socket::use::receiving).value();
  std::optional<wired_host> host;
};

TEST_F(port_rejoin, port_that_is_free_a_moment_later_causes_no_warning) {
  run(50);
  EXPECT_EQ(host->path.role(), role::none);
  other.close();
  run(100);
  EXPECT_EQ(host->path.role(), role::owner);
  EXPECT_EQ(warnings, "");
}

TEST_F(port_rejoin, port_that_another_program_keeps_causes_one_warning) {
  run(2'000);
  EXPECT_EQ(warnings, "");
  run(2'000);
  EXPECT_NE(warnings.find("receives no packets of other hosts"), std::string::npos) << warnings;
  const auto reason = warnings.find("another program or another user has the port");
  EXPECT_NE(reason, std::string::npos) << warnings;
  EXPECT_EQ(warnings.find("another program", reason + 1), std::string::npos) << warnings;
}

}  // namespace
}  // namespace verbena::softdev::wire
