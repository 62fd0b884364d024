// SPDX-License-Identifier: MIT
// The descriptors that a loop waits for (epoll(7)). The owner of the loop names each of them by a
// kind, an enumeration of its own, and a number.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "verbena/base/fd.hpp"
#include "verbena/base/result.hpp"

namespace verbena::softdev {

/// Threads: thread-safe, except that one thread at a time waits. close() is for a child of fork.
class reactor {
 public:
  /// What a descriptor is waited for.
  enum class wanted : std::uint8_t { readable, writable, either };
  /// The name of a watched descriptor.
  struct source {
    std::uint8_t kind = 0;
    std::uint64_t number = 0;  ///< less than 2^56

    template <class Kind>
    source(Kind of, std::uint64_t which) noexcept
        : kind(static_cast<std::uint8_t>(of)), number(which) {}
    source() noexcept = default;
  };
  static constexpr std::size_t most_events = 64;

  /// Errors: the errno of epoll_create1(2).
  [[nodiscard]] result<void> open();
  /// Readable while a watched descriptor is ready.
  [[nodiscard]] int fd() const noexcept { return epoll_.get(); }

  /// Watches a descriptor. Returns 0 or the errno of epoll_ctl(2).
  [[nodiscard]] int watch(int fd, source name, wanted what = wanted::readable) const noexcept;
  /// Changes what a descriptor is waited for; watches it if it is not watched.
  [[nodiscard]] int rewatch(int fd, source name, wanted what) const noexcept;
  /// Ends that. A negative or unwatched descriptor is ignored.
  void unwatch(int fd) const noexcept;

  /// Waits until a descriptor is ready, at most `timeout_ms` (-1: without a limit), and returns the
  /// names of those that are ready, until the next call. A point of cancellation.
  [[nodiscard]] std::span<const source> wait(int timeout_ms) noexcept;

  void close() noexcept { epoll_.reset(); }

 private:
  [[nodiscard]] int control(int operation, int fd, source name, wanted what) const noexcept;

  unique_fd epoll_;
  std::array<source, most_events> found_{};
};

}  // namespace verbena::softdev
