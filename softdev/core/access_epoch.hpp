// SPDX-License-Identifier: MIT
// The fence inside a process: who withdraws an object waits until no thread uses it any more.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace verbena::softdev {

/// Readers enter and leave; a writer withdraws an object and then synchronizes: afterwards no
/// reader that could have found the object is inside.
///
/// Entering costs no locked instruction in the first `exclusive_lanes` threads of a process: each
/// has a counter of its own, and synchronize() makes the processors of all threads execute a memory
/// barrier (membarrier(2)) if there is another such thread. Other threads share counters. Threads:
/// thread-safe. Never allocates.
class access_epoch {
 public:
  /// Threads with a counter of their own.
  static constexpr std::size_t exclusive_lanes = 64;
  /// Numbers the threads of the process that live: the smallest free number, below
  /// `exclusive_lanes` as long as there is one. Larger numbers are shared.
  [[nodiscard]] static std::size_t number_of_thread() noexcept;

  /// Inside from construction to destruction. While it exists, this thread must not synchronize,
  /// nor wait for a thread that does.
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
