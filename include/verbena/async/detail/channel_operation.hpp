// SPDX-License-Identifier: MIT
// The operations of a channel, and the state of the channel that they share. An operation is the
// recipient of its result. It is a part of an awaiter, or of another object of the caller.
#pragma once

#include <array>
#include <cerrno>
#include <cstdint>
#include <optional>
#include <source_location>
#include <span>
#include <utility>

#include "verbena/async/detail/disconnect_watch.hpp"
#include "verbena/async/detail/engine_state.hpp"
#include "verbena/base/deadline.hpp"
#include "verbena/channel/channel.hpp"
#include "verbena/channel/detail/channel_core.hpp"
#include "verbena/channel/operation_result.hpp"
#include "verbena/verbs/remote_region.hpp"
#include "verbena/verbs/work_request.hpp"

namespace verbena::inline VERBENA_ABI::async::detail {

using verbena::detail::channel_core;
using verbena::detail::memory_piece;
using verbena::detail::operation_description;
using verbena::detail::operation_kind;
using verbena::detail::waiter_list;

class channel_operation;

/// A channel on an engine, and the operations that wait for room in its queues. Exists until the
/// channel is destroyed and the last operation has ended.
/// Threads: one thread at a time, the thread of the engine.
class channel_state {
 public:
  channel_state(engine_state& on, verbena::channel&& of) noexcept;
  channel_state(const channel_state&) = delete;
  channel_state& operator=(const channel_state&) = delete;

  [[nodiscard]] engine_state& on() const noexcept { return on_; }
  /// Returns the channel, or nullopt if it was destroyed or released.
  [[nodiscard]] std::optional<verbena::channel>& of() noexcept { return of_; }
  /// Returns the core of the channel. Precondition: of() has a value.
  [[nodiscard]] channel_core& core() const noexcept { return *core_; }
  /// Returns true if operations wait for room in the receive queue, if `receives`, or in the send
  /// queue.
  [[nodiscard]] bool has_waiting(bool receives) const noexcept {
    return !waiting_[receives].empty();
  }
  /// Returns the core of the channel if an operation can be posted immediately. Returns nullptr if
  /// the channel was destroyed, or if other operations wait for room.
  [[nodiscard]] channel_core* ready_core(bool receives) const noexcept { return ready_[receives]; }
  /// Returns true if operations wait for room in one of the queues.
  [[nodiscard]] bool has_waiting() const noexcept {
    return has_waiting(false) || has_waiting(true);
  }
  /// Returns true if the end of an operation may have further effects: operations wait for room, a
  /// flush has a limit, or the channel was destroyed.
  [[nodiscard]] bool is_unusual() const noexcept { return is_unusual_; }
  void wait_for_room(channel_operation& which) noexcept;
  void stop_waiting(channel_operation& which) noexcept;
  /// Posts waiting operations while there is room.
  void post_waiting() noexcept;

  /// Moves the queue pair to the error state. If its operations are not flushed within 5 s, the
  /// queue pair is destroyed. `why` is the cause that channel::failure() returns. Does not block.
  void abort(failure_cause why) noexcept;
  /// Removes the limit of a flush if no operation is in flight.
  void end_flush() noexcept;
  /// Ends the connection and blocks until its operations are flushed: at most 5 s, or until the
  /// limit of an earlier abort().
  void flush() noexcept;
  /// Destroys the channel. Operations in flight end as `lost`; waiting operations are refused.
  void close() noexcept;
  /// Moves the channel out; close() must follow. Precondition: no operation is in flight.
  [[nodiscard]] verbena::channel take();

  void hold() noexcept { ++holders_; }
  /// Reverts hold(). Precondition: the channel exists, so there are other holders.
  void release_usual() noexcept { --holders_; }
  static void release(channel_state* which) noexcept {
    if (--which->holders_ == 0) delete which;
  }

 private:
  ~channel_state();
  void update_unusual() noexcept;
  // Sets the time at which a queue pair that does not flush is destroyed.
  void limit_flush() noexcept;
  struct flush_timer : timer {
    channel_state* of = nullptr;
  };

  engine_state& on_;
  std::optional<verbena::channel> of_;
  channel_core* core_;
  std::array<channel_core*, 2> ready_;  // see ready_core()
  std::array<waiter_list, 2> waiting_;  // for room in the send queue and in the receive queue
  bool is_unusual_ = false;
  std::uint32_t holders_ = 1;
  flush_timer flush_;
  disconnect_watch watch_;
};

/// The common part of the operations. A derived class starts the operation at most once, and its
/// ended_function is called when the operation has ended. Threads: one thread at a time, the thread
/// of the engine.
class channel_operation : protected queued_waiter {
 public:
  /// settle() always returns true.
  static constexpr bool always_ends = true;
  /// Called by engine::poll() when the operation has ended. Must call settle() before
  /// take_result().
  using ended_function = void (*)(queued_waiter& self);

  channel_operation& operator=(const channel_operation&) = delete;

 protected:
  /// Posts the operation. Returns false if the post was refused; the result has the reason.
  using post_function = bool (*)(channel_operation& self);

  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init): valid while it waits for room
  channel_operation(channel_state& of, operation_kind what, deadline limit,
                    std::source_location posted) noexcept
      : state_(&of), limit_(limit) {
    kind = what;
    result = operation_result::pending(posted);
  }
  /// Copies the arguments of an operation that was not started.
  channel_operation(const channel_operation& idle) noexcept
      : channel_operation(*idle.state_, idle.kind, idle.limit_, idle.posted()) {}
  ~channel_operation() {
    if (stage_ != stage::idle) [[unlikely]]
      give_up();
  }

  /// Posts the operation with `post`, or waits for room. Returns false if the operation was
  /// refused; `when_ended` is then not called.
  [[nodiscard]] bool start(ended_function when_ended, bool receives, post_function post) noexcept;
  /// Releases the channel state and the timer, and posts operations that wait for room. Returns
  /// true: the operation has ended.
  [[gnu::always_inline]] bool settle() noexcept {
    // One test: stage::posted is 0.
    if ((static_cast<unsigned>(stage_) | static_cast<unsigned>(state_->is_unusual())) != 0)
        [[unlikely]]
      settle_unusual();
    else
      state_->release_usual();
    stage_ = stage::idle;
    return true;
  }
  /// Returns true if the operation waits for room, so that ending it does not affect the
  /// connection.
  [[nodiscard]] bool waits_for_room() const noexcept { return stage_ == stage::waiting; }
  /// Ends the operation early; see async::channel.
  void cancel() noexcept { end_early(ECANCELED); }
  /// Returns the result. Precondition: the operation has ended or was refused.
  [[nodiscard]] operation_result take_result() const noexcept { return result; }

  [[nodiscard]] channel_state& state() const noexcept { return *state_; }
  [[nodiscard]] engine_state& on() const noexcept { return state_->on(); }
  [[nodiscard]] std::source_location posted() const noexcept { return result.posted(); }
  [[nodiscard]] queued_waiter& waiter() noexcept { return *this; }
  /// Starts to wait for the completion of the operation, which was posted or is about to be.
  [[gnu::always_inline]] bool begin(ended_function when_ended) noexcept {
    complete = when_ended;
    stage_ = stage::posted;
    state_->hold();
    if (!limit_.is_never()) [[unlikely]] {
      stage_ = stage::posted_with_limit;
      set_timer();
    }
    return true;
  }
  /// Reverts begin() for an operation that the verb refused with `code`. Returns false.
  [[nodiscard]] bool undo_begin(int code) noexcept;
  /// Stores a refusal as the result. Returns false.
  [[nodiscard]] bool refuse(refusal why, int code) noexcept {
    result = operation_result::refuse(why, code, posted());
    return false;
  }

 private:
  friend class channel_state;
  enum class stage : std::uint8_t { posted, posted_with_limit, waiting, idle };
  // Initialized by set_timer().
  struct limit_timer : timer {
    limit_timer() noexcept : timer(uninitialized_timer()) {}
    channel_operation* of;
  };

  [[nodiscard]] stage stage_of_posted() const noexcept {
    return limit_.is_never() ? stage::posted : stage::posted_with_limit;
  }
  void settle_unusual() noexcept;
  void set_timer() noexcept;
  void end_early(int code) noexcept;
  /// Ends the operation without posting it. The next poll calls its ended_function.
  void end_refused(refusal why, int code) noexcept;
  void give_up() noexcept;

  stage stage_ = stage::idle;  // adjacent to `kind`, so that one store initializes both
  bool receives_;              // of an operation that waits for room
  channel_state* state_;
  deadline limit_;
  limit_timer timer_;   // used if there is a limit
  post_function post_;  // of an operation that waits for room
};

/// An operation on one slice without options.
/// Threads: one thread at a time, the thread of the engine.
template <operation_kind Kind>
class piece_operation : public channel_operation {
 public:
  using value_type = operation_result;

  piece_operation(channel_state& of, const memory_piece& piece, const remote_region& remote,
                  deadline limit, std::source_location posted) noexcept
      : channel_operation(of, Kind, limit, posted), piece_(piece), remote_(remote) {}

 protected:
  [[gnu::always_inline]] [[nodiscard]] bool start(ended_function when_ended) noexcept {
    channel_core* const core = state().ready_core(is_receive);
    if (core == nullptr || !core->template is_usual<Kind>(piece_, remote_)) [[unlikely]]
      return channel_operation::start(when_ended, is_receive, post_general);
    // Before the post, so that the compiler knows the values that begin() reads.
    begin(when_ended);
    const auto status = core->template post_usual<Kind>(piece_, remote_, waiter());
    if (!status) [[unlikely]]
      return undo_begin(status.code());
    return true;
  }

 private:
  static constexpr bool is_receive = Kind == operation_kind::receive;

  static bool post_general(channel_operation& self) {
    auto& mine = static_cast<piece_operation&>(self);
    return mine.state().core().post({.kind = Kind, .piece = &mine.piece_, .remote = mine.remote_},
                                    mine.waiter());
  }

  memory_piece piece_;
  remote_region remote_;
};

/// An operation of any kind. Copies a single slice and the description of inline data; refers to
/// the elements of longer lists.
/// Threads: one thread at a time, the thread of the engine.
class general_operation : public channel_operation {
 public:
  using value_type = operation_result;

  general_operation(channel_state& of, const operation_description& what, deadline limit,
                    std::source_location posted) noexcept
      : channel_operation(of, what.kind, limit, posted), what_(what) {
    if (what.out.inlined() != nullptr) inlined_ = *what.out.inlined();
    if (what.out.sources().size() == 1) piece_ = memory_piece(what.out.sources().front());
    if (what.in.size() == 1) piece_ = memory_piece(what.in.front());
  }

 protected:
  [[nodiscard]] bool start(ended_function when_ended) noexcept {
    return channel_operation::start(when_ended, what_.kind == operation_kind::receive,
                                    post_general);
  }

 private:
  static bool post_general(channel_operation& self) {
    auto& mine = static_cast<general_operation&>(self);
    operation_description what = mine.what_;
    if (mine.inlined_) what.out = *mine.inlined_;
    if (mine.piece_) what.piece = &*mine.piece_;
    return mine.state().core().post(what, mine.waiter());
  }

  operation_description what_;
  std::optional<memory_piece> piece_;
  std::optional<inline_data> inlined_;
};

}  // namespace verbena::inline VERBENA_ABI::async::detail
