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
/// takes it from the list of completed operations. Its operation needs no slot.
struct queued_waiter : operation_waiter {
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init): valid while it waits
  queued_waiter() noexcept {}
  queued_waiter* next;                        ///< of a line or of the list
  void (*complete)(queued_waiter&) noexcept;  ///< called when it has ended
  operation_kind kind;                        ///< of its operation
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
    *end_ = &waiter;
    end_ = &waiter.next;
  }
  /// Inserts a recipient that is in no list before the first one.
  void push_front(queued_waiter& waiter) noexcept {
    if (empty()) end_ = &waiter.next;
    waiter.next = first_;
    first_ = &waiter;
  }
  /// Removes the first recipient and returns it. Precondition: !empty().
  [[nodiscard]] queued_waiter& pop_front() noexcept {
    queued_waiter& first = *first_;
    first_ = first.next;
    if (first_ == nullptr) end_ = &first_;
    return first;
  }
  /// Removes a recipient; returns false if it is not in the list.
  bool remove(const queued_waiter& waiter) noexcept {
    queued_waiter** at = &first_;
    while (*at != nullptr && *at != &waiter) at = &(*at)->next;
    if (*at == nullptr) return false;
    *at = waiter.next;
    if (*at == nullptr) end_ = at;
    return true;
  }

 private:
  queued_waiter* first_ = nullptr;
  queued_waiter** end_ = &first_;
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
  /// Counts the operations down in `room`. `owner` is needed if one of them fails.
  queued_line(channel_core* owner, std::uint32_t& room) noexcept : owner_(owner), room_(&room) {}
  queued_line(const queued_line&) = delete;
  queued_line& operator=(const queued_line&) = delete;
  ~queued_line() = default;

  [[nodiscard]] channel_core& owner() const noexcept { return *owner_; }
  [[nodiscard]] bool empty() const noexcept { return waiting_.empty(); }
  /// Returns the wr_id of the next operation.
  [[nodiscard]] std::uint64_t next_id() const noexcept { return next_id_; }
  /// Appends the next operation.
  void push(queued_waiter& waiter) noexcept {
    waiting_.push_back(waiter);
    next_id_ += one_use;
    --*room_;
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
  channel_core* owner_;
  std::uint32_t* room_;
};
/// The recipient of an operation on a buffer, which it holds while the operation is in flight.
struct buffer_waiter : operation_waiter {
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init): the result is valid if `ended`
  buffer_waiter() noexcept = default;
  explicit buffer_waiter(buffer&& memory) noexcept : held(std::move(memory)) {}
  buffer held;  ///< the buffer of the operation
};

}  // namespace verbena::inline VERBENA_ABI::detail
