// SPDX-License-Identifier: MIT
// The operation in progress of a board, and the queue of its operations in steps.
#pragma once

#include "src/net/rank_board.hpp"

namespace verbena::inline VERBENA_ABI::net::detail {

/// The place of an operation in steps in the queue of its board. The operations of a board run one
/// at a time, in call order. Threads: one thread at a time, with the board.
class board_turn {
 public:
  explicit board_turn(rank_board& of) noexcept;
  board_turn(const board_turn&) = delete;
  board_turn& operator=(const board_turn&) = delete;
  ~board_turn();

  [[nodiscard]] bool has_come() const noexcept { return board_.first_turn_ == this; }

 private:
  rank_board& board_;
  board_turn* next_ = nullptr;
};

/// Marks an operation as in progress. The destructor cancels the operation unless end() was called:
/// the steps were destroyed, or an exception was thrown. Also used for blocking operations, which
/// have no turn. Threads: one thread at a time, with the board.
class running_operation {
 public:
  running_operation(rank_board& on, collective& what) noexcept : board_(on), what_(what) {
    board_.running_ = &what;
  }
  running_operation(const running_operation&) = delete;
  running_operation& operator=(const running_operation&) = delete;
  ~running_operation() {
    if (!has_ended_) board_.cancel(what_);
    board_.running_ = nullptr;
  }
  /// Records that the operation has succeeded or failed.
  void end() noexcept { has_ended_ = true; }

 private:
  rank_board& board_;
  collective& what_;
  bool has_ended_ = false;
};

}  // namespace verbena::inline VERBENA_ABI::net::detail
