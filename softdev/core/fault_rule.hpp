// SPDX-License-Identifier: MIT
// Injected faults of requests: the send requests of queue pairs that they select, and their
// effects.
#pragma once

#include <cstdint>
#include <vector>

#include "softdev/core/types.hpp"

namespace verbena::softdev {

/// The effect of a fault on a send request.
enum class fault_effect : std::uint8_t {
  none,
  error,               ///< the request completes with `status`
  receiver_not_ready,  ///< the first `repetitions` attempts are answered with RNR
  delay,               ///< the request completes `delay` after it started, or later
  command,             ///< the request starts after command_observer::triggered and engine::resume
};

class queue_pair;

/// Receives notice of requests that wait for a command. Threads: thread-safe; called with the send
/// lock of the queue pair held: must not block or call the engine.
class command_observer {
 public:
  /// Called when a request waits for a command. The request starts after `engine::resume`.
  virtual void triggered(queue_pair& which, std::uint32_t command) = 0;

 protected:
  ~command_observer() = default;
};

/// Selects requests and defines the effect. Requests are counted per queue pair, and per rule, when
/// they start. At most one of `at`, `every` and `probability` is set; without them, the rule
/// selects each request. Threads: immutable value.
struct fault_rule {
  fault_effect effect = fault_effect::none;
  completion_status status = completion_status::success;
  bool delivered = false;  ///< with `error`: the request is sent; not over SRD
  std::uint32_t repetitions = 1;
  std::uint8_t rnr_timer = 0;  ///< code of the RNR timer
  time_ns delay = 0;
  std::uint32_t command = 0;             ///< for the observer's use
  command_observer* observer = nullptr;  ///< of `command`; outlives the rule

  std::uint32_t qp_num = 0;     ///< 0: any
  std::uint32_t qp_index = 0;   ///< the n-th queue pair that the engine created, from 1; 0: any
  std::uint8_t opcodes = 0x7f;  ///< a bit for each value of `opcode`
  std::uint64_t at = 0;         ///< the n-th request, from 1
  std::uint64_t every = 0;      ///< the n-th, the 2n-th, …
  double probability = 0;       ///< above 0, at most 1
  std::uint64_t count = 0;      ///< faults of each queue pair; 0: unlimited

  std::uint64_t seed = 0;    ///< of `probability`
  std::uint32_t number = 0;  ///< of the rule; in explanations
};

/// The values by which rules select a queue pair.
struct fault_target {
  std::uint32_t qp_num = 0;
  std::uint32_t qp_index = 0;
};

/// Applies the faults of one queue pair. The random choice depends only on the seed, the number of
/// the rule, the index of the queue pair and the number of the request. Threads: one thread at a
/// time.
class request_faults {
 public:
  explicit request_faults(std::uint32_t send_queue_capacity) : held_(send_queue_capacity) {}

  /// Adds a rule, if it can select requests of `target`. Allocates.
  void add(const fault_rule& rule, const fault_target& target);
  void remove_rules() noexcept { rules_.clear(); }

  /// Counts the request at `index` when it starts for the first time. Returns the rule that applies
  /// to it, or nullptr. Returns the rule of a request with repetitions again for each repetition.
  [[nodiscard]] const fault_rule* inspect(std::uint64_t index, opcode op) noexcept;

  /// Returns whether the request at the head waits for engine::resume.
  [[nodiscard]] bool stopped() const noexcept { return stopped_; }
  void set_stopped(bool stopped) noexcept { stopped_ = stopped; }

  /// A request that completes at `due` or later.
  struct held_request {
    std::uint64_t index = 0;
    time_ns due = 0;
  };
  /// Holds a request until `due`, and until all requests held before it are released. Holds at most
  /// as many requests as the send queue has entries.
  void hold(std::uint64_t index, time_ns due) noexcept;
  [[nodiscard]] bool holds_any() const noexcept { return first_ != end_; }
  /// Precondition: holds_any().
  [[nodiscard]] const held_request& first_held() const noexcept {
    return held_[first_ % held_.size()];
  }
  void release_first() noexcept { ++first_; }
  /// Forgets requests that are held or wait for a command.
  void forget() noexcept {
    first_ = end_;
    stopped_ = false;
  }

 private:
  struct counted_rule {
    fault_rule rule;
    std::uint64_t random = 0;
    std::uint64_t seen = 0;
    std::uint64_t applied = 0;
    [[nodiscard]] bool selects_next() noexcept;
  };

  std::vector<counted_rule> rules_;
  bool stopped_ = false;
  std::uint64_t inspected_ = 0;  ///< requests below this index were counted
  fault_rule repeated_;          ///< of the request before `inspected_`
  std::uint32_t repetitions_ = 0;
  std::vector<held_request> held_;  ///< a ring
  std::uint64_t first_ = 0;
  std::uint64_t end_ = 0;
};

}  // namespace verbena::softdev
