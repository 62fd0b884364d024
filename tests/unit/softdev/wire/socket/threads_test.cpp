// SPDX-License-Identifier: MIT
// The UDP path with several threads, mainly for ThreadSanitizer.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "tests/unit/softdev/wire/socket/wired_host.hpp"

namespace verbena::softdev::wire {
namespace {

constexpr int rounds = 50;

send_request write_to(wired_host& target) {
  return {.wr_id = 1,
          .opcode = opcode::rdma_write,
          .flags = send_flag::signaled,
          .remote_address = target.memory.address(),
          .remote_key = target.memory.key()};
}

/// Two hosts, each with a progress thread like the one of the device.
class wire_threads : public ::testing::Test {
 protected:
  void SetUp() override {
    first.timeout = second.timeout = long_timeout;
    first.connect(second);
    second.connect(first);
    for (wired_host* each : {&first, &second})
      devices_.emplace_back([this, each] {
        while (!ended_) {
          each->run();
          std::this_thread::yield();
        }
      });
  }
  ~wire_threads() override {
    ended_ = true;
    for (std::thread& each : devices_) each.join();
  }
  /// Posts a request of a queue pair, and waits for its completion.
  static completion_status execute(simulation::end& by, const send_request& what, const sge& data) {
    if (!by.post(what, {data})) return completion_status::fatal_error;
    std::array<completion, 1> found;
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (by.sent().poll(found) == 0) {
      std::this_thread::yield();
      if (std::chrono::steady_clock::now() > end) return completion_status::fatal_error;
    }
    return found[0].status;
  }

  const std::uint16_t port = free_port();
  wired_host first{1, port};
  wired_host second{2, port};

 private:
  std::atomic<bool> ended_{false};
  std::vector<std::thread> devices_;
};

TEST_F(wire_threads, both_hosts_post_while_other_threads_use_the_path) {
  std::atomic<bool> done{false};
  std::thread observer([&] {
    while (!done) {
      for (wired_host* each : {&first, &second}) {
        each->path.arm();
        static_cast<void>(each->path.next_deadline());
        static_cast<void>(each->path.counters());
        each->path.disarm();
        each->path.prepare_fork();
        each->path.continue_after_fork();
      }
      std::this_thread::yield();
    }
  });
  std::thread answering([&] {
    for (int i = 0; i < rounds; ++i)
      EXPECT_EQ(execute(second.mine, write_to(first), second.memory.slice(8192, 4000)),
                completion_status::success);
  });
  for (int i = 0; i < rounds; ++i)
    EXPECT_EQ(execute(first.mine, write_to(second), first.memory.slice(8192, 4000)),
              completion_status::success);
  answering.join();
  done = true;
  observer.join();
}

TEST_F(wire_threads, queue_pairs_are_connected_and_destroyed_while_others_communicate) {
  std::thread changing([&] {
    for (int i = 0; i < 10; ++i) {
      simulation::end from(first.home);
      simulation::end to(second.home);
      for (const bool forward : {true, false}) {
        wired_host& host = forward ? first : second;
        wired_host& peer = forward ? second : first;
        simulation::end& own = forward ? from : to;
        EXPECT_TRUE(host.path.connect(own.pair(), host.route_to(peer)));
        queue_pair_attributes attributes =
            simulation::attributes_for((forward ? to : from).pair().number());
        attributes.timeout = long_timeout;
        attributes.path_to_peer = path_to_peer::wire;
        own.connect(attributes);
      }
      EXPECT_EQ(execute(from, write_to(second), first.memory.slice(16384, 300)),
                completion_status::success);
    }
  });
  for (int i = 0; i < rounds; ++i)
    EXPECT_EQ(execute(first.mine, write_to(second), first.memory.slice(8192, 4000)),
              completion_status::success);
  changing.join();
}

TEST_F(wire_threads, processes_register_and_end_while_others_communicate) {
  std::thread changing([&] {
    for (std::uint32_t slot = 3; slot < 11; ++slot) {
      port_share process = port_share::open(port, slot).value();
      while (process.join().value() == port_share::role::none) std::this_thread::yield();
      EXPECT_EQ(process.now(), port_share::role::client);
    }
  });
  for (int i = 0; i < rounds; ++i)
    EXPECT_EQ(execute(second.mine, write_to(first), second.memory.slice(8192, 4000)),
              completion_status::success);
  changing.join();
}

}  // namespace
}  // namespace verbena::softdev::wire
