// SPDX-License-Identifier: MIT
// Processes that authenticate packets, and hosts that send packets with another key or without a
// trailer.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "softdev/wire/auth/packet_signer.hpp"
#include "softdev/wire/auth/trailer.hpp"
#include "softdev/wire/socket/key_mismatches.hpp"
#include "softdev/wire/socket/named_counters.hpp"
#include "tests/unit/softdev/wire/socket/wired_host.hpp"
#include "verbena/base/log.hpp"

namespace verbena::softdev::wire {
namespace {

using octet_list = std::vector<std::byte>;

wire_key key_from(std::string_view secret) {
  return wire_key::derive(std::as_bytes(std::span(secret))).value();
}
wire_key common_key() { return key_from("the secret of both hosts"); }

/// Collects warnings. Threads: thread-safe.
class warnings {
 public:
  warnings() {
    set_log_hook(
        [](log_level level, std::string_view line, void* user) {
          auto& self = *static_cast<warnings*>(user);
          const std::lock_guard lock(self.mutex_);
          if (level == log_level::warning) self.lines_ += std::string(line) + "\n";
        },
        this);
  }
  ~warnings() { set_log_hook(nullptr); }
  warnings(const warnings&) = delete;
  warnings& operator=(const warnings&) = delete;
  [[nodiscard]] std::string text() {
    const std::lock_guard lock(mutex_);
    return lines_;
  }

 private:
  std::mutex mutex_;
  std::string lines_;
};

class authenticated_pair : public ::testing::Test {
 protected:
  explicit authenticated_pair(const wire_path_options& options = {.key = common_key()})
      : first(1, port, options), second(2, port, options) {}
  void connect() {
    first.connect(second);
    second.connect(first);
  }
  [[nodiscard]] completion_status write(std::uint32_t length) {
    first.memory.fill(0, length, 3);
    second.memory.fill(0, length, 99);
    EXPECT_TRUE(first.mine.post({.wr_id = 7,
                                 .opcode = opcode::rdma_write,
                                 .flags = send_flag::signaled,
                                 .remote_address = second.memory.address(),
                                 .remote_key = second.memory.key()},
                                {first.memory.slice(0, length)}));
    return next_completion({&first, &second}, first.mine.sent()).status;
  }

  const std::uint16_t port = free_port();
  wired_host first;
  wired_host second;
};

TEST_F(authenticated_pair, owner_and_client_of_the_port_communicate) {
  first.timeout = second.timeout = long_timeout;
  connect();
  constexpr std::uint32_t length = 200'000;
  EXPECT_EQ(write(length), completion_status::success);
  EXPECT_TRUE(second.memory.holds(0, length, 3));
  const wire_counters from = first.path.counters();
  const wire_counters to = second.path.counters();
  EXPECT_GT(from.intake.forwarded, 0U);
  EXPECT_GT(to.intake.received, 190U);
  EXPECT_EQ(to.intake.auth_missing + to.intake.auth_failed, 0U);
  // The counter includes the bytes from BTH to ICRC only. If this thread does not run for some
  // time, the hosts retransmit packets after an early timeout.
  const std::uint64_t payload = length + wired_host::mtu * from.events.retransmitted;
  EXPECT_GE(from.output.sent_bytes, length + 16 * from.output.sent);
  EXPECT_LT(from.output.sent_bytes, payload + 36 * from.output.sent);
}

class authenticated_bad_network : public authenticated_pair {
 protected:
  authenticated_bad_network()
      : authenticated_pair(
            {.faults = {.loss = 10'000, .duplicate = 50'000, .reorder = 50'000, .corrupt = 50'000},
             .key = common_key()}) {}
};

TEST_F(authenticated_bad_network, damaged_and_repeated_packets_are_dropped_by_their_trailer) {
  first.timeout = second.timeout = long_timeout;
  connect();
  constexpr std::uint32_t length = 200'000;
  for (int i = 0; i < 5; ++i) {
    ASSERT_EQ(write(length), completion_status::success);
    ASSERT_TRUE(second.memory.holds(0, length, 3));
  }
  const intake_counters counted = second.path.counters().intake;
  EXPECT_GT(counted.auth_failed, 0U);
  EXPECT_GT(counted.auth_replayed, 0U);
  EXPECT_EQ(counted.damaged, 0U);
}

TEST(authenticated_port, process_with_another_key_is_refused_with_the_reason) {
  const std::uint16_t port = free_port();
  auto owner = port_share::open(port, 1, common_key().fingerprint()).value();
  ASSERT_EQ(owner.join().value(), port_share::role::owner);
  const std::pair<std::uint64_t, std::string_view> cases[] = {
      {0, "was started with VERBENA_SOFTDEV_WIRE_KEY_FILE, this one without it"},
      {key_from("another one").fingerprint(),
       "has another key: it was started with another VERBENA_SOFTDEV_WIRE_KEY_FILE, or before the "
       "content of the file changed"}};
  for (const auto& [other, cause] : cases) {
    auto client = port_share::open(port, 2, other).value();
    auto joined = client.join();
    for (time_ns now = 1; joined && *joined == port_share::role::none; now += 1'000'000'000) {
      owner.serve(now);
      joined = client.join();
    }
    ASSERT_FALSE(joined);
    EXPECT_EQ(joined.error().code(), EADDRINUSE);
    const std::string message = joined.error().message();
    EXPECT_NE(message.find(cause), std::string::npos) << message;
    EXPECT_NE(message.find("(pid " + std::to_string(::getpid()) + ")"), std::string::npos);
  }
  EXPECT_EQ(owner.clients(), 0U);
}

TEST(authenticated_port, owner_without_a_key_is_named_as_the_cause) {
  const std::uint16_t port = free_port();
  auto owner = port_share::open(port, 1, 0).value();
  ASSERT_EQ(owner.join().value(), port_share::role::owner);
  auto client = port_share::open(port, 2, common_key().fingerprint()).value();
  auto joined = client.join();
  for (time_ns now = 1; joined && *joined == port_share::role::none; now += 1'000'000'000) {
    owner.serve(now);
    joined = client.join();
  }
  ASSERT_FALSE(joined);
  EXPECT_NE(joined.error().message().find("was started without VERBENA_SOFTDEV_WIRE_KEY_FILE"),
            std::string::npos)
      << joined.error().message();
}

/// Counts the messages of the connection manager that arrive. Threads: one thread at a time.
struct message_counter final : management_observer {
  std::optional<std::uint32_t> slot_of(management_view /*message*/) const noexcept override {
    return std::nullopt;
  }
  void message_arrived(const management_addresses& /*ends*/,
                       management_view /*message*/) noexcept override {
    ++arrived;
  }
  int arrived = 0;
};

TEST(authenticated_fork, child_does_not_repeat_the_sequence_numbers_of_its_parent) {
  const std::uint16_t port = free_port();
  const wire_path_options options{.key = common_key()};
  wired_host receiver(1, port, options);
  wired_host sender(2, port, options);
  message_counter seen;
  receiver.path.set_management(&seen);
  ASSERT_TRUE(receiver.path.open());
  sender.prepare(sender.pair(), sender.route_to(receiver));
  constexpr std::array<std::byte, management_bytes> message{};
  const auto send = [&](wired_host& from) {
    for (int i = 0; i < 3; ++i)
      from.path.send_message({.own = from.address(), .peer = receiver.address()}, message);
  };
  send(sender);
  ASSERT_TRUE(run_until({&receiver}, [&] { return seen.arrived == 3; }));
  receiver.path.prepare_fork();
  sender.path.prepare_fork();
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    receiver.path.abandon_after_fork();
    sender.path.abandon_after_fork();
    send(sender);  // its socket is closed
    wired_host own(3, port, options);
    if (!own.path.open()) ::_exit(1);
    send(own);
    ::_exit(0);
  }
  receiver.path.continue_after_fork();
  sender.path.continue_after_fork();
  int status = -1;
  ASSERT_TRUE(run_until({&receiver}, [&] { return ::waitpid(child, &status, WNOHANG) == child; }));
  EXPECT_EQ(status, 0);
  ASSERT_TRUE(run_until({&receiver}, [&] { return seen.arrived == 6; }));
  send(sender);
  ASSERT_TRUE(run_until({&receiver}, [&] { return seen.arrived >= 9; }));
  EXPECT_EQ(seen.arrived, 9);
  EXPECT_EQ(receiver.path.counters().intake.auth_replayed, 0U);
  EXPECT_EQ(receiver.path.counters().intake.auth_failed, 0U);
  receiver.path.set_management(nullptr);
}

TEST(key_mismatch_log, place_is_reused_after_an_hour) {
  key_mismatches log;
  const auto is_reported = [&](std::uint8_t last, time_ns now) {
    const datagram_addresses ends{.source = loopback(last), .destination = loopback(1)};
    if (!log.wants(authenticity::missing, ends.source, now)) return false;
    log.keep(authenticity::missing, ends, false, now);
    return log.take().value().is_new;
  };
  constexpr time_ns second = 1'000'000'000;
  for (std::uint8_t i = 0; i < key_mismatches::most_senders; ++i)
    EXPECT_TRUE(is_reported(i, i * second)) << int{i};
  EXPECT_FALSE(is_reported(100, 60 * second)) << "all places are used";
  EXPECT_FALSE(is_reported(100, key_mismatches::reused_after - 1));
  EXPECT_TRUE(is_reported(100, key_mismatches::reused_after)) << "that of the first sender is free";
  EXPECT_FALSE(is_reported(101, key_mismatches::reused_after)) << "that of the second one is not";
  EXPECT_TRUE(is_reported(101, key_mismatches::reused_after + second));
  EXPECT_FALSE(is_reported(100, key_mismatches::reused_after + 2 * second)) << "it is known";
  EXPECT_TRUE(is_reported(0, key_mismatches::reused_after + 2 * second)) << "it was replaced";
}

/// A UD queue pair, and an attacker that sends arbitrary datagrams to it.
class attacked_host : public ::testing::Test {
 protected:
  explicit attacked_host(const wire_path_options& options = {.key = common_key()})
      : target(1, port, options, transport::ud),
        attacker(udp_socket::open(0, udp_socket::use::sending).value()) {
    target.activate();
    for (std::uint64_t i = 0; i < 8; ++i)
      EXPECT_TRUE(target.mine.post_receive(i, target.memory.slice(i * 1024, 1024)));
  }
  [[nodiscard]] network_header around() const {
    return {.source = loopback(7),
            .destination = destination,
            .source_port = attacker.port(),
            .destination_port = port};
  }
  /// Returns a datagram that the target receives if it is authenticated, with room for `trailer`
  /// bytes.
  [[nodiscard]] octet_list datagram(std::size_t trailer) {
    const std::array<std::byte, 64> payload{};
    packet what{.opcode = make_opcode(packet_transport::ud, operation::send_only),
                .destination_qpn = target.pair().number(),
                .payload = payload};
    what.datagram = {.qkey = simulation::qkey, .source_qpn = 5};
    octet_list out(encoded_bytes(what) + trailer);
    const auto packet_bytes = std::span(out).first(out.size() - trailer);
    const std::size_t covered = encode(what, packet_bytes);
    store_icrc(icrc(around(), packet_bytes.first(covered)), packet_bytes.last<icrc_bytes>());
    return out;
  }
  [[nodiscard]] octet_list signed_datagram(packet_signer& by) {
    octet_list out = datagram(trailer_bytes);
    EXPECT_TRUE(by.sign(around(), out));
    return out;
  }
  /// Sends a datagram. Waits until the target has counted it.
  void send(octet_list what) {
    const auto handled = [&] {
      const intake_counters now = target.path.counters().intake;
      // Does not include packets for an unknown queue pair: notices to other loopback addresses
      // arrive at this process.
      return now.received + now.malformed + now.damaged + now.auth_missing + now.auth_failed +
             now.auth_replayed + now.auth_unexpected;
    };
    const std::uint64_t before = handled();
    sockaddr_storage name{};
    udp_socket::control control;
    iovec piece{what.data(), what.size()};
    msghdr message{};
    attacker.address({.source = loopback(7), .destination = destination}, port, name, control,
                     message);
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    ASSERT_EQ(::sendmsg(attacker.fd(), &message, 0), static_cast<ssize_t>(what.size()));
    ASSERT_TRUE(run_until({&target}, [&] { return handled() != before; }));
    EXPECT_EQ(handled(), before + 1);
  }
  [[nodiscard]] intake_counters counted() { return target.path.counters().intake; }

  const std::uint16_t port = free_port();
  wired_host target;
  udp_socket attacker;
  network_address destination = loopback(1);
};

TEST_F(attacked_host, only_authenticated_datagrams_are_received_and_each_once) {
  auto genuine = packet_signer::open(common_key()).value();
  auto other = packet_signer::open(key_from("another secret, of nobody")).value();
  const octet_list recorded = signed_datagram(genuine);
  send(recorded);
  EXPECT_EQ(counted().received, 1U);
  send(recorded);
  EXPECT_EQ(counted().auth_replayed, 1U);
  send(datagram(0));
  EXPECT_EQ(counted().auth_missing, 1U);
  send(signed_datagram(other));
  EXPECT_EQ(counted().auth_failed, 1U);
  octet_list changed = signed_datagram(genuine);
  changed[30] ^= std::byte{1};
  send(changed);
  EXPECT_EQ(counted().auth_failed, 2U);
  const octet_list truncated = signed_datagram(genuine);
  send({truncated.begin(), truncated.end() - 4});
  EXPECT_EQ(counted().auth_missing, 2U);
  send(signed_datagram(genuine));
  EXPECT_EQ(counted().received, 2U);
  EXPECT_EQ(counted().damaged + counted().malformed, 0U);
}

TEST_F(attacked_host, packet_for_the_connection_manager_must_be_authenticated) {
  octet_list request(12 + 8 + management_bytes + icrc_bytes);
  packet what{.opcode = make_opcode(packet_transport::ud, operation::send_only),
              .destination_qpn = general_services_qpn,
              .payload = key_mismatch_notice};
  what.datagram = {.qkey = general_services_qkey, .source_qpn = general_services_qpn};
  const std::size_t covered = encode(what, request);
  store_icrc(icrc(around(), std::span(request).first(covered)),
             std::span(request).last<icrc_bytes>());
  message_counter seen;
  target.path.set_management(&seen);
  send(request);
  EXPECT_EQ(counted().auth_missing, 1U);
  EXPECT_EQ(seen.arrived, 0);
  auto genuine = packet_signer::open(common_key()).value();
  request.resize(request.size() + trailer_bytes);
  ASSERT_TRUE(genuine.sign(around(), request));
  ASSERT_TRUE(target.path.open());
  sockaddr_storage name{};
  udp_socket::control control;
  iovec piece{request.data(), request.size()};
  msghdr message{};
  attacker.address({.source = loopback(7), .destination = target.address()}, port, name, control,
                   message);
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  ASSERT_EQ(::sendmsg(attacker.fd(), &message, 0), static_cast<ssize_t>(request.size()));
  EXPECT_TRUE(run_until({&target}, [&] { return seen.arrived == 1; }));
  target.path.set_management(nullptr);
}

TEST_F(attacked_host, mismatch_is_logged_once_with_the_sender_and_the_remedy) {
  warnings logged;
  send(datagram(0));
  send(datagram(0));
  EXPECT_EQ(logged.text(),
            "soft0: packets of 127.0.0.7 are dropped, because they are not authenticated; set "
            "VERBENA_SOFTDEV_WIRE_KEY_FILE to the same key there, or unset it here\n");
  auto other = packet_signer::open(key_from("another secret, of nobody")).value();
  send(signed_datagram(other));
  EXPECT_NE(logged.text().find("their tag is wrong: that host has another key"), std::string::npos);
}

TEST_F(attacked_host, packet_to_an_address_that_is_not_permitted_is_neither_logged_nor_answered) {
  warnings logged;
  destination = loopback(9);
  send(datagram(0));
  EXPECT_EQ(counted().auth_missing, 1U);
  EXPECT_EQ(logged.text(), "");
  EXPECT_EQ(target.path.counters().output.sent, 0U);
  destination = loopback(1);
  send(datagram(0));
  EXPECT_NE(logged.text(), "");
  EXPECT_EQ(target.path.counters().output.sent, 1U);
}

TEST_F(attacked_host, damaged_packet_is_not_taken_for_one_of_another_key) {
  warnings logged;
  auto genuine = packet_signer::open(common_key()).value();
  octet_list changed = signed_datagram(genuine);
  changed[30] ^= std::byte{1};
  send(changed);
  EXPECT_EQ(logged.text(), "");
}

class attacked_host_without_key : public attacked_host {
 protected:
  attacked_host_without_key() : attacked_host(wire_path_options{}) {}
};

TEST_F(attacked_host_without_key, authenticated_packets_are_dropped_and_the_remedy_is_logged) {
  warnings logged;
  auto by = packet_signer::open(common_key()).value();
  send(signed_datagram(by));
  EXPECT_EQ(counted().auth_unexpected, 1U);
  EXPECT_EQ(counted().damaged + counted().malformed + counted().received, 0U);
  EXPECT_EQ(logged.text(),
            "soft0: packets of 127.0.0.7 are dropped, because they are authenticated; set "
            "VERBENA_SOFTDEV_WIRE_KEY_FILE to the same key here, or unset it there\n");
  send(datagram(0));
  EXPECT_EQ(counted().received, 1U);
}

}  // namespace
}  // namespace verbena::softdev::wire
