// SPDX-License-Identifier: MIT
#include "softdev/host/device_clock.hpp"

#include <atomic>

#include "softdev/ipc/clock.hpp"

namespace verbena::softdev {
namespace {

std::atomic<std::uint64_t> ahead{0};  // of CLOCK_MONOTONIC

}  // namespace

std::uint64_t device_clock::now() noexcept {
  return (monotonic_now() + ahead.load(std::memory_order_relaxed)) & mask;
}

void device_clock::set(std::uint64_t ticks) noexcept {
  ahead.store(ticks - monotonic_now(), std::memory_order_relaxed);
}

}  // namespace verbena::softdev
