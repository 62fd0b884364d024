// SPDX-License-Identifier: MIT
// Many processes, each connected to each other one. On few processors a process is not scheduled
// for seconds, so pairings take long; no request may fail because of this.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "tests/unit/campaign_seed.hpp"
#include "tests/unit/softdev/shim/soft_device.hpp"
#include "tests/unit/softdev/shim/subprocess.hpp"

namespace verbena::softdev::testing {
namespace {

constexpr int most_processes = 96;
using numbers = std::array<std::uint32_t, most_processes>;

/// How the completions of a member failed: the first failure.
struct outcome {
  int completed = 0;
  int status = IBV_WC_SUCCESS;
  std::uint32_t vendor_error = 0;
};

/// One of the processes.
class member {
 public:
  member(int own, int count) : count_(count) {
    for (int other = 0; other < count; ++other) {
      if (other == own) continue;
      const requested_queue_pair wishes{.cap = {2, 2, 1, 1, 16}};
      ends_.emplace(other, std::make_unique<queue_pair_handle>(device_, wishes));
    }
  }

  [[nodiscard]] numbers own_numbers() const {
    numbers all{};
    for (const auto& [other, end] : ends_)
      all[static_cast<std::size_t>(other)] = end->get()->qp_num;
    return all;
  }
  void connect(const numbers& peers) {
    // The first retransmission would be after the end of the test: only the death of a peer ends a
    // request, and a request that is lost stays incomplete.
    const bring_up patient{.timeout = 23, .retry_count = 7};
    for (const auto& [other, end] : ends_) {
      end->connect(peers[static_cast<std::size_t>(other)], patient);
      EXPECT_EQ(end->receive(1, {memory_.slice(64, 64)}), 0);
    }
  }
  /// Sends one message to each process and waits for one of each.
  [[nodiscard]] outcome exchange() {
    for (const auto& [other, end] : ends_) {
      ibv_sge data = memory_.slice(0, 8);
      ibv_send_wr request{};
      request.wr_id = 2;
      request.opcode = IBV_WR_SEND;
      request.send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE;
      request.sg_list = &data;
      request.num_sge = 1;
      EXPECT_EQ(end->send(request), 0);
    }
    outcome result;
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(25);
    while (result.completed < 2 * (count_ - 1) && std::chrono::steady_clock::now() < give_up) {
      std::array<ibv_wc, 16> done{};
      const int got = ibv_poll_cq(device_.cq, static_cast<int>(done.size()), done.data());
      for (int i = 0; i < got; ++i) {
        const ibv_wc& one = done[static_cast<std::size_t>(i)];
        ++result.completed;
        if (one.status == IBV_WC_SUCCESS || result.status != IBV_WC_SUCCESS) continue;
        result.status = one.status;
        result.vendor_error = one.vendor_err;
      }
    }
    return result;
  }

 private:
  int count_;
  opened_device device_{2 * most_processes};
  buffer memory_{device_.pd, 128};
  std::map<int, std::unique_ptr<queue_pair_handle>> ends_;
};

int take_part(stream& parent, int own, int count) {
  member self(own, count);
  parent.put(self.own_numbers());
  self.connect(parent.take<numbers>());
  parent.meet();
  parent.meet();  // all are connected: a request to a queue pair before that has no answer
  parent.put(self.exchange());
  parent.meet();  // no process exits while others exchange messages
  return 0;
}

/// VERBENA_TEST_PROCESSES: the number of processes in a campaign.
int processes_of_campaign() {
  const char* const set = std::getenv("VERBENA_TEST_PROCESSES");
  return set == nullptr ? 64 : std::max(2, std::atoi(set));
}

/// Measures the time since its construction.
class stopwatch {
 public:
  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

TEST(crowd, each_process_exchanges_messages_with_each_other_one) {
  const int count = std::min(test::campaign_size(24, processes_of_campaign()), most_processes);
  std::vector<std::unique_ptr<child_process>> members;
  members.reserve(static_cast<std::size_t>(count));
  for (int own = 0; own < count; ++own)
    members.push_back(std::make_unique<child_process>(
        [own, count](stream& parent) { return take_part(parent, own, count); }));
  std::vector<numbers> known;
  known.reserve(members.size());
  for (const auto& each : members) known.push_back(each->to().take<numbers>());
  const stopwatch connected;
  for (int own = 0; own < count; ++own) {
    numbers peers{};
    for (int other = 0; other < count; ++other)
      peers[static_cast<std::size_t>(other)] =
          known[static_cast<std::size_t>(other)][static_cast<std::size_t>(own)];
    members[static_cast<std::size_t>(own)]->to().put(peers);
  }
  for (const auto& each : members) each->to().meet();
  const double connecting = connected.seconds();
  for (const auto& each : members) each->to().meet();
  for (int own = 0; own < count; ++own) {
    const auto result = members[static_cast<std::size_t>(own)]->to().take<outcome>();
    EXPECT_EQ(result.completed, 2 * (count - 1)) << "process " << own;
    EXPECT_EQ(result.status, IBV_WC_SUCCESS)
        << "process " << own << ", vendor error " << result.vendor_error;
  }
  for (const auto& each : members) each->to().meet();
  std::printf("%d processes: connected in %.2f s, first messages after %.2f s\n", count, connecting,
              connected.seconds());
  for (const auto& each : members) EXPECT_EQ(each->join(), 0);
}

}  // namespace
}  // namespace verbena::softdev::testing
