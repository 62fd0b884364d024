// SPDX-License-Identifier: MIT
// The identities of a channel and its peer, and the record of the last connection. Resume tokens
// contain these values.
#pragma once

#include <cstdint>
#include <optional>

#include "verbena/channel/detail/operation_kind.hpp"
#include "verbena/channel/resume_token.hpp"

namespace verbena::inline VERBENA_ABI::detail {

/// The record of a connection that has ended.
struct ended_connection {
  std::uint64_t number = 0;                 ///< its number on this side
  std::optional<connection_identity> peer;  ///< the identity that the peer sent
  bool counted = false;                     ///< the following counts are exact
  std::uint64_t received = 0;               ///< messages received
  std::uint64_t sent = 0;                   ///< messages acknowledged by the peer
  std::uint64_t failed = 0;                 ///< later messages that failed
  std::uint32_t first_failed = 0;           ///< number of the first of them, modulo 2^32
};

/// Selects whether messages are counted.
enum class counting : std::uint8_t { no, yes };

/// Records the connections of a channel for resume tokens. Threads: one thread at a time.
class connection_book {
 public:
  /// `counts`: whether the counts that finish() receives are complete.
  explicit connection_book(counting counts);

  /// Returns the resume token for the next connection. Each call increments the connection number.
  [[nodiscard]] resume_token next();
  /// Begins the connection with the number that next() returned. From now on, requests are posted
  /// to this connection.
  void begin(std::uint64_t number) noexcept;
  /// Records the resume token of the connected peer.
  void meet(const std::optional<resume_token>& peer) noexcept;
  /// Abandons a connection that failed before it was established; keeps the last record.
  void abandon() noexcept { connected_ = 0; }
  /// Counts a failed message and returns its number among all failed messages, modulo 2^32.
  /// Messages complete in order, so the message is later than all successful messages.
  [[nodiscard]] std::uint32_t number_of_failed() noexcept {
    return numbered_ + static_cast<std::uint32_t>(failed_++);
  }
  /// Counts a receive that failed.
  void count_failed_receive() noexcept { ++failed_receives_; }
  /// Marks the counts as inexact, because completions were lost.
  void lose_count() noexcept { counted_ = false; }
  /// Ends the current connection, if there is one. `posted` contains the numbers of its operations
  /// by kind.
  void finish(const kind_counts& posted) noexcept;
  /// Returns the record of the last connection.
  [[nodiscard]] const std::optional<ended_connection>& last() const noexcept { return last_; }
  [[nodiscard]] std::uint64_t identity() const noexcept { return identity_; }

 private:
  std::uint64_t identity_;
  std::uint64_t attempts_ = 0;
  std::uint64_t connected_ = 0;  // number of the current connection; 0: none
  counting counts_;
  bool counted_ = true;
  std::optional<connection_identity> peer_;
  std::uint32_t numbered_ = 0;  // failed messages of earlier connections, modulo 2^32
  std::uint64_t failed_ = 0;    // failed messages of the current connection
  std::uint64_t failed_receives_ = 0;
  std::optional<ended_connection> last_;
};

}  // namespace verbena::inline VERBENA_ABI::detail
