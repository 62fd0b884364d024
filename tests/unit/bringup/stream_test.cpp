// SPDX-License-Identifier: MIT
#include "verbena/bringup/stream.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <poll.h>

#include <cerrno>

#include "tests/unit/bringup/peers.hpp"

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

TEST(stream, carries_blobs_both_ways) {
  auto [server, client] = connected();
  client.send(bytes_from("question"), soon()).value();
  client.send({}, soon()).value();
  EXPECT_EQ(server.receive(soon()).value(), bytes_from("question"));
  EXPECT_TRUE(server.receive(soon()).value().empty());
  server.send(bytes_from("answer"), soon()).value();
  EXPECT_EQ(client.receive(soon()).value(), bytes_from("answer"));
  EXPECT_EQ(client.version(), bringup::spoken_versions.highest);
  EXPECT_EQ(server.version(), bringup::spoken_versions.highest);
}

TEST(stream, exchanges_blobs_larger_than_the_socket_buffers_on_both_sides_at_once) {
  constexpr std::size_t size = 32 << 20;
  auto [server, client] = connected({.max_blob_bytes = size});
  verbena::result<bytes> at_client = bytes{};
  std::thread other([&, &end = client] { at_client = end.exchange(pattern(size, 1), soon()); });
  const auto at_server = server.exchange(pattern(size, 2), soon());
  other.join();
  EXPECT_TRUE(at_server.value() == pattern(size, 1));
  EXPECT_TRUE(at_client.value() == pattern(size, 2));
}

TEST(stream, takes_a_blob_that_arrives_byte_by_byte) {
  auto [server, raw] = accepted_raw();
  std::thread dribble([&, &socket = raw] {
    for (const auto byte : bringup::encode_frame(bringup::frame_type::blob, bytes_from("slowly")))
      say(socket, std::span(&byte, 1));
  });
  EXPECT_EQ(server.receive(soon()).value(), bytes_from("slowly"));
  dribble.join();
}

TEST(stream, reads_nothing_beyond_the_frame) {
  auto [server, client] = connected();
  client.send(bytes_from("framed"), soon()).value();
  const auto loose = bytes_from("loose");
  ASSERT_EQ(::send(client.fd(), loose.data(), loose.size(), MSG_NOSIGNAL), 5);
  EXPECT_EQ(server.receive(soon()).value(), bytes_from("framed"));
  bytes got(16);
  ASSERT_TRUE(verbena::wait_for_fd(server.fd(), POLLIN, soon()).value());
  EXPECT_EQ(::recv(server.fd(), got.data(), got.size(), 0), 5);
}

TEST(stream, reports_a_silent_peer_when_the_deadline_passes) {
  auto [server, client] = connected();
  const auto got = server.receive(deadline::after(1ms));
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().kind(), error_kind::timed_out);
  EXPECT_THAT(got.error().diagnosis(), HasSubstr("did not answer in time"));
  EXPECT_FALSE(got.error().object().empty());
  // What comes later would be taken for another answer: the stream is finished.
  client.send(bytes_from("late"), soon()).value();
  const auto next = server.receive(soon());
  ASSERT_FALSE(next);
  EXPECT_EQ(next.error().code(), ENOTCONN);
}

TEST(stream, keeps_its_deadline_against_a_peer_that_dribbles) {
  auto [server, raw] = accepted_raw();
  const auto frame = bringup::encode_frame(bringup::frame_type::blob, bytes_from("never whole"));
  say(raw, std::span(frame).first(frame.size() - 1));
  const auto got = server.receive(deadline::after(50ms));
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().kind(), error_kind::timed_out);
  EXPECT_THAT(got.error().diagnosis(), HasSubstr("stopped in the middle"));
}

TEST(stream, keeps_its_deadline_against_a_peer_that_does_not_read) {
  constexpr std::size_t size = 64 << 20;
  auto [server, client] = connected({.max_blob_bytes = size});
  const auto sent = client.send(pattern(size, 0), deadline::after(50ms));
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().kind(), error_kind::timed_out);
  EXPECT_EQ(client.send({}, soon()).error().code(), ENOTCONN);
}

TEST(stream, names_a_peer_that_closed) {
  auto [server, raw] = accepted_raw();
  raw.reset();
  const auto got = server.receive(soon());
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code(), ECONNRESET);
  EXPECT_THAT(got.error().diagnosis(), HasSubstr("closed the connection"));
}

TEST(stream, names_a_peer_that_closed_in_the_middle_of_a_frame) {
  auto [server, raw] = accepted_raw();
  const auto frame = bringup::encode_frame(bringup::frame_type::blob, bytes_from("x"));
  say(raw, std::span(frame).first(8));
  raw.reset();
  EXPECT_EQ(server.receive(soon()).error().code(), ECONNRESET);
}

TEST(stream, names_garbage_where_a_frame_was_due) {
  auto [server, raw] = accepted_raw();
  say(raw, verbena::bytes_of("GET / HTTP/1.1\r\n\r\n"));
  const auto got = server.receive(soon());
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().kind(), error_kind::protocol);
  EXPECT_THAT(got.error().diagnosis(), HasSubstr("47 45 54 20"));
}

TEST(stream, refuses_an_announced_length_before_it_allocates) {
  auto [server, raw] = accepted_raw();
  const bytes header = {std::byte{1}, {}, {}, {}, std::byte{0x7f}, {}, {}, {}};
  say(raw, header);
  const auto got = server.receive(soon());
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().kind(), error_kind::protocol);
  EXPECT_THAT(got.error().diagnosis(), HasSubstr("at most 65536"));
}

TEST(stream, refuses_to_send_what_the_peer_would_refuse) {
  auto [server, client] = connected({.max_blob_bytes = 10});
  const auto sent = client.send(bytes(11), soon());
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().kind(), error_kind::invalid_argument);
  client.send(bytes(10), soon()).value();  // it did no harm
  EXPECT_EQ(server.receive(soon()).value(), bytes(10));
}

TEST(stream, names_calls_that_do_not_match) {
  auto [server, client] = connected();
  client.send(bytes_from("a blob"), soon()).value();
  const auto got = server.exchange(bringup::frame_type::endpoint, {}, soon());
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().kind(), error_kind::protocol);
  EXPECT_THAT(got.error().diagnosis(), HasSubstr("`blob` where `endpoint` was due"));
}

TEST(stream, passes_on_why_the_peer_gave_up) {
  auto [server, client] = connected();
  server.refuse("the disk is full: free some space");
  const auto got = client.receive(soon());
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code(), ECONNABORTED);
  EXPECT_THAT(got.error().diagnosis(), HasSubstr("the disk is full: free some space"));
  EXPECT_EQ(server.receive(soon()).error().code(), ENOTCONN);
}

TEST(stream, passes_on_why_the_peer_gave_up_even_to_one_who_is_sending) {
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

TEST(stream, names_a_port_where_nobody_listens) {
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

TEST(stream, names_a_host_that_does_not_exist) {
  const auto made = bringup::stream::connect({.host = "no-such-host.invalid", .port = 1}, soon());
  ASSERT_FALSE(made);
  EXPECT_THAT(made.error().message(), HasSubstr("no-such-host.invalid"));
}

TEST(stream, wants_a_port) {
  const auto made = bringup::stream::connect({.host = "127.0.0.1"}, soon());
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().kind(), error_kind::invalid_argument);
}

/// A listening socket of somebody else's, which accepts in the kernel and says `answer`.
struct other_service {
  verbena::unique_fd socket{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  bringup::address where{.host = "127.0.0.1"};

  other_service() {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = verbena::network_order(std::uint32_t{INADDR_LOOPBACK});
    socklen_t length = sizeof at;
    void* name = &at;
    if (::bind(socket.get(), static_cast<sockaddr*>(name), length) != 0 ||
        ::listen(socket.get(), 4) != 0 ||
        ::getsockname(socket.get(), static_cast<sockaddr*>(name), &length) != 0)
      std::abort();
    where.port = verbena::network_order(at.sin_port);
  }
  [[nodiscard]] verbena::error error_of_client(std::span<const std::byte> answer) const {
    verbena::unique_fd accepted;
    std::thread answering([&] {
      accepted.reset(::accept4(socket.get(), nullptr, nullptr, SOCK_CLOEXEC));
      say(accepted, answer);
      ::shutdown(accepted.get(), SHUT_WR);
    });
    auto made = bringup::stream::connect(where, soon());
    answering.join();
    return std::move(made).error();
  }
};

TEST(stream, names_a_server_that_speaks_something_else) {
  const auto why = other_service().error_of_client(verbena::bytes_of("220 mail ready\r\n"));
  EXPECT_EQ(why.kind(), error_kind::protocol);
  EXPECT_THAT(why.message(), HasSubstr("does not speak Verbena's bring-up"));
}

TEST(stream, names_a_server_of_another_version) {
  const auto why =
      other_service().error_of_client(bringup::encode_greeting({.lowest = 7, .highest = 9}));
  EXPECT_EQ(why.kind(), error_kind::protocol);
  EXPECT_THAT(why.message(), HasSubstr("version 7 to 9"));
}

TEST(stream, names_a_server_that_closes_before_it_greets) {
  EXPECT_EQ(other_service().error_of_client({}).code(), ECONNRESET);
}

TEST(stream, names_a_server_that_accepts_and_says_nothing) {
  const other_service silent;
  const auto made = bringup::stream::connect(silent.where, deadline::after(20ms));
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().kind(), error_kind::timed_out);
  EXPECT_THAT(made.error().message(), HasSubstr("said nothing in time"));
}

}  // namespace
