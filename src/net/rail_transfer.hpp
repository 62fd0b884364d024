// SPDX-License-Identifier: MIT
// An operation over rails in progress, divided into pieces.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "verbena/channel/operation_result.hpp"
#include "verbena/channel/sink.hpp"
#include "verbena/channel/source.hpp"
#include "verbena/net/rail_memory.hpp"

namespace verbena::inline VERBENA_ABI::net::detail {

/// A part of an operation, which one request transfers.
struct rail_piece {
  std::uint64_t offset = 0;  ///< from the beginning of the operation
  std::uint32_t bytes = 0;
};

enum class rail_direction : std::uint8_t { write, read };

/// Threads: one thread at a time.
class rail_transfer {
 public:
  struct parts {
    rail_direction direction;
    rail_source local;
    const rail_region& remote;
  };
  /// Uses `again` for pieces that are repeated.
  rail_transfer(const parts& of, std::uint32_t piece_bytes, std::vector<rail_piece>& again)
      : of_(of), piece_bytes_(piece_bytes), again_(again) {
    again_.clear();
  }

  [[nodiscard]] rail_direction direction() const noexcept { return of_.direction; }
  [[nodiscard]] std::uint64_t bytes() const noexcept { return of_.local.length(); }

  /// Returns the bytes of a piece, as `rail` accesses them.
  [[nodiscard]] source local_source(std::uint32_t rail, const rail_piece& piece) const {
    return {of_.local.memory().region(rail), of_.local.offset() + piece.offset, piece.bytes};
  }
  [[nodiscard]] sink local_sink(std::uint32_t rail, const rail_piece& piece) const {
    return {of_.local.memory().region(rail), of_.local.offset() + piece.offset, piece.bytes};
  }
  [[nodiscard]] remote_region remote(std::uint32_t rail, const rail_piece& piece) const {
    return of_.remote.on(rail).slice(piece.offset, piece.bytes);
  }

  /// Returns whether there are pieces to post.
  [[nodiscard]] bool has_more() const noexcept {
    return !refused_ && (!again_.empty() || next_ < bytes());
  }
  /// Takes the next piece. Precondition: has_more().
  [[nodiscard]] rail_piece take() {
    if (!again_.empty()) {
      const rail_piece piece = again_.back();
      again_.pop_back();
      return piece;
    }
    const rail_piece piece{.offset = next_,
                           .bytes = static_cast<std::uint32_t>(
                               std::min<std::uint64_t>(piece_bytes_, bytes() - next_))};
    next_ += piece.bytes;
    return piece;
  }
  /// Takes back a piece that may have been executed, and whose rail is fenced.
  void repeat(const rail_piece& piece) {
    again_.push_back(piece);
    has_repeated_ = true;
  }
  void succeed(const rail_piece& piece) noexcept { done_ += piece.bytes; }
  /// Ends the operation with the failure of a piece that no other rail can execute.
  void refuse(const operation_result& why) {
    may_have_effect_ = may_have_effect_ || why.delivery() != delivery::not_done;
    if (!refused_) refused_ = why;
  }

  [[nodiscard]] bool is_complete() const noexcept { return done_ == bytes(); }
  /// Returns whether a piece was taken back.
  [[nodiscard]] bool has_repeated() const noexcept { return has_repeated_; }
  [[nodiscard]] std::uint64_t done_bytes() const noexcept { return done_; }
  /// Returns whether one of the pieces that refused the operation may have been executed.
  [[nodiscard]] bool may_have_effect() const noexcept { return may_have_effect_; }
  [[nodiscard]] const std::optional<operation_result>& refused() const noexcept { return refused_; }

 private:
  parts of_;
  std::uint32_t piece_bytes_;
  std::vector<rail_piece>& again_;
  std::uint64_t next_ = 0;  // the offset of the first byte that was not posted yet
  std::uint64_t done_ = 0;
  bool has_repeated_ = false;
  bool may_have_effect_ = false;
  std::optional<operation_result> refused_;  // of the first one
};

}  // namespace verbena::inline VERBENA_ABI::net::detail
