// SPDX-License-Identifier: MIT
// A set of descriptors that an event loop waits for (epoll(7)). The owner of the loop identifies
// each descriptor by a kind (an enumerator of the owner) and a number.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "verbena/base/fd.hpp"
#include "verbena/base/result.hpp"

namespace verbena::softdev {

/// Waits for many descriptors. Thread-safe, but only one thread at a time may call wait(). close()
/// is for a child of fork.
class reactor {
 public:
  /// The event to wait for.
  enum class wanted : std::uint8_t { readable, writable, either, neither };
  /// Identifies a watched descriptor.
  struct source {
    std::uint8_t kind = 0;
    std::uint64_t number = 0;  ///< less than 2^56

    template <class Kind>
    source(Kind of, std::uint64_t which) noexcept
        : kind(static_cast<std::uint8_t>(of)), number(which) {}
    source() noexcept = default;
  };
  static constexpr std::size_t most_events = 64;

  /// Creates the epoll descriptor. Errors: the errno of epoll_create1(2).
  [[nodiscard]] result<void> open();
  /// Returns a descriptor that is readable while a watched descriptor is ready.
  [[nodiscard]] int fd() const noexcept { return epoll_.get(); }

  /// Watches a descriptor. Returns 0 or the errno of epoll_ctl(2).
  [[nodiscard]] int watch(int fd, source name, wanted what = wanted::readable) const noexcept;
  /// Changes the event to wait for; adds the descriptor if it is not watched. Returns 0 or the
  /// errno of epoll_ctl(2).
  [[nodiscard]] int rewatch(int fd, source name, wanted what) const noexcept;
  /// Stops watching a descriptor. Ignores a negative or unwatched descriptor.
  void unwatch(int fd) const noexcept;

  /// Waits until a descriptor is ready, at most `timeout_ms` (-1: no limit). Returns the sources of
  /// ready descriptors; the span is valid until the next call. A cancellation point.
  [[nodiscard]] std::span<const source> wait(int timeout_ms) noexcept;

  void close() noexcept { epoll_.reset(); }

 private:
  [[nodiscard]] int control(int operation, int fd, source name, wanted what) const noexcept;

  unique_fd epoll_;
  std::array<source, most_events> found_{};
};

}  // namespace verbena::softdev
