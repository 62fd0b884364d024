// SPDX-License-Identifier: MIT
// The recipients of operations: handles, coroutines, and the operations of blocking calls; and the
// queued recipients of one work queue.
#pragma once

#include <cstdint>
#include <utility>

#include "verbena/channel/detail/operation_kind.hpp"
#include "verbena/channel/operation_result.hpp"
#include "verbena/memory/buffer.hpp"

namespace verbena::inline VERBENA_ABI::detail {

class channel_core;
class operation_table;

/// Receives the result of an operation: part of a handle, or on the stack of a blocking call.
struct operation_waiter {
  operation_result result;  ///< valid if `ended`
  bool ended = false;       ///< the device no longer accesses the memory
};
/// A recipient that is called when its operation has ended: by complete_all(), or by the code that
/// takes it from the list of completed operations. `ended` is set if it is in that list. Its
/// operation needs no slot.
struct queued_waiter : operation_waiter {
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init): valid while it waits
  queued_waiter() noexcept {}
  queued_waiter* next;  ///< of a line or of the list
  /// Called when it has ended, by functions that are noexcept. Its type is not noexcept, so that
  /// the call that resumes a coroutine can be a tail call.
  void (*complete)(queued_waiter&);
  operation_kind kind;  ///< of its operation
};
/// Queued recipients in the order in which they were appended. Threads: one thread at a time, with
/// the table.
class waiter_list {
 public:
  waiter_list() noexcept = default;
  waiter_list(const waiter_list&) = delete;
  waiter_list& operator=(const waiter_list&) = delete;
  ~waiter_list() = default;

  [[nodiscard]] bool empty() const noexcept { return first_ == nullptr; }
  /// Returns the first recipient. Precondition: !empty().
  [[nodiscard]] queued_waiter& front() const noexcept { return *first_; }
  /// Appends a recipient that is in no list.
  void push_back(queued_waiter& waiter) noexcept {
    waiter.next = nullptr;
    (empty() ? first_ : last_->next) = &waiter;
    last_ = &waiter;
  }
  /// Inserts a recipient that is in no list before the first one.
  void push_front(queued_waiter& waiter) noexcept {
    if (empty()) last_ = &waiter;
    waiter.next = first_;
    first_ = &waiter;
  }
  /// Removes the first recipient and returns it. Precondition: !empty().
  [[nodiscard]] queued_waiter& pop_front() noexcept { return *std::exchange(first_, first_->next); }
  /// Removes a recipient; returns false if it is not in the list.
  bool remove(const queued_waiter& waiter) noexcept {
    queued_waiter* before = nullptr;
    queued_waiter** at = &first_;
    while (*at != nullptr && *at != &waiter) {
      before = *at;
      at = &before->next;
    }
    if (*at == nullptr) return false;
    *at = waiter.next;
    if (waiter.next == nullptr) last_ = before;
    return true;
  }

 private:
  queued_waiter* first_ = nullptr;
  queued_waiter* last_ = nullptr;  // valid unless the list is empty
};
/// The recipient of an operation with a tag, which the table owns.
struct tagged_waiter : queued_waiter {
  std::uint64_t tag = 0;
  operation_table* table = nullptr;
};
/// The queued recipients of the operations in one work queue of a channel, oldest first. They
/// complete in this order (InfiniBand specification 10.8.6), so the completion of the oldest is
/// recognized by its wr_id, and a late completion of a lost operation is ignored. Threads: one
/// thread at a time, with the table.
class queued_line {
 public:
  /// Creates a line of no channel, which stays empty.
  queued_line() noexcept = default;
  /// Counts the operations down in `room`. `owner` is needed if one of them fails.
  queued_line(channel_core* owner, std::uint32_t& room) noexcept : owner_(owner), room_(&room) {}
  queued_line(const queued_line&) = delete;
  queued_line& operator=(const queued_line&) = delete;
  ~queued_line() = default;

  [[nodiscard]] channel_core& owner() const noexcept { return *owner_; }
  [[nodiscard]] bool empty() const noexcept { return waiting_.empty(); }
  /// Returns the wr_id of the next operation.
  [[nodiscard]] std::uint64_t next_id() const noexcept { return next_id_; }
  /// Appends the next operation; returns its wr_id.
  std::uint64_t push(queued_waiter& waiter) noexcept {
    waiting_.push_back(waiter);
    --*room_;
    return std::exchange(next_id_, next_id_ + one_use);
  }
  /// Reverts push() for the newest operation, which was not posted.
  [[gnu::cold]] void take_back(const queued_waiter& newest) noexcept {
    waiting_.remove(newest);
    ++*room_;
    next_id_ -= one_use;
  }
  /// Returns whether `id` is that of the oldest operation.
  [[nodiscard]] bool is_oldest(std::uint64_t id) const noexcept {
    return oldest_id_ == id && !waiting_.empty();
  }
  /// Removes the oldest operation. Precondition: !empty().
  [[nodiscard]] queued_waiter& pop() noexcept {
    oldest_id_ += one_use;
    ++*room_;
    return waiting_.pop_front();
  }

 private:
  friend class operation_table;
  static constexpr std::uint64_t one_use = std::uint64_t{1} << 32U;

  waiter_list waiting_;
  std::uint64_t next_id_ = 0;  // 0 before operation_table::enroll()
  std::uint64_t oldest_id_ = 0;
  channel_core* owner_ = nullptr;
  std::uint32_t* room_ = nullptr;
};
/// The recipient of an operation on a buffer, which it holds while the operation is in flight.
struct buffer_waiter : operation_waiter {
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init): the result is valid if `ended`
  buffer_waiter() noexcept = default;
  explicit buffer_waiter(buffer&& memory) noexcept : held(std::move(memory)) {}
  buffer held;  ///< the buffer of the operation
};

}  // namespace verbena::inline VERBENA_ABI::detail
