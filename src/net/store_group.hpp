// SPDX-License-Identifier: MIT
// The state of a group in a store. Threads: the thread of the store.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "src/base/earliest.hpp"
#include "src/net/published_values.hpp"
#include "src/net/store_message.hpp"
#include "verbena/base/deadline.hpp"

namespace verbena::inline VERBENA_ABI::net::detail {

struct store_session;
using verbena::detail::earliest;

/// Returns true if two agreements belong to the same step of the same renewal.
[[nodiscard]] inline bool is_same_step(const store_agreement& a, const store_agreement& b) {
  return a.renewal == b.renewal && a.name == b.name;
}

/// The ranks of a group, and the exchange or agreement in progress. The members take part in
/// exchanges: initially all ranks, then the ranks of the last agreement.
///
/// The running time for a message of a client is at most linear in the number of ranks.
struct store_group {
  store_group(std::string called, std::uint32_t size, const store_options& limits,
              std::size_t& bytes_of_values)
      : name(std::move(called)), ranks(size), members(size), values(size, limits, bytes_of_values) {
    log.reserve(2 * ranks.size() + 1);  // note_change() adds no more
  }
  store_group(const store_group&) = delete;
  store_group& operator=(const store_group&) = delete;

  struct rank_state {
    store_session* session = nullptr;
    bool is_member = true;
    bool gone = false;           // its process has left
    bool waits = false;          // in rejoin(): connected, but not a member yet
    std::uint64_t change = 0;    // number of the last change of its session
    std::optional<blobs> parts;  // contributed to the exchange
    std::optional<store_agreement> agreement;
    deadline until = deadline::never();  // deadline of the agreement
    bool is_counted = false;             // the agreement is counted in `agreeing` and `awaited`
    std::uint32_t awaited = 0;           // number of agreements that await the rank

    /// Returns true if the process of the rank has left and no new process is connected.
    [[nodiscard]] bool has_left() const noexcept { return session == nullptr && gone; }
    [[nodiscard]] bool is_present() const noexcept {
      return session != nullptr && is_member && !waits;
    }
  };

  struct session_change {
    std::uint64_t number;
    std::uint32_t rank;
  };

  /// Returns true if agreement `with` waits for a rank.
  [[nodiscard]] static bool is_missing(const rank_state& each, const store_agreement& with) {
    const bool takes_part = each.agreement && is_same_step(*each.agreement, with);
    return !takes_part && (each.awaited != 0 || each.is_present());
  }

  [[nodiscard]] std::uint32_t size() const noexcept {
    return static_cast<std::uint32_t>(ranks.size());
  }
  [[nodiscard]] bool is_exchanging() const noexcept { return arrived != 0; }
  /// Returns the ranks for which `holds` is true.
  template <class Condition>
  [[nodiscard]] std::vector<std::uint32_t> ranks_that(Condition&& holds) const {
    std::vector<std::uint32_t> found;
    for (std::uint32_t each = 0; each < size(); ++each)
      if (holds(ranks[each])) found.push_back(each);
    return found;
  }
  /// Returns true if a member is connected.
  [[nodiscard]] bool has_present_member() const {
    return std::ranges::any_of(ranks, [](const auto& each) { return each.is_present(); });
  }
  /// Returns false if an exchange of all ranks cannot succeed any more: the group has failed while
  /// it formed.
  [[nodiscard]] bool can_form() const {
    return !failure && std::ranges::none_of(ranks, [](const auto& each) { return each.gone; });
  }
  /// Returns the members that are connected and have called an agreement.
  [[nodiscard]] std::vector<std::uint32_t> agreeing_members() const {
    return ranks_that([](const auto& each) { return each.is_counted; });
  }
  /// Returns the agreement of the members, or nullptr if no member has called one.
  [[nodiscard]] const store_agreement* current() const;
  /// Returns the ranks for which the agreement waits: connected members and awaited ranks that do
  /// not take part yet. Precondition: agreeing != 0.
  [[nodiscard]] std::vector<std::uint32_t> not_agreeing() const {
    return ranks_that([with = current()](const auto& each) { return is_missing(each, *with); });
  }
  /// Returns true if a member takes part in an agreement, and not_agreeing() is empty.
  [[nodiscard]] bool is_agreed() const;
  void begin_agreement(std::uint32_t rank, store_agreement wanted);
  void end_agreement(std::uint32_t rank) noexcept;
  /// Returns true if the members in an agreement can expel the other members, `missing`: all of
  /// `missing` are connected, and the agreeing members are more than half of the connected members,
  /// or exactly half and the highest rank is one of `missing`, as in ranks_to_leave_out().
  [[nodiscard]] bool can_expel(std::span<const std::uint32_t> missing) const;
  [[nodiscard]] std::vector<std::uint32_t> departed_members() const {
    return ranks_that([](const auto& each) { return each.is_member && each.gone; });
  }
  /// Assigns the number of the next renewal, which is not 0.
  void begin_renewal() noexcept { renewal = std::max(renewal + 1, std::uint32_t{1}); }
  /// Records that the session of a rank has changed.
  void note_change(std::uint32_t rank) noexcept;
  /// Returns the ranks whose last change has a number greater than `informed`, in the order of the
  /// changes, without connected members.
  [[nodiscard]] std::vector<std::uint32_t> changed_since(std::uint64_t informed) const;
  /// Returns the message about the next changes of one kind, and advances `informed` past them.
  /// Returns nullopt if there are no changes.
  [[nodiscard]] std::optional<blob> next_news(std::uint64_t& informed) const;

  std::string name;
  std::vector<rank_state> ranks;
  std::uint32_t members;
  std::uint64_t changes = 0;        // number of changes of sessions
  std::vector<session_change> log;  // the last change of each rank, and as many older ones
  std::uint32_t connected = 0;
  std::uint32_t agreeing = 0;              // number of members that have called an agreement
  std::uint32_t renewal = 0;               // number of the last renewal that has begun
  deadline first_end = deadline::never();  // lower bound of the deadlines of agreements
  bool has_formed = false;    // the last exchange of join(), or a later one, has succeeded
  bool has_ended = false;     // its name is free for another group
  bool is_unsettled = false;  // settle() has not completed since the last departure
  std::string exchange;
  std::uint32_t arrived = 0;
  deadline until = deadline::never();  // earliest deadline of the exchange in progress
  std::uint32_t hurried = 0;           // the rank with that deadline
  std::optional<store_failed> failure;
  published_values values;
};

}  // namespace verbena::inline VERBENA_ABI::net::detail
