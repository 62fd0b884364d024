// SPDX-License-Identifier: MIT
// The state that a channel and its handles share: the queue pair and the operations in flight. The
// queue pair is always destroyed before the memory that it may access.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <source_location>
#include <span>
#include <utility>
#include <vector>

#include "verbena/base/deadline.hpp"
#include "verbena/base/detail/sole_owner.hpp"
#include "verbena/channel/channel_failure.hpp"
#include "verbena/channel/channel_options.hpp"
#include "verbena/channel/detail/first_use.hpp"
#include "verbena/channel/detail/operation_description.hpp"
#include "verbena/channel/detail/operation_kind.hpp"
#include "verbena/channel/detail/operation_table.hpp"
#include "verbena/channel/operation_result.hpp"
#include "verbena/verbs/queue_pair.hpp"
#include "verbena/verbs/remote_region.hpp"

namespace verbena::inline VERBENA_ABI::cm {
class connection;
}

namespace verbena::inline VERBENA_ABI::detail {

struct connection_record;
void destroy(connection_record& record) noexcept;

/// The result of a poll for one operation.
enum class found : std::uint8_t { nothing, it, something_else };

/// The recipient of the result of an operation, and the source location of its post.
struct operation_interest {
  operation_waiter* waiter;
  operation_scope* scope = nullptr;
  std::source_location posted;
  deadline until = deadline::never();  ///< for the connection, if it is the first operation
  bool has_buffer = false;             ///< `waiter` is a buffer_waiter
};

/// Records that an operation of `scope` has completed; nullptr if its handle is destroyed.
void ended_in(operation_scope& scope, operation_waiter* handle) noexcept;

/// Threads: one thread at a time, together with all channels of its table.
class channel_core {
 public:
  /// The parts of a core.
  struct parts {
    std::optional<queue_pair<rc>> queue;  ///< nullopt: connect_on_first_use() follows
    slot_reservation slots;               ///< one per operation that can be in flight
    protection_domain domain;
    channel_options options;
    std::uint32_t max_read_sge;  ///< slices that one read fills
    sole_owner<connection_record> record;
  };
  explicit channel_core(parts of);
  channel_core(const channel_core&) = delete;
  channel_core& operator=(const channel_core&) = delete;
  ~channel_core();

  /// Returns true if submit_usual() may post the operation; otherwise post() posts or refuses it.
  template <operation_kind Kind, class Piece>
  [[nodiscard]] [[gnu::always_inline]] inline bool is_usual(
      const Piece& piece, const remote_region& remote) const noexcept;
  /// Posts an operation of one source or sink without options: the fast path.
  ///
  /// Its id is that of the next free slot of the table, which stays free: begin() takes it, and is
  /// not needed if the operation completes before another post. Precondition: is_usual().
  template <operation_kind Kind, class Piece>
  [[nodiscard]] [[gnu::always_inline]] post_status submit_usual(const Piece& piece,
                                                                const remote_region& remote) {
    return submit_usual<Kind>(piece, remote, slots_.table().next_free().id);
  }
  /// Returns the shared table of its slots.
  [[nodiscard]] const std::shared_ptr<operation_table>& shared_table() const noexcept {
    return slots_.shared();
  }
  /// Returns the table of its slots.
  [[nodiscard]] operation_table& table() const noexcept { return slots_.table(); }
  /// Takes the slot of the operation that submit_usual() posted. It has no waiter yet.
  [[gnu::always_inline]] inline operation_slot& begin(operation_kind kind,
                                                      std::source_location posted) noexcept;
  /// Posts an operation; returns nullptr if it was refused.
  ///
  /// The waiter of a refused operation has the result.
  [[nodiscard]] operation_slot* post(const operation_description& what,
                                     const operation_interest& who);

  /// Adds the lines of this channel to the table, which then delivers the completions of queued
  /// recipients. Has no effect if they are added already. Returns false if the table has too many
  /// lines. Allocates.
  [[nodiscard]] bool accept_queued() {
    operation_table& of = table();
    return of.enroll(lines_[0]) && of.enroll(lines_[1]);
  }
  /// Posts an operation of a queued recipient, whose result has the source location of the post:
  /// the fast path. Preconditions: is_usual(), accept_queued(); the recipient has its kind.
  template <operation_kind Kind, class Piece>
  [[nodiscard]] [[gnu::always_inline]] inline post_status post_usual(const Piece& piece,
                                                                     const remote_region& remote,
                                                                     queued_waiter& waiter);
  /// Posts an operation of such a recipient; returns false if it was refused, with the reason in
  /// the result. Precondition: accept_queued().
  [[nodiscard]] bool post(const operation_description& what, queued_waiter& waiter);
  /// Starts an operation with a tag; returns nullopt, or the refusal. Allocates if it is the first
  /// one of the channel or of the table.
  [[nodiscard]] std::optional<operation_result> start(std::uint64_t tag,
                                                      const operation_description& what,
                                                      std::source_location posted);
  /// Sets the result of a queued recipient whose operation failed.
  void fail(queued_waiter& waiter, const completion& done) noexcept;

  /// Polls once for the operation of `slot`; `out` is prepared by expect_success().
  ///
  /// `it`: the operation has succeeded; if it has a slot, call end_here(). `something_else`: `out`
  /// has another completion, or a failure of this operation; call deliver() after a waiter is set.
  /// `nothing`: no completion, or the poll failed, which the next poll reports.
  [[nodiscard]] [[gnu::always_inline]] static inline found poll_for(const operation_table& table,
                                                                    const operation_slot& slot,
                                                                    operation_result& out) noexcept;
  /// Releases the slot of an operation that poll_for() found.
  [[gnu::always_inline]] static void end_here(operation_slot& slot) noexcept {
    slot.owner->release_place(slot);
  }
  /// Delivers the completion that poll_for() stored in `from`.
  void deliver(const operation_result& from) noexcept { slots_.table().deliver_one(from.done_); }
  /// Polls until the operation of `waiter` has completed; flushes the channel when `until` passes.
  [[gnu::always_inline]] inline void await(const operation_waiter& waiter, deadline until) {
    if (progress(), !waiter.ended) await_longer(waiter, until);
  }
  /// Polls until no operation of `scope` is in flight; flushes the channel when `until` passes.
  void drain(const operation_scope& scope, deadline until);
  /// Polls until the operation of `waiter` has completed; returns false if `until` passes first.
  [[nodiscard]] bool wait(const operation_waiter& waiter, deadline until);
  /// Polls once; returns the number of completions. Destroys the queue pair if polling fails.
  [[gnu::always_inline]] inline int progress() {
    const int found = slots_.table().progress();
    if (found < 0) [[unlikely]]
      lose(slots_.table().last_failure());
    return found;
  }
  /// Moves the queue pair to the error state and waits until nothing is in flight. Destroys the
  /// queue pair if it does not flush in time.
  void flush() { flush_because(failure_cause::program); }
  /// Like flush(), until a deadline.
  void flush(deadline until) { flush_because(failure_cause::program, until); }
  /// Moves the queue pair to the error state, without waiting for the flush. Flushed operations end
  /// as `aborted` until the channel is connected again.
  void begin_abort(failure_cause why = failure_cause::aborted) noexcept;
  [[nodiscard]] bool is_aborting() const noexcept { return aborting_; }
  /// Destroys the queue pair, if there is one, and ends all operations as lost with errno `code`.
  void lose(int code) noexcept;
  /// Keeps the connection of the connection manager until after the queue pair is destroyed.
  void keep(std::shared_ptr<cm::connection> connection) noexcept;
  /// Returns that connection; nullptr without a connection manager.
  [[nodiscard]] cm::connection* connection() const noexcept;
  /// If the connection has ended, moves the queue pair to the error state, without waiting for the
  /// flush, and returns true. Also returns true without a queue pair.
  [[nodiscard]] bool flush_if_disconnected();
  /// Flushes, destroys the queue pair, and records the end of the connection in the book.
  void disconnect();
  /// Makes the first operation connect the channel to `peer`. Precondition: it has no queue pair.
  void connect_on_first_use(std::shared_ptr<first_use> by, std::uint32_t peer) noexcept;
  /// Installs the queue pair of the first operation. Precondition: connect_on_first_use().
  void connect_first(queue_pair<rc> queue);
  /// Returns whether the next operation connects the channel.
  [[nodiscard]] bool awaits_first_use() const noexcept;
  /// Returns true if the channel has a queue pair, or the object that connects it has one for it.
  [[nodiscard]] bool is_connected() const;
  /// Returns true if release_idle() is permitted: the channel has a queue pair, nothing is in
  /// flight, the connection has not failed, and the program has not obtained the queue pair.
  [[nodiscard]] bool is_idle() const noexcept;
  /// Returns the connected queue pair, which `by` returns by connect_same() at the next operation.
  /// Precondition: is_idle().
  [[nodiscard]] queue_pair<rc> release_idle(std::shared_ptr<first_use> by,
                                            std::uint32_t peer) noexcept;
  /// Installs the queue pair of release_idle() again.
  void connect_same(queue_pair<rc> queue) noexcept;
  /// Records that the program has the address of the queue pair.
  void keep_queue() noexcept { is_queue_kept_ = true; }
  /// Installs a new queue pair. Precondition: disconnect() was called.
  void connect_again(queue_pair<rc> queue);
  /// Marks the queue pair, which other code will connect. From now on until take_back(), lose()
  /// only records the failure. Precondition: there is a queue pair. Allocates.
  void prepare_release();
  /// Returns the queue pair, with posted receives. Precondition: prepare_release().
  [[nodiscard]] queue_pair<rc> release_for_connect() noexcept;
  /// Takes the connected queue pair. If polling failed since release_for_connect(): destroys it and
  /// returns the error.
  [[nodiscard]] result<void> take_back(queue_pair<rc> connected);
  /// Ends all operations as lost with errno `code`, after the released queue pair was destroyed. If
  /// that was refused, their buffers are leaked.
  void lose_released(int code) noexcept;
  /// Reverts connect_again() after a failed reconnection. Operations posted since are lost with
  /// errno `code`; `before` is the failure again.
  void stay_apart(int code, const std::optional<channel_failure>& before) noexcept;

  /// Handles a completion of an operation of this channel.
  [[gnu::always_inline]] inline void ended(operation_slot& slot, const completion& done) noexcept;
  /// Creates the result of a success, to be completed by poll_for().
  [[nodiscard]] [[gnu::always_inline]] static inline operation_result hope(
      std::source_location posted) noexcept;
  /// Sets the waiter of the operation in `slot`; nullptr if it is destroyed.
  static void redirect(operation_slot& slot, operation_waiter* to) noexcept { slot.waiter = to; }
  /// Holds the buffer of the operation in `slot`, whose handle is destroyed, until it has ended.
  static void hold_for(operation_slot& slot, buffer&& memory) noexcept {
    slot.waiter = nullptr;
    slot.owner->table().held(slot) = std::move(memory);
  }

  /// Returns the queue pair; nullopt if it was destroyed.
  [[nodiscard]] std::optional<queue_pair<rc>>& qp() noexcept { return queue_; }
  [[nodiscard]] const protection_domain& domain() const noexcept { return domain_; }
  [[nodiscard]] const channel_options& options() const noexcept { return options_; }
  [[nodiscard]] std::uint32_t in_flight() const noexcept {
    return queue_ ? options_.queues.max_send_wr - free_[0] + options_.queues.max_recv_wr - free_[1]
                  : 0;
  }
  [[nodiscard]] std::uint32_t free_sends() const noexcept { return free_[0]; }
  [[nodiscard]] std::uint32_t free_receives() const noexcept { return free_[1]; }
  /// Returns why the connection ended; nullptr if no failure is known.
  [[nodiscard]] const channel_failure* failure() const noexcept;
  /// Returns the state that no operation needs unless it fails.
  [[nodiscard]] connection_record& record() const noexcept { return *record_; }
  /// Returns the number of operations that failed after their handles were destroyed.
  [[nodiscard]] std::uint64_t unseen_failures() const noexcept { return unseen_failures_; }
  [[nodiscard]] const operation_result* first_unseen_failure() const noexcept {
    return unseen_failures_ == 0 ? nullptr : &first_unseen_failure_;
  }

  // Handles that outlive the channel keep this alive. Not atomic: see Threads.
  void hold() noexcept { ++holders_; }
  static void release(channel_core* core) noexcept {
    if (core != nullptr && --core->holders_ == 0) delete core;
  }

 private:
  [[nodiscard]] refusal check(const operation_description& what) noexcept;
  /// Connects a channel without a queue pair if it awaits its first use. Returns an errno, or 0.
  [[nodiscard]] int try_first_use(deadline until);
  [[nodiscard]] std::size_t most_pieces(operation_kind kind) const noexcept;
  template <class Piece>
  [[nodiscard]] refusal gather(std::span<const Piece> pieces, std::size_t most) noexcept;
  template <operation_kind Kind, class Piece>
  [[nodiscard]] [[gnu::always_inline]] inline post_status submit_usual(const Piece& piece,
                                                                       const remote_region& remote,
                                                                       std::uint64_t id);
  [[nodiscard]] post_status submit(const operation_description& what, std::uint64_t id);
  void end(operation_slot& slot, const operation_result& how) noexcept;
  inline void hand_over(operation_slot& slot, const operation_result& how) noexcept;
  void remember(operation_kind kind, operation_result& failed) noexcept;
  // Counts the operation in `slot` as in flight.
  [[gnu::always_inline]] inline void take_place(operation_slot& slot, operation_kind kind,
                                                std::source_location posted) noexcept {
    slot.posted = posted;
    slot.kind = kind;
    slot.receive = kind == operation_kind::receive;
    --free_[slot.receive];
  }
  [[gnu::always_inline]] inline void release_place(operation_slot& slot) noexcept {
    ++free_[slot.receive];
    slots_.table().put(slot);
  }
  void await_longer(const operation_waiter& waiter, deadline until);
  void flush_because(failure_cause why);
  void flush_because(failure_cause why, deadline until);
  void fail_because(failure_cause why, int code = 0) noexcept;
  void fail_and_flush_posted(failure_cause why) noexcept;
  // Polls until `ended()`; calls `watch()` after each 64 polls, before `until` is tested.
  template <class Ended, class Watch>
  bool spin(deadline until, Ended&& ended, Watch&& watch);
  // Polls until `ended()`; calls look().
  template <class Ended>
  bool spin_watching(deadline until, Ended&& ended);
  // Looks every 100 ms whether the connection has ended without a completion. If so, moves the
  // queue pair to the error state; destroys it if its operations are not flushed within 5 s.
  void look();
  [[nodiscard]] bool has_lost_connection();
  // Moves the queue pair to the error state. If this fails, destroys it and returns false.
  bool move_to_error() noexcept;
  // Posts after a failure are not usual.
  void set_failure(const std::optional<channel_failure>& to) noexcept;
  // Returns the protection domain of usual posts. If no post is usual, returns the address of this
  // object.
  [[nodiscard]] const void* usual_domain() const noexcept;
  void end_all(int code) noexcept;
  // Leaks the buffers of all operations: the queue pair could not be destroyed.
  void leak_buffers() noexcept;
  void deliver_the_rest() noexcept;

  sole_owner<connection_record> record_;
  std::optional<queue_pair<rc>> queue_;
  slot_reservation slots_;
  protection_domain domain_;
  channel_options options_;
  const void* usual_domain_;         // is_usual() compares with it: usual_domain()
  std::vector<local_slice> pieces_;  // of the post in progress
  std::uint32_t max_read_sge_;
  std::array<std::uint32_t, 2> free_;  // room for sends and for receives
  std::array<queued_line, 2> lines_;   // sends and receives with queued recipients
  std::uint32_t holders_ = 1;
  bool aborting_ = false;
  bool is_queue_kept_ = false;  // by keep_queue()
  std::uint64_t unseen_failures_ = 0;
  operation_result first_unseen_failure_;     // valid if there are any
  deadline next_look_;                        // of look()
  deadline flush_limit_ = deadline::never();  // of look(), after it has found the end
  kind_counts posted_{};                      // over this connection, if they are counted
};

int operation_table::progress() noexcept {
  if (has_undelivered()) [[unlikely]]
    return static_cast<int>(deliver_undelivered());
  std::array<completion, batch> room;
  const poll_result polled = cq_.poll(room);
  if (!polled) [[unlikely]]
    return failed(polled.error().code());
  for (const completion& done : *polled) deliver(done);
  delivered_ += (*polled).size();
  return static_cast<int>((*polled).size());
}

void operation_table::deliver(const completion& done) noexcept {
  const std::uint32_t index = index_of(done.id());
  if (index >= slots_.size()) [[unlikely]]
    return deliver_to_others(done);
  operation_slot& slot = slots_[index];
  // Ignores completions of operations that lost their slot.
  if (slot.owner != nullptr && slot.id == done.id()) [[likely]]
    slot.owner->ended(slot, done);
}

// Ends an operation of a queued recipient; returns nullptr if it was lost. Precondition:
// is_of_line().
queued_waiter* operation_table::end_queued(const completion& done) noexcept {
  queued_line& line = line_of(done.id());
  if (!line.is_oldest(done.id())) [[unlikely]]
    return nullptr;
  queued_waiter& waiter = line.pop();
  waiter.ended = true;
  if (done.ok()) [[likely]]
    waiter.result.succeed(done);
  else
    line.owner().fail(waiter, done);
  return &waiter;
}

operation_result channel_core::hope(std::source_location posted) noexcept {
  return operation_result(posted);
}

found channel_core::poll_for(const operation_table& table, const operation_slot& slot,
                             operation_result& out) noexcept {
  const poll_result polled = table.cq().poll({&out.done_, 1});
  if (!polled || (*polled).empty()) return found::nothing;
  if (out.done_.id() != slot.id || !out.done_.ok()) [[unlikely]]
    return found::something_else;
  return found::it;
}

void channel_core::ended(operation_slot& slot, const completion& done) noexcept {
  if (slot.waiter == nullptr || slot.has_buffer || !done.ok()) [[unlikely]]
    return end(slot, operation_result::of(done, aborting_, slot.posted));
  slot.waiter->result = operation_result::of(done, false, slot.posted);
  slot.waiter->ended = true;
  if (slot.scope != nullptr) ended_in(*slot.scope, slot.waiter);
  release_place(slot);
}

template <operation_kind Kind, class Piece>
bool channel_core::is_usual(const Piece& piece, const remote_region& remote) const noexcept {
  if (usual_domain_ == nullptr) __builtin_unreachable();
  // A channel without a queue pair has no free slots.
  if (free_[Kind == operation_kind::receive] == 0 || piece.domain() != usual_domain_) [[unlikely]]
    return false;
  constexpr bool is_remote = Kind == operation_kind::write || Kind == operation_kind::read;
  return !is_remote || piece.length() <= remote.length();
}

template <operation_kind Kind, class Piece>
post_status channel_core::submit_usual(const Piece& piece, const remote_region& remote,
                                       std::uint64_t id) {
  const std::span<const local_slice> slices(&piece.slice(), 1);
  if constexpr (Kind == operation_kind::receive) {
    return queue_->post_receive({.id = id}, slices);
  } else {
    auto batch = queue_->template start_send<1>();
    const send_request request{.id = id, .signaled = true};
    if constexpr (Kind == operation_kind::send) batch.send(request, slices);
    if constexpr (Kind == operation_kind::write) batch.write(request, slices, remote);
    if constexpr (Kind == operation_kind::read) batch.read(request, slices, remote);
    return batch.submit();
  }
}

operation_slot& channel_core::begin(operation_kind kind, std::source_location posted) noexcept {
  operation_slot& slot = slots_.table().take(*this);
  take_place(slot, kind, posted);
  return slot;
}

template <operation_kind Kind, class Piece>
post_status channel_core::post_usual(const Piece& piece, const remote_region& remote,
                                     queued_waiter& waiter) {
  queued_line& line = lines_[Kind == operation_kind::receive];
  // Appended before the post, so that the compiler need not read again what it has just stored.
  const post_status status = submit_usual<Kind>(piece, remote, line.push(waiter));
  if (!status) [[unlikely]]
    line.take_back(waiter);
  return status;
}

}  // namespace verbena::inline VERBENA_ABI::detail
