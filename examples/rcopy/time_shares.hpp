// SPDX-License-Identifier: MIT
// Where the time of a copy goes on one side.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>

namespace rcopy {

/// Processor time of the thread that copies, by stage, and the rest of the elapsed time.
struct time_shares {
  std::chrono::microseconds file{};       ///< reading or writing the file
  std::chrono::microseconds checksum{};   ///< computing the checksum
  std::chrono::microseconds transport{};  ///< posting, polling, copying; or the calls of the socket
  std::chrono::microseconds waiting{};    ///< asleep, or ready while another thread runs

  [[nodiscard]] std::array<std::chrono::microseconds, 4> stages() const noexcept {
    return {file, checksum, transport, waiting};
  }
};

enum class stage : std::uint8_t { file, checksum, transport };

/// Measures the stages of a copy. Threads: bound to the thread that creates it.
class stage_clock {
 public:
  stage_clock();
  /// Adds the processor time since the last call, or since the creation, to a stage.
  void end(stage which);
  /// Returns the stages so far. `waiting` is the rest of the elapsed time.
  [[nodiscard]] time_shares shares() const;

 private:
  std::chrono::steady_clock::time_point begin_;
  std::chrono::nanoseconds last_;
  std::array<std::chrono::nanoseconds, 3> used_{};
};

}  // namespace rcopy
