// SPDX-License-Identifier: MIT
// Slots and messages.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "softdev/ipc/eventfd.hpp"
#include "softdev/peers/pairing_message.hpp"
#include "softdev/peers/slot_claim.hpp"
#include "softdev/shm/sealed_memory.hpp"
#include "softdev/shm/segment_layout.hpp"
#include "tests/unit/softdev/peers/link_pair.hpp"
#include "tests/unit/softdev/peers/other_users.hpp"

namespace verbena::softdev {
namespace {

struct socket_pair {
  unique_fd left;
  unique_fd right;
  socket_pair() {
    std::array<int, 2> ends{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
    left.reset(ends[0]);
    right.reset(ends[1]);
  }
};

std::size_t open_descriptors() {
  std::size_t count = 0;
  for (int fd = 0; fd < 512; ++fd) {
    if (::fcntl(fd, F_GETFD) >= 0) ++count;
  }
  return count;
}

/// Sends raw bytes with descriptors, as a malicious process could.
void send_raw(int socket, std::span<const std::byte> bytes, std::span<const int> descriptors) {
  iovec data{const_cast<std::byte*>(bytes.data()), bytes.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(64 * sizeof(int))> control{};
  msghdr header{};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  if (!descriptors.empty()) {
    header.msg_control = control.data();
    header.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
    cmsghdr* part = CMSG_FIRSTHDR(&header);
    ASSERT_NE(part, nullptr);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(descriptors.size_bytes());
    std::memcpy(CMSG_DATA(part), descriptors.data(), descriptors.size_bytes());
  }
  ASSERT_GE(::sendmsg(socket, &header, MSG_NOSIGNAL), 0);
}

TEST(rendezvous, slot_is_free_after_its_owner_was_killed) {
  testing::child owner([](int to_parent) {
    const auto claim = slot_claim::take().value();
    testing::send_value(to_parent, claim.slot());
    ::pause();
    return 0;
  });
  const auto slot = owner.read<std::uint32_t>();
  auto there = connect_to_slot(slot);
  EXPECT_EQ(there.error, 0);
  EXPECT_EQ(identify_peer(there.socket.get()).pid, owner.pid());
  EXPECT_TRUE(identify_peer(there.socket.get()).same_user);
  owner.send(SIGKILL);
  EXPECT_EQ(owner.wait(), -SIGKILL);
  EXPECT_EQ(connect_to_slot(slot).error, ECONNREFUSED);
}

TEST(rendezvous, process_of_another_user_is_refused_on_both_sides) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can change its user";
  auto claim = slot_claim::take().value();
  testing::child other([&](int to_parent) {
    // The process connects to the slot of root …
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const int length = std::snprintf(address.sun_path + 1, sizeof address.sun_path - 1,
                                     "verbena-soft0.0.%u", claim.slot());
    if (::setuid(65534) != 0) return 1;
    const unique_fd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 +
                                             static_cast<std::size_t>(length));
    const auto* name = static_cast<const sockaddr*>(static_cast<const void*>(&address));
    if (::connect(socket.get(), name, size) != 0) return 2;
    testing::send_value(to_parent, 1);
    char byte = 0;
    // … and the owner closes the connection without a message.
    return ::recv(socket.get(), &byte, 1, 0) == 0 ? 0 : 3;
  });
  EXPECT_EQ(other.read<int>(), 1);
  EXPECT_FALSE(claim.accept());
  EXPECT_EQ(other.wait(), 0);

  // A slot that another user has bound under a name of this user is not used.
  testing::child squatter([](int to_parent) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const unique_fd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    if (::setuid(65534) != 0) return 1;
    for (std::uint32_t slot = 0; slot < slot_count; ++slot) {
      const int length = std::snprintf(address.sun_path + 1, sizeof address.sun_path - 1,
                                       "verbena-soft0.0.%u", slot);
      const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 +
                                               static_cast<std::size_t>(length));
      const auto* name = static_cast<const sockaddr*>(static_cast<const void*>(&address));
      if (::bind(socket.get(), name, size) != 0) continue;
      if (::listen(socket.get(), 1) != 0) return 2;
      testing::send_value(to_parent, slot);
      ::pause();
    }
    return 3;
  });
  EXPECT_EQ(connect_to_slot(squatter.read<std::uint32_t>()).error, EACCES);
}

using testing::crowded_user;
using testing::public_slots;
using reason = std::array<char, 1024>;

// Takes the names that are left to the crowded user as that user; returns the message of the claim
// that then fails.
reason refusal_of_crowded_user(std::size_t squatted) {
  testing::forget_home();
  testing::child crowded([&](int to_parent) {
    if (::setuid(crowded_user()) != 0) return 1;
    std::vector<slot_claim> claims;
    for (std::size_t left = public_slots().size() - squatted; left != 0; --left) {
      auto claimed = slot_claim::take();
      if (!claimed) return 2;
      claims.push_back(*std::move(claimed));
    }
    const auto refused = slot_claim::take();
    if (refused) return 3;
    const std::string text = refused.error().message() + " my pid is " + std::to_string(::getpid());
    reason out{};
    text.copy(out.data(), out.size() - 1);
    testing::send_value(to_parent, out);
    return 0;
  });
  const auto said = crowded.read<reason>();
  EXPECT_EQ(crowded.wait(), 0);
  return said;
}

TEST(rendezvous, refusal_lists_pids_of_this_user) {
  const int status = testing::as_root([] {
    const std::string said = refusal_of_crowded_user(0).data();
    const std::string pid = said.substr(said.find("my pid is ") + 10);
    const std::string all = std::to_string(public_slots().size());
    EXPECT_NE(said.find(all + " by this user (pid " + pid + ")"), std::string::npos) << said;
    EXPECT_EQ(said.find("other users ("), std::string::npos) << said;
  });
  if (status == testing::skipped) GTEST_SKIP() << "only root can change its user";
  EXPECT_EQ(status, 0);
}

TEST(rendezvous, refusal_tells_names_taken_by_other_users) {
  const int status = testing::as_root([] {
    const std::size_t count = public_slots().size() - 4;
    const testing::squatter other(count);
    const std::string said = refusal_of_crowded_user(count).data();
    EXPECT_NE(said.find("4 by this user (pid "), std::string::npos) << said;
    EXPECT_NE(said.find(std::to_string(count) + " by other users (user 54322 pid " +
                        std::to_string(other.pid())),
              std::string::npos)
        << said;
    EXPECT_NE(said.find("HOME is not set"), std::string::npos) << said;
  });
  if (status == testing::skipped) GTEST_SKIP() << "only root can change its user";
  EXPECT_EQ(status, 0);
}

TEST(rendezvous, refusal_tells_names_without_a_listener) {
  const int status = testing::as_root([] {
    const std::size_t count = public_slots().size();
    const testing::squatter other(count, false);
    const std::string said = refusal_of_crowded_user(count).data();
    EXPECT_NE(said.find(std::to_string(count) + " by processes that do not answer"),
              std::string::npos)
        << said;
    EXPECT_EQ(said.find("by this user"), std::string::npos) << said;
  });
  if (status == testing::skipped) GTEST_SKIP() << "only root can change its user";
  EXPECT_EQ(status, 0);
}

// Two users that are not mapped in the user namespace: both appear as user 65534.
TEST(rendezvous, users_without_a_mapping_cannot_connect) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can change its user";
  const auto become = [](uid_t user) {
    // A process that has changed its user is not dumpable, so its files in /proc belong to root.
    return ::setuid(user) == 0 && ::unshare(CLONE_NEWUSER) == 0;
  };
  testing::child owner([&](int to_parent) {
    if (!become(1001)) {
      testing::send_value(to_parent, slot_count);
      return 77;
    }
    auto claim = slot_claim::take().value();
    testing::send_value(to_parent, claim.slot());
    pollfd waiting{claim.fd(), POLLIN, 0};
    if (::poll(&waiting, 1, 30'000) != 1) return 1;
    return claim.accept() ? 2 : 0;
  });
  const auto slot = owner.read<std::uint32_t>();
  if (slot == slot_count) {
    EXPECT_EQ(owner.wait(), 77);
    GTEST_SKIP() << "this process cannot enter a user namespace";
  }
  testing::child other([&](int to_parent) {
    if (!become(1002)) return 77;
    testing::send_value(to_parent, own_user_is_identified() ? 1 : 0);
    testing::send_value(to_parent, connect_to_slot(slot).error);
    return 0;
  });
  EXPECT_EQ(other.read<int>(), 0);
  EXPECT_EQ(other.read<int>(), EACCES);
  EXPECT_EQ(other.wait(), 0);
  EXPECT_EQ(owner.wait(), 0) << "2: the owner accepted the connection";
}

TEST(rendezvous, user_of_the_host_is_identified) {
  testing::child nobody([](int) {
    if (::geteuid() == 0 && ::setuid(65534) != 0) return 1;
    return own_user_is_identified() ? 0 : 2;
  });
  EXPECT_EQ(nobody.wait(), 0);
}

TEST(rendezvous, accept_without_waiting_peer_returns_empty) {
  auto claim = slot_claim::take().value();
  EXPECT_FALSE(claim.accept());
  auto made = connect_to_slot(claim.slot());
  ASSERT_EQ(made.error, 0);
  EXPECT_TRUE(claim.accept());
  EXPECT_FALSE(claim.accept());
}

TEST(rendezvous, message_arrives_unchanged) {
  socket_pair sockets;
  const unique_fd event = create_eventfd().value();
  link_message out{.kind = message_kind::give_arena, .id = 77, .bytes = 4096};
  const int fd = event.get();
  ASSERT_EQ(send_message(sockets.left.get(), out, {&fd, 1}), send_status::sent);
  auto got = receive_message(sockets.right.get());
  ASSERT_EQ(got.status, receive_status::received);
  EXPECT_EQ(got.message.kind, message_kind::give_arena);
  EXPECT_EQ(got.message.id, 77U);
  EXPECT_EQ(got.message.bytes, 4096U);
  ASSERT_TRUE(got.descriptors[0]);
  EXPECT_TRUE((::fcntl(got.descriptors[0].get(), F_GETFD) & FD_CLOEXEC) != 0);
  signal_eventfd(got.descriptors[0].get());
  EXPECT_TRUE(testing::readable(event.get()));
  EXPECT_EQ(receive_message(sockets.right.get()).status, receive_status::empty);
  sockets.left.reset();
  EXPECT_EQ(receive_message(sockets.right.get()).status, receive_status::closed);
}

TEST(rendezvous, sending_never_blocks) {
  socket_pair sockets;
  const link_message message{.kind = message_kind::ask_arena, .id = 1};
  send_status status = send_status::sent;
  for (int i = 0; i < 100'000 && status == send_status::sent; ++i) {
    status = send_message(sockets.left.get(), message, {});
  }
  EXPECT_EQ(status, send_status::full);
  sockets.right.reset();
  EXPECT_EQ(send_message(sockets.left.get(), message, {}), send_status::closed);
}

TEST(rendezvous, malformed_message_is_refused_and_its_descriptors_are_closed) {
  socket_pair sockets;
  const unique_fd event = create_eventfd().value();
  const std::size_t before = open_descriptors();
  const std::vector<int> many(40, event.get());
  std::array<std::byte, 300> bytes{};
  const auto check = [&](std::size_t size, std::size_t descriptors) {
    send_raw(sockets.left.get(), std::span(bytes).first(size), std::span(many).first(descriptors));
    EXPECT_EQ(receive_message(sockets.right.get()).status, receive_status::malformed)
        << size << " bytes, " << descriptors << " descriptors";
    EXPECT_EQ(open_descriptors(), before) << size << " bytes, " << descriptors << " descriptors";
  };
  check(128, 0);  // no magic number
  check(1, 3);
  check(300, 2);  // too long
  check(128, 40);
  // A valid message with one invalid field at a time.
  const auto good = [&](message_kind kind) {
    EXPECT_EQ(send_message(sockets.left.get(), {.kind = kind, .id = 1}, {}), send_status::sent);
    EXPECT_EQ(::recv(sockets.right.get(), bytes.data(), bytes.size(), 0), 128);
  };
  good(message_kind::ask_arena);
  check(128, 1);  // one descriptor too many
  check(127, 0);
  check(128, 40);
  good(message_kind::give_arena);
  check(128, 0);  // one descriptor too few
  check(128, 2);
  good(message_kind::ask_arena);
  bytes[12] = std::byte{200};  // kind
  check(128, 0);
  good(message_kind::ask_arena);
  bytes[8] = std::byte{layout_version + 1};  // another version may only send a hello message
  check(128, 0);
}

TEST(rendezvous, hello_of_another_version_is_received_without_content) {
  socket_pair sockets;
  std::array<std::byte, 128> bytes{};
  const link_message refusal{.kind = message_kind::refuse_version, .id = 5};
  ASSERT_EQ(send_message(sockets.left.get(), refusal, {}), send_status::sent);
  ASSERT_EQ(::recv(sockets.right.get(), bytes.data(), bytes.size(), 0), 128);
  bytes[8] = std::byte{layout_version + 1};
  bytes[12] = std::byte{1};  // hello
  const unique_fd event = create_eventfd().value();
  const std::size_t before = open_descriptors();
  const std::array<int, 6> descriptors = {event.get(), event.get(), event.get(),
                                          event.get(), event.get(), event.get()};
  send_raw(sockets.left.get(), bytes, descriptors);
  auto got = receive_message(sockets.right.get());
  EXPECT_EQ(got.status, receive_status::received);
  EXPECT_EQ(got.message.kind, message_kind::hello);
  EXPECT_EQ(got.message.version, layout_version + 1);
  EXPECT_EQ(got.message.id, 0U);
  EXPECT_EQ(open_descriptors(), before);
}

}  // namespace
}  // namespace verbena::softdev
