// SPDX-License-Identifier: MIT
// What all handles have in common: a shared state, its native object, closing.
#pragma once

#include <atomic>
#include <cerrno>
#include <memory>
#include <utility>

#include "verbena/base/assert.hpp"
#include "verbena/verbs/close_result.hpp"
#include "verbena/verbs/detail/native_state.hpp"

namespace verbena::inline VERBENA_ABI::detail {

/// The error of a close() that other handles or objects forbid.
[[nodiscard]] error still_shared(std::string_view call, const std::string& object, long others);
/// The error of a close() that the verb refused.
[[nodiscard]] error refused_close(std::string_view call, const std::string& object, int code,
                                  std::string_view in_use);

/// Base of the handles. Threads: one thread at a time; two handles of one object may be used by two
/// threads.
template <class State>
class handle {
 public:
  /// The type of the object in the C API.
  using native_type = typename State::native_type;

  /// The object of the C API, for verbs that this library does not cover. It stays owned by this
  /// library and lives as long as any handle of it.
  [[nodiscard]] native_type* native() const { return state().native(); }
  /// Who executes the verbs of this object; its table takes native().
  [[nodiscard]] const verbena::provider& provider() const { return state().provider(); }
  /// How messages call this object: `protection domain of soft0`.
  [[nodiscard]] const std::string& name() const { return state().name(); }

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

  /// Destroys the native object of the derived handle `self` now, or hands the handle back.
  template <class Handle>
  static close_result<Handle> close_handle(Handle&& self) {
    handle& base = self;
    State& state = base.state();
    const auto verb = state.destroy_verb().name();
    if (const long holders = base.state_.use_count(); holders > 1)
      return {still_shared(verb, state.name(), holders - 1), std::forward<Handle>(self)};
    // The count is read without order; what other threads did before they let go must be visible.
    std::atomic_thread_fence(std::memory_order_acquire);
    if (const verb_status status = state.destroy(); status.failed)
      return {refused_close(verb, state.name(), status.code, State::traits::in_use),
              std::forward<Handle>(self)};
    base.state_.reset();
    return {};
  }

 private:
  friend struct internals;
  std::shared_ptr<State> state_;
};

/// The way of this library's own code into handles.
struct internals {
  /// The shared state: what children keep. Stops with a rule when the handle was moved from.
  template <class State>
  static const std::shared_ptr<State>& state_of(const handle<State>& of) {
    return of.shared_state();
  }
  /// A handle of `state`.
  template <class Handle, class State, class... Rest>
  static Handle make(std::shared_ptr<State> state, Rest... rest) {
    return Handle(std::move(state), rest...);
  }
};

}  // namespace verbena::inline VERBENA_ABI::detail
