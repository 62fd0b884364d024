// SPDX-License-Identifier: MIT
// The common part of asio::channel and asio::message_channel.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "verbena/asio/detail/handler_operation.hpp"
#include "verbena/asio/detail/loop.hpp"
#include "verbena/base/assert.hpp"

namespace verbena::inline VERBENA_ABI::asio::detail {

/// Owns a channel on an engine. Pending operations share ownership of its state.
/// Threads: one thread at a time, the thread of the engine.
template <class State>
class channel_owner {
 public:
  template <class Channel>
  channel_owner(std::shared_ptr<loop> on, Channel&& connected)
      : on_(std::move(on)),
        // NOLINTNEXTLINE(cppcoreguidelines-owning-memory): it counts its references itself
        state_(new State(on_->state(), std::forward<Channel>(connected))) {}
  channel_owner(channel_owner&& other) noexcept
      : on_(std::move(other.on_)), state_(std::exchange(other.state_, nullptr)) {}
  channel_owner& operator=(channel_owner&& other) noexcept {
    if (this == &other) return *this;
    close();
    on_ = std::move(other.on_);
    state_ = std::exchange(other.state_, nullptr);
    return *this;
  }
  channel_owner(const channel_owner&) = delete;
  channel_owner& operator=(const channel_owner&) = delete;
  /// Destroys the channel. Its operations end; the next step of the loop calls their handlers.
  ~channel_owner() { close(); }

  /// Moves the channel out. Waiting operations end.
  [[nodiscard]] auto release() {
    auto of = state().take();
    close();
    return of;
  }
  [[nodiscard]] loop& on() const noexcept { return *on_; }
  [[nodiscard]] State& state() const {
    VERBENA_ASSERT(state_ != nullptr, "a moved-from channel was used");
    return *state_;
  }
  /// Begins an operation of the channel with these arguments.
  template <class Operation, class Token, class... Arguments>
  [[gnu::always_inline]] inline auto initiate(Token&& token, Arguments&&... arguments) const {
    return detail::initiate<Operation>(*on_, std::forward<Token>(token), std::ref(state()),
                                       std::forward<Arguments>(arguments)...);
  }

 private:
  void close() noexcept {
    if (state_ == nullptr) return;
    state_->close();
    State::release(std::exchange(state_, nullptr));
    on_->wake();
  }

  std::shared_ptr<loop> on_;
  State* state_;  // reference-counted
};

}  // namespace verbena::inline VERBENA_ABI::asio::detail
