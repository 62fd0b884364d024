// SPDX-License-Identifier: MIT
// Time of a repeated operation. The median excludes single interruptions.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <vector>

namespace bench {

/// The number of repetitions: `chunks` measurements of `per_chunk` repetitions each.
struct repetitions {
  std::size_t chunks;
  std::size_t per_chunk;
  [[nodiscard]] std::size_t total() const noexcept { return chunks * per_chunk; }
};

/// Nanoseconds per repetition: the median of the chunks. `operation(n)` performs n repetitions;
/// `between()` runs after each chunk and is not measured.
template <class Operation, class Between>
[[nodiscard]] double median_ns(repetitions times, Operation&& operation, Between&& between) {
  std::vector<double> samples(times.chunks);
  for (double& sample : samples) {
    const auto start = std::chrono::steady_clock::now();
    operation(times.per_chunk);
    const std::chrono::duration<double, std::nano> spent = std::chrono::steady_clock::now() - start;
    sample = spent.count() / static_cast<double>(times.per_chunk);
    between();
  }
  const auto middle = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2);
  std::nth_element(samples.begin(), middle, samples.end());
  return *middle;
}

template <class Operation>
[[nodiscard]] double median_ns(repetitions times, Operation&& operation) {
  return median_ns(times, operation, [] {});
}

/// Executes the processor's hint for a busy-waiting loop.
inline void spin_hint() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace bench
