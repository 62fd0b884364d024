// SPDX-License-Identifier: MIT
// Barriers of a group, by writes into memory of the other ranks: the board. The board of a rank
// consists of 8-byte words, each of which one kind of writer changes:
//
//   failure   a rank that has failed in a barrier writes the rank that it waited for
//   entered   this rank writes the barrier that it has entered; others read it after a failure
//   arrivals  2 for each rank, which only this rank writes: its last two notifications
//   outgoing  1 for each rank, and 1 for failures: the words to write to the others
//   seen      1 for each rank: copies of `entered` of the others
//
// A notification consists of the number of the notification between its two ranks, and of a tag
// that depends on the ranks and the algorithm of the barrier. A rank is at most one notification
// ahead of the receiver, so two words per rank suffice.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "verbena/channel/detail/channel_core.hpp"
#include "verbena/net/barrier_algorithm.hpp"
#include "verbena/net/multi_channel.hpp"
#include "verbena/verbs/memory_region.hpp"

namespace verbena::inline VERBENA_ABI::net::detail {

/// Threads: one thread at a time, with the channels.
class barrier_board {
 public:
  /// Allocates the board of a rank. Errors: those of protection_domain::allocate().
  [[nodiscard]] static result<barrier_board> create(const protection_domain& domain,
                                                    std::uint32_t rank, std::uint32_t size);
  /// Returns the memory for the other ranks.
  [[nodiscard]] remote_region remote() const { return memory_.remote(); }
  /// Sets the boards of all ranks. Errors: `protocol` names a rank whose board is too small.
  [[nodiscard]] result<void> connect(std::vector<remote_region> boards);

  /// Waits until all of `ranks` have called it. See group::barrier().
  [[nodiscard]] result<void> run(multi_channel& channels, std::span<const std::uint32_t> ranks,
                                 deadline until, barrier_algorithm algorithm);

 private:
  struct barrier;  // the call in progress
  struct notification {
    verbena::detail::operation_waiter waiter;
    verbena::detail::operation_slot* slot = nullptr;
    std::uint32_t rank = 0;
  };

  barrier_board(memory_region memory, std::uint32_t rank, std::uint32_t size);

  [[nodiscard]] result<void> check(std::span<const std::uint32_t> ranks) const;
  [[nodiscard]] result<void> disseminate(barrier& in);
  [[nodiscard]] result<void> climb(barrier& in);
  [[nodiscard]] result<void> gather(barrier& in);
  /// Notifies ranks, and waits for the notifications of others.
  [[nodiscard]] result<void> step(barrier& in, std::span<const std::uint32_t> to,
                                  std::span<const std::uint32_t> from);
  [[nodiscard]] result<void> notify(barrier& in, std::uint32_t to);
  [[nodiscard]] result<void> await(barrier& in, std::uint32_t from);
  [[nodiscard]] result<void> look(barrier& in);
  [[nodiscard]] result<void> check_failure_of_others(barrier& in);
  template <class Ended>
  [[nodiscard]] result<void> wait_until(barrier& in, Ended&& ended, std::uint32_t awaited);
  [[nodiscard]] error fail_late(barrier& in, std::uint32_t awaited);
  [[nodiscard]] error fail_broken(barrier& in, const notification& of);
  [[nodiscard]] error fail(barrier& in, std::uint32_t culprit, error why);
  [[nodiscard]] std::vector<std::uint32_t> find_missing(barrier& in);
  void abandon() noexcept;
  /// Posts an 8-byte operation on the word at `offset` of the board of a rank.
  [[nodiscard]] bool post(barrier& in, verbena::detail::operation_kind kind, std::uint32_t rank,
                          std::size_t own_offset, std::size_t peer_offset);

  [[nodiscard]] std::uint64_t load(std::size_t offset) const;
  void store(std::size_t offset, std::uint64_t value);

  memory_region memory_;
  std::uint32_t rank_;
  std::uint32_t size_;
  std::vector<remote_region> boards_;
  std::vector<std::uint32_t> sent_;                 // notifications to each rank
  std::vector<std::uint32_t> received_;             // notifications of each rank
  std::map<std::uint32_t, std::uint32_t> entered_;  // by tag: number of barriers
  std::vector<notification> posted_;                // room for one for each rank
  std::size_t in_flight_ = 0;                       // of posted_
  std::vector<std::uint32_t> others_;               // scratch, of the ranks of a barrier
  std::optional<error> failure_;
};

}  // namespace verbena::inline VERBENA_ABI::net::detail
