// SPDX-License-Identifier: MIT
// The sender vocabulary of C++26 (P2300R10): customization by member functions, without tag_invoke.
#pragma once

#include <concepts>
#include <exception>
#include <stop_token>
#include <tuple>
#include <type_traits>
#include <utility>

#include "verbena/base/config.hpp"

/// The part of std::execution that the operations of this library need. Names, member functions and
/// rules are those of P2300R10, so code can move by changing the namespace. The types are others
/// than those of std::execution and stdexec.
namespace verbena::inline VERBENA_ABI::async::execution {

/// Marks a type as a sender: its member type `sender_concept`.
struct sender_t {};
/// Marks a type as a receiver: its member type `receiver_concept`.
struct receiver_t {};
/// Marks a type as an operation state: its member type `operation_state_concept`.
struct operation_state_t {};
/// Marks a type as a scheduler: its member type `scheduler_concept`.
struct scheduler_t {};

/// An environment without queries. Threads: immutable value.
struct empty_env {};

/// Returns the environment of an object: `of.get_env()`, or an empty_env.
struct get_env_t {
  /// Returns the environment of `of`.
  template <class Object>
  [[nodiscard]] constexpr decltype(auto) operator()(const Object& of) const noexcept {
    if constexpr (requires { of.get_env(); }) {
      static_assert(noexcept(of.get_env()), "get_env() must be noexcept");
      return of.get_env();
    } else {
      return empty_env();
    }
  }
};
/// See get_env_t.
inline constexpr get_env_t get_env;
/// The environment of `Object`.
template <class Object>
using env_of_t = std::remove_cvref_t<decltype(get_env(std::declval<const Object&>()))>;

/// A stop token of which a stop is never requested. Threads: immutable value.
struct never_stop_token {
  /// A callback that is never called.
  template <class Callback>
  struct callback_type {
    /// Ignores the arguments.
    constexpr callback_type(never_stop_token, Callback&&) noexcept {}
  };
  /// Returns false.
  [[nodiscard]] static constexpr bool stop_requested() noexcept { return false; }
  /// Returns false.
  [[nodiscard]] static constexpr bool stop_possible() noexcept { return false; }
  /// Returns true.
  friend constexpr bool operator==(never_stop_token, never_stop_token) noexcept { return true; }
};

/// Returns the stop token of an environment: the result of its query, or a never_stop_token.
struct get_stop_token_t {
  /// Returns the stop token of `env`.
  template <class Env>
  [[nodiscard]] constexpr auto operator()(const Env& env) const noexcept {
    if constexpr (requires { env.query(*this); })
      return env.query(*this);
    else
      return never_stop_token();
  }
};
/// See get_stop_token_t.
inline constexpr get_stop_token_t get_stop_token;
/// The stop token of the environment `Env`.
template <class Env>
using stop_token_of_t = std::remove_cvref_t<decltype(get_stop_token(std::declval<const Env&>()))>;

/// Returns the scheduler of an environment. Threads: immutable value.
struct get_scheduler_t {
  /// Returns the answer of `env`.
  template <class Env>
    requires requires(const Env& env, const get_scheduler_t& self) { env.query(self); }
  [[nodiscard]] constexpr auto operator()(const Env& env) const noexcept {
    return env.query(*this);
  }
};
/// See get_scheduler_t.
inline constexpr get_scheduler_t get_scheduler;

/// Returns the scheduler on whose thread a sender completes with `Tag`.
template <class Tag>
struct get_completion_scheduler_t {
  /// Returns the answer of `env`.
  template <class Env>
    requires requires(const Env& env, const get_completion_scheduler_t& self) { env.query(self); }
  [[nodiscard]] constexpr auto operator()(const Env& env) const noexcept {
    return env.query(*this);
  }
};
/// See get_completion_scheduler_t.
template <class Tag>
inline constexpr get_completion_scheduler_t<Tag> get_completion_scheduler;

namespace detail {

template <class Token, class Callback>
struct callback_of {
  using type = typename Token::template callback_type<Callback>;
};
template <class Callback>
struct callback_of<std::stop_token, Callback> {
  using type = std::stop_callback<Callback>;
};

}  // namespace detail

/// The type of an object that calls `Callback` when a stop is requested by `Token`.
template <class Token, class Callback>
using stop_callback_for_t = typename detail::callback_of<Token, Callback>::type;

/// A type with the functions of a stop token, such as std::stop_token.
template <class Token>
concept stoppable_token =
    std::copyable<Token> && std::equality_comparable<Token> && requires(const Token& token) {
      { token.stop_requested() } noexcept -> std::same_as<bool>;
      { token.stop_possible() } noexcept -> std::same_as<bool>;
    };
/// A stop token that never requests a stop.
template <class Token>
concept unstoppable_token =
    stoppable_token<Token> && requires { requires !Token::stop_possible(); };

/// Completes an operation with values: calls `std::forward<Receiver>(to).set_value(values...)`.
struct set_value_t {
  /// Calls the member function of the receiver.
  template <class Receiver, class... Values>
    requires(!std::is_lvalue_reference_v<Receiver>) && requires(Receiver&& to, Values&&... values) {
      std::forward<Receiver>(to).set_value(std::forward<Values>(values)...);
    }
  constexpr void operator()(Receiver&& to, Values&&... values) const noexcept {
    static_assert(noexcept(std::forward<Receiver>(to).set_value(std::forward<Values>(values)...)),
                  "set_value() of a receiver must be noexcept");
    std::forward<Receiver>(to).set_value(std::forward<Values>(values)...);
  }
};
/// Completes an operation with an error: calls `std::forward<Receiver>(to).set_error(why)`.
struct set_error_t {
  /// Calls the member function of the receiver.
  template <class Receiver, class Error>
    requires(!std::is_lvalue_reference_v<Receiver>) && requires(Receiver&& to, Error&& why) {
      std::forward<Receiver>(to).set_error(std::forward<Error>(why));
    }
  constexpr void operator()(Receiver&& to, Error&& why) const noexcept {
    static_assert(noexcept(std::forward<Receiver>(to).set_error(std::forward<Error>(why))),
                  "set_error() of a receiver must be noexcept");
    std::forward<Receiver>(to).set_error(std::forward<Error>(why));
  }
};
/// Completes an operation that was stopped: calls `std::forward<Receiver>(to).set_stopped()`.
struct set_stopped_t {
  /// Calls the member function of the receiver.
  template <class Receiver>
    requires(!std::is_lvalue_reference_v<Receiver>) &&
            requires(Receiver&& to) { std::forward<Receiver>(to).set_stopped(); }
  constexpr void operator()(Receiver&& to) const noexcept {
    static_assert(noexcept(std::forward<Receiver>(to).set_stopped()),
                  "set_stopped() of a receiver must be noexcept");
    std::forward<Receiver>(to).set_stopped();
  }
};
/// See set_value_t.
inline constexpr set_value_t set_value;
/// See set_error_t.
inline constexpr set_error_t set_error;
/// See set_stopped_t.
inline constexpr set_stopped_t set_stopped;

/// The completions of a sender, as function types such as `set_value_t(int)`.
template <class... Signatures>
struct completion_signatures {};

/// Connects a sender to a receiver: returns the operation state `from.connect(to)`.
struct connect_t {
  /// Calls the member function of the sender.
  template <class Sender, class Receiver>
    requires requires(Sender&& from, Receiver&& to) {
      std::forward<Sender>(from).connect(std::forward<Receiver>(to));
    }
  [[nodiscard]] constexpr decltype(auto) operator()(Sender&& from, Receiver&& to) const {
    return std::forward<Sender>(from).connect(std::forward<Receiver>(to));
  }
};
/// Starts an operation state: calls `of.start()`.
struct start_t {
  /// Calls the member function of the operation state.
  template <class Operation>
    requires requires(Operation& of) { of.start(); }
  constexpr void operator()(Operation& of) const noexcept {
    static_assert(noexcept(of.start()), "start() of an operation state must be noexcept");
    of.start();
  }
};
/// Returns a sender that completes on the thread of a scheduler: `on.schedule()`.
struct schedule_t {
  /// Calls the member function of the scheduler.
  template <class Scheduler>
    requires requires(Scheduler&& on) { std::forward<Scheduler>(on).schedule(); }
  [[nodiscard]] constexpr auto operator()(Scheduler&& on) const noexcept {
    return std::forward<Scheduler>(on).schedule();
  }
};
/// See connect_t.
inline constexpr connect_t connect;
/// See start_t.
inline constexpr start_t start;
/// See schedule_t.
inline constexpr schedule_t schedule;

/// The operation state of `Sender` and `Receiver`.
template <class Sender, class Receiver>
using connect_result_t = decltype(connect(std::declval<Sender>(), std::declval<Receiver>()));

namespace detail {

template <class Sender, class Env>
constexpr auto signatures() {
  if constexpr (requires(Sender&& of, Env&& env) {
                  std::forward<Sender>(of).get_completion_signatures(std::forward<Env>(env));
                })
    return decltype(std::declval<Sender>().get_completion_signatures(std::declval<Env>()))();
  else if constexpr (requires { typename std::remove_cvref_t<Sender>::completion_signatures; })
    return typename std::remove_cvref_t<Sender>::completion_signatures();
}

template <class Signatures>
inline constexpr bool are_signatures = false;
template <class... Each>
inline constexpr bool are_signatures<completion_signatures<Each...>> = true;

template <class Receiver, class Signature>
inline constexpr bool takes = false;
template <class Receiver, class Tag, class... Values>
inline constexpr bool takes<Receiver, Tag(Values...)> =
    std::is_invocable_v<Tag, Receiver, Values...>;

template <class Receiver, class Signatures>
inline constexpr bool takes_all = false;
template <class Receiver, class... Each>
inline constexpr bool takes_all<Receiver, completion_signatures<Each...>> =
    (takes<Receiver, Each> && ...);

}  // namespace detail

/// The completion_signatures of `Sender` for receivers with the environment `Env`.
template <class Sender, class Env = empty_env>
using completion_signatures_of_t = decltype(detail::signatures<Sender, Env>());

namespace detail {

template <class... Types>
struct list {
  template <template <class...> class To>
  using into = To<Types...>;
};
template <class... Lists>
struct joined {
  using type = list<>;
};
template <class... One, class... Two, class... Rest>
struct joined<list<One...>, list<Two...>, Rest...> : joined<list<One..., Two...>, Rest...> {};
template <class... One>
struct joined<list<One...>> {
  using type = list<One...>;
};

/// The signatures with `Tag`, as a list of one `Tuple` of arguments per signature.
template <class Tag, template <class...> class Tuple, class Signatures>
struct gathered;
/// A signature as a list of one `Tuple`, or an empty list if the signature has another tag.
/// Threads: immutable type.
template <class Tag, template <class...> class Tuple, class>
struct gathered_one {
  using type = list<>;
};
template <class Tag, template <class...> class Tuple, class... Values>
struct gathered_one<Tag, Tuple, Tag(Values...)> {
  using type = list<Tuple<Values...>>;
};
template <class Tag, template <class...> class Tuple, class... Each>
struct gathered<Tag, Tuple, completion_signatures<Each...>>
    : joined<typename gathered_one<Tag, Tuple, Each>::type...> {};

template <class... Ways>
struct only_one;
template <class Way>
struct only_one<Way> {
  using type = Way;
};

}  // namespace detail

/// The types of the values with which `Sender` completes: `Variant<Tuple<values...>...>`.
template <class Sender, class Env, template <class...> class Tuple,
          template <class...> class Variant>
using value_types_of_t = typename detail::gathered<
    set_value_t, Tuple, completion_signatures_of_t<Sender, Env>>::type::template into<Variant>;
/// `Tuple<values...>` of a sender that has exactly one `set_value` signature.
template <template <class...> class Tuple, class Sender, class Env>
using single_value_t = typename value_types_of_t<Sender, Env, Tuple, detail::only_one>::type;

namespace detail {
/// Copies of values, of which a sender may pass references.
template <class... Values>
using decayed_tuple = std::tuple<std::decay_t<Values>...>;

/// Calls a function. Returns the exception that the function throws, or nullptr.
template <class Function>
[[nodiscard]] std::exception_ptr exception_of(Function&& call) noexcept {
#ifdef VERBENA_NO_EXCEPTIONS
  std::forward<Function>(call)();
#else
  try {
    std::forward<Function>(call)();
  } catch (...) {
    return std::current_exception();
  }
#endif
  return nullptr;
}
}  // namespace detail

/// A type with the functions of an operation state.
template <class Operation>
concept operation_state =
    std::derived_from<typename Operation::operation_state_concept, operation_state_t> &&
    std::is_object_v<Operation> && requires(Operation& of) {
      { start(of) } noexcept;
    };
/// A type with the functions of a receiver.
template <class Receiver>
concept receiver =
    std::derived_from<typename std::remove_cvref_t<Receiver>::receiver_concept, receiver_t> &&
    std::move_constructible<std::remove_cvref_t<Receiver>> &&
    std::constructible_from<std::remove_cvref_t<Receiver>, Receiver> &&
    requires(const std::remove_cvref_t<Receiver>& of) { get_env(of); };
/// A receiver that takes all completions in `Signatures`.
template <class Receiver, class Signatures>
concept receiver_of =
    receiver<Receiver> && detail::takes_all<std::remove_cvref_t<Receiver>, Signatures>;
/// A type with the functions of a sender.
template <class Sender>
concept sender =
    std::derived_from<typename std::remove_cvref_t<Sender>::sender_concept, sender_t> &&
    std::move_constructible<std::remove_cvref_t<Sender>> &&
    std::constructible_from<std::remove_cvref_t<Sender>, Sender> &&
    requires(const std::remove_cvref_t<Sender>& of) { get_env(of); };
/// A sender whose completions are known for receivers with the environment `Env`.
template <class Sender, class Env = empty_env>
concept sender_in =
    sender<Sender> && detail::are_signatures<completion_signatures_of_t<Sender, Env>>;
/// A sender that can be connected to `Receiver`.
template <class Sender, class Receiver>
concept sender_to = sender_in<Sender, env_of_t<Receiver>> &&
                    receiver_of<Receiver, completion_signatures_of_t<Sender, env_of_t<Receiver>>> &&
                    requires(Sender&& from, Receiver&& to) {
                      {
                        connect(std::forward<Sender>(from), std::forward<Receiver>(to))
                      } -> operation_state;
                    };
/// A type with the functions of a scheduler.
template <class Scheduler>
concept scheduler =
    std::derived_from<typename std::remove_cvref_t<Scheduler>::scheduler_concept, scheduler_t> &&
    std::copyable<std::remove_cvref_t<Scheduler>> &&
    std::equality_comparable<std::remove_cvref_t<Scheduler>> && requires(Scheduler&& on) {
      { schedule(std::forward<Scheduler>(on)) } -> sender;
      {
        get_completion_scheduler<set_value_t>(get_env(schedule(std::forward<Scheduler>(on))))
      } -> std::same_as<std::remove_cvref_t<Scheduler>>;
    };

}  // namespace verbena::inline VERBENA_ABI::async::execution
