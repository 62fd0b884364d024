// SPDX-License-Identifier: MIT
// Each lane has two counters; the phase selects the current one. A reader may increment the old
// counter if the phase changes at that moment. A writer therefore first waits for the readers that
// the previous change left on that counter.
//
// The store to a reader's counter must not be delayed past the reader's loads of protected objects.
// In exclusive lanes, only the compiler is kept from reordering them; synchronize() executes a
// barrier on the processors of all threads instead. The count of a reader whose loads precede the
// barrier is visible after it. A reader whose loads follow the barrier finds the values that the
// writer has published. If no other thread has an exclusive lane, there is no barrier: a thread
// that takes one later executes a barrier then.
#include "softdev/core/access_epoch.hpp"

#include <bit>
#include <thread>

#include "softdev/core/process_barrier.hpp"

namespace verbena::softdev {
namespace {

/// The exclusive lanes in use, one bit each.
std::atomic<std::uint64_t> lanes_in_use{0};
static_assert(access_epoch::exclusive_lanes == 64);

/// The lane of this thread: an exclusive one or a shared one.
class thread_lane {
 public:
  thread_lane() noexcept {
    std::uint64_t used = lanes_in_use.load(std::memory_order_relaxed);
    while (~used != 0) {
      const auto free = static_cast<std::size_t>(std::countr_one(used));
      // Acquire: the previous thread of the lane has left its counters at 0.
      if (lanes_in_use.compare_exchange_weak(used, used | (std::uint64_t{1} << free),
                                             std::memory_order_acquire)) {
        index_ = free;
        std::atomic_thread_fence(std::memory_order_seq_cst);  // see are_others_exclusive()
        return;
      }
    }
    static std::atomic<std::size_t> others{0};
    index_ = access_epoch::exclusive_lanes + others.fetch_add(1, std::memory_order_relaxed);
  }
  ~thread_lane() {
    // Destructors of other thread-local objects may still enter.
    const std::size_t own = index_;
    index_ = access_epoch::exclusive_lanes;
    if (own < access_epoch::exclusive_lanes)
      lanes_in_use.fetch_and(~(std::uint64_t{1} << own), std::memory_order_release);
  }
  thread_lane(const thread_lane&) = delete;
  thread_lane& operator=(const thread_lane&) = delete;

  [[nodiscard]] std::size_t index() const noexcept { return index_; }

 private:
  std::size_t index_ = access_epoch::exclusive_lanes;
};

std::size_t lane_of_this_thread() noexcept {
  static thread_local const thread_lane lane;
  return lane.index();
}

// Returns whether another thread has an exclusive lane. If not, a thread that takes one after this
// call finds the values that this thread has published before.
bool are_others_exclusive() noexcept {
  const std::size_t own = lane_of_this_thread();
  const std::uint64_t own_bit =
      own < access_epoch::exclusive_lanes ? std::uint64_t{1} << own : std::uint64_t{0};
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return (lanes_in_use.load(std::memory_order_acquire) & ~own_bit) != 0;
}

}  // namespace

std::size_t access_epoch::number_of_thread() noexcept { return lane_of_this_thread(); }

access_epoch::guard::guard(access_epoch& epoch) noexcept : guard(epoch, lane_of_this_thread()) {}

access_epoch::guard::guard(access_epoch& epoch, std::size_t lane) noexcept
    : count_(epoch
                 .lanes_of_readers_[lane < exclusive_lanes ? lane
                                                           : exclusive_lanes + lane % shared_lanes_]
                 .inside[epoch.phase_.load(std::memory_order_seq_cst) & 1U]),
      exclusive_(lane < exclusive_lanes) {
  if (!exclusive_) {
    count_.fetch_add(1, std::memory_order_seq_cst);
    return;
  }
  count_.store(count_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  if (has_process_barrier())
    std::atomic_signal_fence(std::memory_order_seq_cst);
  else
    std::atomic_thread_fence(std::memory_order_seq_cst);
}

access_epoch::guard::~guard() {
  if (exclusive_)
    count_.store(count_.load(std::memory_order_relaxed) - 1, std::memory_order_release);
  else
    count_.fetch_sub(1, std::memory_order_release);
}

void access_epoch::wait_for(std::uint32_t phase) noexcept {
  for (auto& lane : lanes_of_readers_)
    while (lane.inside[phase & 1U].load(std::memory_order_seq_cst) != 0) std::this_thread::yield();
}

void access_epoch::synchronize() noexcept {
  const std::lock_guard lock(writers_);
  if (are_others_exclusive()) run_process_barrier();
  const std::uint32_t phase = phase_.load(std::memory_order_seq_cst);
  wait_for(phase + 1);
  phase_.store(phase + 1, std::memory_order_seq_cst);
  wait_for(phase);
}

}  // namespace verbena::softdev
