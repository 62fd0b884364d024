// SPDX-License-Identifier: MIT
#include "verbena/bringup/stream.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <dlfcn.h>
#include <net/if.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "tests/unit/bringup/peers.hpp"
#include "tests/unit/loopback_listener.hpp"
#include "verbena/base/sanitizers.hpp"

// The sanitizers replace pthread_create() as well.
#if !defined(VERBENA_ADDRESS_SANITIZER) && !defined(VERBENA_THREAD_SANITIZER)
#define REPLACES_THREAD_CREATION

namespace {
thread_local bool threads_are_exhausted = false;
}  // namespace

extern "C" int pthread_create(pthread_t* out, const pthread_attr_t* attributes,
                              void* (*work)(void*), void* argument) noexcept {
  if (threads_are_exhausted) return EAGAIN;
  using function = int(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static auto* const real = reinterpret_cast<function*>(::dlsym(RTLD_NEXT, "pthread_create"));
  return real(out, attributes, work, argument);
}
#endif

namespace {

using namespace peers;
using testing::HasSubstr;
using verbena::error_kind;
using bytes = std::vector<std::byte>;

bytes pattern(std::size_t size, unsigned seed) {
  bytes made(size);
  for (std::size_t i = 0; i < size; ++i) made[i] = static_cast<std::byte>(i * 131 + seed);
  return made;
}

// parity: rrddmma-112
TEST(stream, blobs_arrive_in_both_directions) {
  auto [server, client] = connected();
  client.send(bytes_from("question"), soon()).value();
  client.send({}, soon()).value();
  EXPECT_EQ(server.receive(soon()).value(), bytes_from("question"));
  EXPECT_TRUE(server.receive(soon()).value().empty());
  server.send(bytes_from("answer"), soon()).value();
  EXPECT_EQ(client.receive(soon()).value(), bytes_from("answer"));
  EXPECT_EQ(client.version(), bringup::supported_versions.highest);
  EXPECT_EQ(server.version(), bringup::supported_versions.highest);
}

TEST(stream, large_blobs_are_exchanged_at_the_same_time) {
  constexpr std::size_t size = 32 << 20;
  auto [server, client] = connected({.max_blob_bytes = size});
  verbena::result<bytes> at_client = bytes{};
  std::thread other([&, &end = client] { at_client = end.exchange(pattern(size, 1), soon()); });
  const auto at_server = server.exchange(pattern(size, 2), soon());
  other.join();
  EXPECT_TRUE(at_server.value() == pattern(size, 1));
  EXPECT_TRUE(at_client.value() == pattern(size, 2));
}

TEST(stream, blob_arriving_byte_by_byte_is_received) {
  auto [server, raw] = accepted_raw();
  std::thread slow_writer([&, &socket = raw] {
    for (const auto byte : bringup::encode_frame(bringup::frame_type::blob, bytes_from("slowly")))
      send_bytes(socket, std::span(&byte, 1));
  });
  EXPECT_EQ(server.receive(soon()).value(), bytes_from("slowly"));
  slow_writer.join();
}

TEST(stream, bytes_after_the_frame_stay_in_the_socket) {
  auto [server, client] = connected();
  client.send(bytes_from("framed"), soon()).value();
  const auto unframed = bytes_from("after");
  ASSERT_EQ(::send(client.fd(), unframed.data(), unframed.size(), MSG_NOSIGNAL), 5);
  EXPECT_EQ(server.receive(soon()).value(), bytes_from("framed"));
  bytes got(16);
  ASSERT_TRUE(verbena::wait_for_fd(server.fd(), POLLIN, soon()).value());
  EXPECT_EQ(::recv(server.fd(), got.data(), got.size(), 0), 5);
}

TEST(stream, silent_peer_times_out_and_ends_the_stream) {
  auto [server, client] = connected();
  const auto got = server.receive(deadline::after(1ms));
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().kind(), error_kind::timed_out);
  EXPECT_THAT(got.error().diagnosis(), HasSubstr("did not answer in time"));
  EXPECT_FALSE(got.error().object().empty());
  // The stream has ended: later bytes could be taken for the answer to another call.
  client.send(bytes_from("late"), soon()).value();
  const auto next = server.receive(soon());
  ASSERT_FALSE(next);
  EXPECT_EQ(next.error().code(), ENOTCONN);
}

TEST(stream, incomplete_frame_times_out) {
  auto [server, raw] = accepted_raw();
  const auto frame = bringup::encode_frame(bringup::frame_type::blob, bytes_from("never whole"));
  send_bytes(raw, std::span(frame).first(frame.size() - 1));
  const auto got = server.receive(deadline::after(50ms));
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().kind(), error_kind::timed_out);
  EXPECT_THAT(got.error().diagnosis(), HasSubstr("stopped in the middle"));
}

TEST(stream, peer_that_does_not_read_times_out) {
  constexpr std::size_t size = 64 << 20;
  auto [server, client] = connected({.max_blob_bytes = size});
  const auto sent = client.send(pattern(size, 0), deadline::after(50ms));
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().kind(), error_kind::timed_out);
  EXPECT_EQ(client.send({}, soon()).error().code(), ENOTCONN);
}

TEST(stream, closed_connection_returns_econnreset) {
  auto [server, raw] = accepted_raw();
  raw.reset();
  const auto got = server.receive(soon());
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code(), ECONNRESET);
  EXPECT_THAT(got.error().diagnosis(), HasSubstr("closed the connection"));
}

TEST(stream, closed_connection_inside_a_frame_returns_econnreset) {
  auto [server, raw] = accepted_raw();
  const auto frame = bringup::encode_frame(bringup::frame_type::blob, bytes_from("x"));
  send_bytes(raw, std::span(frame).first(8));
  raw.reset();
  EXPECT_EQ(server.receive(soon()).error().code(), ECONNRESET);
}

TEST(stream, garbage_returns_a_protocol_error_with_its_bytes) {
  auto [server, raw] = accepted_raw();
  send_bytes(raw, verbena::bytes_of("GET / HTTP/1.1\r\n\r\n"));
  const auto got = server.receive(soon());
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().kind(), error_kind::protocol);
  EXPECT_THAT(got.error().diagnosis(), HasSubstr("47 45 54 20"));
}

// parity: rrddmma-111
TEST(stream, announced_length_above_the_limit_is_rejected) {
  auto [server, raw] = accepted_raw();
  const bytes header = {std::byte{1}, {}, {}, {}, std::byte{0x7f}, {}, {}, {}};
  send_bytes(raw, header);
  const auto got = server.receive(soon());
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().kind(), error_kind::protocol);
  EXPECT_THAT(got.error().diagnosis(), HasSubstr("the limit is 65536"));
}

TEST(stream, blob_above_the_limit_is_not_sent) {
  auto [server, client] = connected({.max_blob_bytes = 10});
  const auto sent = client.send(bytes(11), soon());
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().kind(), error_kind::invalid_argument);
  client.send(bytes(10), soon()).value();  // the stream remains usable
  EXPECT_EQ(server.receive(soon()).value(), bytes(10));
}

TEST(stream, mismatched_calls_return_a_protocol_error) {
  auto [server, client] = connected();
  client.send(bytes_from("a blob"), soon()).value();
  const auto got = server.exchange(bringup::frame_type::endpoint, {}, soon());
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().kind(), error_kind::protocol);
  EXPECT_THAT(got.error().diagnosis(), HasSubstr("`blob` where `endpoint` was due"));
}

TEST(stream, refusal_is_returned_to_the_peer) {
  auto [server, client] = connected();
  server.refuse("the disk is full: free some space");
  const auto got = client.receive(soon());
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code(), ECONNABORTED);
  EXPECT_THAT(got.error().diagnosis(), HasSubstr("the disk is full: free some space"));
  EXPECT_EQ(server.receive(soon()).error().code(), ENOTCONN);
}

TEST(stream, refusal_after_a_failed_receive_is_returned_to_the_peer) {
  auto [server, client] = connected({.max_blob_bytes = 10});
  client.set_max_blob_bytes(100);
  client.send(bytes(11), soon()).value();
  EXPECT_FALSE(server.receive(soon()));
  EXPECT_EQ(server.send({}, soon()).error().code(), ENOTCONN);
  server.refuse("it sent 11 bytes");
  const auto got = client.receive(soon());
  EXPECT_EQ(got.error().code(), ECONNABORTED);
  EXPECT_THAT(got.error().diagnosis(), HasSubstr("it sent 11 bytes"));
}

TEST(stream, frames_of_the_peer_are_received_after_a_failed_send) {
  constexpr std::size_t size = 64 << 20;
  auto [server, client] = connected({.max_blob_bytes = size});
  server.send(bytes_from("before"), soon()).value();
  EXPECT_FALSE(client.send(pattern(size, 0), deadline::after(50ms)));
  server.refuse("too long");
  EXPECT_EQ(client.send({}, soon()).error().code(), ENOTCONN);
  EXPECT_EQ(client.receive(soon()).value(), bytes_from("before"));
  EXPECT_THAT(client.receive(soon()).error().diagnosis(), HasSubstr("too long"));
  EXPECT_EQ(client.receive(soon()).error().code(), ENOTCONN);
}

TEST(stream, refusal_does_not_follow_a_part_of_a_frame) {
  constexpr std::size_t size = 64 << 20;
  auto [server, client] = connected({.max_blob_bytes = size});
  EXPECT_FALSE(client.send(pattern(size, 0), deadline::after(50ms)));
  client.refuse("no");
  client.shut_down();
  EXPECT_EQ(server.receive(soon()).error().code(), ECONNRESET);
}

TEST(stream, refusal_is_returned_to_a_sending_peer) {
  constexpr std::size_t size = 16 << 20;
  auto [server, client] = connected({.max_blob_bytes = size});
  {
    auto gone = std::move(server);
    gone.refuse("no");
  }
  const auto got = client.exchange(pattern(size, 3), soon());
  ASSERT_FALSE(got);
  EXPECT_THAT(got.error().code(), testing::AnyOf(ECONNABORTED, ECONNRESET));
}

// parity: rrddmma-108
TEST(stream, port_without_listener_returns_econnrefused) {
  std::uint16_t port = 0;
  {
    port = listen().port();
  }
  const auto made = bringup::stream::connect({.host = "127.0.0.1", .port = port}, soon());
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code(), ECONNREFUSED);
  EXPECT_THAT(made.error().message(), HasSubstr("127.0.0.1:" + std::to_string(port)));
  EXPECT_THAT(made.error().message(), HasSubstr("start the peer first"));
}

TEST(stream, unknown_host_is_named_in_the_error) {
  const auto made = bringup::stream::connect({.host = "no-such-host.invalid", .port = 1}, soon());
  ASSERT_FALSE(made);
  EXPECT_THAT(made.error().message(), HasSubstr("no-such-host.invalid"));
}

#ifdef REPLACES_THREAD_CREATION
TEST(stream, host_name_without_a_free_thread_returns_eagain) {
  threads_are_exhausted = true;
  const auto made = bringup::stream::connect({.host = "localhost", .port = 1}, soon());
  const auto listening = bringup::listener::open({.host = "localhost"});
  threads_are_exhausted = false;
  for (const auto* each :
       {made ? nullptr : &made.error(), listening ? nullptr : &listening.error()}) {
    ASSERT_NE(each, nullptr);
    EXPECT_EQ(each->code(), EAGAIN);
    EXPECT_THAT(each->message(), HasSubstr("pthread_create"));
  }
}
#endif

TEST(stream, connect_to_port_0_is_rejected) {
  const auto made = bringup::stream::connect({.host = "127.0.0.1"}, soon());
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().kind(), error_kind::invalid_argument);
}

/// A listening socket of another protocol, which sends `answer`.
struct other_service {
  verbena::test::loopback_listener listener;
  bringup::address where{.host = "127.0.0.1", .port = listener.port};

  [[nodiscard]] verbena::error error_of_client(std::span<const std::byte> answer) const {
    verbena::unique_fd accepted;
    std::thread answering([&] {
      accepted.reset(::accept4(listener.socket.get(), nullptr, nullptr, SOCK_CLOEXEC));
      send_bytes(accepted, answer);
      ::shutdown(accepted.get(), SHUT_WR);
    });
    auto made = bringup::stream::connect(where, soon());
    answering.join();
    return std::move(made).error();
  }
};

TEST(stream, server_of_another_protocol_is_named_in_the_error) {
  const auto why = other_service().error_of_client(verbena::bytes_of("220 mail ready\r\n"));
  EXPECT_EQ(why.kind(), error_kind::protocol);
  EXPECT_THAT(why.message(), HasSubstr("does not use Verbena's connection setup protocol"));
}

TEST(stream, server_of_another_version_returns_an_error) {
  const auto why =
      other_service().error_of_client(bringup::encode_greeting({.lowest = 7, .highest = 9}));
  EXPECT_EQ(why.kind(), error_kind::protocol);
  EXPECT_THAT(why.message(), HasSubstr("version 7 to 9"));
}

TEST(stream, server_closing_before_the_greeting_returns_an_error) {
  EXPECT_EQ(other_service().error_of_client({}).code(), ECONNRESET);
}

TEST(stream, silent_server_times_out) {
  const other_service silent;
  const auto made = bringup::stream::connect(silent.where, deadline::after(20ms));
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().kind(), error_kind::timed_out);
  EXPECT_THAT(made.error().message(), HasSubstr("sent no greeting in time"));
}

// The kernel uses the port of the peer as the local port: it chooses from two ports only. Returns
// 77 if a network namespace cannot be created, and 0 if each attempt was refused.
int connect_without_listener() {
  if (::unshare(CLONE_NEWNET) != 0 && ::unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) return 77;
  const verbena::unique_fd any(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq loopback{};
  std::strncpy(loopback.ifr_name, "lo", IFNAMSIZ - 1);
  loopback.ifr_flags = IFF_UP;
  if (::ioctl(any.get(), SIOCSIFFLAGS, &loopback) != 0) return 1;
  std::ofstream("/proc/sys/net/ipv4/ip_local_port_range") << "40000 40001";
  for (int attempt = 0; attempt < 20; ++attempt) {
    const auto made = bringup::stream::connect({.host = "127.0.0.1", .port = 40'000}, soon());
    if (made || made.error().code() != ECONNREFUSED) return 2;
  }
  return 0;
}

TEST(stream, connection_to_itself_is_refused) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(connect_without_listener());
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "this process cannot create a network namespace";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
