// SPDX-License-Identifier: MIT
// A peer writes without pause, and is stopped at random moments. After the end of a registration,
// of its rights, or of the queue pair, no byte may change, also when the peer is continued.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <random>
#include <thread>

#include "tests/unit/campaign_seed.hpp"
#include "tests/unit/softdev/survival/traffic.hpp"

namespace verbena::softdev::testing {
namespace {

constexpr std::size_t race_bytes = 16'384;

/// The target of the writes, as the writing process finds it.
struct target_words {
  std::atomic<std::uint32_t> round{0};     ///< odd: a round is prepared, even: it runs
  std::atomic<std::uint32_t> finished{0};  ///< the round whose writes have ended
  std::atomic<std::uint64_t> completed{0};
  std::uint32_t qpn = 0;
  std::uint32_t key = 0;
  std::uint64_t address = 0;
  std::uint32_t writer_qpn = 0;
};

/// Writes to the target of each round until a write fails.
int write_rounds(target_words& target) {
  end_with_parent();
  alarm(3600);
  opened_device mine(1024);
  buffer source(mine.pd, race_bytes, 7);
  std::unique_ptr<queue_pair_handle> qp;
  for (std::uint32_t round = 1;; round += 2) {
    while (target.round != round) std::this_thread::yield();
    qp = std::make_unique<queue_pair_handle>(mine);
    target.writer_qpn = qp->get()->qp_num;
    target.finished = round;  // the number is there
    while (target.round != round + 1) std::this_thread::yield();
    qp->connect(target.qpn, {.timeout = 8, .retry_count = 1});
    ibv_wc done{};
    do {
      ibv_sge data = source.slice(0, race_bytes);
      ibv_send_wr request{};
      request.opcode = IBV_WR_RDMA_WRITE;
      request.send_flags = IBV_SEND_SIGNALED;
      request.sg_list = &data;
      request.num_sge = 1;
      request.wr.rdma.remote_addr = target.address;
      request.wr.rdma.rkey = target.key;
      if (qp->send(request) != 0) return 3;
      while (ibv_poll_cq(mine.cq, 1, &done) == 0) {
      }
      if (done.status == IBV_WC_SUCCESS) ++target.completed;
    } while (done.status == IBV_WC_SUCCESS);
    target.finished = round + 1;
  }
}

enum class end_of_access : std::uint8_t {
  deregistration,
  registration_without_rights,  ///< ibv_rereg_mr
  registration_elsewhere,       ///< ibv_rereg_mr
  destruction,                  ///< of the queue pair
  error_state,
};

struct race {
  const char* name;
  end_of_access how;
  bool shareable;
};

class fence_races : public ::testing::TestWithParam<race> {
 protected:
  ~fence_races() override {
    if (shareable_ != nullptr) free_shareable(shareable_);
  }
  static std::byte* allocate_shareable() {
    const auto allocate =
        reinterpret_cast<void* (*)(std::size_t, int)>(find("verbena_soft_allocate"));
    return static_cast<std::byte*>(allocate(race_bytes, 0));
  }
  static void free_shareable(std::byte* memory) {
    EXPECT_EQ(reinterpret_cast<int (*)(void*)>(find("verbena_soft_free"))(memory), 0);
  }
  std::byte* memory() { return GetParam().shareable ? shareable_ : ordinary_.data(); }

  void prepare_round() {
    if (GetParam().shareable && shareable_ == nullptr) shareable_ = allocate_shareable();
    if (mr_ == nullptr)
      mr_ = SOFT(ibv_reg_mr)(device_.pd, memory(), race_bytes, buffer::all_access);
    ASSERT_NE(mr_, nullptr);
    // A queue pair is in ERR after each round: the write that ended it failed.
    qp_ = std::make_unique<queue_pair_handle>(device_);
    target_->qpn = qp_->get()->qp_num;
    target_->key = mr_->rkey;
    target_->address = reinterpret_cast<std::uint64_t>(memory());
    ++target_->round;
    ASSERT_TRUE(eventually([&] { return target_->finished == target_->round; }));
    qp_->connect(target_->writer_qpn, patient);
    ++target_->round;
  }

  /// Ends the access. Nothing of the memory may change afterwards.
  void end_access() {
    switch (GetParam().how) {
      case end_of_access::deregistration:
        ASSERT_EQ(SOFT(ibv_dereg_mr)(std::exchange(mr_, nullptr)), 0);
        break;
      case end_of_access::registration_without_rights:
        ASSERT_EQ(SOFT(ibv_rereg_mr)(mr_, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, 0), 0);
        break;
      case end_of_access::registration_elsewhere:
        ASSERT_EQ(SOFT(ibv_rereg_mr)(mr_, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr,
                                     elsewhere_.data(), elsewhere_.size(), 0),
                  0);
        // The writes go on elsewhere until the queue pair fails.
        break;
      case end_of_access::destruction:
        qp_.reset();
        break;
      case end_of_access::error_state:
        ASSERT_EQ(qp_->to_state(IBV_QPS_ERR), 0);
        break;
    }
  }
  void clean_up() {
    ibv_wc done{};
    while (ibv_poll_cq(device_.cq, 1, &done) > 0) {
    }
    if (mr_ != nullptr && GetParam().how != end_of_access::destruction &&
        GetParam().how != end_of_access::error_state) {
      ASSERT_EQ(SOFT(ibv_dereg_mr)(std::exchange(mr_, nullptr)), 0);
    }
  }

  shared_page<target_words> target_;
  opened_device device_{1024};
  std::vector<std::byte> ordinary_{race_bytes};
  std::vector<std::byte> elsewhere_{race_bytes};
  std::byte* shareable_ = nullptr;
  ibv_mr* mr_ = nullptr;
  std::unique_ptr<queue_pair_handle> qp_;
};

TEST_P(fence_races, no_byte_changes_after_the_end_of_access) {
  const auto seed = test::campaign_seed(31);
  const int races = test::campaign_size(20, 1000);
  std::mt19937 random(seed);
  child_process writer([&](stream&) { return write_rounds(*target_); });
  int stops = 0;
  for (int round = 0; round < races; ++round) {
    SCOPED_TRACE("seed " + std::to_string(seed) + ", round " + std::to_string(round));
    prepare_round();
    if (HasFatalFailure()) return;
    const std::uint64_t before = target_->completed;
    const std::uint64_t wanted = before + random() % 3;
    ASSERT_TRUE(eventually(
        [&] { return target_->completed >= wanted || target_->finished == target_->round; }));
    const bool stop = random() % 2 == 0;
    const auto until =
        std::chrono::steady_clock::now() + std::chrono::nanoseconds(random() % 20'000);
    while (std::chrono::steady_clock::now() < until) {
    }
    std::thread continues;
    if (stop) {
      kill(writer.pid(), SIGSTOP);
      ++stops;
      // Within an access to ordinary memory, the peer must be continued before the fence ends.
      if (!GetParam().shareable || GetParam().how >= end_of_access::destruction)
        continues = std::thread([&] {
          std::this_thread::yield();
          kill(writer.pid(), SIGCONT);
        });
    }
    end_access();
    std::memset(memory(), 0x5a, race_bytes);
    if (continues.joinable()) continues.join();
    kill(writer.pid(), SIGCONT);
    if (GetParam().how == end_of_access::registration_elsewhere) {
      static_cast<void>(qp_->to_state(IBV_QPS_ERR));
    }
    ibv_wc done{};
    ASSERT_TRUE(eventually([&] {
      static_cast<void>(ibv_poll_cq(device_.cq, 1, &done));
      return target_->finished == target_->round;
    })) << "the writer's request does not end";
    const bool intact = std::all_of(memory(), memory() + race_bytes,
                                    [](std::byte each) { return each == std::byte{0x5a}; });
    ASSERT_TRUE(intact) << "memory changed after the end of access";
    qp_.reset();
    clean_up();
  }
  writer.kill_it();
  if (mr_ != nullptr) {
    EXPECT_EQ(SOFT(ibv_dereg_mr)(mr_), 0);
  }
  std::printf("%s: %d races, %d with a stopped peer, %llu writes\n", GetParam().name, races, stops,
              static_cast<unsigned long long>(target_->completed));
}

const race races[] = {
    {"deregistration_shareable", end_of_access::deregistration, true},
    {"deregistration_ordinary", end_of_access::deregistration, false},
    {"rereg_without_rights_shareable", end_of_access::registration_without_rights, true},
    {"rereg_without_rights_ordinary", end_of_access::registration_without_rights, false},
    {"rereg_elsewhere_shareable", end_of_access::registration_elsewhere, true},
    {"rereg_elsewhere_ordinary", end_of_access::registration_elsewhere, false},
    {"destroy_shareable", end_of_access::destruction, true},
    {"destroy_ordinary", end_of_access::destruction, false},
    {"error_state_shareable", end_of_access::error_state, true},
    {"error_state_ordinary", end_of_access::error_state, false},
};

INSTANTIATE_TEST_SUITE_P(of, fence_races, ::testing::ValuesIn(races),
                         [](const auto& chosen) { return std::string(chosen.param.name); });

}  // namespace
}  // namespace verbena::softdev::testing
