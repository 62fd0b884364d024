// SPDX-License-Identifier: MIT
// Ends the operations of a channel when the connection manager reports that its peer has
// disconnected. Without it, a receive would wait on devices that do not detect this themselves.
#pragma once

#include "verbena/async/detail/descriptor_wait.hpp"

namespace verbena::inline VERBENA_ABI::cm {
class connection;
}

namespace verbena::inline VERBENA_ABI::async::detail {

/// Waits for events of the connection of a channel. Each event calls a function, until it returns
/// true.
/// Threads: one thread at a time, the thread of the engine.
class disconnect_watch : private descriptor_wait {
 public:
  /// Returns true if the connection has ended, and the watch ends. `owner` is that of start().
  using look_function = bool (*)(void* owner);

  explicit disconnect_watch(engine_state& on) noexcept : descriptor_wait(on) {}
  disconnect_watch(const disconnect_watch&) = delete;
  disconnect_watch& operator=(const disconnect_watch&) = delete;

  /// Starts to wait; has no effect if `of` is nullptr. Logs a warning if epoll_ctl(2) fails.
  /// `of` must live until stop().
  void start(cm::connection* of, look_function look, void* owner) noexcept;
  /// Ends the watch. May be called repeatedly.
  using descriptor_wait::stop;

 private:
  void wait() noexcept;

  cm::connection* connection_ = nullptr;
  look_function look_ = nullptr;
  void* owner_ = nullptr;
};

}  // namespace verbena::inline VERBENA_ABI::async::detail
