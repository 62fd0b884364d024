// SPDX-License-Identifier: MIT
// Sender algorithms: a subset of std::execution for programs without a sender library.
// engine::run() corresponds to sync_wait().
#pragma once

#include <atomic>
#include <cstddef>
#include <exception>
#include <functional>
#include <optional>
#include <stop_token>
#include <tuple>
#include <type_traits>
#include <utility>

#include "verbena/async/execution.hpp"

namespace verbena::inline VERBENA_ABI::async::execution {

namespace detail {

#ifdef VERBENA_NO_EXCEPTIONS
inline constexpr bool with_exceptions = false;
#else
inline constexpr bool with_exceptions = true;
#endif

template <class Function, class... Values>
inline constexpr bool may_throw =
    with_exceptions && !std::is_nothrow_invocable_v<Function, Values...>;

/// The completion signatures of then() for one signature of its sender.
template <class Function, class Signature>
struct after_then {
  using type = list<Signature>;
};
template <class Value>
struct value_signature {
  using type = set_value_t(Value);
};
template <>
struct value_signature<void> {
  using type = set_value_t();
};
template <class Function, class... Values>
struct after_then<Function, set_value_t(Values...)> {
  using value = typename value_signature<std::invoke_result_t<Function, Values...>>::type;
  using type = std::conditional_t<may_throw<Function, Values...>,
                                  list<value, set_error_t(std::exception_ptr)>, list<value>>;
};
template <class Function, class Signatures>
struct all_after_then;
template <class Function, class... Each>
struct all_after_then<Function, completion_signatures<Each...>> {
  using type = typename joined<typename after_then<Function, Each>::type...>::type::template into<
      completion_signatures>;
};

/// The receiver of then(). Threads: one thread at a time.
template <class Function, class Receiver>
class then_receiver {
 public:
  using receiver_concept = receiver_t;

  then_receiver(Function function, Receiver to) noexcept
      : function_(std::move(function)), to_(std::move(to)) {}
  [[nodiscard]] decltype(auto) get_env() const noexcept { return execution::get_env(to_); }

  template <class... Values>
    requires std::invocable<Function, Values...>
  void set_value(Values&&... values) && noexcept {
    if constexpr (may_throw<Function, Values...>) {
#ifndef VERBENA_NO_EXCEPTIONS
      try {
        pass(std::forward<Values>(values)...);
      } catch (...) {
        execution::set_error(std::move(to_), std::current_exception());
      }
#endif
    } else {
      pass(std::forward<Values>(values)...);
    }
  }
  template <class Error>
  void set_error(Error&& why) && noexcept {
    execution::set_error(std::move(to_), std::forward<Error>(why));
  }
  void set_stopped() && noexcept { execution::set_stopped(std::move(to_)); }

 private:
  template <class... Values>
  void pass(Values&&... values) {
    if constexpr (std::is_void_v<std::invoke_result_t<Function, Values...>>) {
      std::invoke(std::move(function_), std::forward<Values>(values)...);
      execution::set_value(std::move(to_));
    } else {
      execution::set_value(std::move(to_),
                           std::invoke(std::move(function_), std::forward<Values>(values)...));
    }
  }

  Function function_;
  Receiver to_;
};

/// The sender of then(). Threads: one thread at a time.
template <class Sender, class Function>
class then_sender {
 public:
  using sender_concept = sender_t;

  then_sender(Sender from, Function function)
      : from_(std::move(from)), function_(std::move(function)) {}
  template <class Env>
  [[nodiscard]] constexpr auto get_completion_signatures(Env&& /*env*/) const noexcept {
    return typename all_after_then<Function, completion_signatures_of_t<Sender, Env>>::type();
  }
  [[nodiscard]] decltype(auto) get_env() const noexcept { return execution::get_env(from_); }
  template <receiver Receiver>
  [[nodiscard]] auto connect(Receiver to) && {
    return execution::connect(
        std::move(from_), then_receiver<Function, Receiver>(std::move(function_), std::move(to)));
  }

 private:
  Sender from_;
  Function function_;
};

/// The environment of the senders of when_all(). Threads: immutable value.
struct all_env {
  std::stop_token stops;
  [[nodiscard]] std::stop_token query(get_stop_token_t /*which*/) const noexcept { return stops; }
};

template <class Sender>
using decayed_values = single_value_t<decayed_tuple, Sender, all_env>;

/// Collects the results of the senders of when_all(). Threads: thread-safe, except begin().
template <class Receiver, class... Senders>
class all_results {
  struct stop_request {
    std::stop_source* to;
    void operator()() const noexcept { to->request_stop(); }
  };
  using outer_token = stop_token_of_t<env_of_t<Receiver>>;
  using all_values = decltype(std::tuple_cat(std::declval<decayed_values<Senders>>()...));

 public:
  explicit all_results(Receiver to) : to_(std::move(to)) {}

  /// Connects the stop token of the receiver. If a stop was already requested, calls set_stopped()
  /// and returns false.
  [[nodiscard]] bool begin() noexcept {
    const auto stops = get_stop_token(execution::get_env(to_));
    if (stops.stop_requested()) {
      execution::set_stopped(std::move(to_));
      return false;
    }
    outer_.emplace(stops, stop_request{&stops_});
    return true;
  }
  [[nodiscard]] all_env env() const noexcept { return {stops_.get_token()}; }
  template <std::size_t Index, class... Values>
  void end(Values&&... values) noexcept {
    // The copy of a value may throw.
    auto thrown =
        exception_of([&] { std::get<Index>(values_).emplace(std::forward<Values>(values)...); });
    if (thrown) return fail(std::move(thrown));
    arrive();
  }
  void fail(std::exception_ptr why) noexcept {
    if (first_failure_.exchange(failure::error) != failure::error) error_ = std::move(why);
    stops_.request_stop();
    arrive();
  }
  void stop() noexcept {
    auto none = failure::none;
    first_failure_.compare_exchange_strong(none, failure::stopped);
    stops_.request_stop();
    arrive();
  }

 private:
  enum class failure : unsigned char { none, stopped, error };

  /// Completes the receiver after the last sender. The receiver may destroy this object.
  void arrive() noexcept {
    if (left_.fetch_sub(1) != 1) return;
    outer_.reset();
    if (first_failure_ == failure::error) return pass_error();
    if (first_failure_ == failure::stopped) return execution::set_stopped(std::move(to_));
    std::optional<all_values> all;
    error_ = exception_of([&] {
      std::apply([&](auto&... each) { all.emplace(std::tuple_cat(*std::move(each)...)); }, values_);
    });
    if (!all) return pass_error();
    std::apply([this](auto&... each) { execution::set_value(std::move(to_), std::move(each)...); },
               *all);
  }
  void pass_error() noexcept {
    if constexpr (std::is_invocable_v<set_error_t, Receiver, std::exception_ptr>)
      execution::set_error(std::move(to_), std::move(error_));
  }

  Receiver to_;
  std::stop_source stops_;
  std::optional<stop_callback_for_t<outer_token, stop_request>> outer_;
  std::tuple<std::optional<decayed_values<Senders>>...> values_;
  std::exception_ptr error_;
  std::atomic<failure> first_failure_{failure::none};
  std::atomic<std::size_t> left_{sizeof...(Senders)};
};

/// The receiver of one sender of when_all(). Threads: one thread at a time.
template <std::size_t Index, class Results>
class one_receiver {
 public:
  using receiver_concept = receiver_t;

  explicit one_receiver(Results& of) noexcept : of_(&of) {}
  [[nodiscard]] all_env get_env() const noexcept { return of_->env(); }
  template <class... Values>
  void set_value(Values&&... values) && noexcept {
    of_->template end<Index>(std::forward<Values>(values)...);
  }
  void set_error(std::exception_ptr why) && noexcept { of_->fail(std::move(why)); }
  void set_stopped() && noexcept { of_->stop(); }

 private:
  Results* of_;
};

template <std::size_t Index, class Sender, class Results>
struct one_state {
  connect_result_t<Sender, one_receiver<Index, Results>> of;

  one_state(Sender&& from, Results& results)
      : of(execution::connect(std::move(from), one_receiver<Index, Results>(results))) {}
};

template <class Indices, class Receiver, class... Senders>
class all_state;
template <std::size_t... Index, class Receiver, class... Senders>
class all_state<std::index_sequence<Index...>, Receiver, Senders...>
    : private all_results<Receiver, Senders...>,
      private one_state<Index, Senders, all_results<Receiver, Senders...>>... {
  using results = all_results<Receiver, Senders...>;

 public:
  using operation_state_concept = operation_state_t;

  all_state(Receiver to, std::tuple<Senders...>&& from)
      : results(std::move(to)),
        one_state<Index, Senders, results>(std::move(std::get<Index>(from)),
                                           static_cast<results&>(*this))... {}
  all_state(const all_state&) = delete;
  all_state& operator=(const all_state&) = delete;
  ~all_state() = default;

  void start() noexcept {
    if (!this->begin()) return;
    // The receiver may destroy this object as soon as the last operation has started.
    (execution::start(static_cast<one_state<Index, Senders, results>&>(*this).of), ...);
  }
};

/// The sender of when_all(). Threads: one thread at a time.
template <class... Senders>
class all_sender {
  template <class Tuple>
  struct value_of_tuple;
  template <class... Values>
  struct value_of_tuple<std::tuple<Values...>> {
    using type = set_value_t(Values...);
  };
  using values = decltype(std::tuple_cat(std::declval<decayed_values<Senders>>()...));

 public:
  using sender_concept = sender_t;
  using completion_signatures =
      execution::completion_signatures<typename value_of_tuple<values>::type,
                                       set_error_t(std::exception_ptr), set_stopped_t()>;

  explicit all_sender(Senders... from) : from_(std::move(from)...) {}
  template <receiver_of<completion_signatures> Receiver>
  [[nodiscard]] all_state<std::index_sequence_for<Senders...>, Receiver, Senders...> connect(
      Receiver to) && {
    return {std::move(to), std::move(from_)};
  }

 private:
  std::tuple<Senders...> from_;
};

}  // namespace detail

/// Returns a sender that calls `function` with the values of `from` and completes with its return
/// value. If `function` throws, the sender completes with the exception as an error.
template <sender Sender, class Function>
[[nodiscard]] auto then(Sender from, Function function) {
  return detail::then_sender<Sender, Function>(std::move(from), std::move(function));
}

/// Returns a sender that starts all senders and completes with the values of all of them.
///
/// If one sender completes with an error or is stopped, a stop of the others is requested. The
/// returned sender completes when all senders have completed. Errors have the type
/// std::exception_ptr. connect() allocates the stop state.
template <sender... Senders>
  requires(sizeof...(Senders) > 0)
[[nodiscard]] auto when_all(Senders... from) {
  return detail::all_sender<Senders...>(std::move(from)...);
}

}  // namespace verbena::inline VERBENA_ABI::async::execution
