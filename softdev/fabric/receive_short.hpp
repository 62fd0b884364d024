// SPDX-License-Identifier: MIT
// Short sends that come one after the other for one queue pair: they are decoded in place, and
// acknowledged together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>

#include "softdev/core/receive_run.hpp"
#include "softdev/fabric/endpoint_state.hpp"

namespace verbena::softdev {

/// Threads: one thread at a time, in one access epoch from the first `receive` to `end`.
class short_receiver {
 public:
  explicit short_receiver(endpoint_state& state) noexcept : state_(state) {}

  /// Executes a request. Returns false, after `end`, if it is not a short send or cannot be
  /// executed here.
  [[nodiscard]] bool receive(peer& from, std::span<const std::byte> bytes) noexcept;
  /// Ends the run: acknowledges it and shows its completions. To be called before any other record.
  void end() noexcept {
    if (lock_) finish();
  }

 private:
  [[nodiscard]] bool begin(peer& from, std::uint32_t destination, std::uint32_t source) noexcept;
  void finish() noexcept;

  endpoint_state& state_;
  std::unique_lock<biased_lock> lock_;  ///< of the queue pair that has a run; or none
  peer* from_ = nullptr;
  connection* by_ = nullptr;
  message last_;  ///< of those that were executed: what its acknowledgement says
  std::uint32_t taken_ = 0;
  receive_run run_;
};

}  // namespace verbena::softdev
