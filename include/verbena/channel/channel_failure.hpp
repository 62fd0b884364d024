// SPDX-License-Identifier: MIT
// Why the connection of a channel ended.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "verbena/base/result.hpp"
#include "verbena/channel/operation_result.hpp"

namespace verbena::inline VERBENA_ABI {

/// The event that ended the connection of a channel.
enum class failure_cause : std::uint8_t {
  operation,  ///< an operation failed: see channel_failure::first
  /// Operations were flushed although none of them failed: the device or the peer ended the
  /// connection. The asynchronous events of the context may say more.
  connection,
  aborted,  ///< an abort_at passed, and the operations in flight were flushed; `first` is one
  /// channel::flush(), channel::reconnect() or async::channel::abort() was called, or an operation
  /// in flight was cancelled.
  program,
  adapter,  ///< polling or flushing failed with `code`, and the queue pair was destroyed
};
/// Returns the cause in words: `an operation failed`, `the program ended the connection`, …
[[nodiscard]] std::string to_string(failure_cause of);

/// Counts the operations of a connection that did not succeed, by operation_result::delivery().
/// Threads: immutable value.
struct operation_fates {
  std::uint64_t not_done = 0;  ///< operations without effect, except receives
  std::uint64_t unknown = 0;   ///< operations that may have taken effect at the peer
  std::uint64_t receives = 0;  ///< receives without a message

  friend bool operator==(const operation_fates&, const operation_fates&) noexcept = default;
};

/// Returns `2 not done, 5 unknown, 16 receives without a message`, or `none`.
[[nodiscard]] std::string to_string(const operation_fates& of);

/// Why the connection of a channel ended; valid until channel::reconnect(). Keeps the first
/// failure, not the operations flushed because of it. Threads: one thread at a time.
struct channel_failure {
  failure_cause cause = failure_cause::connection;  ///< the first cause
  /// The operation that failed first, or that the call with the passed abort_at waited for;
  /// nullopt if none was in flight.
  std::optional<operation_result> first = {};
  int code = 0;                ///< the errno if `cause` is `adapter`, or 0
  operation_fates fates = {};  ///< grows while flushed operations are polled

  /// Returns the failure in words. channel::describe_failure() adds peer and port. Allocates.
  [[nodiscard]] verbena::error error() const;
};

}  // namespace verbena::inline VERBENA_ABI
