// SPDX-License-Identifier: MIT
// Streams over existing sockets, connecting before the listener exists, and exchanged UD addresses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "tests/unit/bringup/peers.hpp"
#include "verbena/bringup/connect_queue_pair.hpp"
#include "verbena/bringup/datagram_peer.hpp"
#include "verbena/verbs/device_list.hpp"

namespace {

using namespace peers;
using namespace verbena;
using bringup::stream;
using testing::HasSubstr;

std::pair<unique_fd, unique_fd> socket_pair(int type = SOCK_STREAM) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends.data()) != 0) std::abort();
  return {unique_fd(ends[0]), unique_fd(ends[1])};
}

std::pair<stream, stream> adopted_pair() {
  auto [one, other] = socket_pair();
  auto at_other = result<stream>(error(error_kind::os, 0, "not connected"));
  std::thread adopting(
      [&, fd = std::move(other)]() mutable { at_other = stream::adopt(std::move(fd), soon()); });
  auto at_one = stream::adopt(std::move(one), soon());
  adopting.join();
  return {std::move(at_one).value(), std::move(at_other).value()};
}

TEST(adopted_stream, socketpair_transfers_blobs) {
  auto [one, other] = adopted_pair();
  one.send(bytes_from("question"), soon()).value();
  EXPECT_EQ(other.receive(soon()).value(), bytes_from("question"));
  EXPECT_EQ(one.version(), bringup::supported_versions.highest);
  EXPECT_EQ(one.peer(), "process " + std::to_string(::getpid()));
}

// The peer sends without a pause until its deadline, or until refuse() has returned.
TEST(adopted_stream, refuse_returns_while_the_peer_sends) {
  auto [one, other] = adopted_pair();
  const auto limit = deadline::after(20s);
  std::atomic<bool> returned = false;
  const auto flood = [&, fd = other.fd()] {
    const std::vector<std::byte> bytes(65536);
    while (!returned && !limit.expired())
      static_cast<void>(!::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL));
  };
  std::thread first(flood);
  std::thread second(flood);
  one.refuse("no");
  returned = true;
  EXPECT_FALSE(limit.expired());
  first.join();
  second.join();
}

TEST(adopted_stream, adopted_socket_connects_to_a_listener) {
  auto listening = listen();
  auto client = result<stream>(error(error_kind::os, 0, "not connected"));
  std::thread connecting([&] { client = stream::adopt(raw_connection(listening.port()), soon()); });
  auto server = listening.accept(soon()).value();
  connecting.join();
  client->send(bytes_from("adopted"), soon()).value();
  EXPECT_EQ(server.receive(soon()).value(), bytes_from("adopted"));
  EXPECT_THAT(client->peer(), HasSubstr("127.0.0.1:"));
}

TEST(adopted_stream, descriptor_that_is_not_a_socket_is_rejected) {
  const auto made = stream::adopt(unique_fd(::open("/dev/null", O_RDWR | O_CLOEXEC)), soon());
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().kind(), error_kind::invalid_argument);
  EXPECT_THAT(made.error().message(), HasSubstr("not a socket"));
}

TEST(adopted_stream, invalid_descriptor_returns_ebadf) {
  const auto made = stream::adopt(unique_fd(), soon());
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code(), EBADF);
  EXPECT_THAT(made.error().message(), HasSubstr("descriptor -1"));
}

TEST(adopted_stream, datagram_socket_is_rejected) {
  auto [one, other] = socket_pair(SOCK_SEQPACKET);
  const auto made = stream::adopt(std::move(one), soon());
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().kind(), error_kind::invalid_argument);
  EXPECT_THAT(made.error().message(), HasSubstr("not SOCK_STREAM"));
}

TEST(adopted_stream, unconnected_socket_returns_enotconn) {
  const auto made = stream::adopt(unique_fd(::socket(AF_INET, SOCK_STREAM, 0)), soon());
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code(), ENOTCONN);
  EXPECT_THAT(made.error().message(), HasSubstr("connect(2) or accept(2)"));
}

TEST(adopted_stream, listening_socket_is_rejected) {
  unique_fd socket(::socket(AF_INET, SOCK_STREAM, 0));
  ASSERT_EQ(::listen(socket.get(), 1), 0);
  const auto made = stream::adopt(std::move(socket), soon());
  ASSERT_FALSE(made);
  EXPECT_THAT(made.error().message(), HasSubstr("the socket listens"));
}

TEST(adopted_stream, release_keeps_bytes_after_the_last_frame) {
  auto [one, other] = adopted_pair();
  one.send(bytes_from("last"), soon()).value();
  auto raw = std::move(one).release();
  send_bytes(raw, bytes_of("text"));
  EXPECT_EQ(other.receive(soon()).value(), bytes_from("last"));
  const auto back = std::move(other).release();
  std::array<char, 8> text{};
  ASSERT_TRUE(wait_for_fd(back.get(), POLLIN, soon()).value());
  EXPECT_EQ(::recv(back.get(), text.data(), text.size(), 0), 4);
}

/// Each call with a stream ends the program instead of waiting on descriptor -1.
void expect_death_of_calls(stream& of) {
  const char* const used = "a moved-from or released stream was used";
  EXPECT_DEATH(static_cast<void>(of.receive(deadline::never())), used);
  EXPECT_DEATH(static_cast<void>(of.send(bytes_of("text"), deadline::never())), used);
  EXPECT_DEATH(static_cast<void>(of.exchange(bytes_of("text"), deadline::never())), used);
  EXPECT_DEATH(of.refuse("no"), used);
  EXPECT_DEATH(of.shut_down(), used);
}

TEST(adopted_stream_death, use_of_a_moved_from_stream_stops_the_program) {
  auto [one, other] = adopted_pair();
  const stream moved = std::move(one);
  // NOLINTNEXTLINE(bugprone-use-after-move,clang-analyzer-cplusplus.Move): the use is the test
  expect_death_of_calls(one);
}

TEST(adopted_stream_death, use_of_a_released_stream_stops_the_program) {
  auto [one, other] = adopted_pair();
  const auto raw = std::move(one).release();
  // NOLINTNEXTLINE(bugprone-use-after-move,clang-analyzer-cplusplus.Move): the use is the test
  expect_death_of_calls(one);
}

// parity: rrddmma-108
TEST(connecting, connect_before_the_listener_exists_succeeds_with_retries) {
  const std::uint16_t port = listen().port();
  auto client = result<stream>(error(error_kind::os, 0, "not connected"));
  std::thread connecting([&] {
    client = stream::connect({.host = "127.0.0.1", .port = port}, soon(), {.retry_refused = 30s});
  });
  auto listening = bringup::listener::open({.host = "127.0.0.1", .port = port}).value();
  EXPECT_TRUE(listening.accept(soon()));
  connecting.join();
  EXPECT_TRUE(client) << client.error().message();
}

TEST(connecting, connect_with_retries_ends_at_the_deadline) {
  const std::uint16_t port = listen().port();
  const auto made = stream::connect({.host = "127.0.0.1", .port = port}, deadline::after(1ms),
                                    {.retry_refused = 1h});
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code(), ECONNREFUSED);
}

/// One side of a datagram exchange, with a UD queue pair.
struct datagram_side {
  verbena::context device = open_device("soft0").value();
  protection_domain pd = device.allocate_pd().value();
  completion_queue queue = device.create_cq(16).value();
  memory_region buffer = pd.allocate(256, access::local_write).value();
  queue_pair<ud> qp;

  explicit datagram_side(queue_key key)
      : qp(pd.create_qp<ud>(queue, queue).value().activate(key).value()) {
    qp.post_receive({.id = 1}, buffer.slice(0, 128)).value();
  }
  completion wait() {
    std::array<completion, 1> done;
    const auto until = soon();
    while (queue.poll(done).value().empty() && !until.expired()) continue;
    return done[0];
  }
};

TEST(datagram_addresses, datagram_to_an_exchanged_address_arrives) {
  auto [server, client] = connected();
  datagram_side here(queue_key(0x11111111));
  datagram_side there(queue_key(0x22222222));
  std::optional<result<bringup::datagram_peer>> result_there;
  std::thread other([&, &end = client] {
    result_there.emplace(bringup::exchange_datagram_addresses(there.pd, there.qp, end, soon()));
  });
  const auto words = bytes_of("hello");
  const auto peer = bringup::exchange_datagram_addresses(here.pd, here.qp, server, soon(),
                                                         {.negotiation = {.message = words}})
                        .value();
  other.join();
  EXPECT_EQ(result_there->value().message, bytes_from("hello"));
  EXPECT_EQ(peer.key, queue_key(0x22222222));
  EXPECT_EQ(peer.number, there.qp.number());

  std::ranges::copy(words, here.buffer.bytes().begin() + 128);
  auto batch = here.qp.start_send();
  batch.send({.id = 2, .signaled = true}, here.buffer.slice(128, words.size()), peer.destination());
  batch.submit().value();
  const auto received = there.wait();
  received.result().value();
  EXPECT_EQ(received.byte_length(), words.size() + global_route_header::encoded_size);
}

TEST(datagram_addresses, address_of_an_rc_queue_pair_is_rejected) {
  auto [server, client] = connected();
  datagram_side here(queue_key(1));
  std::thread other([&, &end = client] {
    verbena::context device = open_device("soft0").value();
    const auto pd = device.allocate_pd().value();
    const auto cq = device.create_cq(8).value();
    EXPECT_FALSE(bringup::connect_queue_pair(pd.create_qp<rc>(cq, cq).value(), end, soon()));
  });
  const auto made = bringup::exchange_datagram_addresses(here.pd, here.qp, server, soon());
  other.join();
  ASSERT_FALSE(made);
  EXPECT_THAT(made.error().message(), HasSubstr("UD here and RC at the peer"));
}

TEST(datagram_addresses, queue_pair_of_another_protection_domain_is_rejected) {
  auto [server, client] = connected();
  datagram_side here(queue_key(1));
  const auto other = here.device.allocate_pd().value();
  const auto made = bringup::exchange_datagram_addresses(other, here.qp, server, soon());
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().kind(), error_kind::invalid_argument);
}

}  // namespace
