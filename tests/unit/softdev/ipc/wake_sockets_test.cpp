// SPDX-License-Identifier: MIT
// Signals between processes that may be malicious: each test does to a sender's end what its holder
// can do. The alarm of CTest's time limit ends a call that blocks.
#include "softdev/ipc/wake_sockets.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>

namespace verbena::softdev {
namespace {

constexpr int honest = 0;
constexpr int hostile = 0;

bool readable(int fd) {
  pollfd look{fd, POLLIN, 0};
  return ::poll(&look, 1, 0) == 1;
}

// Sends until the socket is full. Returns how many signals there was room for.
int fill(int fd) {
  int sent = 0;
  while (::send(fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1) ++sent;
  return sent;
}

struct two_senders {
  std::unique_ptr<wake_receiver> receiver = wake_receiver::create().value();
  unique_fd by_honest = receiver->admit(&honest).value();
  unique_fd by_hostile = receiver->admit(&hostile).value();

  void take_all() const {
    for (int i = 0; i < 10'000 && receiver->take(); ++i) {
    }
    EXPECT_FALSE(readable(receiver->fd()));
  }
};

TEST(wake_sockets, receiver_is_readable_from_signal_to_take) {
  two_senders s;
  EXPECT_FALSE(s.receiver->take());
  EXPECT_FALSE(readable(s.receiver->fd()));
  for (const int fd : {s.by_honest.get(), s.by_hostile.get()}) {
    signal_wake_socket(fd);
    EXPECT_TRUE(readable(s.receiver->fd()));
    EXPECT_TRUE(s.receiver->take());
    EXPECT_FALSE(readable(s.receiver->fd()));
  }
  s.receiver->signal();
  EXPECT_TRUE(readable(s.receiver->fd()));
  EXPECT_TRUE(s.receiver->take());
  EXPECT_FALSE(s.receiver->take());
}

TEST(wake_sockets, wait_ends_by_a_signal_a_watched_descriptor_or_its_timeout) {
  two_senders s;
  const unique_fd other(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  ASSERT_TRUE(s.receiver->watch(other.get(), 5));
  EXPECT_EQ(s.receiver->watch(other.get(), 6).error().code(), EEXIST);
  const auto begin = std::chrono::steady_clock::now();
  const auto nothing = s.receiver->wait(std::chrono::microseconds(1500));
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::microseconds(1500));
  EXPECT_FALSE(nothing.signaled);
  EXPECT_EQ(nothing.watched, 0U);
  EXPECT_EQ(nothing.failed, 0);

  signal_wake_socket(s.by_honest.get());
  const auto signaled = s.receiver->wait(wake_receiver::forever);
  EXPECT_TRUE(signaled.signaled);
  EXPECT_EQ(signaled.watched, 0U);
  ASSERT_EQ(::eventfd_write(other.get(), 1), 0);
  EXPECT_FALSE(s.receiver->take()) << "a watched descriptor is not a signal";
  const auto watched = s.receiver->wait(wake_receiver::forever);
  EXPECT_FALSE(watched.signaled);
  EXPECT_EQ(watched.watched, 1U << 5);
  EXPECT_TRUE(readable(s.receiver->fd())) << "it stays readable until its owner has read it";
}

TEST(wake_sockets, other_descriptors_are_refused) {
  two_senders s;
  EXPECT_TRUE(is_wake_socket(s.by_honest.get()));
  const unique_fd counter(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  const unique_fd file(::open("/dev/null", O_RDWR | O_CLOEXEC));
  const unique_fd stream(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const unique_fd network(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  EXPECT_FALSE(is_wake_socket(counter.get()));
  EXPECT_FALSE(is_wake_socket(file.get()));
  EXPECT_FALSE(is_wake_socket(stream.get()));
  EXPECT_FALSE(is_wake_socket(network.get()));
  EXPECT_FALSE(is_wake_socket(-1));
}

TEST(wake_sockets, signal_to_a_full_socket_made_blocking_returns) {
  two_senders s;
  const unique_fd other_holder(::fcntl(s.by_honest.get(), F_DUPFD_CLOEXEC, 0));
  ASSERT_EQ(::fcntl(other_holder.get(), F_SETFL, 0), 0);
  EXPECT_GT(fill(other_holder.get()), 0);
  signal_wake_socket(s.by_honest.get());
  EXPECT_TRUE(readable(s.receiver->fd()));
  s.take_all();
  signal_wake_socket(s.by_honest.get());
  EXPECT_TRUE(s.receiver->take());
}

TEST(wake_sockets, full_socket_of_one_sender_does_not_lose_the_signal_of_another) {
  two_senders s;
  ASSERT_EQ(::fcntl(s.by_hostile.get(), F_SETFL, 0), 0);
  fill(s.by_hostile.get());
  signal_wake_socket(s.by_honest.get());
  EXPECT_TRUE(s.receiver->take());
  s.take_all();
  signal_wake_socket(s.by_honest.get());
  EXPECT_TRUE(readable(s.receiver->fd()));
}

TEST(wake_sockets, sender_cannot_take_signals) {
  two_senders s;
  signal_wake_socket(s.by_honest.get());
  signal_wake_socket(s.by_hostile.get());
  char byte = 0;
  EXPECT_LT(::recv(s.by_hostile.get(), &byte, 1, MSG_DONTWAIT), 0);
  EXPECT_LT(::recv(s.by_honest.get(), &byte, 1, MSG_DONTWAIT), 0);
  EXPECT_TRUE(readable(s.receiver->fd()));
}

TEST(wake_sockets, sender_that_shuts_down_is_forgotten) {
  two_senders s;
  EXPECT_TRUE(s.receiver->serves(&hostile));
  ASSERT_EQ(::shutdown(s.by_hostile.get(), SHUT_RDWR), 0);
  s.take_all();
  EXPECT_FALSE(s.receiver->serves(&hostile));
  EXPECT_TRUE(s.receiver->serves(&honest));
  signal_wake_socket(s.by_hostile.get());  // raises no SIGPIPE
  signal_wake_socket(s.by_honest.get());
  EXPECT_TRUE(s.receiver->take());
  s.by_honest.reset();
  EXPECT_FALSE(s.receiver->serves(&honest));
  s.take_all();
}

TEST(wake_sockets, empty_and_long_messages_do_not_stay) {
  two_senders s;
  const char text[4096] = {};
  ASSERT_EQ(::send(s.by_hostile.get(), text, sizeof text, 0), 4096);
  s.take_all();
  ASSERT_EQ(::send(s.by_hostile.get(), text, 0, 0), 0);
  s.take_all();
}

TEST(wake_sockets, new_end_of_a_sender_replaces_the_old_one) {
  two_senders s;
  const unique_fd again = s.receiver->admit(&honest).value();
  signal_wake_socket(s.by_honest.get());
  EXPECT_FALSE(readable(s.receiver->fd()));
  signal_wake_socket(again.get());
  EXPECT_TRUE(s.receiver->take());
  s.receiver->dismiss(&honest);
  signal_wake_socket(again.get());
  EXPECT_FALSE(readable(s.receiver->fd()));
}

}  // namespace
}  // namespace verbena::softdev
