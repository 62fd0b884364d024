// SPDX-License-Identifier: MIT
// The fence inside a process: a thread that withdraws an object waits until no thread uses it.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace verbena::softdev {

/// Waits for readers of withdrawn objects. A writer withdraws an object, then calls synchronize():
/// after that, no reader that could have found the object is inside.
///
/// Entering needs no locked instruction in the first `exclusive_lanes` threads of a process. Each
/// of them has its own counter, and synchronize() makes the processors of all threads execute a
/// memory barrier (membarrier(2)) if there is another such thread. Other threads share counters.
/// Threads: thread-safe. Never allocates.
class access_epoch {
 public:
  /// The number of threads with their own counter.
  static constexpr std::size_t exclusive_lanes = 64;
  /// Returns the number of this thread: the smallest number below `exclusive_lanes` that no living
  /// thread has, if there is one. Larger numbers may be shared.
  [[nodiscard]] static std::size_t number_of_thread() noexcept;

  /// Marks this thread as a reader from construction to destruction. Meanwhile the thread must not
  /// synchronize, nor wait for a thread that does.
  class guard {
   public:
    explicit guard(access_epoch& epoch) noexcept;
    ~guard();
    guard(const guard&) = delete;
    guard& operator=(const guard&) = delete;

   private:
    guard(access_epoch& epoch, std::size_t lane) noexcept;

    std::atomic<std::uint32_t>& count_;
    bool exclusive_;
  };

  /// Waits until all readers that were inside at the time of the call have left. Blocks (yields).
  void synchronize() noexcept;

 private:
  static constexpr std::size_t shared_lanes_ = 8;
  struct alignas(64) reader_lane {
    std::array<std::atomic<std::uint32_t>, 2> inside{};
  };
  void wait_for(std::uint32_t phase) noexcept;

  std::array<reader_lane, exclusive_lanes + shared_lanes_> lanes_of_readers_;
  std::atomic<std::uint32_t> phase_{0};
  std::mutex writers_;
};

}  // namespace verbena::softdev
