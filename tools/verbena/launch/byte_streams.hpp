// SPDX-License-Identifier: MIT
// Bytes between processes.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

namespace verbena::tool {

/// Writes all bytes to a blocking descriptor; false if write(2) fails.
[[nodiscard]] bool write_all(int to, std::string_view bytes);

/// The result of read_some().
enum class read_outcome : unsigned char {
  bytes,  ///< bytes were appended
  would_block,
  end,  ///< the end, or an error
};

/// Appends the bytes of one read(2), at most 64 KiB.
[[nodiscard]] read_outcome read_some(int from, std::string& to);

/// Writes lines with a prefix. A line is written at once, so that lines of several writers are not
/// mixed; lines beyond 64 KiB are divided. Threads: one thread at a time.
class prefixed_lines {
 public:
  /// Writes to descriptor `to`.
  prefixed_lines(int to, std::string prefix) : prefix_(std::move(prefix)), to_(to) {}

  /// Adds bytes, and writes all complete lines.
  void add(std::string_view bytes);
  /// Writes the rest as a line.
  void end();

 private:
  std::string prefix_;
  std::string partial_;
  int to_;
};

}  // namespace verbena::tool
