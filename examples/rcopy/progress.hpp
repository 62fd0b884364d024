// SPDX-License-Identifier: MIT
// The display of the progress of a copy.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace rcopy {

/// Shows progress on standard error in at most 80 columns. On a terminal, shows a bar with rate and
/// remaining time. Otherwise prints a line every five seconds. Threads: one thread at a time.
class progress {
 public:
  enum class display : std::uint8_t { none, as_fits };

  progress(std::string name, std::uint64_t total_bytes, display show);
  ~progress();
  progress(const progress&) = delete;
  progress& operator=(const progress&) = delete;

  void add(std::uint64_t bytes);

 private:
  using clock = std::chrono::steady_clock;
  [[nodiscard]] std::string line(clock::time_point now) const;
  void draw(clock::time_point now);

  std::string name_;
  std::uint64_t total_;
  std::uint64_t done_ = 0;
  bool bar_;
  bool silent_;
  bool drawn_ = false;
  clock::time_point start_;
  clock::time_point next_draw_;
};

/// Formats a number of bytes: `1.50 GiB`, `512 B`.
[[nodiscard]] std::string bytes_text(double bytes);
/// Formats a duration: `12.3 s`, `3:07 min`.
[[nodiscard]] std::string seconds_text(double seconds);

}  // namespace rcopy
