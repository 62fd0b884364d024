// SPDX-License-Identifier: MIT
// The fence inside a process: who takes something away waits until nobody uses it any more.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>

namespace verbena::softdev {

/// Readers enter and leave at the cost of two atomic additions on a line of their own; a writer
/// unpublishes something and then synchronizes: afterwards no reader that could have seen it is
/// inside. Threads: thread-safe. Never allocates.
class access_epoch {
 public:
  /// Inside between construction and destruction. Must not synchronize, nor wait for a thread that
  /// does.
  class guard {
   public:
    explicit guard(access_epoch& epoch) noexcept;
    ~guard() { count_.fetch_sub(1, std::memory_order_release); }
    guard(const guard&) = delete;
    guard& operator=(const guard&) = delete;

   private:
    std::atomic<std::uint32_t>& count_;
  };

  /// Waits until everybody who was inside when it was called has left. Blocks (yielding).
  void synchronize() noexcept;

 private:
  static constexpr std::size_t lanes_ = 32;
  struct alignas(64) reader_lane {
    std::array<std::atomic<std::uint32_t>, 2> inside{};
  };
  [[nodiscard]] static std::size_t lane_of_this_thread() noexcept;
  void wait_for(std::uint32_t phase) noexcept;

  std::array<reader_lane, lanes_> lanes_of_readers_;
  std::atomic<std::uint32_t> phase_{0};
  std::mutex writers_;
};

}  // namespace verbena::softdev
