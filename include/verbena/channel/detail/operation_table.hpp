// SPDX-License-Identifier: MIT
// A completion queue and a slot for each operation that can be in flight on it. The wr_id consists
// of the index of the slot and its use count: completions find their slot without a search, and
// late completions are recognized.
#pragma once

#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <source_location>
#include <span>
#include <utility>
#include <vector>

#include "verbena/base/assert.hpp"
#include "verbena/channel/completed_operation.hpp"
#include "verbena/channel/detail/operation_kind.hpp"
#include "verbena/channel/detail/operation_waiter.hpp"
#include "verbena/channel/operation_result.hpp"
#include "verbena/memory/buffer.hpp"
#include "verbena/verbs/completion_channel.hpp"
#include "verbena/verbs/completion_queue.hpp"

namespace verbena::inline VERBENA_ABI {
class operation_scope;
}

namespace verbena::inline VERBENA_ABI::detail {

class channel_core;
class operation_table;

/// One operation in flight. In a free slot only `owner`, `id` and `next` are valid.
struct alignas(64) operation_slot {
  channel_core* owner = nullptr;               ///< nullptr: the slot is free
  operation_waiter* waiter = nullptr;          ///< nullptr: the handle is destroyed
  operation_scope* scope = nullptr;            ///< the scope of the operation, or nullptr
  std::source_location posted;                 ///< source location of the post
  std::uint64_t id = 0;                        ///< wr_id: use count and index of the slot
  operation_slot* next = nullptr;              ///< of the free list
  operation_kind kind = operation_kind::send;  ///< kind of the operation
  bool receive = false;                        ///< occupies the receive queue
  /// `waiter` is a buffer_waiter; without one, held() has the buffer. False in a free slot.
  bool has_buffer = false;
  /// The first slice of an operation of a scope, unless its handle holds sinks. Key 0: none.
  local_key key;
  std::uint64_t address = 0;

  /// Keeps the first slice of an operation of a scope.
  void use(const local_slice& first) noexcept {
    key = first.key();
    address = first.address();
  }
};
static_assert(sizeof(operation_slot) == 64, "a slot fills a cache line");

/// A message channel on the table. It needs no slots: the wr_id of its requests names the channel.
/// Threads: one thread at a time, with the table.
class table_member {
 public:
  using time_point = std::chrono::steady_clock::time_point;
  /// The bits of a wr_id that are for the member: a number and a mark.
  static constexpr std::uint32_t number_mask = 0x7fff'ffffU;
  static constexpr std::uint64_t mark = std::uint64_t{1} << 63U;

  table_member() noexcept = default;
  table_member(const table_member&) = delete;
  table_member& operator=(const table_member&) = delete;
  virtual ~table_member() = default;

  /// Takes a completion of this member. Called while the table is polled.
  virtual void completed(const completion& done) noexcept = 0;
  /// Posts receives and grants credits. Called at the end of completion_hub::progress() if there
  /// were completions, or if the member asked for it with operation_table::attend().
  virtual void tend() = 0;
  /// Called when the timer expires; returns when it expires next, or nullopt. Adds 1 to `events` if
  /// something changed for which a program may wait.
  [[nodiscard]] virtual std::optional<time_point> expire(time_point now, std::size_t& events) = 0;
  /// Ends the member: polling failed with errno `code`.
  virtual void lose(int code) noexcept = 0;

  /// Returns the wr_id bits that are common to all requests of the member.
  [[nodiscard]] std::uint64_t key() const noexcept { return key_; }
  /// Returns the number by which operation_table::next_ready() names the member; nullopt: it does
  /// not name it.
  [[nodiscard]] const std::optional<std::uint64_t>& tag() const noexcept { return tag_; }

 private:
  friend class operation_table;
  std::uint64_t key_ = 0;
  std::optional<std::uint64_t> tag_;
  table_member* next_ready_ = nullptr;
  table_member* next_attended_ = nullptr;
  table_member* next_timed_ = nullptr;
  time_point due_{};
  bool is_attended_ = false;
  bool is_timed_ = false;
  bool is_ready_ = false;
};

/// Threads: one thread at a time, with all channels on it.
class operation_table {
 public:
  /// The maximum number of members, and of lines.
  static constexpr std::uint32_t most_members = 1U << 17U;

  /// Creates a table with slots for operations on `cq`, which has no other users.
  operation_table(completion_queue cq, std::uint32_t slots);
  operation_table(const operation_table&) = delete;
  operation_table& operator=(const operation_table&) = delete;

  /// Returns whether the table of a message channel belongs to a completion_hub: the table of a
  /// single message channel has no slots.
  [[nodiscard]] bool belongs_to_hub() const noexcept { return most_slots_ != 0; }
  /// Returns the completion queue.
  [[nodiscard]] const completion_queue& cq() const noexcept { return cq_; }
  /// Returns the completion channel of the queue; nullopt if it has none.
  [[nodiscard]] const std::optional<completion_channel>& events() const noexcept { return events_; }
  /// Whether an event of the queue was requested and not yet read.
  [[nodiscard]] bool& armed() noexcept { return armed_; }
  /// Reserves `count` slots for a channel; returns false if fewer are left.
  [[nodiscard]] bool reserve(std::uint32_t count) noexcept;
  /// Releases `count` reserved slots.
  void unreserve(std::uint32_t count) noexcept { unreserved_ += count; }
  /// Returns the number of slots that are not reserved.
  [[nodiscard]] std::uint32_t unreserved() const noexcept { return unreserved_; }

  /// Adds a member; returns false if there are most_members. Allocates.
  [[nodiscard]] bool enroll(table_member& member);
  /// Removes a member, if it is one. Its late completions are ignored.
  void dismiss(table_member& member) noexcept;
  /// Adds a line, if it was not added before; returns false if there are most_members. Allocates.
  [[nodiscard]] bool enroll(queued_line& line) { return line.next_id_ != 0 || add(line); }
  /// Removes a line, if it was added. Its late completions are ignored.
  void dismiss(queued_line& line) noexcept;
  /// Has the member's tend() called by the next upkeep().
  void attend(table_member& member) noexcept {
    if (member.is_attended_) return;
    member.is_attended_ = true;
    member.next_attended_ = attended_;
    attended_ = &member;
  }
  /// Starts the timer of the member, if it is not running: expire() is called by the next upkeep().
  void start_timer(table_member& member) noexcept;
  /// Sets the tag of the member, which becomes ready.
  void set_tag(table_member& member, std::optional<std::uint64_t> tag) noexcept;
  /// Names the member in next_ready(), if it has a tag: something changed for which a program may
  /// wait.
  void mark_ready(table_member& member) noexcept {
    if (!member.tag_ || member.is_ready_) return;
    member.is_ready_ = true;
    member.next_ready_ = nullptr;
    *end_of_ready_ = &member;
    end_of_ready_ = &member.next_ready_;
  }
  [[nodiscard]] bool has_ready() const noexcept { return ready_ != nullptr; }
  /// Like deliver_all(), but take_delivered() returns the number, without the completions of
  /// members with a tag, which next_ready() names, and of queued recipients, which become completed
  /// operations. Returns false if a poll failed with errno last_failure().
  [[nodiscard]] bool deliver_for_ready();
  /// Moves the tags of members that are ready to `out`; returns their number.
  [[nodiscard]] std::size_t next_ready(std::span<std::uint64_t> out) noexcept;
  /// Tends the members that need it, and runs the timers that have expired. Returns how often
  /// something changed for which a program may wait.
  std::size_t upkeep() {
    return attended_ == nullptr && timed_ == nullptr ? 0 : upkeep_of_members();
  }
  /// Returns when upkeep() must be called next; time_point::max() without timers.
  [[nodiscard]] table_member::time_point next_due() const noexcept { return next_due_; }

  /// Returns the slot that take() takes next. Precondition: the channel has a reserved, unused
  /// slot.
  [[nodiscard]] operation_slot& next_free() noexcept {
    VERBENA_CHECK(free_ != nullptr, "a channel posted more operations than its queue sizes permit");
    return *free_;
  }
  /// Takes a slot for an operation of `owner`. Precondition: that of next_free().
  [[nodiscard]] operation_slot& take(channel_core& owner) noexcept {
    operation_slot& slot = next_free();
    free_ = slot.next;
    slot.owner = &owner;
    if (free_ == nullptr) [[unlikely]]
      add_slot();
    return slot;
  }
  /// Frees the slot; late completions for it are ignored.
  void put(operation_slot& slot) noexcept {
    slot.owner = nullptr;
    slot.id += one_use;
    slot.next = free_;
    free_ = &slot;
  }
  /// Returns the place for the buffer of the operation in `slot`, if its handle is destroyed.
  [[nodiscard]] buffer& held(const operation_slot& slot) noexcept {
    return held_[index_of(slot.id)];
  }

  /// The most completions that deliver_all() and complete_all() poll.
  static constexpr std::size_t most_completions = 256;
  /// The most completions of one poll. If there are fewer, the queue was empty (ibv_poll_cq(3)).
  static constexpr std::size_t batch = 16;
  /// Polls once and delivers the completions to their channels. Returns their number, or -1 if the
  /// poll failed with errno last_failure().
  [[nodiscard]] inline int progress() noexcept;
  /// Polls until the queue is empty, or until 256 completions are delivered, and tends the members
  /// that need it. Returns the number of completions and events of members, or -1 if a poll failed
  /// with errno last_failure().
  [[nodiscard]] std::ptrdiff_t deliver_all();
  /// Like deliver_all(), and calls `complete` of each queued recipient. If the list of completed
  /// operations is empty, it is called at once, otherwise from the list, after older ones. A
  /// recipient may block, and destroy channels. Polls again after recipients were called at once,
  /// because the operations that they posted may have completed: until `batch` completions are
  /// delivered. Returns the number of recipients called, or nullopt if a poll failed.
  /// take_delivered() returns the other completions and the events.
  [[nodiscard]] inline std::optional<std::size_t> complete_all();
  /// Calls `complete` of the recipients in the list of completed operations, but not of those that
  /// are appended meanwhile. Returns their number.
  std::size_t complete_completed() noexcept;
  [[nodiscard]] int last_failure() const noexcept { return last_failure_; }
  /// Returns true while complete_all() calls a recipient and has polled further completions, which
  /// it has not delivered.
  [[nodiscard]] bool has_undelivered() const noexcept { return undelivered_ != undelivered_end_; }
  /// Returns the number of completions that were delivered since the last call.
  [[nodiscard]] std::size_t take_delivered() noexcept { return std::exchange(delivered_, 0); }
  /// Delivers one completion.
  inline void deliver(const completion& done) noexcept;
  /// Delivers one completion that progress() has not polled.
  void deliver_one(const completion& done) noexcept;
  /// Appends a recipient to the list of completed operations.
  void append_completed(queued_waiter& waiter) noexcept {
    ++completed_count_;
    completed_.push_back(waiter);
  }
  /// Removes the oldest recipient from the list of completed operations; nullptr if it is empty.
  [[nodiscard]] queued_waiter* take_completed() noexcept {
    if (completed_.empty()) return nullptr;
    --completed_count_;
    return &completed_.pop_front();
  }
  /// Removes a recipient from that list, if it is in it.
  void remove_completed(const queued_waiter& waiter) noexcept {
    if (completed_.remove(waiter)) --completed_count_;
  }
  [[nodiscard]] bool has_completed() const noexcept { return !completed_.empty(); }
  /// Returns a free recipient for an operation with a tag; nullptr if all are in use. The table has
  /// one for each slot; an operation uses it until it is collected. The first call allocates.
  [[nodiscard]] tagged_waiter* take_tagged();
  /// Returns a recipient that has no operation.
  void put_tagged(tagged_waiter& waiter) noexcept;
  /// Moves operations with a tag that have ended to `out`; returns their number.
  [[nodiscard]] std::size_t collect(std::span<completed_operation> out) noexcept;
  /// Returns whether operations with a tag have ended and were not collected.
  [[nodiscard]] bool has_collected() const noexcept { return !collected_.empty(); }
  /// Ends all operations as lost with errno `code`, and destroys their queue pairs.
  void lose_all(int code) noexcept;

  /// Returns all slots that were used, and those that are next.
  [[nodiscard]] std::span<operation_slot> slots() noexcept {
    return {slots_.data(), slots_.size()};
  }

 private:
  static constexpr std::uint64_t one_use = std::uint64_t{1} << 32U;

  [[nodiscard]] static std::uint32_t index_of(std::uint64_t id) noexcept {
    return static_cast<std::uint32_t>(id);
  }
  // A wr_id of a member: bits 0 to 30 number, 31 set, 32 to 48 index, 49 to 62 use count, 63 mark.
  // A wr_id of a line: bits 0 to 29 index, 30 set, 31 clear, 32 to 63 number of the operation.
  // Bits 30 and 31 are clear in the wr_id of a slot: a completion queue has fewer entries than
  // 2^30.
  static constexpr std::uint64_t line_bit = std::uint64_t{1} << 30U;
  static constexpr std::uint64_t member_bit = std::uint64_t{1} << 31U;
  static constexpr std::uint64_t member_use = std::uint64_t{1} << 49U;
  static constexpr std::uint64_t key_mask =
      ~(table_member::mark | std::uint64_t{table_member::number_mask});
  struct membership {
    table_member* who;  // nullptr: the index is free
    std::uint64_t key;
  };

  /// Creates the next slot, if there is one.
  [[gnu::noinline]] void add_slot();
  [[nodiscard]] bool add(queued_line& line);
  /// Records errno `code` of a failed poll. Returns -1.
  int failed(int code) noexcept;
  /// Polls until the queue is empty, at most `most_completions`, and passes each batch to `handle`.
  /// Polls again if `handle` returns true. Returns false if a poll failed.
  template <class Handle>
  [[nodiscard]] inline bool poll_batches(Handle handle);
  [[gnu::noinline]] void deliver_polled(const completion& done) noexcept;
  std::size_t deliver_undelivered() noexcept;
  [[nodiscard]] bool is_of_tagged(std::uint64_t id) const noexcept;
  [[nodiscard]] static bool is_of_line(std::uint64_t id) noexcept {
    return (id & (line_bit | member_bit)) == line_bit;
  }
  /// Returns the line that has the index in `id`, or an empty line.
  [[nodiscard]] queued_line& line_of(std::uint64_t id) const noexcept {
    return *lines_[id & line_mask_];
  }
  [[nodiscard]] inline queued_waiter* end_queued(const completion& done) noexcept;
  // They add the number of recipients called to `called`.
  inline void complete(std::span<const completion> found, std::size_t& called) noexcept;
  inline void complete_one(const completion& done, std::size_t& called) noexcept;
  [[gnu::noinline]] std::size_t complete_unusual(const completion& done) noexcept;
  [[gnu::noinline]] void deliver_later(std::span<const completion> found) noexcept;
  /// Returns true if upkeep() or complete_completed() may have work.
  [[nodiscard]] bool has_more_to_do() const noexcept {
    return (std::bit_cast<std::uintptr_t>(attended_) | std::bit_cast<std::uintptr_t>(timed_) |
            completed_count_) != 0;
  }
  void deliver_to_others(const completion& done) noexcept;
  void unmark_ready(table_member& member) noexcept;
  std::size_t upkeep_of_members();

  completion_queue cq_;
  std::optional<completion_channel> events_;
  bool armed_ = false;
  // Both have capacity for all slots, and grow when a slot is first used: memory of idle channels
  // is not touched.
  std::vector<operation_slot> slots_;
  std::vector<buffer> held_;
  std::uint32_t most_slots_;
  int last_failure_ = 0;
  std::size_t delivered_ = 0;  // since take_delivered()
  operation_slot* free_ = nullptr;
  // Of complete_all(), while it calls a recipient: those that were polled with it.
  const completion* undelivered_ = nullptr;
  const completion* undelivered_end_ = nullptr;
  std::uint32_t unreserved_;
  waiter_list completed_;
  std::size_t completed_count_ = 0;
  std::vector<tagged_waiter> tagged_;  // empty before the first operation with a tag
  tagged_waiter* free_tagged_ = nullptr;
  waiter_list collected_;  // tagged_waiter, ended
  std::vector<membership> members_;
  std::vector<std::uint32_t> free_members_;
  queued_line no_line_;                       // of no channel
  std::vector<queued_line*> lines_;           // no_line_: the index is free; size: a power of 2
  std::uint64_t line_mask_ = 0;               // the bits of an index in lines_
  std::vector<std::uint64_t> free_line_ids_;  // the next ids of the free indices
  table_member* ready_ = nullptr;
  table_member** end_of_ready_ = &ready_;
  table_member* attended_ = nullptr;
  table_member* timed_ = nullptr;
  table_member::time_point next_due_ = table_member::time_point::max();  // or earlier
};

/// The reserved slots of one channel.
/// Threads: one thread at a time, with the table.
class slot_reservation {
 public:
  /// Owns `count` slots that were reserved.
  slot_reservation(std::shared_ptr<operation_table> table, std::uint32_t count) noexcept
      : table_(std::move(table)), count_(count) {}
  slot_reservation(slot_reservation&&) noexcept = default;
  slot_reservation& operator=(slot_reservation&&) = delete;
  ~slot_reservation() {
    if (table_) table_->unreserve(count_);
  }
  [[nodiscard]] operation_table& table() const noexcept { return *table_; }
  [[nodiscard]] const std::shared_ptr<operation_table>& shared() const noexcept { return table_; }

 private:
  std::shared_ptr<operation_table> table_;
  std::uint32_t count_;
};

}  // namespace verbena::inline VERBENA_ABI::detail
