// SPDX-License-Identifier: MIT
// A process is killed at every step of each operation: before each store to shared memory, and at
// each system call. The surviving process and its other peer must not be affected.
#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>

#include "tests/unit/campaign_seed.hpp"
#include "tests/unit/softdev/survival/steps.hpp"
#include "tests/unit/softdev/survival/traffic.hpp"
#include "verbena/base/sanitizers.hpp"

// ThreadSanitizer handles signals later; AddressSanitizer needs system calls itself.
#if !defined(VERBENA_THREAD_SANITIZER) && \
    (defined(__x86_64__) || !defined(VERBENA_ADDRESS_SANITIZER))

namespace verbena::softdev::testing {
namespace {

/// An operation of the process that is killed.
struct killed_operation {
  const char* name;
  void (*run)(traffic_end& mine);
  bool connected_before = true;
  bool used_before = true;  ///< the two processes have exchanged messages
  /// The peer sends messages: some before, which are received, and one when the operation begins.
  std::optional<traffic_kind> received = {};
};
constexpr int received_before = 6;

template <traffic_kind Kind>
void transfer(traffic_end& mine) {
  static_cast<void>(mine.transfer(Kind));
}

void connect_to_peer(traffic_end& mine) { mine.connect(mine.peer); }

void receive(traffic_end& mine) {
  ibv_wc done{};
  while (ibv_poll_cq(mine.device.cq, 1, &done) == 0) {
  }
  static_cast<void>(mine.post_receive());
}

void modify(traffic_end& mine) {
  static_cast<void>(mine.queue_pairs[0]->to_state(IBV_QPS_ERR));
  static_cast<void>(mine.queue_pairs[0]->to_state(IBV_QPS_RESET));
}

void destroy(traffic_end& mine) { mine.queue_pairs.clear(); }

void register_memory(traffic_end& mine) {
  const buffer other(mine.device.pd, 4096);
  const shareable_buffer more(mine.device.pd, 8192);
}

void deregister(traffic_end& mine) {
  static_cast<void>(mine.shareable.deregister());
  mine.shareable.register_again(mine.device.pd);
}

void arm(traffic_end& mine) {
  static_cast<void>(ibv_req_notify_cq(mine.device.cq, 0));
  transfer<traffic_kind::send>(mine);
}

constexpr killed_operation operations[] = {
    {"send", transfer<traffic_kind::send>},
    {"long_send", transfer<traffic_kind::long_send>},
    {"long_send_shareable", transfer<traffic_kind::long_send_shareable>},
    {"receive", receive, true, true, traffic_kind::send},
    {"receive_long_shareable", receive, true, true, traffic_kind::long_send_shareable},
    {"write", transfer<traffic_kind::write>},
    {"long_write", transfer<traffic_kind::long_write>},
    {"write_shareable", transfer<traffic_kind::write_shareable>},
    {"read", transfer<traffic_kind::read>},
    {"read_shareable", transfer<traffic_kind::read_shareable>},
    {"atomic", transfer<traffic_kind::atomic>},
    {"atomic_shareable", transfer<traffic_kind::atomic_shareable>},
    {"arm", arm},
    {"register", register_memory},
    {"deregister", deregister},
    {"modify", modify},
    {"destroy", destroy},
    {"connect", connect_to_peer, false, false},
    {"first_send", transfer<traffic_kind::send>, true, false},
    {"first_write", transfer<traffic_kind::write_shareable>, true, false},
};

enum phase : std::uint8_t { preparing, receiving, counting, finished };

/// Starts the operation of a child that is killed at a step.
int run_child(stream& parent, const killed_operation& what, step_report& report,
              const std::function<bool()>& observe, const std::function<void()>& start) {
  if (!observe()) return 2;
  traffic_end mine;
  parent.put(mine.card());
  mine.peer = parent.take<end_card>();
  if (what.connected_before) mine.connect(mine.peer);
  parent.meet();
  if (what.used_before) {
    for (const traffic_kind kind :
         {traffic_kind::send, traffic_kind::write, traffic_kind::write_shareable})
      if (mine.transfer(kind) != IBV_WC_SUCCESS) return 3;
    // The peer maps the memory.
    for (int i = 0; i < received_before; ++i)
      if (mine.transfer(traffic_kind::long_send_shareable) != IBV_WC_SUCCESS) return 3;
  }
  report.phase = receiving;
  for (int i = 0; what.received && i < received_before; ++i) receive(mine);
  report.phase = counting;
  start();
  what.run(mine);
  report.phase = finished;
  _exit(0);
}

class killed_at_steps : public ::testing::TestWithParam<killed_operation> {
 protected:
  /// Runs rounds with a growing step until the operation ends before it. Returns the steps.
  template <class Start>
  std::uint32_t kill_at_each_step(const std::function<bool()>& observe, Start&& start) {
    third_->check();
    const std::size_t descriptors = count_descriptors();
    const auto files = files_of_shared_memory();
    // In a plain run some of the steps, each run the same.
    const auto stride = static_cast<std::uint32_t>(test::is_campaign() ? 1 : 9);
    std::uint32_t step = 1 + test::campaign_seed(0) % stride;
    std::uint32_t kills = 0;
    for (;; step += stride) {
      const bool killed = round(step, observe, start);
      if (HasFatalFailure() || HasNonfatalFailure()) {
        ADD_FAILURE() << GetParam().name << ", step " << step;
        return step;
      }
      if (!killed) break;
      ++kills;
    }
    third_->check();
    EXPECT_EQ(files_of_shared_memory(), files);
    EXPECT_TRUE(eventually([&] { return count_descriptors() <= descriptors; }))
        << count_descriptors() << " descriptors instead of " << descriptors;
    std::printf("%s: killed at %u of about %u steps\n", GetParam().name, kills, step - 1);
    return step;
  }

  /// Returns false if the operation ended before the step.
  template <class Start>
  bool round(std::uint32_t step, const std::function<bool()>& observe, Start& start) {
    const killed_operation& what = GetParam();
    report_->phase = preparing;
    report_->count = 0;
    traffic_end mine;
    child_process child([&](stream& parent) {
      return run_child(parent, what, *report_, observe, [&] { start(step); });
    });
    const auto peer = child.to().take<end_card>();
    child.to().put(mine.card());
    mine.connect(peer);
    child.to().meet();
    ibv_wc done{};
    int sent = what.received ? 0 : received_before + 1;
    const bool ended = eventually([&] {
      const int phase = report_->phase;
      const int due = phase == preparing   ? 0
                      : phase == receiving ? received_before
                                           : received_before + 1;
      for (; sent < due; ++sent) EXPECT_EQ(mine.post(*what.received, 0, 2), 0);
      static_cast<void>(mine.poll(done));
      return has_ended(child.pid());
    });
    EXPECT_TRUE(ended) << "the child hangs in phase " << report_->phase;
    const int result = ended ? child.join() : 0;
    const bool killed = result == 1000 + SIGKILL;
    EXPECT_TRUE(killed || (result == 0 && report_->phase == finished)) << "result " << result;
    // The requests that the survivor posts now end, whatever state the words are in.
    int posted = 0;
    for (const traffic_kind kind : {traffic_kind::send, traffic_kind::write_shareable,
                                    traffic_kind::read, traffic_kind::atomic_shareable})
      if (mine.post(kind) == 0) ++posted;
    int ends = 0;
    EXPECT_TRUE(eventually([&] {
      if (mine.poll(done) && done.wr_id == 1) ++ends;
      return ends >= posted;
    })) << ends
        << " of " << posted << " requests ended";
    mine.disconnect();
    return killed;
  }

  static void SetUpTestSuite() { third_ = std::make_unique<third_process>(); }
  static void TearDownTestSuite() { third_.reset(); }

  static inline std::unique_ptr<third_process> third_;
  shared_page<step_report> report_;
};

#if defined(__x86_64__)
TEST_P(killed_at_steps, stores_to_shared_memory_leave_the_peer_intact) {
  static_cast<void>(kill_at_each_step([] { return true; },
                                      [this](std::uint32_t step) {
                                        if (!count_stores(*report_, step)) _exit(4);
                                      }));
}
#endif

#if !defined(VERBENA_ADDRESS_SANITIZER)
TEST_P(killed_at_steps, system_calls_leave_the_peer_intact) {
  static_cast<void>(kill_at_each_step([this] { return observe_system_calls(*report_); },
                                      [](std::uint32_t step) { kill_at_system_call(step); }));
}
#endif

INSTANTIATE_TEST_SUITE_P(of, killed_at_steps, ::testing::ValuesIn(operations),
                         [](const auto& chosen) { return std::string(chosen.param.name); });

}  // namespace
}  // namespace verbena::softdev::testing

#endif
