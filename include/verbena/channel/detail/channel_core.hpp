// SPDX-License-Identifier: MIT
// What a channel and its handles share: the queue pair, the operations in flight, and the ways out
// when something goes wrong. The queue pair always goes before the memory that it may touch.
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
#include "verbena/channel/channel_failure.hpp"
#include "verbena/channel/channel_options.hpp"
#include "verbena/channel/detail/connection_book.hpp"
#include "verbena/channel/detail/operation_kind.hpp"
#include "verbena/channel/detail/operation_table.hpp"
#include "verbena/channel/operation_result.hpp"
#include "verbena/channel/sink.hpp"
#include "verbena/channel/source.hpp"
#include "verbena/verbs/gid_table.hpp"
#include "verbena/verbs/queue_pair.hpp"
#include "verbena/verbs/remote_region.hpp"
#include "verbena/verbs/work_request.hpp"

namespace verbena::inline VERBENA_ABI::cm {
class connection;
}

namespace verbena::inline VERBENA_ABI {

/// What a message, a write or a read may ask for besides.
struct operation_options {
  /// Adds a number of 32 bits to a message, or to a write, which then uses up a receive of the peer
  /// (iWARP has neither).
  std::optional<std::uint32_t> immediate = {};
  bool fenced = false;     ///< begins after all earlier reads and atomics of the channel have ended
  bool solicited = false;  ///< wakes a peer that waits for solicited completions only
};

namespace detail {

/// An operation. Memory is named by `out` or `in`.
struct operation_description {
  operation_kind kind;
  outgoing out = {};
  std::span<const sink> in = {};
  remote_region remote = {};
  std::uint64_t expected_or_addend = 0;
  std::uint64_t desired = 0;
  operation_options options = {};

  /// An atomic comparison; what the 8 bytes were goes to `before`.
  [[nodiscard]] static operation_description comparison(const remote_region& target,
                                                        compare_and_swap_operands operands,
                                                        std::span<const sink> before = {}) {
    return {.kind = operation_kind::compare_and_swap,
            .in = before,
            .remote = target,
            .expected_or_addend = operands.expected,
            .desired = operands.desired};
  }
  /// An atomic addition; the same.
  [[nodiscard]] static operation_description addition(const remote_region& target,
                                                      std::uint64_t addend,
                                                      std::span<const sink> before = {}) {
    return {.kind = operation_kind::fetch_and_add,
            .in = before,
            .remote = target,
            .expected_or_addend = addend};
  }
};

/// What a poll for one operation found.
enum class found : std::uint8_t { nothing, it, something_else };

/// Who wants to hear of an operation, and where it was posted.
struct operation_interest {
  operation_waiter* waiter;
  operation_scope* scope = nullptr;
  std::source_location posted;
};

/// One operation of `scope` has ended, before anybody looked at `handle`; nullptr: that is gone.
void ended_in(operation_scope& scope, operation_waiter* handle) noexcept;

/// Threads: one thread at a time, together with all channels of its table.
class channel_core {
 public:
  /// What it is made of.
  struct parts {
    queue_pair<rc> queue;
    slot_reservation slots;  ///< one for each operation that can be in flight
    protection_domain domain;
    channel_options options;
    std::uint32_t max_read_sge;  ///< pieces of memory that one read fills
    connection_book book;
    /// What was at the index of the GID table that the options give, if they give one.
    std::optional<gid_entry> chosen_gid = {};
  };
  explicit channel_core(parts of);
  channel_core(const channel_core&) = delete;
  channel_core& operator=(const channel_core&) = delete;
  ~channel_core();

  /// Whether submit_usual() may post an operation; post() does it or says why not if it is false.
  template <operation_kind Kind, class Piece>
  [[nodiscard]] [[gnu::always_inline]] inline bool is_usual(
      const Piece& piece, const remote_region& remote) const noexcept;
  /// Posts what is most usual: one piece of memory, a source or a sink, without further wishes. Its
  /// id is that of the table's next free slot, which it does not take: begin() does, and is not
  /// needed if it is over before anything else is posted. Precondition: is_usual().
  template <operation_kind Kind, class Piece>
  [[nodiscard]] [[gnu::always_inline]] inline post_status submit_usual(const Piece& piece,
                                                                       const remote_region& remote);
  /// Where its slots are.
  [[nodiscard]] operation_table& table() const noexcept { return slots_.table(); }
  /// What submit_usual() posted is in flight: takes its slot. Nobody waits for it yet.
  [[gnu::always_inline]] inline operation_slot& begin(operation_kind kind,
                                                      std::source_location posted) noexcept;

  /// Posts. nullptr if it cannot: then the waiter has ended and is told why, and nothing is in
  /// flight. `held` is taken only if it was posted.
  [[nodiscard]] operation_slot* post(const operation_description& what,
                                     const operation_interest& who, buffer* held = nullptr);

  /// Polls once for the operation of `slot`, whose result `out` hopes for: `it` when it has
  /// succeeded; end_here() ends it if it has begun. If something else was found, also a failure of
  /// this one, `out` has its completion, and deliver() is to be called when somebody waits.
  /// Failures of the poll are for the next to find.
  [[nodiscard]] [[gnu::always_inline]] static inline found poll_for(const operation_table& table,
                                                                    const operation_slot& slot,
                                                                    operation_result& out) noexcept;
  /// What poll_for() found has ended.
  [[gnu::always_inline]] static void end_here(operation_slot& slot) noexcept {
    slot.owner->release_place(slot);
  }
  /// Delivers the completion that poll_for() left in `from`.
  void deliver(const operation_result& from) noexcept { slots_.table().deliver(from.done_); }
  /// Polls until `waiter` has ended; when `until` passes, the channel is flushed.
  [[gnu::always_inline]] inline void await(const operation_waiter& waiter, deadline until) {
    if (progress(), !waiter.ended) await_longer(waiter, until);
  }
  /// Polls until nothing of `scope` is in flight any more; the same.
  void drain(const operation_scope& scope, deadline until);
  /// Polls until `waiter` has ended; false when `until` passes first.
  [[nodiscard]] bool wait(const operation_waiter& waiter, deadline until);
  /// Polls once; what was found. Loses the queue pair when that fails.
  [[gnu::always_inline]] inline int progress() {
    const int found = slots_.table().progress();
    if (found < 0) [[unlikely]]
      lose(slots_.table().last_failure());
    return found;
  }
  /// Moves the queue pair to its error state and waits until nothing is in flight. Ends by losing
  /// the queue pair at the latest: afterwards nothing is in flight.
  void flush() { flush_because(failure_cause::program); }
  /// Destroys the queue pair, if there is one, and ends all operations as lost with that errno.
  void lose(int code) noexcept;
  /// What the queue pair was connected by: it goes after the queue pair.
  void keep(std::shared_ptr<cm::connection> connection) noexcept {
    connection_ = std::move(connection);
  }
  [[nodiscard]] cm::connection* connection() const noexcept { return connection_.get(); }
  /// The same, and destroys the queue pair; the book has then what came of the connection.
  void disconnect();
  /// Goes on with another queue pair, as after creation. Precondition: disconnect() was called.
  void connect_again(queue_pair<rc> queue);
  /// What connect_again() gave was taken back, and came to nothing: operations posted since are
  /// lost with that errno. All is as before, with `before` for the failure.
  void stay_apart(int code, const std::optional<channel_failure>& before) noexcept;

  /// A completion for an operation of this channel.
  [[gnu::always_inline]] inline void ended(operation_slot& slot, const completion& done) noexcept;
  /// A result of an operation that has succeeded, as soon as poll_for() says so.
  [[nodiscard]] [[gnu::always_inline]] static inline operation_result hope(
      std::source_location posted) noexcept;
  /// The waiter of the operation in `slot` has moved, or is gone.
  static void redirect(operation_slot& slot, operation_waiter* to) noexcept { slot.waiter = to; }

  /// The queue pair; nothing when it is lost.
  [[nodiscard]] std::optional<queue_pair<rc>>& queue() noexcept { return queue_; }
  [[nodiscard]] const protection_domain& domain() const noexcept { return domain_; }
  [[nodiscard]] const channel_options& options() const noexcept { return options_; }
  [[nodiscard]] std::uint32_t in_flight() const noexcept {
    return queue_ ? options_.max_send_wr - free_[0] + options_.max_recv_wr - free_[1] : 0;
  }
  [[nodiscard]] std::uint32_t free_sends() const noexcept { return free_[0]; }
  [[nodiscard]] std::uint32_t free_receives() const noexcept { return free_[1]; }
  /// Why the connection is of no more use; nullptr: it is, as far as is known.
  [[nodiscard]] const channel_failure* failure() const noexcept {
    return failure_ ? &*failure_ : nullptr;
  }
  /// Who the two sides are, and what they have of each other.
  [[nodiscard]] connection_book& book() noexcept { return book_; }
  [[nodiscard]] const std::optional<gid_entry>& chosen_gid() const noexcept { return chosen_gid_; }
  /// Operations that failed when nobody waited for them any more, and the first of them.
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
  [[nodiscard]] std::size_t most_pieces(operation_kind kind) const noexcept;
  template <class Piece>
  [[nodiscard]] refusal gather(std::span<const Piece> pieces, std::size_t most) noexcept;
  [[nodiscard]] post_status submit(const operation_description& what, std::uint64_t id);
  void end(operation_slot& slot, const operation_result& how) noexcept;
  inline void hand_over(operation_slot& slot, const operation_result& how) noexcept;
  void remember(operation_slot& slot, operation_result& failed) noexcept;
  // What was posted from `slot` is in flight.
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
  void fail_because(failure_cause why, int code = 0) noexcept;
  template <class Ended>
  bool spin(deadline until, Ended&& ended);
  void end_all(int code) noexcept;
  void deliver_the_rest() noexcept;

  std::shared_ptr<cm::connection> connection_;  // nullptr without a connection manager
  std::optional<queue_pair<rc>> queue_;
  slot_reservation slots_;
  protection_domain domain_;
  channel_options options_;
  const void* usual_domain_;         // of memory that is_usual(); none if messages are counted
  std::vector<local_slice> pieces_;  // of one post
  std::uint32_t max_read_sge_;
  std::array<std::uint32_t, 2> free_;  // places for sends, and for receives
  std::uint32_t holders_ = 1;
  bool deadline_passed_ = false;
  std::uint64_t unseen_failures_ = 0;
  operation_result first_unseen_failure_;  // there if there are any
  kind_counts posted_{};                   // over this connection, if they are counted
  connection_book book_;
  std::optional<gid_entry> chosen_gid_;
  std::optional<channel_failure> failure_;
};

int operation_table::progress() noexcept {
  std::array<completion, 16> batch;
  const poll_result polled = cq_.poll(batch);
  if (!polled) [[unlikely]]
    return failed(polled);
  for (const completion& done : *polled) deliver(done);
  return static_cast<int>((*polled).size());
}

void operation_table::deliver(const completion& done) noexcept {
  const std::uint32_t index = index_of(done.id());
  if (index >= slots_.size()) [[unlikely]]
    return;
  operation_slot& slot = slots_[index];
  // What lost its slot before it completed means nothing any more.
  if (slot.owner != nullptr && slot.id == done.id()) [[likely]]
    slot.owner->ended(slot, done);
}

operation_result channel_core::hope(std::source_location posted) noexcept {
  operation_result made;
  made.succeeded(posted);
  return made;
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
  if (slot.waiter == nullptr || slot.holds_buffer || !done.ok()) [[unlikely]]
    return end(slot, operation_result::of(done, deadline_passed_, slot.posted));
  slot.waiter->result = operation_result::of(done, false, slot.posted);
  slot.waiter->ended = true;
  if (slot.scope != nullptr) ended_in(*slot.scope, slot.waiter);
  release_place(slot);
}

template <operation_kind Kind, class Piece>
bool channel_core::is_usual(const Piece& piece, const remote_region& remote) const noexcept {
  if (usual_domain_ == nullptr) __builtin_unreachable();
  // A channel that lost its queue pair has no places.
  if (free_[Kind == operation_kind::receive] == 0 || piece.domain() != usual_domain_) [[unlikely]]
    return false;
  constexpr bool is_remote = Kind == operation_kind::write || Kind == operation_kind::read;
  return !is_remote || piece.length() <= remote.length();
}

template <operation_kind Kind, class Piece>
post_status channel_core::submit_usual(const Piece& piece, const remote_region& remote) {
  const std::uint64_t id = slots_.table().next_free().id;
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

}  // namespace detail

}  // namespace verbena::inline VERBENA_ABI
