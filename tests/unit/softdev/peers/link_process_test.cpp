// SPDX-License-Identifier: MIT
// Links with other processes: exited peers, and fork.
#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <string_view>
#include <system_error>

#include "softdev/ipc/wake_sockets.hpp"
#include "softdev/peers/link.hpp"
#include "tests/unit/campaign_seed.hpp"
#include "tests/unit/softdev/peers/link_pair.hpp"
#include "tests/unit/softdev/peers/peer_process.hpp"

namespace verbena::softdev {
namespace {

using namespace testing;
using namespace std::chrono_literals;

TEST(link_process, records_are_echoed_by_another_process) {
  child echo(echo_peer);
  const auto own = open_link();
  const auto other = pair_with(*own, echo.read<std::uint32_t>());
  EXPECT_EQ(other->pid(), echo.pid());
  EXPECT_TRUE(other->process().routes().read) << "a process may ptrace its child";
  std::mt19937 sizes(test::campaign_seed(5));
  int sent = 0;
  int back = 0;
  while (back < 1000) {
    const auto size = static_cast<std::uint32_t>(sent % 7 == 0 ? sizes() % 100'000 : 8);
    if (sent < 1000 && send_record(*other, static_cast<std::uint16_t>(sent % 1000), size,
                                   static_cast<std::uint8_t>(sent))) {
      ++sent;
    }
    own->receive(
        [&](peer&, const ring_record& record) {
          EXPECT_EQ(record.type, back % 1000);
          for (const std::byte b : record.payload) {
            if (b != std::byte{static_cast<std::uint8_t>(back)}) ADD_FAILURE() << back;
          }
          ++back;
          return handled::consumed;
        },
        64);
  }
}

TEST(link_process, killed_peer_is_detected_and_leaks_no_resources) {
  child echo(echo_peer);
  const auto slot = echo.read<std::uint32_t>();
  const auto own = open_link();
  const auto other = pair_with(*own, slot);
  const auto killed = clock::now();
  echo.send(SIGKILL);
  EXPECT_TRUE(becomes_dead(*own, *other));
  EXPECT_LT(clock::now() - killed, 5s);
  EXPECT_EQ(other->end(), peer_end::exited);
  EXPECT_EQ(echo.wait(), -SIGKILL);

  std::ifstream sockets("/proc/net/unix");
  const std::string name =
      "@verbena-soft0." + std::to_string(::geteuid()) + "." + std::to_string(slot);
  for (std::string line; std::getline(sockets, line);) {
    EXPECT_FALSE(line.ends_with(name)) << line;
  }
  for (const char* folder : {"/dev/shm", "/tmp"}) {
    DIR* open = ::opendir(folder);
    ASSERT_NE(open, nullptr);
    while (const dirent* entry = ::readdir(open)) {
      // Other names with the prefix of the project belong to test tools.
      const std::string_view file = entry->d_name;
      EXPECT_FALSE(file.starts_with("verbena-soft")) << file;
    }
    ::closedir(open);
  }
  const auto again = own->connect(slot);
  EXPECT_TRUE(drive({own.get()}, [&] { return again->state() == peer_state::dead; }));
  EXPECT_EQ(again->end(), peer_end::no_process);
}

bool limit_descriptors(rlim_t most) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return false;
  limit.rlim_cur = most;
  return ::setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

/// More descriptors in flight than the kernel permits the user (RLIMIT_NOFILE, unix(7)), even after
/// some of them have arrived.
class crowded_sockets {
 public:
  crowded_sockets() {
    EXPECT_TRUE(limit_descriptors(128));
    std::array<int, 2> ends{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
    sender_.reset(ends[0]);
    receiver_.reset(ends[1]);
    const link_message message{.kind = message_kind::give_channel};
    const int fd = sender_.get();
    while (send_message(sender_.get(), message, {&fd, 1}) == send_status::sent) ++count_;
    EXPECT_TRUE(limit_descriptors(96));
  }
  [[nodiscard]] int count() const { return count_; }

 private:
  unique_fd sender_;
  unique_fd receiver_;
  int count_ = 0;
};

// A peer that sends its hello again while our answer has no room: the memory of the first hello
// stays in use.
int second_hello_in_crowd() {
  if (::geteuid() == 0 && ::setuid(2'000'000 + static_cast<uid_t>(::getpid())) != 0) return 2;
  const auto own = open_link();
  const auto claim = slot_claim::take().value();
  const auto segment = public_segment::create(claim.slot(), malicious_peer::generation).value();
  const auto pair =
      create_sealed("x", pair_ring_offset + min_ring_bytes, sealed_for::owner_only).value();
  const auto bell = create_sealed("x", segment_page, sealed_for::everybody).value();
  pair.map.at<pair_header>(0)->magic = segment_magic;
  link_message hello{.kind = message_kind::hello};
  hello.version = layout_version;
  hello.slot = claim.slot();
  hello.generation = malicious_peer::generation;
  hello.ring_bytes = min_ring_bytes;
  const std::array descriptors{segment->fd(), pair.fd.get(), bell.fd.get()};
  const unique_fd connection = std::move(connect_to_slot(own->slot()).socket);
  if (send_message(connection.get(), hello, descriptors) != send_status::sent) return 3;
  if (send_message(connection.get(), hello, descriptors) != send_status::sent) return 3;
  const crowded_sockets answer;
  std::shared_ptr<peer> seen;
  EXPECT_TRUE(drive({own.get()}, [&] {
    seen = own->find(claim.slot());
    return seen != nullptr;
  }));
  if (!seen) return 4;
  EXPECT_TRUE(drive({own.get()}, [&] { return seen->state() != peer_state::connecting; }));
  EXPECT_EQ(seen->state(), peer_state::dead);
  EXPECT_EQ(seen->end(), peer_end::broken_protocol);
  return ::testing::Test::HasFailure() ? 5 : 0;
}

// The answer to a request for memory has no room: the socket stays writable meanwhile.
int grant_in_crowd() {
  if (::geteuid() == 0 && ::setuid(2'000'000 + static_cast<uid_t>(::getpid())) != 0) return 2;
  const linked_pair pair;
  void* const memory =
      pair.right->arenas().allocate(1 << 20, arena_registry::pages::normal).value();
  const auto place = pair.right->arenas().acquire(memory, 8).value();
  const auto map = [&] {
    const auto section = pair.to_right->enter();
    return pair.to_right->map(place.arena, place.offset, 8, map_access::read_only).status;
  };
  {
    const crowded_sockets answers;
    EXPECT_EQ(map(), map_status::pending);
    for (int turn = 0; turn < 5; ++turn) pair.right->service(clock::now());
    EXPECT_FALSE(readable(pair.right->service_fd())) << "the service would run all the time";
    const auto now = clock::now();
    const auto next = pair.right->service(now).next;
    EXPECT_TRUE(next && *next <= now + 1ms);
    pair.left->service(clock::now());
    EXPECT_EQ(map(), map_status::pending);
  }
  EXPECT_TRUE(
      drive({pair.left.get(), pair.right.get()}, [&] { return map() == map_status::ready; }));
  pair.right->arenas().release(memory);
  return ::testing::Test::HasFailure() ? 5 : 0;
}

TEST(link_process, grant_without_room_is_sent_later_and_does_not_keep_the_service_busy) {
  child user([](int) { return grant_in_crowd(); });
  EXPECT_EQ(user.wait(), 0);
}

TEST(link_process, second_hello_ends_the_pairing) {
  child user([](int) { return second_hello_in_crowd(); });
  EXPECT_EQ(user.wait(), 0);
}

int pair_in_crowd() {
  // The kernel does not limit root; and nothing of another test is in flight of this user.
  if (::geteuid() == 0 && ::setuid(2'000'000 + static_cast<uid_t>(::getpid())) != 0) return 2;
  const auto first = open_link();
  const auto second = open_link();
  const auto both = {first.get(), second.get()};
  const auto to_second = first->connect(second->slot());
  std::shared_ptr<peer> to_first;
  {
    const crowded_sockets question;
    if (question.count() < 64 || question.count() > 192) return 3;
    for (int turn = 0; turn < 3; ++turn)
      for (link* each : both) each->service(clock::now());
    EXPECT_EQ(to_second->state(), peer_state::connecting);
    EXPECT_EQ(second->find(first->slot()), nullptr);
  }
  first->service(clock::now());
  {
    const crowded_sockets answer;
    for (int turn = 0; turn < 3; ++turn)
      for (link* each : both) each->service(clock::now());
    to_first = second->find(first->slot());
    if (!to_first) return 4;
    EXPECT_EQ(to_first->state(), peer_state::connecting) << describe(to_first->end());
    EXPECT_EQ(to_second->state(), peer_state::connecting);
  }
  EXPECT_TRUE(drive(both, [&] {
    return to_first->state() == peer_state::paired && to_second->state() == peer_state::paired;
  })) << describe(to_first->end());
  return ::testing::Test::HasFailure() ? 5 : 0;
}

TEST(link_process, hello_and_answer_without_room_are_sent_later) {
  child user([](int) { return pair_in_crowd(); });
  EXPECT_EQ(user.wait(), 0);
}

TEST(link_process, last_records_of_an_exiting_process_are_received) {
  child brief([](int to_parent) {
    const auto own = open_link();
    send_value(to_parent, own->slot());
    bool done = false;
    while (!done) {
      own->service(clock::now());
      own->receive(
          [&](peer& from, const ring_record&) {
            for (int i = 0; i < 100; ++i) send_record(from, 9, 8, 1);
            done = true;
            return handled::consumed;
          },
          1);
    }
    ::_exit(0);  // closes nothing
    return 0;
  });
  const auto own = open_link();
  const auto other = pair_with(*own, brief.read<std::uint32_t>());
  ASSERT_TRUE(send_record(*other, 1, 0, 0));
  EXPECT_EQ(brief.wait(), 0);
  int heard = 0;
  EXPECT_TRUE(drive({own.get()}, [&] {
    own->receive([&](peer&, const ring_record&) { return ++heard, handled::consumed; }, 10);
    return other->state() == peer_state::dead;
  }));
  EXPECT_EQ(heard, 100);
}

TEST(link_process, peer_death_inside_a_section_releases_the_fence) {
  child inside([](int to_parent) {
    return run_peer(to_parent, [](link&, peer& from, const ring_record&) {
      const auto section = from.enter();
      send_record(from, 1, 0, 0);
      ::pause();
      return handled::consumed;
    });
  });
  const auto own = open_link();
  const auto other = pair_with(*own, inside.read<std::uint32_t>());
  ASSERT_TRUE(send_record(*other, 1, 0, 0));
  ASSERT_TRUE(drive({own.get()}, [&] { return own->receive(take_all, 1) == 1; }));
  EXPECT_EQ(own->fence(deadline::after(10ms)), fence_outcome::timed_out);
  inside.send(SIGKILL);
  EXPECT_EQ(own->fence(deadline::after(test_timeout)), fence_outcome::clear);
  EXPECT_TRUE(becomes_dead(*own, *other));
}

// Another process, here this one, has the pid of a process that exited.
TEST(link_process, memory_of_a_process_with_a_reused_pid_is_not_accessed) {
  child exited([](int) { return 0; });
  std::uint64_t words[] = {42, 0};
  remote_process other;
  other.set_pid(::getpid());
  other.find_routes({.source_address = reinterpret_cast<std::uint64_t>(&words[0]),
                     .source_value = words[0],
                     .sink_address = reinterpret_cast<std::uint64_t>(&words[1])});
  if (!other.routes().read || !other.routes().write)
    GTEST_SKIP() << "process_vm_readv is not permitted";
  other.set_pid(exited.pid());
  other.begin_watch(1);
  EXPECT_EQ(exited.wait(), 0);
  other.set_pid(::getpid());
  words[1] = 7;
  const iovec source{&words[0], sizeof words[0]};
  const iovec sink{&words[1], sizeof words[1]};
  EXPECT_EQ(other.read({&sink, 1}, {&source, 1}).status, copy_status::process_gone);
  EXPECT_EQ(other.write({&source, 1}, {&sink, 1}).status, copy_status::process_gone);
  EXPECT_EQ(words[1], 7U);
}

TEST(link_process, initiator_writes_ordinary_memory_of_the_owner) {
  child writer([](int to_parent) {
    return run_peer(to_parent, [](link&, peer& from, const ring_record& record) {
      std::uint64_t address = 0;
      std::memcpy(&address, record.payload.data(), sizeof address);
      std::uint64_t value = 0;
      const iovec local{&value, sizeof value};
      const iovec remote = place_in_process(address, sizeof value);
      const auto section = from.enter();
      if (from.process().read({&local, 1}, {&remote, 1}).status != copy_status::ok) ::_exit(1);
      ++value;
      if (from.process().write({&local, 1}, {&remote, 1}).status != copy_status::ok) ::_exit(2);
      return handled::consumed;
    });
  });
  const auto own = open_link();
  const auto other = pair_with(*own, writer.read<std::uint32_t>());
  std::atomic<std::uint64_t> word = 41;
  const auto lock = other->lock_sends();
  const auto record = other->try_reserve(1, 8);
  const auto address = reinterpret_cast<std::uintptr_t>(&word);
  std::memcpy(record.payload.data(), &address, 8);
  other->commit();
  other->announce();
  EXPECT_TRUE(drive({own.get()}, [&] { return word == 42; }));
}

TEST(link_process, forked_child_refuses_to_use_the_link) {
  const auto own = open_link();
  child echo(echo_peer);
  const auto other = pair_with(*own, echo.read<std::uint32_t>());
  const int service_fd = own->service_fd();
  const int wake_fd = own->sleeper().wakes().fd();
  child fork([&](int) {
    if (own->usable()) return 1;
    if (::fcntl(service_fd, F_GETFD) >= 0 || ::fcntl(wake_fd, F_GETFD) >= 0) return 2;
    // The child can open its own link.
    const auto mine = open_link();
    return mine->slot() == own->slot() ? 3 : 0;
  });
  EXPECT_EQ(fork.wait(), 0);
  EXPECT_TRUE(own->usable());
  ASSERT_TRUE(send_record(*other, 1, 8, 1));
  EXPECT_TRUE(drive({own.get()}, [&] { return own->receive(take_all, 1) == 1; }))
      << "the pairing of the parent still works";
}

// Returns the number of descriptors of this process whose link in /proc contains `what`.
int descriptors_to(std::string_view what) {
  int found = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;  // the iterator's own descriptor may be closed
    const std::string target = std::filesystem::read_symlink(entry.path(), gone).string();
    if (target.find(what) != std::string::npos) ++found;
  }
  return found;
}

TEST(link_process, peer_takes_two_descriptors) {
  const auto own = open_link();
  child echo(echo_peer);
  const int before = descriptors_to("");
  const auto other = pair_with(*own, echo.read<std::uint32_t>());
  EXPECT_EQ(descriptors_to(""), before + 2) << "its socket and its pidfd";
}

TEST(link_process, forked_child_does_not_watch_peers_of_its_parent) {
  const auto own = open_link();
  child echo(echo_peer);
  const auto other = pair_with(*own, echo.read<std::uint32_t>());
  ASSERT_EQ(descriptors_to("pidfd"), 1) << "the peer is watched";
  ASSERT_EQ(descriptors_to("verbena-doorbell"), 1);
  child fork([](int) { return descriptors_to("pidfd") + 10 * descriptors_to("verbena-doorbell"); });
  EXPECT_EQ(fork.wait(), 0);
  EXPECT_EQ(descriptors_to("pidfd"), 1);
}

TEST(link_process, forked_child_has_no_descriptor_of_the_link) {
  const int before = descriptors_to("");
  linked_pair pair;
  void* const memory = pair.left->arenas().allocate(1 << 20, arena_registry::pages::normal).value();
  const auto channel = pair.right->channels().create().value();
  EXPECT_TRUE(drive({pair.left.get(), pair.right.get()},
                    [&] { return pair.to_right->signal_channel(channel.id); }));
  ASSERT_GT(descriptors_to(""), before + 8);
  const int known = channel.receiver->fd();  // the program may close it
  child fork([&](int) {
    if (::fcntl(known, F_GETFD) < 0) return 100;
    return descriptors_to("") - before - 2;  // besides it, there is the pipe of the test
  });
  EXPECT_EQ(fork.wait(), 0);
  EXPECT_EQ(pair.left->arenas().free(memory), 0);
}

TEST(link_process, exit_of_parent_is_detected_while_its_child_runs) {
  child parent([](int to_parent) {
    const auto own = open_link();
    send_value(to_parent, own->slot());
    if (::fork() == 0) {
      send_value(to_parent, ::getpid());  // the child has closed its copies of the descriptors
      ::pause();
      ::_exit(0);
    }
    for (;;) own->service(clock::now());
    return 0;
  });
  const auto own = open_link();
  const auto slot = parent.read<std::uint32_t>();
  const auto survivor = parent.read<pid_t>();
  const auto other = pair_with(*own, slot);
  parent.send(SIGKILL);
  EXPECT_TRUE(becomes_dead(*own, *other));
  // Free, or claimed by another test since.
  const auto holder = find_slot_holder(slot);
  EXPECT_TRUE(holder.error == ECONNREFUSED ||
              (holder.pid != parent.pid() && holder.pid != survivor))
      << holder.error << " " << holder.pid;
  ::kill(survivor, SIGKILL);
}

}  // namespace
}  // namespace verbena::softdev
