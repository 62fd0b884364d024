// SPDX-License-Identifier: MIT
// Who a channel and its peer are, and what came of the connection before: what continuations are
// made of, and what they are compared with.
#pragma once

#include <cstdint>
#include <optional>

#include "verbena/channel/continuation.hpp"
#include "verbena/channel/detail/operation_kind.hpp"

namespace verbena::inline VERBENA_ABI::detail {

/// A connection that ended.
struct ended_connection {
  std::uint64_t number = 0;                 ///< of this side
  std::optional<connection_identity> peer;  ///< what the peer told of itself
  bool counted = false;                     ///< the following are certain
  std::uint64_t received = 0;               ///< messages of the peer
  std::uint64_t sent = 0;                   ///< messages that the peer acknowledged
  std::uint64_t failed = 0;                 ///< messages behind them that ended otherwise
  std::uint32_t first_failed = 0;           ///< the number of the first of those, modulo 2^32
};

/// Whether messages are counted.
enum class counting : std::uint8_t { no, yes };

/// Threads: one thread at a time.
class connection_book {
 public:
  /// `counts`: kind_counts of finish() will be all that was posted.
  explicit connection_book(counting counts);

  /// What the peer of the next connection is to be told. Each attempt is another connection.
  [[nodiscard]] continuation next();
  /// The connection for which next() gave `number` takes requests from now on.
  void begin(std::uint64_t number) noexcept;
  /// It stands; what the peer said of itself.
  void meet(const std::optional<continuation>& peer) noexcept;
  /// It will never stand: what was known of the one before stays known.
  void abandon() noexcept { connected_ = 0; }
  /// A message of the present connection failed; since they end in order, behind all those that did
  /// not. Its number among all that failed, modulo 2^32.
  [[nodiscard]] std::uint32_t number_of_failed() noexcept {
    return numbered_ + static_cast<std::uint32_t>(failed_++);
  }
  /// A receive ended without a message.
  void count_failed_receive() noexcept { ++failed_receives_; }
  /// Something completed without anybody seeing how.
  void lose_count() noexcept { counted_ = false; }
  /// The present connection is over, if there is one, and nothing in flight: `posted` is what was.
  void finish(const kind_counts& posted) noexcept;
  /// The connection that ended last.
  [[nodiscard]] const std::optional<ended_connection>& last() const noexcept { return last_; }
  [[nodiscard]] std::uint64_t identity() const noexcept { return identity_; }

 private:
  std::uint64_t identity_;
  std::uint64_t attempts_ = 0;
  std::uint64_t connected_ = 0;  // the number of the present connection; 0: there is none
  counting counts_;
  bool counted_ = true;
  std::optional<connection_identity> peer_;
  std::uint32_t numbered_ = 0;  // messages that failed on earlier connections, modulo 2^32
  std::uint64_t failed_ = 0;    // on the present one
  std::uint64_t failed_receives_ = 0;
  std::optional<ended_connection> last_;
};

}  // namespace verbena::inline VERBENA_ABI::detail
