// SPDX-License-Identifier: MIT
// The engine of a process: its queue pairs and memory regions, and what makes them go on. It has no
// thread and no clock of its own: whoever calls in lends a thread, and the clock is given.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "softdev/core/access_epoch.hpp"
#include "softdev/core/active_set.hpp"
#include "softdev/core/deadline_queue.hpp"
#include "softdev/core/failure.hpp"
#include "softdev/core/fault_rule.hpp"
#include "softdev/core/memory_region.hpp"
#include "softdev/core/multicast_groups.hpp"
#include "softdev/core/port_state.hpp"
#include "softdev/core/process_slot.hpp"
#include "softdev/core/queue_pair.hpp"
#include "softdev/core/queue_pair_numbers.hpp"
#include "softdev/core/remote_path.hpp"
#include "softdev/core/request_routes.hpp"
#include "softdev/core/types.hpp"
#include "verbena/base/result.hpp"

namespace verbena::softdev {

/// Learns what an engine needs. Threads: thread-safe, possibly with locks of queue pairs held: must
/// not block and must not call the engine.
class engine_observer {
 public:
  /// `progress` has something to do before the deadline that `next_deadline` gave last.
  virtual void wake() = 0;

 protected:
  ~engine_observer() = default;
};

struct engine_options {
  std::uint32_t process_slot = 0;       ///< the range of all queue pair numbers (process_slot.hpp)
  time_ns (*clock)() = nullptr;         ///< monotonic; mandatory
  engine_observer* observer = nullptr;  ///< outlives the engine
  remote_path* remote = nullptr;        ///< to other processes; may be set later, once
};

/// Threads: thread-safe. Only creation and registration allocate; they and their reverse may block.
class engine {
 public:
  explicit engine(const engine_options& options);
  ~engine();
  engine(const engine&) = delete;
  engine& operator=(const engine&) = delete;

  /// Errors: `invalid_argument` for capabilities beyond the limits or missing queues; ENOMEM when
  /// numbers().limit() exist. The queue pair lives until `destroy`.
  [[nodiscard]] result<queue_pair*> create(const queue_pair_options& options);
  /// Waits for those who use the queue pair, then destroys it. Its completions that were not polled
  /// stay. Its number is not used again soon. No batch may be open on it.
  void destroy(queue_pair* which) noexcept;

  /// Registers memory and returns the key (lkey and rkey). O(1). Errors: `invalid_argument` for
  /// remote_write or remote_atomic without local_write, or a range that wraps; ENOMEM when
  /// limits::max_regions are registered.
  [[nodiscard]] result<std::uint32_t> register_region(const memory_region& region);
  /// Ends a registration: when it returns, no thread of this process touches the memory through it.
  /// False when the key is not registered.
  bool deregister_region(std::uint32_t key) noexcept;
  /// Gives a key another region: when it returns, no thread of this process touches anything
  /// through the old one, and accesses in between were refused. Errors: `invalid_argument` as
  /// above, and then nothing has changed, or for a key that is not registered.
  [[nodiscard]] result<void> replace_region(std::uint32_t key, const memory_region& region);

  /// Runs what is due on the calling thread: retries, deferred flushes, rung queue pairs. True when
  /// there was something. Never blocks on a busy queue pair: it stays due.
  bool progress() noexcept;
  /// When `progress` should run next if nothing else happens; `never` if nothing is pending.
  [[nodiscard]] time_ns next_deadline() const noexcept;
  /// The reason of a failed completion in words: see failure_log::explain. With `vendor_error` 0,
  /// what was dropped at the queue pair; where there is none of that number, what came for queue
  /// pairs that do not exist: see drop_log::describe.
  std::size_t explain(std::uint32_t qp_num, std::uint64_t wr_id, std::uint32_t vendor_error,
                      char* text, std::size_t capacity) noexcept;

  /// Adds a fault to the queue pairs that it selects, also to those that are created later. Sets
  /// its number. No batch may be open on this thread.
  void add_fault(fault_rule rule);
  /// Removes all faults. Delayed completions still come at their time.
  void remove_faults();
  /// Lets the request of the queue pair start that waits for a command, if there is one. No batch
  /// may be open on this thread.
  void resume(std::uint32_t qp_num) noexcept;

  /// The port that all queue pairs use.
  [[nodiscard]] port_state& port() noexcept { return port_; }
  /// Where requests go.
  [[nodiscard]] request_routes& routes() noexcept { return routes_; }

  // For queue pairs and paths.
  [[nodiscard]] access_epoch& epoch() noexcept { return epoch_; }
  [[nodiscard]] const memory_region_table& regions() const noexcept { return regions_; }
  /// The multicast groups of this process. A queue pair leaves them before it is destroyed.
  [[nodiscard]] multicast_groups& groups() noexcept { return groups_; }
  /// The queue pair of this number in this process, or nullptr. Wants an access epoch, in which the
  /// answer stays valid.
  [[nodiscard]] queue_pair* find(std::uint32_t qp_num) const noexcept;
  /// The queue pair of this number, to prefetch its memory only: it may already be destroyed.
  [[nodiscard]] const queue_pair* expected(std::uint32_t qp_num) const noexcept {
    return queue_pairs_[index_of_number(qp_num)].load(std::memory_order_relaxed);
  }
  [[nodiscard]] const queue_pair_numbers& numbers() const noexcept { return numbers_; }
  [[nodiscard]] remote_path* remote() const noexcept { return routes_.remote(); }
  [[nodiscard]] time_ns now() const noexcept { return options_.clock(); }
  [[nodiscard]] failure_log& failures() noexcept { return failures_; }
  /// Messages for queue pairs that do not exist.
  [[nodiscard]] drop_log& drops() noexcept { return drops_; }
  /// Has `progress` look at a queue pair: its flush, a freed path, a retry.
  void ring(const queue_pair& which) noexcept;
  /// Has `progress` look at a queue pair at `when`.
  void schedule(const queue_pair& which, time_ns when) noexcept;

 private:
  [[nodiscard]] bool run(std::uint32_t index) noexcept;
  void wake() noexcept;
  template <class Action>
  void for_each_send_side(Action action);

  const engine_options options_;
  access_epoch epoch_;
  memory_region_table regions_;
  multicast_groups groups_{epoch_};
  failure_log failures_;
  port_state port_;
  drop_log drops_;
  request_routes routes_;
  std::unique_ptr<std::atomic<queue_pair*>[]> queue_pairs_;
  active_set rung_;
  deadline_queue timers_{limits::queue_pair_indices};
  std::mutex creation_;  ///< guards changes of all that follows
  queue_pair_numbers numbers_;
  std::vector<fault_rule> faults_;
  std::uint32_t faults_added_ = 0;
};

}  // namespace verbena::softdev
