// SPDX-License-Identifier: MIT
#include "softdev/wire/socket/port_share.hpp"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "softdev/ipc/local_socket.hpp"
#include "tests/unit/softdev/wire/socket/wired_host.hpp"

namespace verbena::softdev::wire {
namespace {

using role = port_share::role;
constexpr time_ns longest_rest = 20'000'000;

bool is_readable(int fd) {
  pollfd which{.fd = fd, .events = POLLIN, .revents = 0};
  return ::poll(&which, 1, 0) == 1;
}

/// The owner of a port. The test provides the time.
class port_share_owner : public ::testing::Test {
 protected:
  port_share_owner() { EXPECT_EQ(owner->join().value(), role::owner); }
  [[nodiscard]] port_share process(std::uint32_t slot) const {
    return port_share::open(port, slot).value();
  }
  /// Advances the time to the next `serve`, by at most 1 ms.
  void serve() {
    now = std::min(owner->serve_at(), now + 1'000'000);
    owner->serve(now);
  }

  const std::uint16_t port = free_port();
  std::unique_ptr<port_share> owner = std::make_unique<port_share>(process(1));
  time_ns now = 1'000'000'000;
};

TEST_F(port_share_owner, process_is_a_client_when_the_owner_answered) {
  port_share client = process(2);
  EXPECT_EQ(client.join().value(), role::none);
  EXPECT_EQ(client.asked_process(), ::getpid());
  EXPECT_EQ(client.join().value(), role::none);
  EXPECT_EQ(owner->clients(), 0U);
  EXPECT_TRUE(is_readable(owner->fd()));
  serve();
  EXPECT_EQ(owner->clients(), 1U);
  EXPECT_EQ(client.join().value(), role::client);
  EXPECT_EQ(client.asked_process(), 0);
}

TEST_F(port_share_owner, process_takes_the_port_of_an_owner_that_ended_without_an_answer) {
  port_share client = process(2);
  EXPECT_EQ(client.join().value(), role::none);
  owner.reset();
  EXPECT_EQ(client.join().value(), role::none);
  EXPECT_EQ(client.join().value(), role::owner);
}

TEST_F(port_share_owner, change_of_the_user_before_the_answer_does_not_change_the_meeting_place) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can be another user";
  constexpr uid_t other_user = 54'323;
  port_share client = process(2);
  ASSERT_EQ(client.join().value(), role::none);
  serve();
  ASSERT_EQ(::seteuid(other_user), 0);
  const auto joined = client.join();
  ASSERT_EQ(::seteuid(0), 0);
  EXPECT_EQ(joined.value(), role::client);
  owner.reset();
  client.leave();
  EXPECT_EQ(client.join().value(), role::owner);
  port_share newcomer = process(3);
  const auto asked = newcomer.join();
  ASSERT_TRUE(asked) << asked.error().message();
  EXPECT_EQ(*asked, role::none);
  EXPECT_EQ(newcomer.asked_process(), ::getpid());
}

/// Sends a datagram to the port.
void send_datagram(std::uint16_t port, char payload) {
  const unique_fd sender(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(port);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(::sendto(sender.get(), &payload, 1, 0,
                     static_cast<const sockaddr*>(static_cast<const void*>(&to)), sizeof to),
            1);
}

TEST_F(port_share_owner, datagrams_that_arrive_between_two_owners_are_not_lost) {
  port_share client = process(2);
  EXPECT_EQ(client.join().value(), role::none);
  serve();
  ASSERT_EQ(client.join().value(), role::client);
  send_datagram(port, 'a');
  owner.reset();
  send_datagram(port, 'b');
  client.leave();
  ASSERT_EQ(client.join().value(), role::owner);
  for (const char expected : {'a', 'b'}) {
    char payload = 0;
    EXPECT_EQ(::recv(client.source(), &payload, 1, MSG_DONTWAIT), 1);
    EXPECT_EQ(payload, expected);
  }
}

TEST_F(port_share_owner, process_does_not_get_the_port_before_the_clients_of_the_former_owner) {
  port_share client = process(2);
  EXPECT_EQ(client.join().value(), role::none);
  serve();
  ASSERT_EQ(client.join().value(), role::client);
  owner.reset();
  port_share newcomer = process(3);
  const auto refused = newcomer.join();
  ASSERT_FALSE(refused.has_value());
  EXPECT_TRUE(port_share::is_bound_elsewhere(refused.error())) << refused.error().message();
  client.leave();
  ASSERT_EQ(client.join().value(), role::owner);
  EXPECT_EQ(newcomer.join().value(), role::none);
  client.serve(now);
  EXPECT_EQ(newcomer.join().value(), role::client);
}

/// Two clients of the owner, which has ended.
class port_share_clients : public port_share_owner {
 protected:
  port_share_clients() {
    for (port_share* const each : {&first, &second}) {
      EXPECT_EQ(each->join().value(), role::none);
      owner->serve(now);
      now += longest_rest;
      EXPECT_EQ(each->join().value(), role::client);
    }
    owner.reset();
    first.leave();
    second.leave();
  }
  /// `second` becomes a client of `first`, so there are no two owners of one socket.
  void expect_one_owner() {
    ASSERT_EQ(first.now(), role::owner);
    EXPECT_EQ(second.join().value(), role::none);
    first.serve(now);
    EXPECT_EQ(second.join().value(), role::client);
  }

  port_share first = process(2);
  port_share second = process(3);
};

TEST_F(port_share_clients, change_of_the_user_does_not_make_two_owners) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can be another user";
  constexpr uid_t other_user = 54'323;
  ASSERT_EQ(::seteuid(other_user), 0);
  const auto joined = first.join();
  ASSERT_EQ(::seteuid(0), 0);
  EXPECT_EQ(joined.value(), role::owner);
  const auto refused = second.join();
  ASSERT_FALSE(refused.has_value()) << "its owner is another user";
  EXPECT_EQ(refused.error().code(), EADDRINUSE);
}

TEST_F(port_share_clients, thread_in_another_network_namespace_does_not_become_an_owner) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can enter a network namespace here";
  bool has_moved = false;
  std::optional<result<role>> joined;
  std::thread([&] {
    has_moved = ::unshare(CLONE_NEWNET) == 0;
    if (has_moved) joined = second.join();
  }).join();
  if (!has_moved) GTEST_SKIP() << "this process cannot create a network namespace";
  ASSERT_FALSE(joined->has_value());
  EXPECT_EQ(joined->error().code(), ENETUNREACH);
  EXPECT_NE(joined->error().message().find("setns"), std::string::npos);
  ASSERT_EQ(first.join().value(), role::owner);
  expect_one_owner();
}

TEST_F(port_share_clients, answer_without_a_descriptor_does_not_close_the_socket) {
  {
    owner_without_descriptor next(port);
    EXPECT_EQ(first.join().value(), role::none);
    next.answer();
    ASSERT_EQ(first.join().value(), role::client);
    second.close_own();  // `first` alone has the socket
    send_datagram(port, 'a');
  }
  first.leave();
  ASSERT_EQ(first.join().value(), role::owner);
  char payload = 0;
  EXPECT_EQ(::recv(first.source(), &payload, 1, MSG_DONTWAIT), 1);
  EXPECT_EQ(payload, 'a');
}

TEST_F(port_share_clients, descriptors_of_an_unexpected_answer_are_closed) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  const unique_fd reader(ends[0]);
  unique_fd writer(ends[1]);
  owner_without_descriptor next(port);
  EXPECT_EQ(first.join().value(), role::none);
  next.answer_with({writer.get(), writer.get()});
  EXPECT_EQ(first.join().value(), role::client);
  writer.reset();
  char byte = 0;
  pollfd closed{.fd = reader.get(), .events = POLLIN, .revents = 0};
  ASSERT_EQ(::poll(&closed, 1, 0), 1) << "the pipe is still open for writing";
  EXPECT_EQ(::read(reader.get(), &byte, 1), 0);
}

TEST_F(port_share_owner, port_is_free_when_all_processes_have_ended) {
  {
    port_share client = process(2);
    EXPECT_EQ(client.join().value(), role::none);
    serve();
    ASSERT_EQ(client.join().value(), role::client);
    owner.reset();
  }
  port_share next = process(3);
  EXPECT_EQ(next.join().value(), role::owner);
}

TEST_F(port_share_owner, owner_sleeps_after_it_served) {
  port_share client = process(2);
  EXPECT_EQ(client.join().value(), role::none);
  serve();
  EXPECT_FALSE(is_readable(owner->fd()));
  EXPECT_EQ(owner->serve_at(), now + 1'000'000);
  {
    // The owner notices the end of the client in its next `serve`.
    const port_share gone = std::move(client);
  }
  EXPECT_FALSE(is_readable(owner->fd()));
  serve();
  EXPECT_EQ(owner->clients(), 0U);
  serve();
  EXPECT_EQ(owner->serve_at(), never);
  EXPECT_FALSE(is_readable(owner->fd()));
}

/// While it exists, the process cannot open descriptors.
class full_table {
 public:
  full_table() {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const int lowest = ::dup(STDERR_FILENO);
    ::close(lowest);
    const rlimit full{static_cast<rlim_t>(lowest), before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &full), 0);
  }
  ~full_table() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  full_table(const full_table&) = delete;
  full_table& operator=(const full_table&) = delete;

 private:
  rlimit before_{};
};

TEST_F(port_share_owner, owner_without_free_descriptors_sleeps_and_admits_later) {
  port_share client = process(2);
  EXPECT_EQ(client.join().value(), role::none);
  {
    const full_table table;
    for (int i = 0; i < 3; ++i) {
      owner->serve(now);
      EXPECT_FALSE(is_readable(owner->fd()));
      EXPECT_EQ(owner->serve_at(), now + longest_rest);
      owner->serve(now + longest_rest - 1);
      EXPECT_EQ(owner->serve_at(), now + longest_rest) << "served within the rest";
      now = owner->serve_at();
    }
    EXPECT_EQ(client.join().value(), role::none);
  }
  owner->serve(now);
  EXPECT_EQ(client.join().value(), role::client);
}

TEST_F(port_share_owner, connections_of_another_user_are_closed_and_make_the_owner_rest) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can be another user";
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  constexpr std::size_t count = 10;
  const pid_t stranger = ::fork();
  if (stranger == 0) {
    constexpr uid_t other_user = 54'323;
    const local_name name("verbena-wire.0.%u", static_cast<unsigned>(port));
    if (::setuid(other_user) != 0) ::_exit(1);
    std::vector<unique_fd> connected;
    for (std::size_t i = 0; i < count; ++i) {
      connected.push_back(new_local_socket().socket);
      if (::connect(connected.back().get(), name.get(), name.length()) != 0) ::_exit(2);
    }
    ::_exit(::write(ends[1], "x", 1) == 1 && ::read(connected.back().get(), ends.data(), 1) <= 0
                ? 0
                : 3);
  }
  char word = 0;
  ASSERT_EQ(::read(ends[0], &word, 1), 1);
  port_share client = process(2);
  EXPECT_EQ(client.join().value(), role::none);
  owner->serve(now);
  EXPECT_FALSE(is_readable(owner->fd()));
  EXPECT_EQ(owner->serve_at(), now + longest_rest);
  EXPECT_EQ(client.join().value(), role::client) << "the client was behind the others";
  int status = -1;
  EXPECT_EQ(::waitpid(stranger, &status, 0), stranger);
  EXPECT_EQ(status, 0);
  ::close(ends[0]);
  ::close(ends[1]);
}

}  // namespace
}  // namespace verbena::softdev::wire
