// SPDX-License-Identifier: MIT
// The awaiters of channel operations, and the state of a channel to which they refer. An awaiter
// lives in the frame of the coroutine, and is the recipient of the result.
#pragma once

#include <array>
#include <coroutine>
#include <cstdint>
#include <optional>
#include <source_location>
#include <span>
#include <utility>

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

class channel_operation;

/// A channel on an engine, and the operations that wait for room in its queues. It lives until the
/// channel is destroyed and the last operation has ended.
/// Threads: one thread at a time, that of the engine.
class channel_state {
 public:
  channel_state(engine_state& on, verbena::channel&& of) noexcept;
  channel_state(const channel_state&) = delete;
  channel_state& operator=(const channel_state&) = delete;

  [[nodiscard]] engine_state& on() const noexcept { return on_; }
  /// Returns the channel; nullopt if it was destroyed or taken back.
  [[nodiscard]] std::optional<verbena::channel>& of() noexcept { return of_; }
  /// Returns the core of the channel. Precondition: of() has a value.
  [[nodiscard]] channel_core& core() const noexcept { return *core_; }
  /// Returns whether operations wait for room in the receive queue, or in the send queue.
  [[nodiscard]] bool has_waiting(bool receives) const noexcept {
    return waiting_[receives].first != nullptr;
  }
  void wait_for_room(channel_operation& which) noexcept;
  void stop_waiting(channel_operation& which) noexcept;
  /// Posts the operations that wait, as far as there is room.
  void post_waiting() noexcept;

  /// Moves the queue pair to the error state. If its operations are not flushed within 5 s, the
  /// queue pair is destroyed. Does not block.
  void abort() noexcept;
  /// Destroys the channel. Operations in flight end as `lost`, those that wait are refused.
  void close() noexcept;

  void hold() noexcept { ++holders_; }
  static void release(channel_state* which) noexcept {
    if (--which->holders_ == 0) delete which;
  }

 private:
  ~channel_state();
  struct line {
    channel_operation* first = nullptr;
    channel_operation* last = nullptr;
  };
  struct flush_timer : timer {
    channel_state* of = nullptr;
  };

  engine_state& on_;
  std::optional<verbena::channel> of_;
  channel_core* core_;
  std::array<line, 2> waiting_{};  // for room in the send queue, in the receive queue
  std::uint32_t holders_ = 1;
  flush_timer flush_;
};

/// The base of the awaiters of all operations.
/// Threads: one thread at a time, that of the engine.
class channel_operation : private queued_waiter {
 public:
  channel_operation(const channel_operation&) = delete;
  channel_operation& operator=(const channel_operation&) = delete;

  [[nodiscard]] bool await_ready() const noexcept { return false; }
  [[nodiscard]] operation_result await_resume() const noexcept { return result; }

 protected:
  /// Posts the operation; nullptr if it was refused, with the reason in the result.
  using post_function = verbena::detail::operation_slot* (*)(channel_operation& self);

  channel_operation(channel_state& of, deadline limit, bool receives, post_function post,
                    std::source_location posted) noexcept
      : state_(&of), post_(post), limit_(limit), posted_(posted), receives_(receives) {}
  ~channel_operation() {
    if (stage_ != stage::idle) [[unlikely]]
      give_up();
  }

  [[nodiscard]] channel_state& state() const noexcept { return *state_; }
  [[nodiscard]] std::source_location posted() const noexcept { return posted_; }
  [[nodiscard]] queued_waiter& waiter() noexcept { return *this; }

  /// Suspends: the operation was posted to `slot`.
  [[gnu::always_inline]] bool begin(verbena::detail::operation_slot& slot,
                                    std::coroutine_handle<> caller) noexcept {
    slot.waiter = this;
    slot.scope = nullptr;
    caller_ = caller;
    complete = resume_caller;
    stage_ = stage::posted;
    state_->hold();
    if (!limit_.is_never()) [[unlikely]]
      set_timer();
    return true;
  }
  /// Posts the operation, or has it wait for room. Returns false if it was refused.
  [[nodiscard]] bool start(std::coroutine_handle<> caller) noexcept;
  /// Refuses the operation; returns false.
  [[nodiscard]] bool refuse(refusal why, int code) noexcept {
    result = operation_result::refuse(why, code, posted_);
    return false;
  }

 private:
  friend class channel_state;
  enum class stage : std::uint8_t { idle, waiting, posted, ended };
  struct limit_timer : timer {
    channel_operation* of;
  };

  static void resume_caller(queued_waiter& self) noexcept;
  void set_timer() noexcept;
  void expire() noexcept;
  /// Ends the operation without a post: its coroutine is resumed by the next poll.
  void end_refused(refusal why, int code) noexcept;
  void give_up() noexcept;

  channel_state* state_;
  post_function post_;
  std::coroutine_handle<> caller_;
  channel_operation* next_waiting_ = nullptr;
  deadline limit_;
  std::source_location posted_;
  limit_timer timer_;
  bool receives_;
  stage stage_ = stage::idle;
};

/// An operation on one slice without options.
/// Threads: one thread at a time, that of the engine.
template <operation_kind Kind>
class piece_awaiter : public channel_operation {
 public:
  piece_awaiter(channel_state& of, const memory_piece& piece, const remote_region& remote,
                deadline limit, std::source_location posted) noexcept
      : channel_operation(of, limit, is_receive, post_general, posted),
        piece_(piece),
        remote_(remote) {}

  bool await_suspend(std::coroutine_handle<> caller) noexcept {
    if (!state().of().has_value() || state().has_waiting(is_receive)) [[unlikely]]
      return start(caller);
    channel_core& core = state().core();
    if (!core.template is_usual<Kind>(piece_, remote_)) [[unlikely]]
      return start(caller);
    if (const auto status = core.template submit_usual<Kind>(piece_, remote_); !status) [[unlikely]]
      return refuse(refusal::verb, status.code());
    return begin(core.begin(Kind, posted()), caller);
  }

 private:
  static constexpr bool is_receive = Kind == operation_kind::receive;

  static verbena::detail::operation_slot* post_general(channel_operation& self) {
    auto& mine = static_cast<piece_awaiter&>(self);
    return mine.state().core().post({.kind = Kind, .piece = &mine.piece_, .remote = mine.remote_},
                                    {.waiter = &mine.waiter(), .posted = mine.posted()});
  }

  memory_piece piece_;
  remote_region remote_;
};

/// Any operation. It copies one slice and inline data; it refers to the elements of lists.
/// Threads: one thread at a time, that of the engine.
class general_awaiter : public channel_operation {
 public:
  general_awaiter(channel_state& of, const operation_description& what, deadline limit,
                  std::source_location posted) noexcept
      : channel_operation(of, limit, what.kind == operation_kind::receive, post_general, posted),
        what_(what) {
    if (what.out.inlined() != nullptr) inlined_ = *what.out.inlined();
    if (what.out.sources().size() == 1) piece_ = memory_piece(what.out.sources().front());
    if (what.in.size() == 1) piece_ = memory_piece(what.in.front());
  }

  bool await_suspend(std::coroutine_handle<> caller) noexcept { return start(caller); }

 private:
  static verbena::detail::operation_slot* post_general(channel_operation& self) {
    auto& mine = static_cast<general_awaiter&>(self);
    operation_description what = mine.what_;
    if (mine.inlined_) what.out = *mine.inlined_;
    if (mine.piece_) what.piece = &*mine.piece_;
    return mine.state().core().post(what, {.waiter = &mine.waiter(), .posted = mine.posted()});
  }

  operation_description what_;
  std::optional<memory_piece> piece_;
  std::optional<inline_data> inlined_;
};

}  // namespace verbena::inline VERBENA_ABI::async::detail

namespace verbena::inline VERBENA_ABI::async {

/// An operation, which starts when it is awaited. It copies its arguments, except the elements of
/// lists of slices and the bytes of inline data: these must outlive it.
/// Threads: one thread at a time, that of the engine.
template <class Awaiter>
class [[nodiscard("an operation starts when it is awaited")]] operation : private Awaiter {
 public:
  template <class... Arguments>
  explicit operation(detail::channel_state& of, const Arguments&... arguments) noexcept
      : Awaiter(of, arguments...) {}

  // A reference would do, but g++ 12 copies what it refers to.
  struct awaiter {
    Awaiter& of;  // NOLINT(cppcoreguidelines-avoid-const-or-ref-data-members): one expression

    [[nodiscard]] bool await_ready() const noexcept { return of.await_ready(); }
    [[nodiscard]] bool await_suspend(std::coroutine_handle<> caller) const noexcept {
      return of.await_suspend(caller);
    }
    [[nodiscard]] operation_result await_resume() const noexcept { return of.await_resume(); }
  };
  /// Starts the operation; its value is an operation_result.
  [[nodiscard]] awaiter operator co_await() && noexcept { return {*this}; }
};

}  // namespace verbena::inline VERBENA_ABI::async
