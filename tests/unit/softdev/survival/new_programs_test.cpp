// SPDX-License-Identifier: MIT
// A process with traffic starts others: fork, vfork, posix_spawn, exec.
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "tests/unit/campaign_seed.hpp"
#include "tests/unit/softdev/survival/traffic.hpp"

extern char** environ;

namespace verbena::softdev::testing {
namespace {

constexpr const char* started_by_test = "VERBENA_TEST_STARTED";

// The program that the tests below start: it has no descriptor of its parent's device, and can open
// the device itself.
TEST(started_program, inherits_no_descriptor_and_opens_the_device) {
  // Started by ./dev test, the process may have opened the device before.
  const bool is_started = std::getenv(started_by_test) != nullptr;
  for (const auto& each : std::filesystem::directory_iterator("/proc/self/fd")) {
    if (!is_started) break;
    std::error_code failed;
    const std::string what = std::filesystem::read_symlink(each.path(), failed).string();
    const int number = std::atoi(each.path().filename().c_str());
    if (number <= STDERR_FILENO) continue;
    for (const char* const ours : {"verbena", "[eventfd]", "[eventpoll]", "[pidfd]", "socket:"})
      EXPECT_EQ(what.find(ours), std::string::npos) << number << ": " << what;
  }
  opened_device device;
  buffer memory(device.pd, 64);
  queue_pair_handle qp(device);
  connect(qp, qp);
  ASSERT_EQ(write_within(qp, memory, 5), 0);
  EXPECT_EQ(device.wait_for(5).status, IBV_WC_SUCCESS);
}

struct program_arguments {
  program_arguments() { setenv(started_by_test, "1", 1); }
  program_arguments(const program_arguments&) = delete;
  program_arguments& operator=(const program_arguments&) = delete;
  ~program_arguments() { unsetenv(started_by_test); }

  std::string path = std::filesystem::read_symlink("/proc/self/exe").string();
  std::string filter = "--gtest_filter=started_program.*";
  std::string brief = "--gtest_brief=1";
  std::array<char*, 4> words{path.data(), filter.data(), brief.data(), nullptr};
};

/// How a process is started while this one transfers data.
using starter = pid_t (*)(traffic_end& mine, program_arguments& program);

pid_t fork_only(traffic_end& mine, program_arguments& /*program*/) {
  const pid_t child = fork();
  if (child != 0) return child;
  // The objects of the parent are refused, and the child can open the device itself.
  alarm(60);
  ibv_wc done{};
  ibv_sge data{mine.ordinary.address(), 8, mine.ordinary.mr().lkey};
  ibv_send_wr request{};
  request.opcode = IBV_WR_SEND;
  request.sg_list = &data;
  request.num_sge = 1;
  ibv_send_wr* bad = nullptr;
  if (ibv_post_send(mine.queue_pairs[0]->get(), &request, &bad) == 0) _exit(20);
  if (ibv_poll_cq(mine.device.cq, 1, &done) > 0) _exit(21);
  if (SOFT(ibv_reg_mr)(mine.device.pd, mine.ordinary.data(), 64, 0) != nullptr) _exit(22);
  if (errno == 0) _exit(23);
  try {
    const opened_device own;
  } catch (const std::exception&) {
    _exit(24);
  }
  _exit(::testing::Test::HasFailure() ? 25 : 0);
}

pid_t fork_and_execute(traffic_end& /*mine*/, program_arguments& program) {
  const pid_t child = fork();
  if (child != 0) return child;
  execv(program.words[0], program.words.data());
  _exit(30);
}

pid_t vfork_and_execute(traffic_end& /*mine*/, program_arguments& program) {
  const pid_t child = vfork();  // NOLINT(bugprone-unsafe-functions): programs call it
  if (child != 0) return child;
  execv(program.words[0], program.words.data());
  _exit(30);
}

pid_t spawn(traffic_end& /*mine*/, program_arguments& program) {
  pid_t child = -1;
  return posix_spawn(&child, program.words[0], nullptr, nullptr, program.words.data(), environ) == 0
             ? child
             : -1;
}

struct start_case {
  const char* name;
  starter start;
};

class started_during_traffic : public ::testing::TestWithParam<start_case> {};

TEST_P(started_during_traffic, parent_continues_and_child_is_independent) {
  traffic_end mine;
  child_process peer([](stream& parent) -> int {
    traffic_end its;
    parent.put(its.card());
    its.connect(parent.take<end_card>());
    parent.meet();
    alarm(600);
    serve_for_ever(its);
  });
  const auto card = peer.to().take<end_card>();
  peer.to().put(mine.card());
  mine.connect(card);
  peer.to().meet();
  program_arguments program;
  const int starts = test::campaign_size(1, 100);
  std::uint64_t transfers = 0;
  int kind = 0;
  const auto transfer = [&] {
    ASSERT_EQ(mine.transfer(static_cast<traffic_kind>(kind++ % traffic_kinds)), IBV_WC_SUCCESS);
    ++transfers;
  };
  for (int round = 0; round < starts; ++round) {
    transfer();
    // Requests are outstanding while the process is started.
    for (std::uint64_t i = 0; i < 4; ++i) ASSERT_EQ(mine.post(traffic_kind::long_send, 0, i), 0);
    const pid_t child = GetParam().start(mine, program);
    ASSERT_GT(child, 0);
    int ends = 0;
    ibv_wc done{};
    ASSERT_TRUE(eventually([&] {
      if (mine.poll(done)) {
        EXPECT_EQ(done.status, IBV_WC_SUCCESS);
        ++ends;
      }
      return ends == 4;
    }));
    for (int i = 0; i < traffic_kinds || !has_ended(child); ++i) transfer();
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
    ASSERT_EQ(WEXITSTATUS(status), 0) << "round " << round;
  }
  std::printf("%s: %d processes during %llu transfers\n", GetParam().name, starts,
              static_cast<unsigned long long>(transfers));
}

INSTANTIATE_TEST_SUITE_P(by, started_during_traffic,
                         ::testing::Values(start_case{"fork", fork_only},
                                           start_case{"fork_and_exec", fork_and_execute},
                                           start_case{"vfork_and_exec", vfork_and_execute},
                                           start_case{"posix_spawn", spawn}),
                         [](const auto& chosen) { return std::string(chosen.param.name); });

}  // namespace
}  // namespace verbena::softdev::testing
