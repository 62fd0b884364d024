// SPDX-License-Identifier: MIT
// One side of many connections between two processes through the software device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "bench/local/process_pair.hpp"
#include "verbena/verbena.hpp"

namespace bench {

inline constexpr auto peer_access =
    verbena::access::remote_read | verbena::access::remote_write | verbena::access::remote_atomic;

struct scale_options {
  std::size_t queue_pairs = 1;
  /// Each queue pair has a receive queue of its own, not the shared one.
  bool own_receives = false;
  /// Without a limit, because on a busy machine the receiver may not run for a while.
  verbena::reliability reliability = {.rnr_retry_count =
                                          verbena::reliability::unlimited_rnr_retries};
};

/// Queue pairs that are connected to those of the other process, with one completion queue for
/// sends, one for receives (with a completion channel) and one shared receive queue. Both processes
/// construct the object at the same time. Threads: one thread at a time.
class scale_side {
 public:
  /// Outstanding requests of all queue pairs together, in each direction.
  static constexpr std::uint32_t depth = 64;

  scale_side(const process_pair& pair, const scale_options& options);

  [[nodiscard]] std::span<verbena::queue_pair<verbena::rc>> qps() noexcept { return qps_; }
  [[nodiscard]] const verbena::completion_queue& sends() const noexcept { return sends_; }
  [[nodiscard]] const verbena::completion_queue& receives() const noexcept { return receives_; }
  [[nodiscard]] verbena::local_slice message() const { return region_.slice(0, 8); }
  [[nodiscard]] verbena::remote_region peer() const { return peer_.slice(0, 8); }
  /// Posts receives to the shared receive queue.
  void post_receives(std::size_t count);

 private:
  [[nodiscard]] std::vector<verbena::queue_pair<verbena::rc>> connect(const process_pair& pair,
                                                                      const scale_options& options);

  verbena::context context_;
  verbena::protection_domain pd_;
  verbena::completion_queue sends_;
  verbena::completion_channel channel_;
  verbena::completion_queue receives_;
  verbena::shared_receive_queue shared_;
  verbena::memory_region region_;
  std::vector<verbena::queue_pair<verbena::rc>> qps_;
  verbena::remote_region peer_;
};

/// Sends bytes to the other process and receives as many from it.
[[nodiscard]] std::vector<std::byte> exchange_bytes(const process_pair& pair,
                                                    std::span<const std::byte> mine);

/// Polls once and returns the number of completions. A failed request ends the program.
std::size_t poll_once(const verbena::completion_queue& from);
void drain(const verbena::completion_queue& from, std::size_t wanted);

/// Uniformly distributed numbers below a limit, the same in each run.
class random_index {
 public:
  explicit random_index(std::size_t limit) noexcept : limit_(limit) {}
  [[nodiscard]] std::size_t next() noexcept {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return static_cast<std::size_t>((state_ >> 32) * limit_ >> 32);
  }

 private:
  std::uint64_t limit_;
  std::uint64_t state_ = 0x9e3779b97f4a7c15;
};

}  // namespace bench
