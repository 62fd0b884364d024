// SPDX-License-Identifier: MIT
// Each allocation and each system call of a scenario fails once: the scenario succeeds or fails
// with an errno or a failed completion; nothing leaks; the next scenario in the process succeeds.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>

#include "tests/unit/campaign_seed.hpp"
#include "tests/unit/softdev/failing_allocations.hpp"
#include "tests/unit/softdev/survival/scenario.hpp"
#include "tests/unit/softdev/survival/steps.hpp"
#include "tests/unit/softdev/survival/traffic.hpp"
#include "verbena/base/sanitizers.hpp"

#if !defined(VERBENA_ADDRESS_SANITIZER) && !defined(VERBENA_THREAD_SANITIZER)

namespace verbena::softdev::testing {
namespace {

/// Results of a child, in memory that it shares with the test.
struct child_report {
  meeting_place place;
  step_report steps;
  std::atomic<int> runs{0};  ///< scenarios that ended
  std::atomic<std::uint32_t> count{0};
  std::array<std::atomic<int>, 3> results{};
  std::array<char, 3 * 32> failed_at{};
  std::atomic<std::size_t> descriptors_before{0};
  std::atomic<std::size_t> descriptors_after{0};
};

/// How steps are made to fail: in a child process, around a scenario.
struct failing_kind {
  const char* name;
  bool (*prepare)(step_report& report);
  void (*start)(std::uint32_t step);
  std::uint32_t (*stop)();
  std::uint32_t stride;  ///< in a plain run; a campaign tries each step
};

template <call_failure How>
void fail_call(std::uint32_t step) {
  fail_system_call(step, How);
}

constexpr failing_kind kinds[] = {
    {"allocation", [](step_report&) { return true; }, fail_allocation, permit_allocations, 1},
    {"call_for_lack_of_resources", observe_system_calls, fail_call<call_failure::resource>,
     permit_system_calls, 7},
    {"call_denied", observe_system_calls, fail_call<call_failure::denied>, permit_system_calls, 7},
    {"call_interrupted", observe_system_calls, fail_call<call_failure::transient>,
     permit_system_calls, 7},
};

/// Whether the device was open before: then the scenario finds what a process keeps.
enum class history : std::uint8_t { fresh, used };

void run_once(child_report& report, bool with_peer) {
  std::atomic<const char*> step{nullptr};
  const auto number = static_cast<std::size_t>(report.runs);
  const auto result = run_scenario(with_peer ? &report.place : nullptr, step);
  report.results[number] = static_cast<int>(result);
  if (const char* const at = step; at != nullptr)
    std::strncpy(report.failed_at.data() + number * 32, at, 31);
  ++report.runs;
}

/// The runs of a child: one with the failing step, then one that must succeed.
int run_child(child_report& report, const failing_kind& kind, history before, bool with_peer,
              std::uint32_t step) {
  if (!kind.prepare(report.steps)) return 2;
  signal(SIGPIPE, SIG_IGN);
  alarm(60);
  // Each failure is reported on stderr, which is only of interest when the test fails.
  if (std::getenv("VERBENA_TEST_MESSAGES") == nullptr)
    dup2(open("/dev/null", O_WRONLY | O_CLOEXEC), STDERR_FILENO);
  if (before == history::used) {
    run_once(report, with_peer);
    report.runs = 0;
  }
  try {
    kind.start(step);
    run_once(report, with_peer);
    report.count = kind.stop();
    run_once(report, with_peer);
    // The peer may still hold a pairing that the failure ended. Descriptors of messages that are
    // being handled come and go; a leak grows with each run.
    const int last = report.runs;
    for (int attempt = 0; attempt < 10; ++attempt) {
      report.runs = last;
      report.descriptors_before = count_descriptors();
      run_once(report, with_peer);
      report.descriptors_after = count_descriptors();
      if (static_cast<scenario_result>(report.results[2].load()) == scenario_result::succeeded &&
          report.descriptors_after <= report.descriptors_before)
        break;
    }
  } catch (const std::exception& escaped) {
    std::fprintf(stderr, "escaped exception: %s\n", escaped.what());
    return 5;
  }
  _exit(0);
}

struct failing_case {
  const char* name;
  const failing_kind* kind;
  history before;
  bool with_peer;
};

class each_step_fails : public ::testing::TestWithParam<failing_case> {
 protected:
  /// Runs a child with a failing step. Returns false if the scenario ended before the step.
  bool run_step(std::uint32_t step) {
    const failing_case& what = GetParam();
    const shared_page<child_report> shared;
    child_report& said = *shared;
    child_process child([&](stream& /*parent*/) {
      return run_child(said, *what.kind, what.before, what.with_peer, step);
    });
    bool ended = true;
    if (what.with_peer)
      ended = serve(said, child.pid());
    else
      ended = eventually([&] { return has_ended(child.pid()); });
    if (!ended) child.kill_it();
    const int result = child.join();
    const auto of = [&](std::size_t run) {
      return static_cast<scenario_result>(said.results[run].load());
    };
    const auto at = [&](std::size_t run) { return std::string(said.failed_at.data() + run * 32); };
    const std::string where = "step " + std::to_string(step) + ", system call " +
                              std::to_string(said.steps.number) + ": ";
    if (!ended) {
      findings_.push_back(where + "hangs in run " + std::to_string(said.runs));
    } else if (result != 0) {
      findings_.push_back(where + "the process ended with " + std::to_string(result) +
                          " (1000 + signal) in run " + std::to_string(said.runs));
    } else if (of(0) != scenario_result::succeeded && of(0) != scenario_result::failed) {
      findings_.push_back(where + "no error, or no end, at " + at(0));
    } else if ((of(1) != scenario_result::succeeded && !what.with_peer) ||
               of(2) != scenario_result::succeeded) {
      // The second run may have met the ended pairing.
      findings_.push_back(where + "a later run fails at " + at(1) + at(2));
    } else if (said.descriptors_after > said.descriptors_before) {
      findings_.push_back(where + "later runs leak descriptors");
    }
    if (of(0) == scenario_result::failed) ++failures_;
    if (ended && result == 0) descriptors_[said.descriptors_after].push_back(step);
    const bool reached = said.count == 0 || said.count >= step;
    if (!reached) expected_descriptors_ = said.descriptors_after;
    return reached;
  }

  /// Connects a queue pair of this process to each of the scenario's.
  [[nodiscard]] bool serve(child_report& said, pid_t child) {
    std::unique_ptr<queue_pair_handle> qp;
    said.place.peer_address = memory_->address();
    said.place.peer_key = memory_->mr().rkey;
    return eventually([&] {
      if (const std::uint32_t asked = said.place.asked; asked != said.place.answered) {
        qp = std::make_unique<queue_pair_handle>(*device_);
        qp->connect(said.place.own_qpn);
        for (std::uint64_t i = 0; i < 2; ++i) {
          EXPECT_EQ(qp->receive(i, {memory_->slice(8192, 8192)}), 0);
        }
        said.place.peer_qpn = qp->get()->qp_num;
        said.place.answered = asked;
      }
      ibv_wc done{};
      while (ibv_poll_cq(device_->cq, 1, &done) > 0) {
      }
      return has_ended(child);
    });
  }

  static void SetUpTestSuite() {
    static_cast<void>(table());  // the library is loaded without failures
    device_ = std::make_unique<opened_device>(1024);
    memory_ = std::make_unique<buffer>(device_->pd, 16'384);
    idle_descriptors_ = count_descriptors();
  }
  static void TearDownTestSuite() {
    memory_.reset();
    device_.reset();
  }

  static inline std::unique_ptr<opened_device> device_;
  static inline std::unique_ptr<buffer> memory_;
  static inline std::size_t idle_descriptors_ = 0;  ///< when this process has no peer
  std::uint32_t failures_ = 0;
  std::vector<std::string> findings_;
  std::size_t expected_descriptors_ = 0;  ///< after a run in which no step failed
  std::map<std::size_t, std::vector<std::uint32_t>> descriptors_;
};

TEST_P(each_step_fails, scenario_fails_cleanly_and_the_next_one_succeeds) {
  const std::uint32_t stride = test::is_campaign() ? 1 : GetParam().kind->stride;
  // Children inherit the descriptors of pairings with the last ones.
  ASSERT_TRUE(eventually([] { return count_descriptors() <= idle_descriptors_; }));
  std::uint32_t steps = 0;
  std::uint32_t step = 1 + test::campaign_seed(0) % stride;
  while (run_step(step) && findings_.size() < 20) {
    ++steps;
    step += stride;
  }
  for (const auto& [count, at] : descriptors_) {
    if (count > expected_descriptors_ && !GetParam().with_peer)
      findings_.push_back(std::to_string(count - expected_descriptors_) + " leaked descriptors: " +
                          std::to_string(at.size()) + " steps from " + std::to_string(at.front()));
  }
  EXPECT_THAT(findings_, ::testing::IsEmpty()) << GetParam().name;
  std::printf("%s: %u steps failed, %u scenarios with them\n", GetParam().name, steps, failures_);
}

const failing_case cases[] = {
    {"allocation_alone", &kinds[0], history::fresh, false},
    {"allocation_alone_again", &kinds[0], history::used, false},
    {"allocation_with_peer", &kinds[0], history::fresh, true},
    {"call_without_resources_alone", &kinds[1], history::fresh, false},
    {"call_without_resources_alone_again", &kinds[1], history::used, false},
    {"call_without_resources_with_peer", &kinds[1], history::fresh, true},
    {"call_denied_alone", &kinds[2], history::fresh, false},
    {"call_denied_with_peer", &kinds[2], history::fresh, true},
    {"call_interrupted_alone", &kinds[3], history::fresh, false},
    {"call_interrupted_with_peer", &kinds[3], history::fresh, true},
};

INSTANTIATE_TEST_SUITE_P(of, each_step_fails, ::testing::ValuesIn(cases),
                         [](const auto& chosen) { return std::string(chosen.param.name); });

}  // namespace
}  // namespace verbena::softdev::testing

#endif
