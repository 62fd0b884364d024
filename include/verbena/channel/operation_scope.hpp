// SPDX-License-Identifier: MIT
// The scoped level of a channel: operations on memory that the program owns, which are over when
// the scope is.
#pragma once

#include <cstdint>
#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "verbena/base/deadline.hpp"
#include "verbena/base/result.hpp"
#include "verbena/channel/detail/channel_core.hpp"
#include "verbena/channel/operation_result.hpp"
#include "verbena/channel/sink.hpp"
#include "verbena/channel/source.hpp"
#include "verbena/verbs/remote_region.hpp"
#include "verbena/verbs/work_request.hpp"

namespace verbena::inline VERBENA_ABI {

class operation_scope;

namespace detail {

template <class T>
struct value_of_body_of {
  using type = T;
};
template <class T>
struct value_of_body_of<result<T>> {
  using type = T;
};
/// What is inside of what the body of a scope returns.
template <class T>
using value_of_body = typename value_of_body_of<T>::type;

/// `why` with what else failed.
[[nodiscard]] error with_failures(error why, std::span<const operation_result> failures);
/// Several failures of which none has a better right to be the error.
[[nodiscard]] error from_failures(std::span<const operation_result> failures);

}  // namespace detail

/// What a scope came to: what its body returned, and the failures of operations that the body has
/// not looked at. Threads: one thread at a time.
template <class T>
class [[nodiscard("a scope can fail: check it, or call value()")]] scope_result {
 public:
  /// Of what the body returned, and what was found when the scope was drained.
  scope_result(result<T> body, std::vector<operation_result> drained)
      : body_(std::move(body)), drained_(std::move(drained)) {}

  /// Whether the body succeeded, and every operation that it has not looked at.
  [[nodiscard]] bool has_value() const noexcept { return body_.has_value() && drained_.empty(); }
  /// As has_value().
  explicit operator bool() const noexcept { return has_value(); }
  /// What the body returned.
  [[nodiscard]] const result<T>& body() const& noexcept { return body_; }
  /// What the body returned, to be moved from.
  [[nodiscard]] result<T>&& body() && noexcept { return std::move(body_); }
  /// How operations failed that the body has not looked at, in the order in which that was found.
  [[nodiscard]] std::span<const operation_result> drained() const noexcept { return drained_; }
  /// The body's error if it failed, else the first failure of an operation; all others are added to
  /// its text. Precondition: !has_value(). Allocates.
  [[nodiscard]] verbena::error error() const {
    return body_ ? detail::from_failures(drained_) : detail::with_failures(body_.error(), drained_);
  }
  /// What the body returned, or raises error().
  T value() && {
    if (!has_value()) raise(error());
    return std::move(body_).value();
  }

 private:
  result<T> body_;
  std::vector<operation_result> drained_;
};

/// An operation that was posted in a scope. It may be dropped: the scope waits for it all the same.
/// Its result can be read again and again, also after the scope; a sink comes back with it.
/// Threads: one thread at a time, together with the channel.
class [[nodiscard("nobody looks at its result; the scope then does")]] scoped_operation
    : private detail::operation_waiter {
 public:
  /// Takes over the operation of `other`.
  scoped_operation(scoped_operation&& other) noexcept;
  /// Drops its own operation and takes over that of `other`.
  scoped_operation& operator=(scoped_operation&& other) noexcept;
  scoped_operation(const scoped_operation&) = delete;
  scoped_operation& operator=(const scoped_operation&) = delete;
  ~scoped_operation() {
    if (scope_ != nullptr) [[unlikely]]
      let_go();
  }

  /// How it ended; nullptr while it is in flight. Polls once if it is. Never blocks.
  [[nodiscard]] const operation_result* poll();
  /// Waits until it has ended, at most until the deadline of the scope: then the channel is
  /// flushed.
  [[nodiscard]] const operation_result& wait();
  /// The sink, once the operation has ended, to be posted again; an empty one if there was none or
  /// it was taken. Precondition: poll() or wait() gave a result.
  [[nodiscard]] sink take_sink();
  /// The sinks of a scattered operation; as above.
  [[nodiscard]] std::vector<sink> take_sinks();

 private:
  friend class operation_scope;
  friend void detail::ended_in(operation_scope& scope, detail::operation_waiter* handle) noexcept;
  // Of a post that the device refused with `code`.
  scoped_operation(operation_scope& scope, int code, sink&& into, place_of_post posted) noexcept;
  // Of what channel_core::submit_usual() has posted.
  [[gnu::always_inline]] inline scoped_operation(operation_scope& scope,
                                                 detail::operation_kind kind,
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
  [[gnu::always_inline]] inline void begin(detail::operation_kind kind,
                                           place_of_post posted) noexcept;
  void post(const detail::operation_description& what, std::source_location posted);
  void take_over(scoped_operation& other) noexcept;
  void let_go() noexcept;
  [[nodiscard]] const operation_result& wait_longer(detail::found what);
  [[nodiscard]] const operation_result& look() noexcept;
  void link() noexcept;
  void unlink_from(operation_scope& scope) noexcept;

  operation_scope* scope_;                  // nullptr: over, and looked at
  detail::operation_slot* slot_ = nullptr;  // while in flight
  scoped_operation* before_;                // of those that have ended before anybody looked
  scoped_operation* behind_;                // there only while the handle is one of them
  std::variant<std::monostate, sink, std::vector<sink>> sinks_;
};

/// Where operations are posted that are over when the scope is. channel::scope() and
/// channel::manual_scope() make it and give it to their body.
///
/// *Contract of all posts.* The memory outlives the scope. Until the operation has ended, sources
/// are not written, and sinks neither read nor written. A handle says when it has; memory can then
/// be used again, within the same scope.
/// Threads: one thread at a time, together with the channel.
class operation_scope {
 public:
  operation_scope(const operation_scope&) = delete;
  operation_scope& operator=(const operation_scope&) = delete;
  /// Waits until nothing is in flight.
  ~operation_scope();

  /// Posts a message for the peer's next receive.
  ///
  /// *Contract.* That of all posts.
  [[nodiscard]] scoped_operation send(const source& data,
                                      place_of_post posted = std::source_location::current());
  /// The same for all that a message can be made of, and with options.
  ///
  /// *Contract.* That of all posts.
  [[nodiscard]] scoped_operation send(
      const outgoing& data, const operation_options& options = {},
      std::source_location posted = std::source_location::current());
  /// Posts a receive for one message. The sink comes back with the completion.
  ///
  /// *Contract.* That of all posts.
  [[nodiscard]] scoped_operation receive(
      sink&& into, std::source_location posted = std::source_location::current());
  /// The same, scattered over several pieces.
  ///
  /// *Contract.* That of all posts.
  [[nodiscard]] scoped_operation receive(
      std::vector<sink> into, std::source_location posted = std::source_location::current());
  /// Posts a write to the beginning of `to`.
  ///
  /// *Contract.* That of all posts.
  [[nodiscard]] scoped_operation write(const source& data, const remote_region& to,
                                       place_of_post posted = std::source_location::current());
  /// The same for all that a write can be made of, and with options.
  ///
  /// *Contract.* That of all posts.
  [[nodiscard]] scoped_operation write(
      const outgoing& data, const remote_region& to, const operation_options& options = {},
      std::source_location posted = std::source_location::current());
  /// Posts a read of the beginning of `from`.
  ///
  /// *Contract.* That of all posts.
  [[nodiscard]] scoped_operation read(
      sink&& into, const remote_region& from,
      std::source_location posted = std::source_location::current());
  /// The same, scattered over several pieces.
  ///
  /// *Contract.* That of all posts.
  [[nodiscard]] scoped_operation read(
      std::vector<sink> into, const remote_region& from,
      std::source_location posted = std::source_location::current());
  /// Posts an atomic comparison; what the 8 bytes were is then in `before`.
  ///
  /// *Contract.* That of all posts.
  [[nodiscard]] scoped_operation compare_and_swap(
      sink before, const remote_region& target, compare_and_swap_operands operands,
      std::source_location posted = std::source_location::current());
  /// Posts an atomic addition; what the 8 bytes were is then in `before`.
  ///
  /// *Contract.* That of all posts.
  [[nodiscard]] scoped_operation fetch_and_add(
      sink before, const remote_region& target, std::uint64_t addend,
      std::source_location posted = std::source_location::current());

  /// When the scope stops waiting.
  [[nodiscard]] deadline until() const noexcept { return until_; }
  /// The protection domain that memory has to be of.
  [[nodiscard]] const protection_domain& domain() const noexcept { return core_.domain(); }
  /// Operations of the scope that are in flight.
  [[nodiscard]] std::uint32_t in_flight() const noexcept { return in_flight_; }

 private:
  friend class channel;
  friend class scoped_operation;
  friend class detail::channel_core;
  friend void detail::ended_in(operation_scope& scope, detail::operation_waiter* handle) noexcept;

  // What happens to operations that nobody looked at.
  enum class policy : std::uint8_t { collect, demand };

  operation_scope(detail::channel_core& core, deadline until, policy what) noexcept;
  // Waits until all is over, and says what failed that nobody looked at.
  [[nodiscard]] std::vector<operation_result> finish();
  // The same; stops the program if there is an operation that nobody looked at.
  void finish_demanding();
  // What the device refused with `code`.
  [[gnu::cold, gnu::noinline]] scoped_operation refused(int code, sink&& into,
                                                        place_of_post posted);
  // What is not usual: channel_core::is_usual().
  [[gnu::cold, gnu::noinline]] scoped_operation fill(detail::operation_kind kind, sink&& into,
                                                     const remote_region& from,
                                                     place_of_post posted);
  // Of an operation whose handle is gone.
  void ended_unseen(const operation_result& how);
  void never_looked_at(std::source_location posted) noexcept;

  detail::channel_core& core_;  // held
  deadline until_;
  std::vector<operation_result> failures_;
  std::optional<std::source_location> unseen_;  // the first post that nobody looked at
  scoped_operation* first_ = nullptr;           // handles that ended before anybody looked
  std::uint32_t in_flight_ = 0;
  policy policy_;
  bool over_ = false;
};

// NOLINTBEGIN(cppcoreguidelines-pro-type-member-init): before_ and behind_ are link()'s
scoped_operation::scoped_operation(operation_scope& scope, detail::operation_kind kind,
                                   place_of_post posted) noexcept
    : operation_waiter{.result = detail::channel_core::hope(posted.at())}, scope_(&scope) {
  begin(kind, posted);
}

scoped_operation::scoped_operation(operation_scope& scope, detail::operation_kind kind, sink&& into,
                                   place_of_post posted) noexcept
    : operation_waiter{.result = detail::channel_core::hope(posted.at())},
      scope_(&scope),
      sinks_(std::in_place_type<sink>, std::move(into)) {
  begin(kind, posted);
}
// NOLINTEND(cppcoreguidelines-pro-type-member-init)

void scoped_operation::begin(detail::operation_kind kind, place_of_post posted) noexcept {
  slot_ = &scope_->core_.begin(kind, posted.at());
  slot_->waiter = this;
  slot_->scope = scope_;
  ++scope_->in_flight_;
}

[[gnu::always_inline]] inline scoped_operation operation_scope::send(const source& data,
                                                                     place_of_post posted) {
  constexpr auto kind = detail::operation_kind::send;
  if (!core_.is_usual<kind>(data, {})) [[unlikely]]
    return send(data, {}, posted.at());
  const auto status = core_.submit_usual<kind>(data, {});
  if (!status) [[unlikely]]
    return refused(status.code(), {}, posted);
  return {*this, kind, posted};
}

[[gnu::always_inline]] inline scoped_operation operation_scope::receive(
    sink&& into, std::source_location posted) {
  constexpr auto kind = detail::operation_kind::receive;
  if (!core_.is_usual<kind>(into, {})) [[unlikely]]
    return fill(kind, std::move(into), {}, posted);
  const auto status = core_.submit_usual<kind>(into, {});
  if (!status) [[unlikely]]
    return refused(status.code(), std::move(into), posted);
  return {*this, kind, std::move(into), posted};
}

[[gnu::always_inline]] inline scoped_operation operation_scope::write(const source& data,
                                                                      const remote_region& to,
                                                                      place_of_post posted) {
  constexpr auto kind = detail::operation_kind::write;
  if (!core_.is_usual<kind>(data, to)) [[unlikely]]
    return write(data, to, {}, posted.at());
  const auto status = core_.submit_usual<kind>(data, to);
  if (!status) [[unlikely]]
    return refused(status.code(), {}, posted);
  return {*this, kind, posted};
}

[[gnu::always_inline]] inline scoped_operation operation_scope::read(sink&& into,
                                                                     const remote_region& from,
                                                                     std::source_location posted) {
  constexpr auto kind = detail::operation_kind::read;
  if (!core_.is_usual<kind>(into, from)) [[unlikely]]
    return fill(kind, std::move(into), from, posted);
  const auto status = core_.submit_usual<kind>(into, from);
  if (!status) [[unlikely]]
    return refused(status.code(), std::move(into), posted);
  return {*this, kind, std::move(into), posted};
}

[[gnu::always_inline]] inline const operation_result& scoped_operation::wait() {
  if (slot_ == nullptr) [[unlikely]]
    return look();
  detail::operation_slot& slot = *slot_;
  const detail::found what = detail::channel_core::poll_for(scope_->core_.table(), slot, result);
  if (what != detail::found::it) [[unlikely]]
    return wait_longer(what);
  detail::channel_core::end_here(slot);
  ended = true;
  slot_ = nullptr;
  --scope_->in_flight_;
  scope_ = nullptr;
  return result;
}

[[gnu::always_inline]] inline sink scoped_operation::take_sink() {
  VERBENA_ASSERT(ended, "a sink is the adapter's until poll() or wait() gave a result");
  auto* const one = std::get_if<sink>(&sinks_);
  return one != nullptr ? std::move(*one) : sink();
}

}  // namespace verbena::inline VERBENA_ABI
