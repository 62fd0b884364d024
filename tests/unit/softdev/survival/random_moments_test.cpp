// SPDX-License-Identifier: MIT
// Two processes under load on several queue pairs, in both directions. One of them is killed, or
// stopped and continued, at a random moment.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <random>
#include <string>
#include <thread>

#include "tests/unit/campaign_seed.hpp"
#include "tests/unit/softdev/survival/traffic.hpp"

namespace verbena::softdev::testing {
namespace {

using std::chrono::microseconds;
using std::chrono::steady_clock;

constexpr std::size_t queue_pairs = 4;
constexpr int outstanding = 6;

/// Keeps requests of all kinds outstanding on each queue pair.
class load {
 public:
  load(traffic_end& end, std::uint32_t seed) : end_(end), random_(seed) {}

  /// Posts requests and polls once. Counts how requests end.
  void turn() {
    for (std::size_t i = 0; i < pending.size(); ++i) {
      while (!stopped[i] && pending[i] < outstanding) {
        const auto kind = static_cast<traffic_kind>(random_() % traffic_kinds);
        if (end_.post(kind, i, i) != 0) {
          stopped[i] = true;
          break;
        }
        ++pending[i];
      }
    }
    poll();
  }
  void poll() {
    ibv_wc done{};
    if (!end_.poll(done)) return;
    const auto which = static_cast<std::size_t>(done.wr_id);
    --pending[which];
    if (done.status == IBV_WC_SUCCESS) {
      ++succeeded;
      return;
    }
    stopped[which] = true;
    const bool flushed = done.status == IBV_WC_WR_FLUSH_ERR;
    if (flushed || failures[which] != IBV_WC_SUCCESS) return;
    failures[which] = done.status;
    if (reason.empty()) reason = reason_of(done);
  }
  [[nodiscard]] int all_pending() const {
    int sum = 0;
    for (const int each : pending) sum += each;
    return sum;
  }

  std::array<int, queue_pairs> pending{};
  std::array<bool, queue_pairs> stopped{};
  std::array<ibv_wc_status, queue_pairs> failures{};
  std::uint64_t succeeded = 0;
  std::string reason;  ///< of the first failure

 private:
  static std::string reason_of(const ibv_wc& done) {
    const auto ask = reinterpret_cast<verbena_soft_explain_function>(find("verbena_soft_explain"));
    std::array<char, 512> text{};
    static_cast<void>(ask(done.qp_num, done.wr_id, done.vendor_err, text.data(), text.size()));
    return text.data();
  }

  traffic_end& end_;
  std::minstd_rand random_;
};

/// A process with load towards this one, until it is killed.
std::unique_ptr<child_process> loaded_process(std::uint32_t seed, const bring_up& how) {
  return std::make_unique<child_process>([=](stream& parent) -> int {
    traffic_end mine(queue_pairs);
    parent.put(mine.card());
    const auto peer = parent.take<end_card>();
    mine.connect(peer, how);
    parent.meet();
    end_with_parent();
    alarm(1200);
    load mine_load(mine, seed);
    for (;;) {
      mine_load.turn();
      std::this_thread::yield();
    }
  });
}

void meet(traffic_end& mine, child_process& other, const bring_up& how) {
  const auto peer = other.to().take<end_card>();
  other.to().put(mine.card());
  mine.connect(peer, how);
  other.to().meet();
}

void run_for(load& of, microseconds time) {
  const auto end = steady_clock::now() + time;
  do {
    of.turn();
  } while (steady_clock::now() < end);
}

TEST(random_moments, process_killed_under_load_leaves_the_others_intact) {
  const auto seed = test::campaign_seed(11);
  const int kills = test::campaign_size(12, 250);
  std::mt19937 random(seed);
  third_process third;
  third.check();
  const std::size_t descriptors = count_descriptors();
  const auto files = files_of_shared_memory();
  std::uint64_t transfers = 0;
  for (int round = 0; round < kills; ++round) {
    SCOPED_TRACE("seed " + std::to_string(seed) + ", round " + std::to_string(round));
    traffic_end mine(queue_pairs);
    const auto other = loaded_process(random(), patient);
    meet(mine, *other, patient);
    load own(mine, random());
    run_for(own, microseconds(random() % 6000));
    other->kill_it();
    ASSERT_TRUE(eventually([&] {
      own.turn();
      return std::ranges::all_of(own.stopped, [](bool each) { return each; }) &&
             own.all_pending() == 0;
    })) << own.all_pending()
        << " requests did not end";
    for (const ibv_wc_status each : own.failures) ASSERT_EQ(each, IBV_WC_RETRY_EXC_ERR);
    ASSERT_EQ(other->join(), 1000 + SIGKILL);
    transfers += own.succeeded;
    mine.disconnect();
    third.check();
    if (HasFailure()) return;
  }
  EXPECT_EQ(files_of_shared_memory(), files);
  EXPECT_TRUE(eventually([&] { return count_descriptors() <= descriptors; }))
      << count_descriptors() << " descriptors instead of " << descriptors;
  std::printf("%d kills, %llu transfers before them\n", kills,
              static_cast<unsigned long long>(transfers));
}

// A process that is stopped after it has paired fails no request: as with an adapter, which works
// while a process does not run.
TEST(random_moments, stopped_process_under_load_fails_no_request) {
  const auto seed = test::campaign_seed(12);
  const int stops = test::campaign_size(20, 250);
  std::mt19937 random(seed);
  third_process third;
  bring_up endless = patient;
  endless.timeout = 0;
  traffic_end mine(queue_pairs);
  const auto other = loaded_process(random(), endless);
  meet(mine, *other, endless);
  load own(mine, random());
  for (int round = 0; round < stops; ++round) {
    SCOPED_TRACE("seed " + std::to_string(seed) + ", round " + std::to_string(round));
    run_for(own, microseconds(random() % 3000));
    kill(other->pid(), SIGSTOP);
    run_for(own, microseconds(random() % 3000));
    third.check();
    kill(other->pid(), SIGCONT);
    const std::uint64_t before = own.succeeded;
    EXPECT_TRUE(eventually([&] {
      own.turn();
      return own.succeeded >= before + 50;
    })) << "no transfers after SIGCONT";
    for (const ibv_wc_status each : own.failures) EXPECT_EQ(each, IBV_WC_SUCCESS) << own.reason;
    if (HasFailure()) return;
  }
  std::printf("%d stops, %llu transfers\n", stops, static_cast<unsigned long long>(own.succeeded));
}

// A process that is stopped before it has paired does not answer: requests with a timeout fail, and
// requests without one wait until it is continued.
TEST(random_moments, process_stopped_before_pairing_fails_requests_with_a_timeout) {
  const int processes = test::campaign_size(3, 24);
  bring_up endless = patient;
  endless.timeout = 0;
  bring_up limited = patient;
  limited.timeout = 12;
  limited.retry_count = 1;
  // Not by the stream: a receive with a timeout ends when its process is continued.
  struct given_card {
    std::atomic<bool> ready{false};
    end_card card;
  };
  std::vector<std::unique_ptr<shared_page<given_card>>> given;
  std::vector<std::unique_ptr<traffic_end>> ends;
  std::vector<std::unique_ptr<child_process>> stopped;
  for (int i = 0; i < processes; ++i) {
    auto& told = *given.emplace_back(std::make_unique<shared_page<given_card>>());
    stopped.push_back(std::make_unique<child_process>([&told](stream& parent) -> int {
      traffic_end its(2);
      parent.put(its.card());
      while (!told->ready) std::this_thread::yield();
      its.connect(told->card);
      serve_for_ever(its);
    }));
    traffic_end& mine = *ends.emplace_back(std::make_unique<traffic_end>(2));
    const auto peer = stopped.back()->to().take<end_card>();
    kill(stopped.back()->pid(), SIGSTOP);  // it has not been told of a peer
    told->card = mine.card();
    told->ready = true;
    mine.peer = peer;
    mine.queue_pairs[0]->connect(peer.qpns[0], limited);
    mine.queue_pairs[1]->connect(peer.qpns[1], endless);
    // In either order: each has its turn when the process is overdue.
    const std::size_t first = static_cast<std::size_t>(i) % 2;
    for (const std::size_t which : {first, 1 - first})
      ASSERT_EQ(mine.post(traffic_kind::send, which, which), 0);
  }
  for (const auto& mine : ends) {
    ibv_wc done{};
    ASSERT_TRUE(eventually([&] { return mine->poll(done); }));
    EXPECT_EQ(done.wr_id, 0U);
    EXPECT_EQ(done.status, IBV_WC_RETRY_EXC_ERR);
  }
  for (const auto& process : stopped) kill(process->pid(), SIGCONT);
  for (const auto& mine : ends) {
    ibv_wc done{};
    ASSERT_TRUE(eventually([&] { return mine->poll(done); }));
    EXPECT_EQ(done.wr_id, 1U);
    EXPECT_EQ(done.status, IBV_WC_SUCCESS) << "vendor error " << done.vendor_err;
    EXPECT_EQ(mine->transfer(traffic_kind::write, 1), IBV_WC_SUCCESS);
  }
  std::printf("%d processes stopped before they paired\n", processes);
}

}  // namespace
}  // namespace verbena::softdev::testing
