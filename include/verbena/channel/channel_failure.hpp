// SPDX-License-Identifier: MIT
// Why a channel is of no more use.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "verbena/base/result.hpp"
#include "verbena/channel/operation_result.hpp"

namespace verbena::inline VERBENA_ABI {

/// What ended the connection of a channel.
enum class failure_cause : std::uint8_t {
  operation,  ///< an operation failed: channel_failure::first says which and how
  /// Operations were flushed, and none of them was to blame: the adapter or the peer ended it. The
  /// asynchronous events of the context may tell more.
  connection,
  deadline,  ///< a deadline passed, and what was in flight was flushed; `first` waited for it
  program,   ///< channel::flush() or channel::reconnect() was called
  adapter,   ///< it could not be polled or flushed: `code` is the errno, and the queue pair is gone
};
/// `an operation failed`, `the connection ended`, `a deadline passed`, …
[[nodiscard]] std::string to_string(failure_cause of);

/// How many operations of a connection did not succeed, by what is known of them: see
/// operation_result::delivery().
struct operation_fates {
  std::uint64_t not_done = 0;  ///< what did certainly not happen, receives apart
  std::uint64_t unknown = 0;   ///< what may have happened at the peer, or not
  std::uint64_t receives = 0;  ///< receives that brought nothing

  friend bool operator==(const operation_fates&, const operation_fates&) noexcept = default;
};

/// `2 not done, 5 unknown, 16 receives without a message`, or `none`.
[[nodiscard]] std::string to_string(const operation_fates& of);

/// Why a channel is of no more use, until channel::reconnect(). What failed first is kept: what was
/// flushed because of it does not hide it. Threads: one thread at a time.
struct channel_failure {
  failure_cause cause = failure_cause::connection;  ///< what came first
  /// The operation that failed first, or waited when a deadline passed: with its completion, its
  /// vendor error and the place of its post. Nothing if none was in flight.
  std::optional<operation_result> first = {};
  int code = 0;                ///< of `adapter`: the errno, or 0
  operation_fates fates = {};  ///< of operations that ended since; grows while they are reaped

  /// All of it in words. channel::describe_failure() knows more. Allocates.
  [[nodiscard]] verbena::error error() const;
};

}  // namespace verbena::inline VERBENA_ABI
