// SPDX-License-Identifier: MIT
// Receives runs of short sends to one queue pair: decodes them in place, and acknowledges them
// together.
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
  /// Ends the run: acknowledges it and publishes its completions. Call it before any other record.
  void end() noexcept {
    if (lock_) finish();
  }

 private:
  [[nodiscard]] bool begin(peer& from, std::uint32_t destination, std::uint32_t source) noexcept;
  void finish() noexcept;

  endpoint_state& state_;
  std::unique_lock<biased_lock> lock_;  ///< of the queue pair with a run, if any
  peer* from_ = nullptr;
  connection* by_ = nullptr;
  message last_;  ///< the last executed request: the fields for its acknowledgement
  std::uint32_t taken_ = 0;
  receive_run run_;
};

}  // namespace verbena::softdev
