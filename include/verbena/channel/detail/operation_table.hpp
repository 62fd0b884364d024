// SPDX-License-Identifier: MIT
// A completion queue and a slot for each operation that can be in flight on it. The operation's
// wr_id has the slot's index and how often the slot was used: what completes is found without a
// search, and a completion that comes too late is known.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <source_location>
#include <span>
#include <utility>
#include <vector>

#include "verbena/base/assert.hpp"
#include "verbena/channel/detail/operation_kind.hpp"
#include "verbena/channel/operation_result.hpp"
#include "verbena/memory/buffer.hpp"
#include "verbena/verbs/completion_queue.hpp"

namespace verbena::inline VERBENA_ABI {
class operation_scope;
}

namespace verbena::inline VERBENA_ABI::detail {

class channel_core;

/// Where the end of an operation is delivered to: in a handle, or on the stack of a blocking call.
struct operation_waiter {
  operation_result result;  ///< there if `ended`
  bool ended = false;       ///< the adapter is done with the memory
};
/// The same for an operation that holds a buffer.
struct buffer_waiter : operation_waiter {
  buffer held;  ///< what the operation had, once it ended
};

/// One operation that is in flight; of a free slot only `owner`, `id` and `next` mean something.
struct alignas(64) operation_slot {
  channel_core* owner = nullptr;       ///< nullptr: the slot is free
  operation_waiter* waiter = nullptr;  ///< nullptr: nobody waits any more
  operation_scope* scope = nullptr;    ///< that has to hear of it; nullptr: none
  std::source_location posted;         ///< where
  std::uint64_t id = 0;                ///< it completes with: how often the slot was used, index
  operation_slot* next = nullptr;      ///< of the free list
  operation_kind kind = operation_kind::send;  ///< what it does
  bool receive = false;                        ///< takes a place of the receive queue
  /// held() of the table has its memory, and a buffer_waiter waits; false of a free slot.
  bool holds_buffer = false;
};

/// Threads: one thread at a time, with all channels on it.
class operation_table {
 public:
  /// One slot for each entry of `cq`, which nothing else completes into.
  operation_table(completion_queue cq, std::uint32_t slots);

  /// The queue.
  [[nodiscard]] const completion_queue& cq() const noexcept { return cq_; }
  /// Takes `count` slots away from what other channels may have; false: there are not as many.
  [[nodiscard]] bool reserve(std::uint32_t count) noexcept;
  /// Gives them back.
  void unreserve(std::uint32_t count) noexcept { unreserved_ += count; }
  /// Slots that are not reserved.
  [[nodiscard]] std::uint32_t unreserved() const noexcept { return unreserved_; }

  /// The slot that take() would give. Precondition: the channel has reserved one that it does not
  /// use.
  [[nodiscard]] operation_slot& next_free() noexcept {
    VERBENA_CHECK(free_ != nullptr, "channels use no more slots than they have reserved");
    return *free_;
  }
  /// A slot for an operation of `owner`. Precondition: as above.
  [[nodiscard]] operation_slot& take(channel_core& owner) noexcept {
    operation_slot& slot = next_free();
    free_ = slot.next;
    slot.owner = &owner;
    return slot;
  }
  /// The slot is free again; completions that still come for it mean nothing.
  void put(operation_slot& slot) noexcept {
    slot.owner = nullptr;
    slot.id += one_use;
    slot.next = free_;
    free_ = &slot;
  }
  /// The memory that the operation in `slot` holds.
  [[nodiscard]] buffer& held(const operation_slot& slot) noexcept {
    return held_[index_of(slot.id)];
  }

  /// Polls once and delivers what has completed, to whatever channel. What was found, or -1 when
  /// the poll failed: last_failure() is then its errno.
  [[nodiscard]] inline int progress() noexcept;
  [[nodiscard]] int last_failure() const noexcept { return last_failure_; }
  /// Delivers one completion that was polled.
  inline void deliver(const completion& done) noexcept;
  /// All slots, for the end of a channel.
  [[nodiscard]] std::span<operation_slot> slots() noexcept { return slots_; }

 private:
  static constexpr std::uint64_t one_use = std::uint64_t{1} << 32U;

  [[nodiscard]] static std::uint32_t index_of(std::uint64_t id) noexcept {
    return static_cast<std::uint32_t>(id);
  }
  [[nodiscard]] int failed(const poll_result& polled) noexcept;

  completion_queue cq_;
  std::vector<operation_slot> slots_;
  std::vector<buffer> held_;
  int last_failure_ = 0;
  operation_slot* free_ = nullptr;
  std::uint32_t unreserved_;
};

/// Slots of a table that belong to one channel, also before it is connected.
/// Threads: one thread at a time, with the table.
class slot_reservation {
 public:
  /// Of slots that were reserved.
  slot_reservation(std::shared_ptr<operation_table> table, std::uint32_t count) noexcept
      : table_(std::move(table)), count_(count) {}
  slot_reservation(slot_reservation&&) noexcept = default;
  slot_reservation& operator=(slot_reservation&&) = delete;
  ~slot_reservation() {
    if (table_) table_->unreserve(count_);
  }
  [[nodiscard]] operation_table& table() const noexcept { return *table_; }

 private:
  std::shared_ptr<operation_table> table_;
  std::uint32_t count_;
};

}  // namespace verbena::inline VERBENA_ABI::detail
