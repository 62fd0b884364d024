// SPDX-License-Identifier: MIT
// Memory of the program that is remapped or discarded while it is registered: the device still has
// the old pages. Checked builds stop the program if such memory is used, and accept valid changes.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/unit/verbs/loopback.hpp"
#include "tests/unit/verbs/own_pages.hpp"
#include "verbena/base/log.hpp"
#include "verbena/base/sanitizers.hpp"
#include "verbena/check/checker.hpp"

namespace verbena::test {
namespace {

#ifdef VERBENA_CHECKED

constexpr access_flags writable = access::local_write;

/// Collects the messages of the log while it exists.
class listening {
 public:
  listening() {
    set_log_hook(
        [](log_level level, std::string_view line, void* to) {
          if (level >= log_level::warning)
            *static_cast<std::string*>(to) += std::string(line) + "\n";
        },
        &said_);
  }
  listening(const listening&) = delete;
  listening& operator=(const listening&) = delete;
  ~listening() { set_log_hook(nullptr); }
  [[nodiscard]] const std::string& said() const { return said_; }
  void forget() { said_.clear(); }

 private:
  std::string said_;
};

void receive(side& on, const local_slice& into, call_site where = call_site::here()) {
  on.queue.post_receive({.id = 7}, into, where).value();
}

void send(side& on, const local_slice& from, call_site where = call_site::here()) {
  auto batch = on.queue.start_send();
  batch.send({.id = 8, .signaled = true}, from);
  batch.submit(where).value();
}

/// Sends `from` to `into`; both requests complete.
void exchange(loopback& pair, const local_slice& from, const local_slice& into) {
  receive(pair.b(), into);
  send(pair.a(), from);
  for (const auto* queue : {&pair.a().sends, &pair.b().receives})
    for (const auto& done : take(*queue, 1)) EXPECT_TRUE(done.ok()) << to_string(done);
}

std::string lines(int found, int earlier) {
  return ".*replaced_memory_test.cpp:" + std::to_string(found) +
         "; the earlier call is at .*replaced_memory_test.cpp:" + std::to_string(earlier) + "\\)";
}

/// These tests need userfaultfd(2).
class replaced_memory_death : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!userfaultfd_is_available()) GTEST_SKIP() << "no userfaultfd(2) for this process";
  }
  const std::string rule =
      "the memory of a request was unmapped or replaced after its registration: ";
};

TEST_F(replaced_memory_death, memory_that_was_unmapped_and_mapped_again) {
  loopback pair;
  const pages memory(2);
  const int registered = __LINE__ + 1;
  const auto region = pair.pd().register_memory(memory.all(), writable).value();
  exchange(pair, region.slice(0, 64), region.slice(page, 64));
  memory.replace(1);
  const int here = __LINE__ + 1;
  const auto post = [&] { receive(pair.b(), region.slice(page - 64, 128)); };
  EXPECT_DEATH(post(), rule +
                           "RECV 7 of queue pair .* uses memory of which 64 "
                           "bytes at .* of memory region .* of soft0 \\(.*\\) were unmapped since" +
                           lines(here, registered));
  const int there = __LINE__ + 1;
  const auto post_send = [&] { send(pair.a(), region.slice(page, 8)); };
  EXPECT_DEATH(post_send(),
               rule + "SEND 8 .*8 bytes at .* were unmapped since" + lines(there, registered));
  exchange(pair, region.slice(0, 64), region.slice(64, page - 64));  // the rest is as it was
}

TEST_F(replaced_memory_death, memory_that_was_discarded) {
  loopback pair;
  const pages memory(3);
  const auto region =
      pair.pd().register_memory(memory.all().subspan(100, 2 * page), writable).value();
  memory.discard(2);
  const auto post = [&] { receive(pair.b(), region.slice(2 * page - 101, 2)); };
  EXPECT_DEATH(post(), rule + ".* uses memory of which 1 bytes at .* were discarded since");
  exchange(pair, region.slice(0, 64), region.slice(64, 2 * page - 164));
}

TEST_F(replaced_memory_death, memory_that_was_moved) {
  loopback pair;
  pages memory(1);
  const pages other(1);
  const auto region = pair.pd().register_memory(memory.all(), writable).value();
  memory.move_to(other.at(0));
  const auto post = [&] { receive(pair.b(), region.slice(0, 1)); };
  EXPECT_DEATH(post(), rule + ".* were moved since");
  // At its new address, the memory is watched only if it is registered.
  const auto again = pair.pd().register_memory(other.all(), writable).value();
  exchange(pair, again.slice(0, 64), again.slice(64, 64));
  other.discard(0);
  const auto post_there = [&] { receive(pair.b(), again.slice(8, 1)); };
  EXPECT_DEATH(post_there(), rule + ".* were discarded since");
}

#if !defined(VERBENA_ADDRESS_SANITIZER) && !defined(VERBENA_THREAD_SANITIZER)
TEST_F(replaced_memory_death, memory_that_was_freed_and_returned_to_the_system) {
  loopback pair;
  constexpr std::size_t bytes = 4U << 20U;  // malloc(3) returns blocks of this size to the system
  void* const memory = std::malloc(bytes);
  const auto region =
      pair.pd().register_memory({static_cast<std::byte*>(memory), bytes}, writable).value();
  std::free(memory);
  const auto post = [&] { receive(pair.b(), region.slice(0, 1)); };
  EXPECT_DEATH(post(), rule + ".* were unmapped since");
}
#endif

TEST_F(replaced_memory_death, one_of_two_regions_over_the_same_pages_is_closed) {
  loopback pair;
  const pages memory(4);
  const auto region =
      pair.pd().register_memory(memory.all().subspan(page, 2 * page), writable).value();
  {
    const auto over = pair.pd().register_memory(memory.all(), writable).value();
    const auto within = pair.pd().register_memory(memory.all().subspan(page, 10), writable).value();
  }
  memory.discard(1);
  memory.discard(3);
  const auto post = [&] { receive(pair.b(), region.slice(0, 1)); };
  EXPECT_DEATH(post(), rule);
  exchange(pair, region.slice(page, 64), region.slice(page + 64, page - 64));
}

TEST_F(replaced_memory_death, many_changes_are_reported_each_or_not_at_all) {
  loopback pair;
  const pages memory(64);
  const auto region = pair.pd().register_memory(memory.all(), writable).value();
  for (std::size_t i = 0; i < 64; i += 2) memory.discard(i);
  for (std::size_t i = 1; i < 64; i += 2)
    exchange(pair, region.slice(i * page, 8), region.slice(i * page + 8, 8));
  const auto post = [&] { receive(pair.b(), region.slice(0, 1)); };
  EXPECT_DEATH(post(), rule);
}

// A child of fork() cannot use the device. These tests start a new process with its own device.
class replaced_memory_process_death : public replaced_memory_death {
 protected:
  replaced_memory_process_death() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
  ~replaced_memory_process_death() override { GTEST_FLAG_SET(death_test_style, "fast"); }
};

TEST_F(replaced_memory_process_death, in_flight) {
  const int registered = __LINE__ + 5;
  const int posted = registered + 2;
  const auto run = [] {
    loopback pair;
    const pages memory(2);
    const auto region = pair.pd().register_memory(memory.all(), writable).value();
    const auto other = pair.memory(64);
    receive(pair.b(), region.slice(page, 64));
    memory.replace(1);
    send(pair.a(), other.slice());
    take(pair.b().receives, 1);
  };
  EXPECT_DEATH(run(),
               "memory of a request in flight was unmapped, moved or discarded: RECV 7 .*"
               "but 64 bytes at .* of memory region .*test.cpp:" +
                   std::to_string(registered) +
                   "\\) were unmapped .*the earlier call is at "
                   ".*replaced_memory_test.cpp:" +
                   std::to_string(posted) + "\\)");
}

TEST_F(replaced_memory_process_death, child_of_fork_with_its_own_device) {
  const auto run = [] {
    const pages watched(1);
    loopback parent;
    const auto held = parent.pd().register_memory(watched.all(), writable).value();
    const pid_t child = fork();
    if (child == 0) {
      munmap(watched.at(0), page);  // no thread waits for the notification
      loopback pair;
      const pages memory(1);
      const auto region = pair.pd().register_memory(memory.all(), writable).value();
      memory.discard(0);
      receive(pair.b(), region.slice(0, 1));
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    receive(parent.b(), held.slice(0, 1));
    kill(getpid(), WIFSIGNALED(status) ? WTERMSIG(status) : SIGKILL);
  };
  EXPECT_DEATH(run(), rule + ".* were discarded since");
}

TEST_F(replaced_memory_death, open_to_peers_while_others_use_its_addresses_is_logged) {
  loopback pair;
  const pages memory(2);
  const auto open = writable | access::remote_write;
  listening to;
  {
    const auto region = pair.pd().register_memory(memory.all(), open).value();
    memory.replace(0);
  }
  EXPECT_NE(to.said().find("were unmapped after registration, and the program"), std::string::npos)
      << to.said();
  to.forget();
  {
    const auto region = pair.pd().register_memory(memory.all(), writable).value();
    memory.replace(0);
  }
  {
    const auto region = pair.pd().register_memory(memory.all(), open).value();
    memory.withdraw(0);
  }
  EXPECT_EQ(to.said(), "") << "peers have no access, or the addresses were not used again";
}

// Valid changes are not reported.

TEST(replaced_memory, changes_next_to_a_region_are_not_reported) {
  loopback pair;
  const pages memory(5);
  const auto region =
      pair.pd().register_memory(memory.all().subspan(2 * page, page), writable).value();
  memory.discard(1);
  memory.replace(3);
  memory.withdraw(0);
  ASSERT_EQ(mprotect(memory.at(2), page, PROT_READ), 0);
  ASSERT_EQ(mprotect(memory.at(2), page, PROT_READ | PROT_WRITE), 0);
  ASSERT_EQ(madvise(memory.at(2), page, MADV_DONTFORK), 0);
  ASSERT_EQ(madvise(memory.at(2), page, MADV_DOFORK), 0);
  exchange(pair, region.slice(0, 64), region.slice(64, 64));
  // A heap that grows and shrinks around a registered block.
  std::vector<std::byte> block(3 * page);
  const auto in_heap = pair.pd().register_memory(block, writable).value();
  for (std::size_t size = page; size < 64 * page; size *= 2) {
    std::vector<std::byte> neighbour(size);
    neighbour.resize(2 * size);
    exchange(pair, in_heap.slice(0, 64), in_heap.slice(64, 64));
  }
}

TEST(replaced_memory, region_registered_after_the_change_is_usable) {
  loopback pair;
  const pages memory(2);
  auto old = pair.pd().register_memory(memory.all(), writable).value();
  memory.replace(0);
  memory.discard(1);
  const auto region = pair.pd().register_memory(memory.all(), writable).value();
  exchange(pair, region.slice(0, 64), region.slice(page, 64));
  EXPECT_TRUE(std::move(old).close());
  exchange(pair, region.slice(0, 64), region.slice(page, 64));
}

TEST(replaced_memory, memory_can_be_freed_after_its_region_and_just_before_it) {
  loopback pair;
  const listening to;
  for (int round = 0; round < 50; ++round) {
    std::optional<pages> memory(std::in_place, 2);
    auto region = pair.pd().register_memory(memory->all(), writable).value();
    exchange(pair, region.slice(0, 64), region.slice(64, 64));
    if (round % 2 == 0) {
      EXPECT_TRUE(std::move(region).close());
    }
    memory.reset();
  }
  EXPECT_EQ(to.said(), "");
}

TEST(replaced_memory, child_of_fork_changes_only_its_copy) {
  loopback pair;
  const pages memory(2);
  const auto region = pair.pd().register_memory(memory.all(), writable).value();
  const pid_t child = fork();
  if (child == 0) {
    memory.at(0)[0] = std::byte{2};
    const bool done =
        madvise(memory.at(0), page, MADV_DONTNEED) == 0 && munmap(memory.at(0), 2 * page) == 0;
    _exit(done ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  exchange(pair, region.slice(0, 64), region.slice(page, 64));
}

TEST(replaced_memory, shared_mappings_and_memory_on_demand_may_change) {
  loopback pair;
  const int file = memfd_create("replaced_memory_test", MFD_CLOEXEC);
  ASSERT_EQ(ftruncate(file, 2 * page), 0);
  const pages shared(2, MAP_SHARED, file);
  close(file);
  const auto region = pair.pd().register_memory(shared.all(), writable).value();
  shared.discard(0);  // the file still has the bytes
  exchange(pair, region.slice(0, 64), region.slice(page, 64));
  const pages memory(2);
  const auto on_demand =
      pair.pd().register_memory(memory.all(), writable | access::on_demand).value();
  memory.replace(0);
  memory.discard(1);
  exchange(pair, on_demand.slice(0, 64), on_demand.slice(page, 64));
}

TEST(replaced_memory, threads_change_memory_while_others_register_and_post) {
  std::array<std::thread, 4> threads;
  for (auto& each : threads)
    each = std::thread([] {
      loopback pair;
      for (int round = 0; round < 20; ++round) {
        const pages memory(4);
        const auto region = pair.pd().register_memory(memory.all(), writable).value();
        memory.replace(0);
        memory.discard(1);
        exchange(pair, region.slice(2 * page, 64), region.slice(3 * page, 64));
      }
    });
  for (auto& each : threads) each.join();
}

#endif

}  // namespace
}  // namespace verbena::test
