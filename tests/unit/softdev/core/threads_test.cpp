// SPDX-License-Identifier: MIT
// Concurrent posts, deregistration, destruction and errors. These tests detect data races,
// deadlocks, and writes after deregistration.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <thread>

#include "tests/unit/softdev/core/fabric.hpp"

namespace verbena::softdev::testing {
namespace {

using threads = connected;

/// Posts receives, and writes, sends and atomics to the peer, until stopped.
void talk(end_point& mine, buffer& own, const buffer& theirs, const std::atomic<bool>& stop) {
  std::uint64_t id = 0;
  while (!stop.load()) {
    static_cast<void>(post_receive(*mine.qp, ++id, {own.slice(2048, 64)}));
    for (const opcode op : {opcode::send, opcode::rdma_write, opcode::rdma_read, opcode::fetch_add})
      static_cast<void>(post(*mine.qp,
                             {.wr_id = ++id,
                              .opcode = op,
                              .flags = signaled,
                              .remote_address = theirs.address() + 1024,
                              .remote_key = theirs.key()},
                             {own.slice(512, 8)}));
    drain(*mine.sent);
    drain(*mine.received);
  }
}

TEST_F(threads, posts_in_both_directions_and_progress_run_concurrently) {
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> turns{0};
  std::thread one([&] { talk(a, source, target, stop); });
  std::thread two([&] { talk(b, target, source, stop); });
  for (int i = 0; i < 2000; ++i) {
    home->progress();
    turns.fetch_add(1);
    if (i % 100 == 0) std::this_thread::yield();
  }
  stop.store(true);
  one.join();
  two.join();
  EXPECT_NE(a.qp->state(), queue_pair_state::error);
}

TEST_F(threads, concurrent_errors_on_both_sides_do_not_deadlock) {
  for (int round = 0; round < 50; ++round) {
    end_point& c = make();
    end_point& d = make();
    connect_pair(c, d);
    const auto fail = [&](end_point& end) {
      for (std::uint64_t i = 0; i < 8; ++i) static_cast<void>(post_receive(*end.qp, i, {}));
      static_cast<void>(post(*end.qp,
                             {.wr_id = 100, .opcode = opcode::rdma_write, .remote_key = 0xbad},
                             {source.slice(0, 8)}));
    };
    std::thread one([&] { fail(c); });
    std::thread two([&] { fail(d); });
    one.join();
    two.join();
    while (home->progress()) {
    }
    for (end_point* end : {&c, &d}) {
      EXPECT_EQ(end->qp->state(), queue_pair_state::error);
      EXPECT_EQ(drain(*end->received).size(), 8U);
      EXPECT_EQ(drain(*end->sent).size(), 1U);
    }
  }
}

TEST_F(threads, no_byte_is_written_after_deregistration) {
  std::atomic<std::uint32_t> key{0};
  std::atomic<bool> stop{false};
  std::array<std::byte, 4096> memory{};
  std::thread writer([&] {
    while (!stop.load()) {
      end_point fresh;
      const completion_queue_options cq{.capacity = 64};
      fresh.sent = std::make_unique<completion_queue>(cq);
      fresh.qp = home->create({.domain = domain_id{1},
                               .send_queue = fresh.sent.get(),
                               .receive_queue = fresh.sent.get(),
                               .capabilities = {.max_send_wr = 8}})
                     .value();
      connect(*fresh.qp, connection_to(fresh.qp->number()));
      for (int i = 0; i < 8 && fresh.qp->state() == queue_pair_state::rts; ++i) {
        static_cast<void>(post(*fresh.qp,
                               {.opcode = opcode::rdma_write,
                                .flags = signaled,
                                .remote_address = 0,
                                .remote_key = key.load()},
                               {source.slice(0, 4096)}));
        drain(*fresh.sent);
      }
      home->destroy(fresh.qp);
    }
  });
  int changed = 0;
  for (int round = 0; round < 300 || changed == 0; ++round) {  // the writer may start late
    const std::uint32_t mine = home->register_region({.base = memory.data(),
                                                      .length = memory.size(),
                                                      .iova = 0,
                                                      .rights = everything,
                                                      .domain = domain_id{1}})
                                   .value();
    key.store(mine);
    for (int i = 0; i < 20; ++i) std::this_thread::yield();
    ASSERT_TRUE(home->deregister_region(mine));
    changed += memory[0] != std::byte{0} ? 1 : 0;
    memory.fill(std::byte{0});
    for (int i = 0; i < 5; ++i) std::this_thread::yield();
    ASSERT_TRUE(
        std::all_of(memory.begin(), memory.end(), [](std::byte x) { return x == std::byte{0}; }));
  }
  stop.store(true);
  writer.join();
}

TEST_F(threads, destroying_the_target_of_incoming_requests_is_safe) {
  std::atomic<std::uint32_t> number{0x14001};
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    std::uint64_t done = 0;
    while (!stop.load()) {
      to_error(*a.qp);
      drain(*a.sent);
      a.qp->modify({.state = queue_pair_state::reset}, attribute::state).value();
      connect(*a.qp, connection_to(number.load()));
      for (int i = 0; i < 10; ++i)
        static_cast<void>(post(*a.qp,
                               {.wr_id = ++done,
                                .opcode = opcode::rdma_write,
                                .flags = signaled,
                                .remote_address = target.address(),
                                .remote_key = target.key()},
                               {source.slice(0, 64)}));
    }
  });
  completion_queue cq({.capacity = 16});
  for (int round = 0; round < 100; ++round) {
    auto* fresh =
        home->create({.domain = domain_id{1}, .send_queue = &cq, .receive_queue = &cq}).value();
    connect(*fresh, connection_to(a.qp->number()));
    number.store(fresh->number());
    std::this_thread::yield();
    home->destroy(fresh);
  }
  stop.store(true);
  writer.join();
}

TEST_F(threads, concurrent_atomics_lose_no_update) {
  constexpr std::uint64_t each = 500;
  target.word(0) = 0;
  std::vector<end_point*> sources;
  for (int i = 0; i < 4; ++i) {
    end_point& from = make();
    end_point& to = make();
    connect_pair(from, to);
    sources.push_back(&from);
  }
  std::vector<std::thread> running;
  running.reserve(sources.size());
  for (end_point* from : sources)
    running.emplace_back([&, from] {
      for (std::uint64_t i = 0; i < each; ++i) {
        ASSERT_EQ(post(*from->qp,
                       {.opcode = opcode::fetch_add,
                        .flags = signaled,
                        .remote_address = target.address(),
                        .remote_key = target.key(),
                        .compare_or_add = 1},
                       {source.slice(0, 8)}),
                  0);
        drain(*from->sent);
      }
    });
  for (auto& one : running) one.join();
  EXPECT_EQ(target.word(0), 4 * each);
}

// Deregistration waits for threads in the access epoch, so such a thread must not wait for the lock
// of the batch.
TEST_F(threads, fault_commands_do_not_deadlock_with_deregistration_in_an_open_batch) {
  for (int round = 0; round < 3; ++round) {
    buffer more(*home, 64, everything, 3);
    std::atomic<bool> begun{false};
    std::atomic<bool> ended{false};
    a.qp->sends().open();
    std::thread commands([&] {
      begun = true;
      if (round == 0) home->add_fault({.effect = fault_effect::delay, .at = 1'000'000});
      if (round == 1) home->remove_faults();
      if (round == 2) home->resume(a.qp->number());
      ended = true;
    });
    while (!begun) std::this_thread::yield();
    // The other thread now waits for the lock, or will do so.
    for (int i = 0; i < 1000; ++i) std::this_thread::yield();
    EXPECT_FALSE(ended);
    std::atomic<bool> deregistered{false};
    std::thread deregistration([&] {
      more.deregister();
      deregistered = true;
    });
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!deregistered && std::chrono::steady_clock::now() < give_up) std::this_thread::yield();
    EXPECT_TRUE(deregistered) << "command " << round;
    a.qp->sends().submit();
    deregistration.join();
    commands.join();
  }
  ASSERT_EQ(post(*a.qp,
                 {.opcode = opcode::rdma_write,
                  .flags = signaled,
                  .remote_address = target.address(),
                  .remote_key = target.key()},
                 {source.slice(0, 8)}),
            0);
  EXPECT_EQ(only(*a.sent).status, completion_status::success);
}

}  // namespace
}  // namespace verbena::softdev::testing
