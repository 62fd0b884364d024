// SPDX-License-Identifier: MIT
// Changes the members of a group: shrink(), readmit() and rejoin(). The store only counts who takes
// part in a step. All ranks compute the members from the same parts, so they need no leader:
//
//   states        each rank waits for its requests on the board, and lists the channels that failed
//   addresses     a new queue pair for each channel that failed on one of both sides
//   connections   the queue pairs can receive
//   survivors     each rank has read from each other one, and lists those without an answer
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/net/group_state.hpp"
#include "src/net/store_message.hpp"
#include "verbena/channel/reconnection.hpp"

namespace verbena::inline VERBENA_ABI::net::detail {

/// The ranks that a member cannot reach.
struct reach_report {
  std::uint32_t rank;
  std::vector<std::uint32_t> unreachable;
};

/// Encodes a set of ranks of a group of `size`: as a list, as a bit for each rank, or as all ranks,
/// whichever is shortest. If no form has at most `most_bytes`, encodes as many ranks as fit.
/// Precondition: `ranks` are less than `size`, in ascending order.
[[nodiscard]] blob encode_rank_set(std::span<const std::uint32_t> ranks, std::uint32_t size,
                                   std::size_t most_bytes);
/// Returns the ranks in ascending order. Errors: `protocol` for bytes that encode_rank_set() does
/// not return for this size.
[[nodiscard]] result<std::vector<std::uint32_t>> decode_rank_set(std::span<const std::byte> bytes,
                                                                 std::uint32_t size);
/// Returns the largest part of a rank with which an agreement of a group of `size` fits in a
/// message.
[[nodiscard]] std::size_t most_bytes_of_part(std::uint32_t size) noexcept;

/// Returns the ranks without which each of the others reaches each other one, in ascending order.
/// Removes the rank with the most broken pairs first; of equal ones, the highest. If two halves
/// cannot reach each other, the larger one remains.
[[nodiscard]] std::vector<std::uint32_t> ranks_to_leave_out(std::span<const reach_report> reports);

/// One call of shrink(), readmit() or rejoin(). Threads: one thread at a time, with the group.
class renewal {
 public:
  renewal(group_state& of, const char* call, deadline until)
      : group_(of), call_(call), until_(until) {}

  /// Connects the new process of a rank that has left to the store.
  [[nodiscard]] static result<store_client> connect_again(const membership& who, deadline until) {
    return store_client::connect_again(who, until);
  }
  /// Agrees on the members that are alive.
  [[nodiscard]] result<void> shrink();
  /// Agrees on the members, the ranks that wait, and those of `awaited`.
  [[nodiscard]] result<void> readmit(std::span<const std::uint32_t> awaited);
  /// Waits for the members. Precondition: the channels to other ranks are not connected.
  [[nodiscard]] result<void> rejoin();

 private:
  using part_view = std::span<const std::byte>;

  /// `reported` are those of `broken` of which the other ranks do not know.
  [[nodiscard]] result<void> run(const store_agreement& first,
                                 std::span<const std::uint32_t> reported,
                                 std::vector<std::uint32_t> broken);
  [[nodiscard]] result<void> change(const store_agreed& states, std::vector<std::uint32_t> broken);
  [[nodiscard]] result<store_agreed> agree(const store_agreement& what,
                                           std::span<const part_view> parts);
  /// Agrees on a step after the first. Ranks that do not take part are no longer members.
  [[nodiscard]] result<store_agreed> take_step(std::string_view name,
                                               std::span<const part_view> parts);
  [[nodiscard]] std::vector<std::uint32_t> find_broken();
  /// Returns those of `broken` whose processes may not know that the channel is broken.
  [[nodiscard]] std::vector<std::uint32_t> of_members(std::span<const std::uint32_t> broken);
  [[nodiscard]] result<void> read_states(const store_agreed& states,
                                         std::span<const std::uint32_t> broken);
  void renew_queues();
  [[nodiscard]] result<void> connect();
  [[nodiscard]] result<void> settle();
  void drop(std::uint32_t rank);
  /// Returns the members whose channels do not wait for their first use.
  [[nodiscard]] std::vector<std::uint32_t> connected_members();
  /// Sets the boards, and on first use the contacts, that the members sent in `addresses`.
  [[nodiscard]] result<void> take_contacts(const store_agreed& addresses);
  /// Records and logs why the channel to a rank could not be reconnected.
  void note_cause(std::uint32_t rank, error why);
  /// Adds the recorded causes to an error.
  [[nodiscard]] error with_causes(error why) const;
  [[nodiscard]] error about(std::uint32_t rank, error why) const;
  [[nodiscard]] error fail(int code, const std::string& why) const;

  group_state& group_;
  const char* call_;
  deadline until_;
  std::vector<std::uint32_t> members_;
  std::uint32_t number_ = 0;  // of this renewal at the store; 0: it has not begun
  std::uint32_t epoch_ = 0;
  std::vector<std::uint32_t> renewed_;  // the ranks whose channels get new queue pairs
  std::map<std::uint32_t, prepared_reconnection> prepared_;
  std::vector<std::uint32_t> unreachable_;
  std::map<std::uint32_t, error> causes_;  // why channels could not be reconnected
};

}  // namespace verbena::inline VERBENA_ABI::net::detail
