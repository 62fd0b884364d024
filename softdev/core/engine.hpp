// SPDX-License-Identifier: MIT
// The engine of a process: its queue pairs and memory regions, and their progress. It runs on the
// threads of its callers, and its clock is an option.
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

/// Receives requests of an engine for progress. Threads: thread-safe; called possibly with locks of
/// queue pairs held: must not block or call the engine.
class engine_observer {
 public:
  /// Called if `progress` has work before the deadline that `next_deadline` returned last.
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

/// Executes the work requests of a process. Threads: thread-safe. Only creation and registration
/// allocate; creation, registration, destruction and deregistration may block.
class engine {
 public:
  explicit engine(const engine_options& options);
  ~engine();
  engine(const engine&) = delete;
  engine& operator=(const engine&) = delete;

  /// Creates a queue pair, which lives until `destroy`. Errors: `invalid_argument` if capabilities
  /// exceed the limits or completion queues are missing; ENOMEM if numbers().limit() queue pairs
  /// exist, or memory is exhausted.
  [[nodiscard]] result<queue_pair*> create(const queue_pair_options& options);
  /// Waits for threads that use the queue pair, then destroys it. Completions that were not polled
  /// stay in their queues. The number is not reused soon. No batch may be open on the queue pair.
  /// Calls `withdrawn` with the owner, when no thread and no peer uses the queue pair and it raises
  /// no event, but its memory is still valid.
  void destroy(queue_pair* which, void (*withdrawn)(void* owner) = nullptr) noexcept;

  /// Registers memory and returns the key (lkey and rkey). O(1). Errors: `invalid_argument` for
  /// remote_write or remote_atomic without local_write, or a range that wraps; ENOMEM if
  /// limits::max_regions regions are registered.
  [[nodiscard]] result<std::uint32_t> register_region(const memory_region& region);
  /// Deregisters memory. After the call, no thread of this process accesses the memory by the key.
  /// Returns false if the key is not registered.
  bool deregister_region(std::uint32_t key) noexcept;
  /// Replaces the region of a key. After the call, no thread of this process accesses the old
  /// region by the key; accesses during the call fail. Errors: `invalid_argument` as for
  /// register_region(), or if the key is not registered; then nothing has changed.
  [[nodiscard]] result<void> replace_region(std::uint32_t key, const memory_region& region);

  /// Runs the work that is due on the calling thread: retries, deferred flushes, rung queue pairs.
  /// Returns whether there was any. Does not wait for a busy queue pair, which stays due.
  bool progress() noexcept;
  /// Returns the time at which `progress` must run next; `never` if no work is pending.
  [[nodiscard]] time_ns next_deadline() const noexcept;
  /// Describes the reason of a failed completion, as failure_log::explain. If `vendor_error` is 0,
  /// describes the messages dropped at the queue pair or, if it does not exist, those for queue
  /// pairs that do not exist, as drop_log::describe.
  std::size_t explain(std::uint32_t qp_num, std::uint64_t wr_id, std::uint32_t vendor_error,
                      char* text, std::size_t capacity) noexcept;

  /// Adds a fault to the queue pairs that it selects, including those created later. Sets the
  /// rule's number. No batch may be open on this thread.
  void add_fault(fault_rule rule);
  /// Removes all faults. Delayed completions still appear when they are due.
  void remove_faults();
  /// Starts the request of the queue pair that waits for a command, if there is one. No batch may
  /// be open on this thread.
  void resume(std::uint32_t qp_num) noexcept;

  /// Returns the port that all queue pairs use.
  [[nodiscard]] port_state& port() noexcept { return port_; }
  /// Returns the object that selects the paths of requests.
  [[nodiscard]] request_routes& routes() noexcept { return routes_; }

  // For queue pairs and paths.
  [[nodiscard]] access_epoch& epoch() noexcept { return epoch_; }
  [[nodiscard]] const memory_region_table& regions() const noexcept { return regions_; }
  /// Returns the multicast groups of this process. A queue pair leaves them before it is destroyed.
  [[nodiscard]] multicast_groups& groups() noexcept { return groups_; }
  /// Returns the queue pair with this number in this process, or nullptr. The caller must be inside
  /// the access epoch; the result is valid until it leaves the epoch.
  [[nodiscard]] queue_pair* find(std::uint32_t qp_num) const noexcept;
  /// Returns the queue pair with this number for prefetching only: it may already be destroyed.
  [[nodiscard]] const queue_pair* expected(std::uint32_t qp_num) const noexcept {
    return queue_pairs_[index_of_number(qp_num)].load(std::memory_order_relaxed);
  }
  [[nodiscard]] const queue_pair_numbers& numbers() const noexcept { return numbers_; }
  [[nodiscard]] remote_path* remote() const noexcept { return routes_.remote(); }
  [[nodiscard]] time_ns now() const noexcept { return options_.clock(); }
  [[nodiscard]] failure_log& failures() noexcept { return failures_; }
  /// Returns the log of messages for queue pairs that do not exist.
  [[nodiscard]] drop_log& drops() noexcept { return drops_; }
  /// Makes `progress` run a queue pair: for a flush, for a path that has room again, or for a
  /// retry.
  void ring(const queue_pair& which) noexcept;
  /// Makes `progress` run a queue pair at `when`.
  void schedule(const queue_pair& which, time_ns when) noexcept;

 private:
  void withdraw(queue_pair& which) noexcept;
  [[nodiscard]] bool run(std::uint32_t index) noexcept;
  void wake() noexcept;
  template <class Action>
  void with_send_lock(std::uint32_t index, Action action);
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
  std::mutex fault_commands_;  ///< one command at a time; taken before `creation_`
  std::mutex creation_;        ///< guards changes of the members below
  queue_pair_numbers numbers_;
  struct {
    std::vector<fault_rule> rules;
    std::uint32_t added = 0;
  } faults_;
};

}  // namespace verbena::softdev
