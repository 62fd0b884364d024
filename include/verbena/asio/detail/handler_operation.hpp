// SPDX-License-Identifier: MIT
// An operation and its handler in one block of memory: begins and cancels the operation, and calls
// the handler.
#pragma once

#include <asio/associated_allocator.hpp>
#include <asio/associated_cancellation_slot.hpp>
#include <asio/associated_executor.hpp>
#include <asio/associator.hpp>
#include <asio/async_result.hpp>
#include <asio/cancellation_type.hpp>
#include <asio/dispatch.hpp>
#include <asio/error.hpp>
#include <asio/error_code.hpp>
#include <asio/executor_work_guard.hpp>

#include <cerrno>
#include <concepts>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <system_error>
#include <tuple>
#include <type_traits>
#include <utility>

#include "verbena/asio/detail/loop.hpp"
#include "verbena/asio/detail/pending_operation.hpp"
#include "verbena/asio/detail/result_code.hpp"
#include "verbena/async/detail/channel_operation.hpp"
#include "verbena/async/detail/listener_accept.hpp"
#include "verbena/async/detail/message_operation.hpp"
#include "verbena/async/detail/operation_state.hpp"
#include "verbena/base/error.hpp"
#include "verbena/base/result.hpp"
#include "verbena/channel/operation_result.hpp"
#include "verbena/channel/receive_result.hpp"
#include "verbena/channel/send_result.hpp"

namespace verbena::inline VERBENA_ABI::asio::detail {

/// A message_drain whose result distinguishes a failed channel from a timeout. Threads: one thread
/// at a time, the thread of the engine.
class drain_operation : public async::detail::message_drain {
 public:
  using value_type = drain_result;
  using message_drain::message_drain;

 protected:
  [[nodiscard]] drain_result take_result() const noexcept {
    return {message_drain::take_result() ? 0 : has_failed_ ? ENOTCONN : ETIMEDOUT};
  }
  /// Records the reason. Called when the operation has ended, if the channel exists.
  void note_reason() noexcept { has_failed_ = state().of()->failure() != nullptr; }

 private:
  bool has_failed_ = false;
};

/// The default of an associated property, to detect whether a handler has the property.
struct no_property {};

template <class Handler>
using executor_of = typename ::asio::associated_executor<Handler, no_property>::type;
template <class Handler>
inline constexpr bool has_executor = !std::is_same_v<executor_of<Handler>, no_property>;
template <class Handler>
inline constexpr bool has_slot =
    !std::is_same_v<typename ::asio::associated_cancellation_slot<Handler, no_property>::type,
                    no_property>;
template <class Handler>
using allocator_of = typename ::asio::associated_allocator<Handler>::type;

/// A handler with its arguments. Its associated properties are those of the handler.
template <class Handler, class... Results>
struct completion {
  Handler handler;
  std::tuple<std::error_code, Results...> results;

  void operator()() {
    std::apply([this](auto&... each) { std::move(handler)(std::move(each)...); }, results);
  }
};

/// Calls a handler. If the handler has its own executor, keeps the context of that executor from
/// running out of work.
/// Threads: one thread at a time, the thread of the engine.
template <class Handler, bool = has_executor<Handler>>
class handler_work {
 public:
  handler_work(const Handler& /*of*/, const loop& /*on*/) noexcept {}
  template <class... Results>
  void call(const loop& /*on*/, Handler&& handler, std::error_code code, Results&&... results) {
    std::move(handler)(code, std::forward<Results>(results)...);
  }
};
template <class Handler>
class handler_work<Handler, true> {
 public:
  handler_work(const Handler& of, const loop& on) {
    auto executor = ::asio::get_associated_executor(of);
    if (!is_own(executor, on)) work_.emplace(std::move(executor));
  }
  template <class... Results>
  void call(const loop& /*on*/, Handler&& handler, std::error_code code, Results&&... results) {
    // The loop runs on its own executor, so a handler with the same executor is called directly.
    if (!work_) return std::move(handler)(code, std::forward<Results>(results)...);
    ::asio::dispatch(completion<Handler, std::decay_t<Results>...>{
        std::move(handler), {code, std::forward<Results>(results)...}});
  }

 private:
  [[nodiscard]] static bool is_own(const executor_of<Handler>& executor, const loop& on) noexcept {
    if constexpr (std::is_same_v<executor_of<Handler>, loop::executor_type>)
      return executor == on.executor();
    else if constexpr (std::is_same_v<executor_of<Handler>, loop::native_executor_type>)
      return on.native() == executor;
    else
      return false;
  }
  std::optional<::asio::executor_work_guard<executor_of<Handler>>> work_;
};

class slot_handler;

/// The connection to the cancellation slot of a handler, until its operation ends.
/// Threads: one thread at a time, the thread of the engine.
template <bool HasSlot>
class slot_link {
 public:
  template <class Handler>
  void connect(const Handler& /*of*/, pending_operation& /*on*/) const noexcept {}
  void leave() const noexcept {}
};
template <>
class slot_link<true> {
 public:
  template <class Handler>
  void connect(const Handler& of, pending_operation& on) {
    auto slot = ::asio::get_associated_cancellation_slot(of);
    if (slot.is_connected()) slot.template emplace<slot_handler>(on, in_slot_);
  }
  inline void leave() const noexcept;

 private:
  slot_handler* in_slot_ = nullptr;
};

/// The handler in a cancellation slot: cancels an operation. The slot handler and the operation
/// refer to each other, because either can be destroyed first.
/// Threads: one thread at a time, the thread of the engine.
class slot_handler {
 public:
  slot_handler(pending_operation& of, slot_handler*& seen_by) noexcept
      : of_(&of), seen_by_(seen_by) {
    seen_by_ = this;
  }
  slot_handler(const slot_handler&) = delete;
  slot_handler& operator=(const slot_handler&) = delete;
  ~slot_handler() { leave(); }
  void operator()(::asio::cancellation_type_t type) const noexcept {
    if (of_ != nullptr) of_->cancel(type);
  }
  /// Disconnects the slot handler from the operation.
  void leave() noexcept {
    if (of_ == nullptr) return;
    of_ = nullptr;
    seen_by_ = nullptr;
  }

 private:
  pending_operation* of_;
  slot_handler*& seen_by_;  // NOLINT(cppcoreguidelines-avoid-const-or-ref-data-members): not moved
};

void slot_link<true>::leave() const noexcept {
  if (in_slot_ != nullptr) in_slot_->leave();
}

/// Threads: one thread at a time, the thread of the engine.
template <class Operation, class Handler>
class handler_operation final : public pending_operation, private Operation {
  using queued_waiter = verbena::detail::queued_waiter;
  using value_type = typename Operation::value_type;
  static constexpr bool is_of_channel =
      std::is_base_of_v<async::detail::channel_operation, Operation>;
  static constexpr bool is_of_messages =
      std::is_base_of_v<async::detail::message_operation, Operation>;
  // Takes a message or a client, which an operation must take immediately before its handler is
  // called: if another handler cancels the operation first, the message stays in the channel, and
  // the client stays in the listener.
  static constexpr bool takes_late = std::is_base_of_v<async::detail::message_receive, Operation> ||
                                     std::is_base_of_v<async::detail::listener_accept, Operation>;

 public:
  /// Starts the operation with these arguments. After it has ended, a step of `on` calls `handler`.
  template <class... Arguments>
  [[gnu::always_inline]] static inline void begin(loop& on, Handler&& handler,
                                                  Arguments&&... arguments) {
    if (on.is_shut_down()) [[unlikely]]
      return;  // destroys the handler
    auto allocator = own_allocator(handler);
    void* const memory = take_memory(on, allocator);
    std::unique_ptr<handler_operation, destroyer> made(::new (memory) handler_operation(
        on, std::move(handler), std::forward<Arguments>(arguments)...));
    on.add(*made);
    made->slot_.connect(made->handler_, *made);
    handler_operation& self = *made.release();
    if (!self.start()) [[unlikely]] {
      self.note_end(false);
      on.end(self);
    }
    on.wake();
  }

  void finish() override {
    if constexpr (takes_late) {
      if (std::exchange(is_unsettled_, false)) {
        const bool is_closed = has_lost_channel();
        if (!this->settle()) return on_.add(*this);
        note_end(is_closed);
      }
    }
    hand_over();
  }
  [[gnu::always_inline]] void hand_over() {
    if constexpr (async::detail::throwing_operation<Operation>) {
      if (auto thrown = this->take_exception()) {
        const Handler handler(std::move(handler_));
        free(handler);
        std::rethrow_exception(thrown);
      }
    }
    handler_work<Handler> work(std::move(work_));
    Handler handler(std::move(handler_));
    value_type outcome(this->Operation::take_result());
    const std::error_code code =
        async::detail::has_succeeded(outcome) ? on_.success() : code_of_failure(outcome);
    const loop& on = free(handler);
    if constexpr (std::is_same_v<value_type, drain_result>)
      work.call(on, std::move(handler), code);
    else
      work.call(on, std::move(handler), code, std::move(outcome));
  }
  void begin_to_end() noexcept override {
    if constexpr (is_of_channel) {
      if (!this->waits_for_room()) Operation::cancel();
    }
  }
  void destroy() noexcept override {
    loop::drop(*this);
    slot_.leave();
    // The handler may own the memory of the operation, so it is destroyed last.
    const Handler handler(std::move(handler_));
    free(handler);
  }
  void cancel(::asio::cancellation_type_t type) noexcept override {
    constexpr auto none = ::asio::cancellation_type_t::none;
    if (type == none) return;
    if constexpr (is_of_channel) {
      // A posted operation can end early only with its connection.
      if (!this->waits_for_room() && (type & ::asio::cancellation_type_t::terminal) == none) return;
    }
    is_cancelled_ = true;
    Operation::cancel();
    on_.wake();
  }

 private:
  struct destroyer {
    void operator()(handler_operation* which) const noexcept { which->destroy(); }
  };
  using own_allocator_type = typename std::allocator_traits<
      allocator_of<Handler>>::template rebind_alloc<handler_operation>;
  // Handlers without an allocator use the memory of the loop, unless they need a larger alignment
  // than that of operator new.
  static constexpr bool uses_loop_memory() {
    return std::is_same_v<own_allocator_type, std::allocator<handler_operation>> &&
           alignof(handler_operation) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__;
  }

  template <class... Arguments>
  handler_operation(loop& on, Handler&& handler, Arguments&&... arguments) noexcept
      : Operation(std::forward<Arguments>(arguments)...),
        on_(on),
        handler_(std::move(handler)),
        work_(handler_, on) {}
  ~handler_operation() = default;

  [[nodiscard]] static own_allocator_type own_allocator(const Handler& of) {
    return own_allocator_type(::asio::get_associated_allocator(of));
  }
  [[nodiscard]] static void* take_memory(loop& on, own_allocator_type& allocator) {
    if constexpr (uses_loop_memory())
      return on.memory().take(sizeof(handler_operation));
    else
      return std::allocator_traits<own_allocator_type>::allocate(allocator, 1);
  }
  /// Destroys and frees the operation. `handler` is its handler, which was moved out. Returns the
  /// loop.
  loop& free(const Handler& handler) noexcept {
    loop& on = on_;
    auto allocator = own_allocator(handler);
    this->~handler_operation();
    if constexpr (uses_loop_memory())
      on.memory().give(this, sizeof(handler_operation));
    else
      std::allocator_traits<own_allocator_type>::deallocate(allocator, this, 1);
    return on;
  }
  [[nodiscard]] bool start() noexcept {
    if constexpr (takes_late)
      return this->start_waiting(when_ended);
    else
      return Operation::start(when_ended);
  }
  [[nodiscard]] bool has_lost_channel() const noexcept {
    if constexpr (is_of_messages)
      return !this->state().of().has_value();
    else
      return false;
  }
  [[nodiscard]] std::error_code code_of_failure(const value_type& outcome) const {
    const auto aborted = ::asio::error::make_error_code(::asio::error::operation_aborted);
    if constexpr (is_of_channel) {
      if (is_closed_ && outcome.refusal() == refusal::channel_destroyed) return aborted;
    } else if (is_closed_) {
      return aborted;
    }
    const std::error_code code = code_of(outcome);
    // A cancelled message operation ends as if its deadline had passed.
    return is_cancelled_ && code == errno_code(ETIMEDOUT) ? aborted : code;
  }

  static void when_ended(queued_waiter& waiter) noexcept {
    auto& self = static_cast<handler_operation&>(waiter);
    if constexpr (is_of_channel) {
      self.settle();
      self.slot_.leave();
    } else {
      if constexpr (takes_late) {
        if (self.on_.is_behind()) [[unlikely]] {
          self.is_unsettled_ = true;
          return self.on_.end(self);
        }
      }
      const bool is_closed = self.has_lost_channel();
      if (!self.settle()) return;
      self.note_end(is_closed);
    }
    self.on_.finish(self);
  }
  void note_end(bool is_closed) noexcept {
    is_closed_ = is_closed;
    if constexpr (std::is_same_v<value_type, drain_result>) {
      if (!is_closed) this->note_reason();
    }
    slot_.leave();
  }

  loop& on_;  // NOLINT(cppcoreguidelines-avoid-const-or-ref-data-members): not moved
  Handler handler_;
  [[no_unique_address]] handler_work<Handler> work_;
  [[no_unique_address]] slot_link<has_slot<Handler>> slot_;
  bool is_cancelled_ = false;
  bool is_unsettled_ = false;  // in the list of ended operations, but settle() was not called
  // The channel was destroyed before the operation ended. For an operation of a channel: the
  // operation did not end when it began, so refusal::channel_destroyed has this meaning.
  bool is_closed_ = is_of_channel;
};

/// Starts an operation. Passed to completion tokens as the initiation.
/// Threads: one thread at a time, the thread of the engine.
template <class Operation>
class initiation {
 public:
  using executor_type = loop::executor_type;

  explicit initiation(loop& on) noexcept : on_(&on) {}
  [[nodiscard]] executor_type get_executor() const noexcept { return on_->executor(); }
  template <class Handler, class... Arguments>
  [[gnu::always_inline]] inline void operator()(Handler&& handler, Arguments&&... arguments) const {
    using type = std::decay_t<Handler>;
    // The handler is moved once, into the operation. A copy may throw, so it is made before the
    // operation exists.
    if constexpr (std::is_same_v<type, Handler>)
      handler_operation<Operation, type>::begin(
          *on_, std::move(handler),  // NOLINT(*-move-forwarding-reference)
          std::forward<Arguments>(arguments)...);
    else
      handler_operation<Operation, type>::begin(*on_, type(std::forward<Handler>(handler)),
                                                std::forward<Arguments>(arguments)...);
  }

 private:
  loop* on_;
};

/// The handler signature of an operation with this value.
template <class Value>
struct signature_of {
  using type = void(std::error_code, Value);
};
template <>
struct signature_of<drain_result> {
  using type = void(std::error_code);
};

/// A function object that is itself a handler, in contrast to a token such as use_future: a call
/// returns void.
template <class Token, class Value>
concept plain_handler = requires(std::decay_t<Token>& token, Value result) {
  { token(std::error_code(), std::move(result)) } -> std::same_as<void>;
};

/// Passes the initiation of an operation to the completion token. The arguments are copied.
template <class Operation, class Token, class... Arguments>
[[gnu::always_inline]] inline auto initiate(loop& on, Token&& token, Arguments&&... arguments) {
  using value_type = typename Operation::value_type;
  const initiation<Operation> begin(on);
  // Equivalent to async_initiate(), which compilers do not inline.
  if constexpr (plain_handler<Token, value_type>)
    begin(std::forward<Token>(token), std::forward<Arguments>(arguments)...);
  else
    return ::asio::async_initiate<Token, typename signature_of<value_type>::type>(
        begin, token, std::forward<Arguments>(arguments)...);
}

}  // namespace verbena::inline VERBENA_ABI::asio::detail

/// Gives a completion the associated properties of its handler. Threads: immutable.
template <template <class, class> class Associator, class Handler, class... Results, class Default>
struct asio::associator<Associator, verbena::asio::detail::completion<Handler, Results...>, Default>
    : Associator<Handler, Default> {
  static typename Associator<Handler, Default>::type get(
      const verbena::asio::detail::completion<Handler, Results...>& of,
      const Default& otherwise = Default()) noexcept {
    return Associator<Handler, Default>::get(of.handler, otherwise);
  }
};
