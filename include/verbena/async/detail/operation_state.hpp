// SPDX-License-Identifier: MIT
// The operation state of an operation and a receiver.
#pragma once

#include <exception>
#include <optional>
#include <type_traits>
#include <utility>

#include "verbena/async/detail/engine_state.hpp"
#include "verbena/async/execution.hpp"

namespace verbena::inline VERBENA_ABI::async::detail {

/// An operation that calls functions of the program, which may throw; it has take_exception().
template <class Operation>
concept throwing_operation = Operation::can_throw;

/// The completion signatures of an operation as a sender.
template <class Operation>
using completions_of = std::conditional_t<
    throwing_operation<Operation>,
    execution::completion_signatures<execution::set_value_t(typename Operation::value_type),
                                     execution::set_error_t(std::exception_ptr),
                                     execution::set_stopped_t()>,
    execution::completion_signatures<execution::set_value_t(typename Operation::value_type),
                                     execution::set_stopped_t()>>;

/// Forwards a stop request, which any thread may make, to the thread of the engine.
/// Threads: the stop callback runs on any thread; the rest is for one thread at a time, the thread
/// of the engine.
template <class Token>
class stop_relay : private entry {
 public:
  explicit stop_relay(engine_state& on) noexcept : on_(on) {}
  stop_relay(const stop_relay&) = delete;
  stop_relay& operator=(const stop_relay&) = delete;
  ~stop_relay() { end_listening(); }

  /// Makes poll() call `stop(self)` after a stop was requested.
  void listen(const Token& to, void (*stop)(stop_relay& self) noexcept) noexcept {
    stop_ = stop;
    resume = [](entry& self) noexcept {
      auto& mine = static_cast<stop_relay&>(self);
      mine.is_entered_ = false;
      mine.stop_(mine);
    };
    callback_.emplace(to, request{this});
  }
  /// Ignores later requests, and requests for which `stop` was not called yet. Blocks while another
  /// thread runs the stop callback.
  void end_listening() noexcept {
    callback_.reset();  // blocks while another thread runs the callback
    if (std::exchange(is_entered_, false)) on_.leave(*this);
  }

 private:
  struct request {
    stop_relay* to;
    void operator()() const noexcept {
      to->is_entered_ = true;
      to->on_.enter(*to);
    }
  };

  engine_state& on_;
  void (*stop_)(stop_relay& self) noexcept = nullptr;
  bool is_entered_ = false;
  std::optional<execution::stop_callback_for_t<Token, request>> callback_;
};

/// The stop_relay of receivers that never request a stop. Threads: see the operation.
template <execution::unstoppable_token Token>
class stop_relay<Token> {
 public:
  explicit stop_relay(engine_state& /*on*/) noexcept {}
  void listen(const Token& /*to*/, void (* /*stop*/)(stop_relay& self) noexcept) noexcept {}
  void end_listening() noexcept {}
};

/// Returns whether the result of an operation is a success; a result<bool> is not a condition.
template <class Result>
[[nodiscard]] bool has_succeeded(const Result& of) noexcept {
  if constexpr (requires { of.has_value(); })
    return of.has_value();
  else
    return static_cast<bool>(of);
}

/// See async::operation::connect(). Threads: one thread at a time, the thread of the engine.
template <class Operation, class Receiver>
class operation_state
    : private stop_relay<execution::stop_token_of_t<execution::env_of_t<Receiver>>>,
      private Operation {
  using token = execution::stop_token_of_t<execution::env_of_t<Receiver>>;
  using relay = stop_relay<token>;

 public:
  using operation_state_concept = execution::operation_state_t;

  operation_state(engine_state& on, Operation&& idle, Receiver to) noexcept
      : relay(on), Operation(std::move(idle)), to_(std::move(to)) {}
  operation_state(const operation_state&) = delete;
  operation_state& operator=(const operation_state&) = delete;
  ~operation_state() = default;

  void start() noexcept {
    const token stops = execution::get_stop_token(execution::get_env(to_));
    if (stops.stop_requested()) return execution::set_stopped(std::move(to_));
    if (!Operation::start(ended)) return deliver();
    this->listen(stops, [](relay& self) noexcept {
      auto& mine = static_cast<operation_state&>(self);
      mine.is_stopped_ = true;
      mine.cancel();
    });
  }

 private:
  static void ended(queued_waiter& self) noexcept {
    auto& mine = static_cast<operation_state&>(self);
    if (!mine.settle()) return;
    mine.end_listening();
    mine.deliver();
  }
  /// Completes the receiver, which may destroy this object.
  void deliver() noexcept {
    if constexpr (throwing_operation<Operation>) {
      if (auto thrown = this->take_exception())
        return execution::set_error(std::move(to_), std::move(thrown));
    }
    auto outcome = this->take_result();
    if (is_stopped_ && !has_succeeded(outcome))
      execution::set_stopped(std::move(to_));
    else
      execution::set_value(std::move(to_), std::move(outcome));
  }

  Receiver to_;
  bool is_stopped_ = false;  // a stop was requested before the operation ended
};

}  // namespace verbena::inline VERBENA_ABI::async::detail
