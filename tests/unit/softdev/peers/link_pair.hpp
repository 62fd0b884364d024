// SPDX-License-Identifier: MIT
// Helpers of the link tests: run links until a condition holds, and run code in child processes.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <memory>
#include <utility>

#include "softdev/peers/link.hpp"
#include "softdev/peers/pairing_message.hpp"

namespace verbena::softdev::testing {

using clock = std::chrono::steady_clock;
inline constexpr std::chrono::seconds test_timeout{20};

inline std::unique_ptr<link> open_link(link_options options = {}) {
  return link::open(options).value();
}

/// Serves the links until `done()`. Returns false after a timeout.
template <class Done>
bool drive(std::initializer_list<link*> links, Done&& done) {
  const auto give_up = clock::now() + test_timeout;
  while (!done()) {
    if (clock::now() > give_up) return false;
    for (link* each : links) each->service(clock::now());
  }
  return true;
}

/// Returns whether the link finds something to receive before it sleeps.
inline bool finds_records(link& own) {
  if (!own.sleeper().announce_sleep(clock::now())) return true;
  own.sleeper().announce_awake();
  return false;
}

/// A handler that accepts every record.
inline constexpr auto take_all = [](peer&, const ring_record&) { return handled::consumed; };

/// Sends one record of `size` bytes `fill`. Returns false if the ring is full.
inline bool send_record(peer& to, std::uint16_t type, std::uint32_t size, std::uint8_t fill) {
  const auto lock = to.lock_sends();
  const auto reserved = to.try_reserve(type, size);
  if (reserved.status != ring_status::ok) return false;
  if (size != 0) std::memset(reserved.payload.data(), fill, size);
  to.commit();
  to.announce();
  return true;
}

/// Two paired links of this process.
struct linked_pair {
  explicit linked_pair(const link_options& options = {})
      : left(open_link(options)), right(open_link(options)) {
    to_right = left->connect(right->slot());
    const bool both = drive({left.get(), right.get()}, [&] {
      to_left = right->find(left->slot());
      return to_right->state() != peer_state::connecting && to_left &&
             to_left->state() != peer_state::connecting;
    });
    EXPECT_TRUE(both);
    EXPECT_EQ(to_right->state(), peer_state::paired) << describe(to_right->end());
    EXPECT_EQ(to_left->state(), peer_state::paired) << describe(to_left->end());
  }

  std::unique_ptr<link> left;
  std::unique_ptr<link> right;
  std::shared_ptr<peer> to_right;  ///< the peer `right` of `left`
  std::shared_ptr<peer> to_left;   ///< the peer `left` of `right`
};

/// A process that pairs with `owner` as the protocol says, as a slot of this process, and holds
/// what it was given. Its words and descriptors are the test's to misuse.
struct malicious_peer {
  static constexpr std::uint64_t generation = 7;

  /// `expected` is what the pairing becomes in the owner.
  explicit malicious_peer(link& owner, peer_state expected = peer_state::paired)
      : claim(slot_claim::take().value()),
        segment(public_segment::create(claim.slot(), generation).value()),
        pair(create_sealed("x", pair_ring_offset + min_ring_bytes, sealed_for::owner_only).value()),
        bell(create_sealed("x", segment_page, sealed_for::everybody).value()) {
    words().magic = segment_magic;
    connection = std::move(connect_to_slot(owner.slot()).socket);
    EXPECT_TRUE(connection);
    EXPECT_EQ(send_message(connection.get(), hello(), descriptors()), send_status::sent);
    EXPECT_TRUE(drive({&owner}, [&] {
      answer = receive_message(connection.get());
      return answer.status != receive_status::empty;
    }));
    EXPECT_EQ(answer.status, receive_status::received);
    seen_as = owner.find(claim.slot());
    EXPECT_EQ(bool(seen_as), expected == peer_state::paired);
  }

  [[nodiscard]] pair_header& words() const { return *pair.map.at<pair_header>(0); }
  [[nodiscard]] link_message hello() const {
    link_message message{.kind = message_kind::hello};
    message.version = layout_version;
    message.slot = claim.slot();
    message.generation = generation;
    message.ring_bytes = min_ring_bytes;
    return message;
  }
  [[nodiscard]] std::array<int, 3> descriptors() const {
    return {segment->fd(), pair.fd.get(), bell.fd.get()};
  }

  slot_claim claim;
  std::unique_ptr<public_segment> segment;
  sealed_memory pair;
  sealed_memory bell;
  unique_fd connection;
  received_message answer;        ///< the owner's hello
  std::shared_ptr<peer> seen_as;  ///< the malicious peer in the owner
};

/// A child process. The destructor kills it unless wait() was called.
class child {
 public:
  /// Runs `body` in a child, which exits with its result. The child writes values to the pipe.
  explicit child(const std::function<int(int to_parent)>& body) {
    std::array<int, 2> ends{};
    if (::pipe(ends.data()) != 0) return;
    pid_ = ::fork();
    if (pid_ == 0) {
      ::close(ends[0]);
      ::alarm(60);  // ends the child if the test fails
      ::_exit(body(ends[1]));
    }
    ::close(ends[1]);
    pipe_.reset(ends[0]);
  }
  ~child() {
    if (pid_ > 0) {
      send(SIGKILL);
      static_cast<void>(wait());
    }
  }
  child(const child&) = delete;
  child& operator=(const child&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }
  void send(int signal) const { ::kill(pid_, signal); }
  /// Waits for the child. Returns its exit status, or the negative signal that ended it.
  [[nodiscard]] int wait() {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  /// Returns the next value that the child has written to its pipe.
  template <class T>
  [[nodiscard]] T read() const {
    T value{};
    EXPECT_EQ(::read(pipe_.get(), &value, sizeof value), static_cast<ssize_t>(sizeof value));
    return value;
  }

 private:
  pid_t pid_ = 0;
  unique_fd pipe_;
};

template <class T>
void send_value(int pipe, const T& value) {
  if (::write(pipe, &value, sizeof value) != static_cast<ssize_t>(sizeof value)) ::_exit(99);
}

inline bool readable(int fd) {
  pollfd look{fd, POLLIN, 0};
  return ::poll(&look, 1, 0) == 1;
}

}  // namespace verbena::softdev::testing
