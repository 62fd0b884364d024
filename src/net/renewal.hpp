// SPDX-License-Identifier: MIT
// Changes the members of a group: shrink(), readmit() and rejoin(). The store only determines which
// ranks take part in a step. All ranks compute the members from the same parts, so there is no
// leader. The steps:
//
//   states        each rank waits until its requests on the boards have completed, and reports the
//                 channels that have failed
//   addresses     each rank sends its board, and the endpoint of a new queue pair for each channel
//                 that has failed on either side; with on_first_use: `contacts`, its contact
//   connections   all queue pairs can receive
//   survivors     each rank has read from every other member, and reports those without an answer
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

/// A member and the ranks that it cannot reach.
struct reach_report {
  std::uint32_t rank;
  std::vector<std::uint32_t> unreachable;
};

/// Encodes a set of ranks of a group of `size` in the shortest form: a list, one bit per rank, or
/// all ranks. If no form fits in `most_bytes`, encodes as many ranks as fit. Precondition: `ranks`
/// are less than `size`, in ascending order.
[[nodiscard]] blob encode_rank_set(std::span<const std::uint32_t> ranks, std::uint32_t size,
                                   std::size_t most_bytes);
/// Returns the ranks in ascending order. Errors: `protocol` for bytes that encode_rank_set() does
/// not return for this size.
[[nodiscard]] result<std::vector<std::uint32_t>> decode_rank_set(std::span<const std::byte> bytes,
                                                                 std::uint32_t size);
/// Returns the maximum size in bytes of the part of a rank, so that the answer to an agreement of
/// `size` ranks fits in a message of `message_limit` bytes.
[[nodiscard]] std::size_t most_bytes_of_part(std::uint32_t size,
                                             std::size_t message_limit) noexcept;

/// Returns the ranks to remove so that all remaining ranks can reach each other, in ascending
/// order. Removes the rank with the most broken pairs first; among equals, the highest rank. If a
/// group is split into two parts that cannot reach each other, the larger part remains.
[[nodiscard]] std::vector<std::uint32_t> ranks_to_leave_out(std::span<const reach_report> reports);

/// One call of shrink(), readmit() or rejoin(). Threads: one thread at a time, with the group.
class renewal {
 public:
  renewal(group_state& of, const char* call, deadline until)
      : group_(of), call_(call), until_(until) {}

  /// Connects to the store as the new process of a rank that has left.
  [[nodiscard]] static result<store_client> connect_again(const membership& who, deadline until) {
    return store_client::connect_again(who, until);
  }
  /// Permits operations again if the late answer to an agreement has arrived and the members are
  /// unchanged. Makes the operations of a rank fail that was expelled. Does not wait for the
  /// answer. Waits at most 1 s for writes to the other ranks.
  static void take_late_answer(group_state& of);
  /// Agrees on the members that are alive; see group::shrink().
  [[nodiscard]] result<void> shrink();
  /// Agrees on the members, the waiting ranks and all of `awaited`; see group::readmit().
  [[nodiscard]] result<void> readmit(std::span<const std::uint32_t> awaited);
  /// Waits until the members call readmit(). Precondition: no channel is connected.
  [[nodiscard]] result<void> rejoin();

 private:
  using part_view = std::span<const std::byte>;

  /// `broken` are the ranks whose channels do not work. `reported` are the ranks of `broken` that
  /// this rank reports to the others.
  [[nodiscard]] result<void> run(const store_agreement& first,
                                 std::span<const std::uint32_t> reported,
                                 std::vector<std::uint32_t> broken);
  [[nodiscard]] result<void> change(const store_agreed& states, std::vector<std::uint32_t> broken);
  [[nodiscard]] result<store_agreed> agree(const store_agreement& what,
                                           std::span<const part_view> parts);
  /// Agrees on a step after the first. Ranks that do not take part are no longer members.
  [[nodiscard]] result<store_agreed> take_step(std::string_view name,
                                               std::span<const part_view> parts);
  /// Returns the remaining members whose channels have not failed, in ascending order.
  [[nodiscard]] std::vector<std::uint32_t> intact_members();
  /// Returns those of the ranks for whose channels `is` is true.
  template <class Predicate>
  [[nodiscard]] std::vector<std::uint32_t> filter(std::vector<std::uint32_t> ranks, Predicate is);
  /// Returns those of the ranks whose channels are connected. Includes the pairs whose queue pairs
  /// no channel has yet, or has any longer.
  [[nodiscard]] std::vector<std::uint32_t> connected_pairs(std::vector<std::uint32_t> ranks);
  [[nodiscard]] std::vector<std::uint32_t> find_broken();
  /// Returns the ranks of `broken` that are members and have not left. Their processes may not have
  /// detected that the channel is broken.
  [[nodiscard]] std::vector<std::uint32_t> of_members(std::span<const std::uint32_t> broken);
  [[nodiscard]] result<void> read_states(const store_agreed& states,
                                         std::span<const std::uint32_t> broken);
  void renew_queues();
  [[nodiscard]] result<void> connect();
  [[nodiscard]] result<void> settle();
  void drop(std::uint32_t rank);
  /// Returns the members whose channels are connected, not waiting for their first use.
  [[nodiscard]] std::vector<std::uint32_t> connected_members();
  /// Sets the boards and contacts that the members sent in `addresses`.
  [[nodiscard]] result<void> take_contacts(const store_agreed& addresses);
  /// Records and logs the error of a channel that could not be reconnected.
  void note_cause(std::uint32_t rank, error why);
  /// Adds the recorded causes to an error.
  [[nodiscard]] error with_causes(error why) const;
  /// Permits operations again if the late answer to an agreement has been received and the members
  /// are unchanged. Returns true if it does.
  static bool resume_after_late_answer(group_state& of);
  /// Encodes ranks for a part of this rank.
  [[nodiscard]] blob encode_ranks_of_group(std::span<const std::uint32_t> ranks) const;
  [[nodiscard]] error about(std::uint32_t rank, error why) const;
  [[nodiscard]] error fail(int code, const std::string& why) const;

  group_state& group_;
  const char* call_;
  deadline until_;
  std::vector<std::uint32_t> members_;
  std::uint32_t number_ = 0;  // number of this renewal at the store; 0: not begun
  std::uint32_t epoch_ = 0;
  std::vector<std::uint32_t> renewed_;  // ranks whose channels are reconnected
  std::map<std::uint32_t, prepared_reconnection> prepared_;
  std::vector<std::uint32_t> unreachable_;
  std::map<std::uint32_t, error> causes_;  // errors of channels that could not be reconnected
};

}  // namespace verbena::inline VERBENA_ABI::net::detail
