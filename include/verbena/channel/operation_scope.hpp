// SPDX-License-Identifier: MIT
// The scoped level of a channel: operations on memory of the program, which have completed when the
// scope ends.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "verbena/base/attributes.hpp"
#include "verbena/base/deadline.hpp"
#include "verbena/base/result.hpp"
#include "verbena/channel/abort_at.hpp"
#include "verbena/channel/detail/channel_core.hpp"
#include "verbena/channel/detail/held_sinks.hpp"
#include "verbena/channel/operation_result.hpp"
#include "verbena/channel/sink.hpp"
#include "verbena/channel/source.hpp"
#include "verbena/verbs/detail/memory_users.hpp"
#include "verbena/verbs/remote_region.hpp"
#include "verbena/verbs/work_request.hpp"

namespace verbena::inline VERBENA_ABI {

class operation_scope;
class scoped_operation;

namespace detail {

template <class T>
struct value_of_body_of {
  using type = T;
};
template <class T>
struct value_of_body_of<result<T>> {
  using type = T;
};
/// The value type of a body: T for T and for result<T>.
template <class T>
using value_of_body = typename value_of_body_of<T>::type;

/// A type whose value ends later than the call that returned it: coroutines, and operations of the
/// scope.
template <class T>
concept ends_later = std::same_as<T, scoped_operation> || requires { typename T::promise_type; } ||
                     requires(T&& value) { std::forward<T>(value).operator co_await(); } ||
                     requires(T&& value) { operator co_await(std::forward<T>(value)); } ||
                     requires(T&& value) { std::forward<T>(value).await_ready(); };
/// A body of a scope, which has ended when it returns.
template <class Body>
concept scope_body =
    std::invocable<Body, operation_scope&> &&
    !ends_later<value_of_body<std::remove_cvref_t<std::invoke_result_t<Body, operation_scope&>>>>;

/// The failures of operations that the body of a scope did not inspect.
struct unseen_failures {
  std::vector<operation_result> recorded;  ///< in the order of discovery
  std::size_t unrecorded = 0;              ///< further failures, for which memory was short

  [[nodiscard]] bool empty() const noexcept { return recorded.empty() && unrecorded == 0; }
};

/// Appends the messages of `failures` to the text of `why`.
[[nodiscard]] error with_failures(error why, const unseen_failures& failures);
/// Combines failures of equal rank: the first is the error, the others are appended to its text.
[[nodiscard]] error from_failures(const unseen_failures& failures);

}  // namespace detail

/// The value that the body of a scope returned, and the failures that the body did not inspect.
/// Threads: one thread at a time.
template <class T>
class [[nodiscard("a scope can fail: check it, or call value()")]] scope_result {
 public:
  /// Combines the result of the body with the failures found at the end of the scope.
  scope_result(result<T> body, std::vector<operation_result> drained)
      : body_(std::move(body)), failures_{.recorded = std::move(drained)} {}

  /// Returns true if the body and all operations that it did not inspect succeeded.
  [[nodiscard]] bool has_value() const noexcept { return body_.has_value() && failures_.empty(); }
  /// Returns has_value().
  explicit operator bool() const noexcept { return has_value(); }
  /// Returns the value of the body. Precondition: has_value().
  [[nodiscard]] decltype(auto) operator*() const& noexcept
    requires(!std::is_void_v<T>)
  {
    return *body_;
  }
  /// Returns the value of the body, to be moved from. Precondition: has_value().
  [[nodiscard]] decltype(auto) operator*() && noexcept
    requires(!std::is_void_v<T>)
  {
    return *std::move(body_);
  }
  /// Returns the result of the body.
  [[nodiscard]] const result<T>& body() const& noexcept { return body_; }
  /// Returns the result of the body, to be moved from.
  [[nodiscard]] result<T>&& body() && noexcept { return std::move(body_); }
  /// Returns the failures of operations that the body did not inspect, in the order of discovery.
  [[nodiscard]] std::span<const operation_result> drained() const noexcept {
    return {failures_.recorded.data(), failures_.recorded.size()};
  }
  /// Returns the number of further failures, whose results are lost because memory was short when
  /// they were found; usually 0.
  [[nodiscard]] std::size_t unrecorded() const noexcept { return failures_.unrecorded; }
  /// Returns the error of the body if it failed, otherwise the first failure of an operation. The
  /// other failures are appended to its text. Precondition: !has_value(). Allocates.
  [[nodiscard]] verbena::error error() const {
    return body_.has_value() ? detail::from_failures(failures_)
                             : detail::with_failures(body_.error(), failures_);
  }
  /// Returns the value of the body, or raises error().
  decltype(auto) value() const& {
    if (!has_value()) raise(error());
    return body_.value();
  }
  /// Returns the value of the body, or raises error().
  T value() && {
    if (!has_value()) raise(error());
    return std::move(body_).value();
  }

 private:
  friend class channel;
  scope_result(detail::unseen_failures&& failures, result<T> body)
      : body_(std::move(body)), failures_(std::move(failures)) {}

  result<T> body_;
  detail::unseen_failures failures_;
};

/// An operation that was posted in a scope.
///
/// The object may be destroyed early: the scope still waits for the operation. The result can be
/// read repeatedly, even after the scope has ended; take_sink() then returns the sink.
///
/// Threads: one thread at a time, for the scope and its channel together.
class [[nodiscard(
    "inspect the result, or leave that to the scope with a cast to void")]] scoped_operation
    : private detail::operation_waiter {
 public:
  /// Takes the operation of `other`.
  scoped_operation(scoped_operation&& other) noexcept;
  /// Drops its own operation and takes that of `other`.
  scoped_operation& operator=(scoped_operation&& other) noexcept;
  scoped_operation(const scoped_operation&) = delete;
  scoped_operation& operator=(const scoped_operation&) = delete;
  ~scoped_operation() {
    if (scope_ != nullptr) [[unlikely]]
      let_go();
  }

  /// Polls once; returns the result, or nullptr if the operation is in flight. Never blocks.
  [[nodiscard]] const operation_result* poll() & VERBENA_LIFETIMEBOUND;
  /// Polls once; returns a copy of the result, or nullopt. For a temporary operation.
  [[nodiscard]] std::optional<operation_result> poll() && { return detail::copy_of(poll()); }
  /// Waits until the operation has completed. If the abort_at of the scope passes, ends the
  /// connection.
  [[nodiscard]] const operation_result& wait() & VERBENA_LIFETIMEBOUND;
  /// Waits likewise; returns a copy of the result.
  [[nodiscard]] operation_result wait() && { return wait(); }
  /// Waits until the operation has completed; returns nullptr if `until` passes first.
  ///
  /// The operation then stays in flight, the connection is unaffected, and wait() can be called
  /// again.
  [[nodiscard]] const operation_result* wait(deadline until) & VERBENA_LIFETIMEBOUND;
  /// Polls until the operation has completed; returns a copy of the result, or nullopt if `until`
  /// passes first. For a temporary operation.
  [[nodiscard]] std::optional<operation_result> wait(deadline until) && {
    return detail::copy_of(wait(until));
  }
  /// Returns the sink, to be posted again; an empty one if there is none or it was taken.
  /// Precondition: poll() or wait() returned a result.
  [[nodiscard]] sink take_sink();
  /// Returns the sinks of a scattered operation. Precondition: poll() or wait() returned a result.
  [[nodiscard]] std::vector<sink> take_sinks();

 private:
  friend class operation_scope;
  friend void detail::ended_in(operation_scope& scope, detail::operation_waiter* handle) noexcept;
  // A post that the device refused; `how` is the result.
  scoped_operation(operation_scope& scope, const operation_result& how, sink&& into) noexcept;
  // An operation that channel_core::submit_usual() has posted.
  [[gnu::always_inline]] inline scoped_operation(operation_scope& scope,
                                                 detail::operation_kind kind, const source& from,
                                                 place_of_post posted) noexcept;
  [[gnu::always_inline]] inline scoped_operation(operation_scope& scope,
                                                 detail::operation_kind kind, sink&& into,
                                                 place_of_post posted) noexcept;
  scoped_operation(operation_scope& scope, const detail::operation_description& what,
                   std::source_location posted);
  scoped_operation(operation_scope& scope, detail::operation_description what, sink&& into,
                   std::source_location posted);
  scoped_operation(operation_scope& scope, detail::operation_description what,
                   std::vector<sink>&& into, std::source_location posted);
  [[gnu::always_inline]] inline void begin() noexcept;
  [[nodiscard]] bool uses(const detail::registered_range& memory) noexcept;
  void post(const detail::operation_description& what, std::source_location posted);
  void take_over(scoped_operation& other) noexcept;
  void let_go() noexcept;
  [[nodiscard]] const operation_result& wait_longer(detail::found what);
  [[nodiscard]] const operation_result& look() noexcept;
  void link() noexcept;
  void unlink_from(operation_scope& scope) noexcept;

  operation_scope* scope_;                  // nullptr: completed and inspected
  detail::operation_slot* slot_ = nullptr;  // while in flight
  // Neighbours in the list of completed operations that were not inspected; valid only inside it.
  scoped_operation* before_;
  scoped_operation* behind_;
  detail::held_sinks sinks_;
};

/// Posts operations that complete before the scope ends. channel::scope() and
/// channel::manual_scope() create it and pass it to their body.
///
/// *Contract of all posts.* The memory must outlive the scope. Until the operation has completed,
/// the program must not write to sources, and must neither read nor write sinks. After poll() or
/// wait() has returned the result, the memory can be used again within the scope.
///
/// If the thread of the scope destroys a memory_region or buffer that an operation in flight uses,
/// all builds stop the program, also during an exception. Of several sources, and of several sinks
/// of an operation whose handle is destroyed, the first one is checked.
///
/// Threads: one thread at a time, for the scope and its channel together.
class operation_scope : private detail::memory_user {
 public:
  operation_scope(const operation_scope&) = delete;
  operation_scope& operator=(const operation_scope&) = delete;
  /// Waits until no operation of the scope is in flight.
  ~operation_scope();

  /// Posts a send. The message consumes one posted receive of the peer.
  ///
  /// *Contract.* As stated for all posts.
  [[nodiscard]] scoped_operation send(const source& data,
                                      place_of_post posted = std::source_location::current());
  /// Posts a send from several slices, from inline data, or with options.
  ///
  /// *Contract.* As stated for all posts.
  [[nodiscard]] scoped_operation send(
      const outgoing& data, const operation_options& options = {},
      std::source_location posted = std::source_location::current());
  /// Posts a receive for one message. The operation returns the sink when it has completed.
  ///
  /// *Contract.* As stated for all posts.
  [[nodiscard]] scoped_operation receive(
      sink&& into, std::source_location posted = std::source_location::current());
  /// Posts a receive for one message into several slices, which are filled in order.
  ///
  /// *Contract.* As stated for all posts.
  [[nodiscard]] scoped_operation receive(
      std::vector<sink> into, std::source_location posted = std::source_location::current());
  /// Posts a write to the beginning of `to`.
  ///
  /// *Contract.* As stated for all posts.
  [[nodiscard]] scoped_operation write(const source& data, const remote_region& to,
                                       place_of_post posted = std::source_location::current());
  /// Posts a write from several slices, from inline data, or with options.
  ///
  /// *Contract.* As stated for all posts.
  [[nodiscard]] scoped_operation write(
      const outgoing& data, const remote_region& to, const operation_options& options = {},
      std::source_location posted = std::source_location::current());
  /// Posts a read of the beginning of `from`.
  ///
  /// *Contract.* As stated for all posts.
  [[nodiscard]] scoped_operation read(
      sink&& into, const remote_region& from,
      std::source_location posted = std::source_location::current());
  /// Posts a read into several slices, which are filled in order.
  ///
  /// *Contract.* As stated for all posts.
  [[nodiscard]] scoped_operation read(
      std::vector<sink> into, const remote_region& from,
      std::source_location posted = std::source_location::current());
  /// Posts a compare-and-swap. The old value of the 8 bytes is stored in `before`.
  ///
  /// *Contract.* As stated for all posts.
  [[nodiscard]] scoped_operation compare_and_swap(
      sink before, const remote_region& target, compare_and_swap_operands operands,
      std::source_location posted = std::source_location::current());
  /// Posts a fetch-and-add. The old value of the 8 bytes is stored in `before`.
  ///
  /// *Contract.* As stated for all posts.
  [[nodiscard]] scoped_operation fetch_and_add(
      sink before, const remote_region& target, std::uint64_t addend,
      std::source_location posted = std::source_location::current());

  /// Returns when the scope ends the connection to get the memory back.
  [[nodiscard]] abort_at limit() const noexcept { return limit_; }
  /// Returns the protection domain that memory of operations must belong to.
  [[nodiscard]] const protection_domain& domain() const noexcept { return core_.domain(); }
  /// Returns the number of operations of the scope that are in flight.
  [[nodiscard]] std::uint32_t in_flight() const noexcept { return in_flight_; }

 private:
  friend class channel;
  friend class scoped_operation;
  friend class detail::channel_core;
  friend void detail::ended_in(operation_scope& scope, detail::operation_waiter* handle) noexcept;

  // Handling of operations that the body did not inspect.
  enum class policy : std::uint8_t { collect, demand };

  operation_scope(detail::channel_core& core, abort_at limit, policy what) noexcept;
  [[nodiscard]] static const std::source_location* user_of(
      const detail::memory_user& self, const detail::registered_range& memory) noexcept;
  // Waits until nothing is in flight; returns the failures that were not inspected.
  [[nodiscard]] detail::unseen_failures finish();
  // Waits until nothing is in flight; stops the program if an operation was not inspected.
  void finish_demanding();
  // A post that the device refused with `code`.
  [[gnu::cold, gnu::noinline]] scoped_operation refused(detail::operation_kind kind, int code,
                                                        sink&& into, place_of_post posted);
  // Posts a receive or read for which channel_core::is_usual() does not hold.
  [[gnu::cold, gnu::noinline]] scoped_operation fill(detail::operation_kind kind, sink&& into,
                                                     const remote_region& from,
                                                     place_of_post posted);
  // Records the result of an operation whose handle is destroyed. Allocates if it is a failure;
  // without memory, only counts it.
  void ended_unseen(const operation_result& how) noexcept;
  void not_inspected(std::source_location posted) noexcept;
  [[nodiscard]] bool is_late() const noexcept { return has_limit_ && limit_.when().expired(); }

  detail::channel_core& core_;  // held
  abort_at limit_;
  detail::unseen_failures failures_;
  std::source_location unseen_;        // the first post that was not inspected
  scoped_operation* first_ = nullptr;  // completed operations that were not inspected
  std::uint32_t in_flight_ = 0;
  policy policy_;
  bool has_limit_;  // cheaper to test than limit_
  bool over_ = false;
  bool has_unseen_ = false;
};

// NOLINTBEGIN(cppcoreguidelines-pro-type-member-init): before_ and behind_ are link()'s
scoped_operation::scoped_operation(operation_scope& scope, detail::operation_kind kind,
                                   const source& from, place_of_post posted) noexcept
    : operation_waiter{.result = detail::channel_core::hope(posted.at())},
      scope_(&scope),
      slot_(&scope.core_.begin(kind, posted.at())) {
  begin();
  slot_->use(from.slice());
}

scoped_operation::scoped_operation(operation_scope& scope, detail::operation_kind kind, sink&& into,
                                   place_of_post posted) noexcept
    : operation_waiter{.result = detail::channel_core::hope(posted.at())},
      scope_(&scope),
      slot_(&scope.core_.begin(kind, posted.at())),
      sinks_(std::move(into)) {
  begin();
}
// NOLINTEND(cppcoreguidelines-pro-type-member-init)

void scoped_operation::begin() noexcept {
  slot_->waiter = this;
  slot_->scope = scope_;
  ++scope_->in_flight_;
}

[[gnu::always_inline]] inline scoped_operation operation_scope::send(const source& data,
                                                                     place_of_post posted) {
  constexpr auto kind = detail::operation_kind::send;
  if (!core_.is_usual<kind>(data, {}) || is_late()) [[unlikely]]
    return send(data, {}, posted.at());
  const auto status = core_.submit_usual<kind>(data, {});
  if (!status) [[unlikely]]
    return refused(kind, status.code(), {}, posted);
  return {*this, kind, data, posted};
}

[[gnu::always_inline]] inline scoped_operation operation_scope::receive(
    sink&& into, std::source_location posted) {
  constexpr auto kind = detail::operation_kind::receive;
  if (!core_.is_usual<kind>(into, {}) || is_late()) [[unlikely]]
    return fill(kind, std::move(into), {}, posted);
  const auto status = core_.submit_usual<kind>(into, {});
  if (!status) [[unlikely]]
    return refused(kind, status.code(), std::move(into), posted);
  return {*this, kind, std::move(into), posted};
}

[[gnu::always_inline]] inline scoped_operation operation_scope::write(const source& data,
                                                                      const remote_region& to,
                                                                      place_of_post posted) {
  constexpr auto kind = detail::operation_kind::write;
  if (!core_.is_usual<kind>(data, to) || is_late()) [[unlikely]]
    return write(data, to, {}, posted.at());
  const auto status = core_.submit_usual<kind>(data, to);
  if (!status) [[unlikely]]
    return refused(kind, status.code(), {}, posted);
  return {*this, kind, data, posted};
}

[[gnu::always_inline]] inline scoped_operation operation_scope::read(sink&& into,
                                                                     const remote_region& from,
                                                                     std::source_location posted) {
  constexpr auto kind = detail::operation_kind::read;
  if (!core_.is_usual<kind>(into, from) || is_late()) [[unlikely]]
    return fill(kind, std::move(into), from, posted);
  const auto status = core_.submit_usual<kind>(into, from);
  if (!status) [[unlikely]]
    return refused(kind, status.code(), std::move(into), posted);
  return {*this, kind, std::move(into), posted};
}

[[gnu::always_inline]] inline const operation_result& scoped_operation::wait() & {
  if (slot_ == nullptr) [[unlikely]]
    return look();
  detail::operation_slot& slot = *slot_;
  operation_scope& scope = *scope_;
  const detail::found what = detail::channel_core::poll_for(scope.core_.table(), slot, result);
  if (what != detail::found::it) [[unlikely]]
    return wait_longer(what);
  detail::channel_core::end_here(slot);
  ended = true;
  slot_ = nullptr;
  --scope.in_flight_;
  scope_ = nullptr;
  return result;
}

[[gnu::always_inline]] inline sink scoped_operation::take_sink() {
  VERBENA_ASSERT(ended,
                 "take_sink() of an operation in flight: call it after poll() or wait() has "
                 "returned a result");
  sink* const one = sinks_.one();
  return one != nullptr ? std::move(*one) : sink();
}

}  // namespace verbena::inline VERBENA_ABI
