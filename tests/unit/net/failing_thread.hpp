// SPDX-License-Identifier: MIT
// Makes an allocation of a thread of the library fail: exhausted_memory_test.cpp replaces operator
// new.
#pragma once

#include <pthread.h>

#include <array>
#include <atomic>
#include <string_view>

#include "verbena/base/sanitizers.hpp"

// Sanitizers have their own operator new.
#if !defined(VERBENA_ADDRESS_SANITIZER) && !defined(VERBENA_THREAD_SANITIZER)
#define VERBENA_FAILS_ALLOCATIONS

namespace verbena::test {

/// Makes one allocation of a thread fail.
class failing_thread {
 public:
  /// The allocation with number `count` of the threads called `name` fails, counted from now.
  static void arm(const char* name, int count) {
    name_.store(name);
    until_failure_.store(count);
  }
  /// Returns true if the allocation has failed. No other allocation fails afterwards.
  static bool disarm() { return until_failure_.exchange(0) <= 0; }
  /// Called for each allocation.
  [[nodiscard]] static bool must_fail() noexcept {
    if (until_failure_.load(std::memory_order_relaxed) <= 0) return false;
    std::array<char, 16> name{};
    if (::pthread_getname_np(::pthread_self(), name.data(), name.size()) != 0) return false;
    return std::string_view(name.data()) == name_.load() && until_failure_.fetch_sub(1) == 1;
  }

 private:
  static inline std::atomic<const char*> name_ = "";
  static inline std::atomic<int> until_failure_ = 0;
};

}  // namespace verbena::test

#endif
