// SPDX-License-Identifier: MIT
// The base class of all handles: the shared owner of the object of the C API, and close().
#pragma once

#include <atomic>
#include <cerrno>
#include <memory>
#include <utility>

#include "verbena/base/assert.hpp"
#include "verbena/base/attributes.hpp"
#include "verbena/verbs/close_result.hpp"
#include "verbena/verbs/detail/native_state.hpp"

namespace verbena::inline VERBENA_ABI {

namespace detail {

struct internals;

/// Returns the error EBUSY of a close() while `others` other handles or objects made from it exist.
[[nodiscard]] error still_shared(std::string_view call, const std::string& object, long others);
/// Returns the error of a close() after the verb failed.
[[nodiscard]] error refused_close(std::string_view call, const std::string& object, int code,
                                  std::string_view in_use);

}  // namespace detail

/// The base class of handles. Copies of a handle share the object of the C API.
/// Threads: thread-safe for const use; other members by one thread at a time. Copies can be used by
/// different threads.
template <class State>
class handle {
 public:
  /// The type of the object in the C API.
  using native_type = typename State::native_type;

  /// Returns the object of the C API, for verbs that this library does not cover. The handles own
  /// it: the caller must not destroy it.
  [[nodiscard]] native_type* native() const { return state().native(); }
  /// Returns the provider of the object. Only its functions accept native().
  [[nodiscard]] const verbena::provider& provider() const { return state().provider(); }
  /// Returns the name of the object in messages: `protection domain of soft0`.
  [[nodiscard]] const std::string& name() const VERBENA_LIFETIMEBOUND { return state().name(); }

 protected:
  explicit handle(std::shared_ptr<State> state) noexcept : state_(std::move(state)) {}

  [[nodiscard]] State& state() const {
    VERBENA_ASSERT(state_ != nullptr, State::traits::moved_from);
    return *state_;
  }
  [[nodiscard]] const std::shared_ptr<State>& shared_state() const {
    VERBENA_ASSERT(state_ != nullptr, State::traits::moved_from);
    return state_;
  }

  /// Destroys the object of the derived handle `self`, or returns the handle with the error.
  template <class Handle>
  static close_result<Handle> close_handle(Handle&& self) {
    handle& base = self;
    State& state = base.state();
    const auto verb = state.destroy_verb().name();
    if (const long holders = base.state_.use_count(); holders > 1)
      return {detail::still_shared(verb, state.name(), holders - 1), std::forward<Handle>(self)};
    // use_count() has no memory order. The fence makes the writes of earlier owners visible.
    std::atomic_thread_fence(std::memory_order_acquire);
    if (const detail::verb_status status = state.destroy(); status.failed)
      return {detail::refused_close(verb, state.name(), status.code, State::traits::in_use),
              std::forward<Handle>(self)};
    // Moves from `self`, so that also the copies of the pointer for the data path are null.
    const Handle gone(std::forward<Handle>(self));
    return {};
  }

 private:
  friend struct detail::internals;
  std::shared_ptr<State> state_;
};

namespace detail {

/// Access of the library to the private members of handles.
struct internals {
  /// Returns the shared owner, which objects made from it keep. Precondition: the handle was not
  /// moved from.
  template <class State>
  static const std::shared_ptr<State>& state_of(const handle<State>& of) {
    return of.shared_state();
  }
  /// Makes a handle of `state`.
  template <class Handle, class State, class... Rest>
  static Handle make(std::shared_ptr<State> state, Rest... rest) {
    return Handle(std::move(state), rest...);
  }
};

}  // namespace detail

}  // namespace verbena::inline VERBENA_ABI
