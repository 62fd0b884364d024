// SPDX-License-Identifier: MIT
// What arming a completion queue costs.
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "bench/profile/instruction_trace.hpp"
#include "tests/unit/softdev/shim/soft_device.hpp"

namespace verbena::softdev::testing {
namespace {

bool other_threads_sleep() {
  const std::string self = std::to_string(::gettid());
  for (const auto& each : std::filesystem::directory_iterator("/proc/self/task")) {
    if (each.path().filename() == self) continue;
    std::string stat;
    std::getline(std::ifstream(each.path() / "stat"), stat);
    const auto end_of_name = stat.rfind(") ");
    if (end_of_name == std::string::npos || stat[end_of_name + 2] != 'S') return false;
  }
  return true;
}

// A queue into which queue pairs receive whose peers are in another process.
struct armed_queue {
  explicit armed_queue(std::size_t count) {
    channel = SOFT(ibv_create_comp_channel)(device.context);
    queue = SOFT(ibv_create_cq)(device.context, 16, nullptr, channel, 0);
    for (std::size_t i = 0; i < count; ++i) {
      qps.push_back(std::make_unique<queue_pair_handle>(
          device, requested_queue_pair{.send_cq = device.cq, .recv_cq = queue}));
      qps.back()->to_init();
      qps.back()->to_rtr(qps.back()->get()->qp_num ^ (1U << 20));
    }
    // No process is there. When that is known, nothing is left to do for the queue pairs.
    qps.back()->to_rts();
    ibv_send_wr request{};
    request.opcode = IBV_WR_SEND;
    request.send_flags = IBV_SEND_SIGNALED;
    static_cast<void>(qps.back()->send(request));
    static_cast<void>(device.wait());
    for (int i = 0; i < 3; ++i) static_cast<void>(ibv_req_notify_cq(queue, 0));
    // Arming costs about 2,000 instructions less while the progress thread works.
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    while (!other_threads_sleep() && std::chrono::steady_clock::now() < until)
      std::this_thread::yield();
  }
  opened_device device;
  ibv_comp_channel* channel = nullptr;
  ibv_cq* queue = nullptr;
  std::vector<std::unique_ptr<queue_pair_handle>> qps;
};

std::optional<std::uint64_t> instructions_of_one_arming(std::size_t queue_pairs) {
  std::unique_ptr<armed_queue> made;
  const auto counted =
      bench::count_instructions([&] { made = std::make_unique<armed_queue>(queue_pairs); },
                                [&] { static_cast<void>(ibv_req_notify_cq(made->queue, 0)); });
  if (!counted) return std::nullopt;
  return counted->all;
}

// The least of several, or the first below `enough`: if the progress thread works nevertheless,
// arming waits for its lock.
std::optional<std::uint64_t> instructions_of_arming(std::size_t queue_pairs, int attempts,
                                                    std::uint64_t enough) {
  std::optional<std::uint64_t> least;
  for (int i = 0; i < attempts && (!least || *least >= enough); ++i) {
    const auto counted = instructions_of_one_arming(queue_pairs);
    if (!counted) return std::nullopt;
    if (!least || *counted < *least) least = counted;
  }
  return least;
}

TEST(arming, of_a_queue_costs_the_same_with_many_queue_pairs) {
  const auto with_one = instructions_of_arming(1, 4, 0);
  if (!with_one) GTEST_SKIP() << "ptrace is not permitted, or this is not x86-64";
  constexpr std::size_t many = 60;
  const auto with_many = instructions_of_arming(many, 30, *with_one + 10 * many);
  ASSERT_TRUE(with_many.has_value());
  EXPECT_LT(*with_many, *with_one + 10 * many) << "few for each queue pair";
}

}  // namespace
}  // namespace verbena::softdev::testing
