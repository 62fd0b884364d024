// SPDX-License-Identifier: MIT
// Fences with other processes: peers that stop within a section, stay there, or cannot be watched.
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "softdev/peers/link.hpp"
#include "tests/unit/softdev/failing_allocations.hpp"
#include "tests/unit/softdev/peers/link_pair.hpp"
#include "tests/unit/softdev/peers/peer_process.hpp"
#include "verbena/base/log.hpp"

namespace verbena::softdev {
namespace {

using namespace testing;
using namespace std::chrono_literals;

// Maps a region, enters a section, and stops itself before it writes. Sends 1 before it stops.
// After it continues, sends 2 if its region is no longer current, and 3 otherwise.
int run_writer_that_stops(int to_parent) {
  return run_peer(to_parent, [](link&, peer& from, const ring_record& record) {
    std::uint32_t key = 0;
    std::memcpy(&key, record.payload.data(), sizeof key);
    region_record region;
    const auto section = from.enter();
    if (from.segment().find_region(key, region) != lookup::found) ::_exit(1);
    const auto mapped = from.map(region.arena, region.arena_offset, 8, map_access::read_write);
    if (mapped.status != map_status::ready) return handled::keep;  // until the mapping is granted
    send_record(from, 1, 0, 0);
    ::raise(SIGSTOP);
    // After SIGCONT: the owner has replaced the pages, and the writer can detect it.
    *mapped.address = std::byte{66};
    send_record(from, from.segment().is_current(region) ? 3 : 2, 0, 0);
    return handled::consumed;
  });
}

TEST(link_process, pages_under_a_stopped_writer_are_replaced) {
  child writer(run_writer_that_stops);
  const auto own = open_link();
  const auto other = pair_with(*own, writer.read<std::uint32_t>());
  auto* memory =
      static_cast<std::byte*>(own->arenas().allocate(8192, arena_registry::pages::normal).value());
  memory[0] = std::byte{11};
  const auto publish = [&](std::uint32_t key, std::size_t offset) {
    const auto place = own->arenas().acquire(memory + offset, 4096).value();
    const auto address = reinterpret_cast<std::uintptr_t>(memory + offset);
    EXPECT_TRUE(own->segment().publish_region({.key = key,
                                               .length = 4096,
                                               .address = address,
                                               .arena = place.arena,
                                               .arena_offset = place.offset}));
    return place;
  };
  const auto before = publish(100, 0);
  publish(200, 4096);
  {
    const auto lock = other->lock_sends();
    const auto record = other->try_reserve(1, 4);
    const std::uint32_t key = 100;
    std::memcpy(record.payload.data(), &key, sizeof key);
    other->commit();
    other->announce();
  }
  ASSERT_TRUE(drive({own.get()}, [&] { return own->receive(take_all, 1) == 1; }));
  int status = 0;
  ASSERT_EQ(::waitpid(writer.pid(), &status, WUNTRACED), writer.pid());
  ASSERT_TRUE(WIFSTOPPED(status));

  ASSERT_TRUE(own->segment().withdraw_region(100));
  own->fence_memory(memory);  // returns although the writer is stopped within its section
  EXPECT_EQ(memory[0], std::byte{11});
  const auto after = own->arenas().acquire(memory, 8192).value();
  EXPECT_NE(after.arena, before.arena);

  writer.send(SIGCONT);
  std::uint16_t reply = 0;
  ASSERT_TRUE(drive({own.get()}, [&] {
    own->receive([&](peer&, const ring_record& r) { return reply = r.type, handled::consumed; }, 1);
    return reply != 0;
  }));
  EXPECT_EQ(reply, 2) << "the writer detected that its region is not current";
  EXPECT_EQ(memory[0], std::byte{11}) << "the late write did not change the memory of the owner";
}

/// Threads that never sleep, on one processor, which this thread uses, too.
class busy_processor {
 public:
  explicit busy_processor(int threads) {
    EXPECT_EQ(::sched_getaffinity(0, sizeof before_, &before_), 0);
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(::sched_getcpu(), &one);
    EXPECT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
    for (int i = 0; i < threads; ++i)
      threads_.emplace_back([this] {
        while (!stopped_.load(std::memory_order_relaxed)) {
        }
      });
  }
  busy_processor(const busy_processor&) = delete;
  busy_processor& operator=(const busy_processor&) = delete;
  ~busy_processor() {
    stopped_ = true;
    for (std::thread& each : threads_) each.join();
    ::sched_setaffinity(0, sizeof before_, &before_);
  }

 private:
  cpu_set_t before_{};
  std::atomic<bool> stopped_{false};
  std::vector<std::thread> threads_;
};

TEST(link_process, stopped_writer_is_passed_over_soon_on_a_busy_processor) {
  child writer(run_writer_that_stops);
  const auto own = open_link();
  const auto other = pair_with(*own, writer.read<std::uint32_t>());
  void* const memory = own->arenas().allocate(4096, arena_registry::pages::normal).value();
  const auto place = own->arenas().acquire(memory, 4096).value();
  ASSERT_TRUE(own->segment().publish_region({.key = 0x0101'0101,
                                             .length = 4096,
                                             .address = reinterpret_cast<std::uintptr_t>(memory),
                                             .arena = place.arena,
                                             .arena_offset = place.offset}));
  ASSERT_TRUE(send_record(*other, 1, 4, 1));
  ASSERT_TRUE(drive({own.get()}, [&] { return own->receive(take_all, 1) == 1; }));
  int status = 0;
  ASSERT_EQ(::waitpid(writer.pid(), &status, WUNTRACED), writer.pid());
  {
    const busy_processor busy(24);
    own->fence_memory(memory);
  }
  EXPECT_EQ(other->state(), peer_state::paired) << "its time in the section was not over";
  EXPECT_NE(own->arenas().acquire(memory, 4096).value().arena, place.arena);
}

TEST(link_process, ordinary_memory_is_fenced_by_waiting) {
  child writer([](int to_parent) {
    return run_peer(to_parent, [](link&, peer& from, const ring_record&) {
      const auto section = from.enter();
      send_record(from, 1, 0, 0);
      ::raise(SIGSTOP);
      return handled::consumed;
    });
  });
  const auto own = open_link();
  const auto other = pair_with(*own, writer.read<std::uint32_t>());
  ASSERT_TRUE(send_record(*other, 1, 0, 0));
  ASSERT_TRUE(drive({own.get()}, [&] { return own->receive(take_all, 1) == 1; }));
  int status = 0;
  ASSERT_EQ(::waitpid(writer.pid(), &status, WUNTRACED), writer.pid());
  EXPECT_EQ(own->fence(deadline::after(20ms)), fence_outcome::timed_out);
  writer.send(SIGCONT);
  int ordinary = 0;
  own->fence_memory(&ordinary);
  SUCCEED() << "fence_memory() returned after the writer had left";
}

std::string last_error;
void keep_errors(log_level level, std::string_view line, void*) {
  if (level == log_level::error) last_error = line;
}

TEST(link_process, peer_that_stays_inside_is_given_up_and_its_pages_are_replaced) {
  link_options options;
  options.section_timeout = 200ms;
  const auto own = open_link(options);
  auto* memory =
      static_cast<std::byte*>(own->arenas().allocate(4096, arena_registry::pages::normal).value());
  memory[9] = std::byte{9};
  const auto arena_of = [&] {
    const auto place = own->arenas().acquire(memory, 4096).value();
    own->arenas().release(memory);
    return place.arena;
  };
  child echo(echo_peer);
  const auto other = pair_with(*own, echo.read<std::uint32_t>());
  malicious_peer hostile(*own);
  hostile.words().lanes_used = ~std::uint64_t{0};
  hostile.words().lanes[5].word = 77;
  EXPECT_EQ(own->fence(deadline::after(1ms)), fence_outcome::timed_out);
  EXPECT_EQ(hostile.seen_as->state(), peer_state::paired);

  last_error.clear();
  set_log_hook(&keep_errors);
  const auto before = arena_of();
  const auto started = clock::now();
  own->fence_memory(memory);
  set_log_hook(nullptr);
  EXPECT_GE(clock::now() - started, options.section_timeout);
  EXPECT_EQ(hostile.seen_as->end(), peer_end::access_timeout);
  EXPECT_NE(last_error.find("process " + std::to_string(::getpid())), std::string::npos)
      << last_error;
  EXPECT_NE(last_error.find("200 ms"), std::string::npos) << last_error;
  EXPECT_NE(arena_of(), before);
  EXPECT_EQ(memory[9], std::byte{9});

  // Later fences do not wait for it. Shareable memory that it may write late gets other pages.
  for (int i = 0; i < 3; ++i) own->service(clock::now());
  const auto again = arena_of();
  const auto later = clock::now();
  int ordinary = 0;
  own->fence_memory(&ordinary);
  EXPECT_EQ(own->fence(deadline::never()), fence_outcome::clear);
  own->fence_memory(memory);
  EXPECT_LT(clock::now() - later, options.section_timeout);
  EXPECT_NE(arena_of(), again);
  hostile.words().lanes[5].word = 78;
  const auto left = arena_of();
  own->fence_memory(memory);
  EXPECT_EQ(arena_of(), left) << "it has left the section";

  // The pairing with another process is not affected.
  EXPECT_EQ(other->state(), peer_state::paired);
  ASSERT_TRUE(send_record(*other, 1, 8, 1));
  EXPECT_TRUE(drive({own.get()}, [&] { return own->receive(take_all, 1) == 1; }));
}

/// Makes pidfd_open(2) fail with EMFILE in this process.
bool forbid_watching_processes() {
  std::array<sock_filter, 4> program{{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pidfd_open, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EMFILE),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  }};
  const sock_fprog filter{static_cast<unsigned short>(program.size()), program.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

TEST(link_process, dead_peer_that_cannot_be_watched_is_forgotten_although_inside) {
  child owner([](int) {
    if (!forbid_watching_processes()) return 2;
    const auto own = open_link();
    malicious_peer hostile(*own);
    hostile.words().lanes_used = 1;
    hostile.words().lanes[0].word = 1;
    const std::weak_ptr<peer> seen = std::exchange(hostile.seen_as, nullptr);
    hostile.connection.reset();
    const bool forgotten = drive({own.get()}, [&] { return seen.expired(); });
    return forgotten && !::testing::Test::HasFailure() ? 0 : 1;
  });
  EXPECT_EQ(owner.wait(), 0);
}

#ifdef VERBENA_FAILS_ALLOCATIONS
TEST(link_process, fence_of_memory_ends_although_each_allocation_fails_once) {
  link_options options;
  options.section_timeout = 5ms;
  const auto own = open_link(options);
  constexpr std::size_t bytes = 4096;
  void* const memory = own->arenas().allocate(bytes, arena_registry::pages::normal).value();
  malicious_peer hostile(*own);
  hostile.words().lanes_used = 1;
  hostile.words().lanes[0].word = 1;
  ASSERT_EQ(own->fence(deadline::never()), fence_outcome::clear);
  ASSERT_EQ(hostile.seen_as->end(), peer_end::access_timeout);
  // Another region of the same memory, which stays.
  const auto first = own->arenas().acquire(memory, bytes).value();
  const auto address = reinterpret_cast<std::uint64_t>(memory);
  ASSERT_TRUE(own->segment().publish_region({.key = 100,
                                             .length = bytes,
                                             .address = address,
                                             .arena = first.arena,
                                             .arena_offset = first.offset}));
  const peer_segment seen(
      map_shared(own->segment().fd(), public_segment_bytes, map_access::read_only).value());
  std::uint32_t failing = 0;
  for (bool failed = true; failed;) {
    fail_allocation(++failing);
    own->fence_memory(memory);
    failed = permit_allocations() >= failing;
    const auto now = own->arenas().acquire(memory, bytes).value();
    own->arenas().release(memory);
    region_record region;
    ASSERT_EQ(seen.find_region(100, region), lookup::found) << "allocation " << failing;
    EXPECT_EQ(region.arena, now.arena);
    EXPECT_EQ(region.arena_offset, now.offset);
  }
  EXPECT_GT(failing, 3U);
}
#endif

TEST(link_process, process_that_stays_inside_repeatedly_is_not_paired_again) {
  link_options options;
  options.section_timeout = 20ms;
  const auto own = open_link(options);
  for (int i = 0; i < 3; ++i) {
    malicious_peer hostile(*own);
    hostile.words().lanes_used = 1;
    hostile.words().lanes[0].word = 1;
    // A connection that was closed does not make the fence wait longer.
    if (i == 1) {
      hostile.connection.reset();
      EXPECT_TRUE(becomes_dead(*own, *hostile.seen_as));
    }
    EXPECT_EQ(own->fence(deadline::never()), fence_outcome::clear);
    EXPECT_EQ(hostile.seen_as->state(), peer_state::dead);
    hostile.words().lanes[0].word = 2;
    own->service(clock::now());
    own->service(clock::now());
  }
  const malicious_peer refused(*own, peer_state::dead);
  child echo(echo_peer);
  const auto other = pair_with(*own, echo.read<std::uint32_t>());
  EXPECT_EQ(other->pid(), echo.pid());
}

}  // namespace
}  // namespace verbena::softdev
