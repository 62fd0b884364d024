// SPDX-License-Identifier: MIT
// What a channel and its handles share: the queue pair, the operations in flight, and the ways out
// when something goes wrong. The queue pair always goes before the memory that it may touch.
#pragma once

#include <cstdint>
#include <optional>
#include <source_location>
#include <span>
#include <utility>
#include <vector>

#include "verbena/base/deadline.hpp"
#include "verbena/channel/channel_options.hpp"
#include "verbena/channel/detail/operation_table.hpp"
#include "verbena/channel/operation_result.hpp"
#include "verbena/channel/sink.hpp"
#include "verbena/channel/source.hpp"
#include "verbena/verbs/queue_pair.hpp"
#include "verbena/verbs/remote_region.hpp"
#include "verbena/verbs/work_request.hpp"

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

/// What an operation of the send queue does.
enum class send_kind : std::uint8_t { send, write, read, compare_and_swap, fetch_and_add };

/// An operation of the send queue. Memory is named by `out` or `in`.
struct send_description {
  send_kind kind;
  outgoing out = {};
  std::span<const sink> in = {};
  remote_region remote = {};
  std::uint64_t expected_or_addend = 0;
  std::uint64_t desired = 0;
  operation_options options = {};
};

/// Who wants to hear of an operation, and where it was posted.
struct operation_interest {
  operation_waiter* waiter;
  operation_scope* scope = nullptr;
  std::source_location posted;
};

/// Threads: one thread at a time, together with all channels of its table.
class channel_core {
 public:
  /// What it is made of.
  struct parts {
    queue_pair<rc> queue;
    slot_reservation slots;  ///< one for each operation that can be in flight
    protection_domain domain;
    channel_options options;
  };
  explicit channel_core(parts of);
  channel_core(const channel_core&) = delete;
  channel_core& operator=(const channel_core&) = delete;
  ~channel_core();

  /// Posts, or says why not: then nothing is in flight, and the interest is forgotten.
  /// `held` is taken only if it was posted.
  [[nodiscard]] std::optional<operation_result> post(const send_description& what,
                                                     operation_interest who, buffer* held = {});
  /// The same for a receive.
  [[nodiscard]] std::optional<operation_result> post(std::span<const sink> into,
                                                     operation_interest who, buffer* held = {});

  /// Polls until `waiter` has ended; when `until` passes, the channel is flushed.
  void await(const operation_waiter& waiter, deadline until);
  /// Polls until nothing of `scope` is in flight any more; the same.
  void drain(const operation_scope& scope, deadline until);
  /// Polls until `waiter` has ended; false when `until` passes first.
  [[nodiscard]] bool wait(const operation_waiter& waiter, deadline until);
  /// Polls once. Loses the queue pair when that fails.
  void progress();
  /// Moves the queue pair to its error state and waits until nothing is in flight. Ends by losing
  /// the queue pair at the latest: afterwards nothing is in flight.
  void flush();

  /// A completion for an operation of this channel.
  void ended(operation_slot& slot, const completion& done) noexcept;
  /// The waiter of the operation in `slot` has moved, or is gone.
  static void redirect(operation_slot& slot, operation_waiter* to) noexcept { slot.waiter = to; }

  /// The queue pair; nothing when it is lost.
  [[nodiscard]] std::optional<queue_pair<rc>>& queue() noexcept { return queue_; }
  [[nodiscard]] const protection_domain& domain() const noexcept { return domain_; }
  [[nodiscard]] const channel_options& options() const noexcept { return options_; }
  [[nodiscard]] std::uint32_t in_flight() const noexcept { return in_flight_; }
  [[nodiscard]] std::uint32_t free_sends() const noexcept { return free_sends_; }
  [[nodiscard]] std::uint32_t free_receives() const noexcept { return free_receives_; }
  /// The slot that the last post took.
  [[nodiscard]] operation_slot* last_slot() const noexcept { return last_; }
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
  [[nodiscard]] refusal check(const send_description& what) noexcept;
  [[nodiscard]] refusal gather(std::span<const source> from) noexcept;
  [[nodiscard]] refusal gather(std::span<const sink> into, std::size_t most) noexcept;
  [[nodiscard]] post_status submit(const send_description& what, std::uint64_t id);
  [[nodiscard]] operation_slot& begin(const operation_interest& who, bool receive) noexcept;
  std::optional<operation_result> begun(operation_slot& slot, buffer* held) noexcept;
  std::optional<operation_result> refused(operation_slot& slot, const post_status& status) noexcept;
  void end(operation_slot& slot, const operation_result& how) noexcept;
  template <class Ended>
  bool spin(deadline until, Ended&& ended);
  void lose(int code) noexcept;
  void end_all(int code) noexcept;
  void deliver_the_rest() noexcept;

  std::optional<queue_pair<rc>> queue_;
  slot_reservation slots_;
  protection_domain domain_;
  channel_options options_;
  const ibv_pd* native_domain_;
  std::vector<local_slice> pieces_;  // of one post
  operation_slot* last_ = nullptr;
  std::uint32_t free_sends_;
  std::uint32_t free_receives_;
  std::uint32_t in_flight_ = 0;
  std::uint32_t holders_ = 1;
  bool deadline_passed_ = false;
  std::uint64_t unseen_failures_ = 0;
  operation_result first_unseen_failure_;  // there if there are any
};

}  // namespace detail

}  // namespace verbena::inline VERBENA_ABI
