// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <span>

#include "verbena/base/deadline.hpp"
#include "verbena/base/steps.hpp"
#include "verbena/channel/sink.hpp"
#include "verbena/channel/source.hpp"
#include "verbena/net/barrier_algorithm.hpp"
#include "verbena/net/peer_operations.hpp"
#include "verbena/net/reduction.hpp"

namespace verbena::inline VERBENA_ABI::net {

namespace detail {
struct group_state;
/// An empty list of ranks.
inline constexpr std::span<const std::uint32_t> all_members{};
}  // namespace detail

/// The barriers and collective operations of a group, as operations in steps. No step blocks,
/// except in the cases below.
///
///   co_await engine.complete(group.in_steps().barrier(until));
///
/// Each function starts an operation and returns its steps. Result and errors are those of the
/// function of group with the same name. If `ranks` is empty, all members take part. Some ranks may
/// use steps while others call the blocking function. On one rank, operations in steps run one at a
/// time, in call order. Until all have ended, blocking barriers and collective operations return
/// `invalid_argument`, and so do shrink() and readmit(). After a failure, shrink() and readmit()
/// return `invalid_argument` only while an operation is in progress; queued operations then fail
/// with ECANCELED.
///
/// A write by another rank generates no event, so the steps poll the hub and the memory of the
/// group. During the first 50 us without progress, they poll each time they are continued. Then
/// they pause for an eighth of the time waited so far, at least 20 us and at most 1 ms. A call
/// allocates one coroutine frame; all_reduce() and reduce() allocate two. Other allocations are
/// those of the blocking function.
///
/// *Contract*: until the steps have ended or are destroyed, the group, the registered memory and
/// the elements of `ranks` exist, and the program does not access the memory. If the steps are
/// destroyed early, the operation fails on all its ranks, on this rank with ECANCELED. If the
/// deadline of a queued operation passes, the operation also fails on all its ranks. A queued
/// operation that fails also fails the operation in progress.
///
/// Two cases block. First, finding the missing ranks and reporting a failure to the other ranks,
/// also in the destructor of the steps: usually at most 0.25 s, up to 5 s more for each connection
/// that does not flush, and up to 1 s more with connect_mode::on_first_use. Second, connecting a
/// channel with on_first_use: at most 5 s per step.
///
/// Threads: one thread at a time, with the group.
class group_steps {
 public:
  /// Made by group::in_steps().
  explicit group_steps(detail::group_state& of) noexcept : of_(&of) {}

  /// Waits until all members have called barrier(); see group::barrier().
  [[nodiscard]] steps<void> barrier(deadline until,
                                    barrier_algorithm algorithm = barrier_algorithm::dissemination,
                                    const detail::lasting_ranks& ranks = detail::all_members) const;
  /// Copies the buffer of rank `root` to all members; see group::broadcast().
  [[nodiscard]] steps<void> broadcast(
      const sink& data, std::uint32_t root, deadline until,
      const detail::lasting_ranks& ranks = detail::all_members) const;
  /// Gathers the parts of all members on each member; see group::all_gather().
  [[nodiscard]] steps<void> all_gather(
      const sink& data, deadline until,
      const detail::lasting_ranks& ranks = detail::all_members) const;
  /// Exchanges a part with each member; see group::all_to_all().
  [[nodiscard]] steps<void> all_to_all(
      const source& out, const sink& in, deadline until,
      const detail::lasting_ranks& ranks = detail::all_members) const;
  /// Combines the elements of all members; see group::all_reduce(). Copies `with`.
  template <class T, reduces<T> Operation>
  [[nodiscard]] steps<void> all_reduce(
      const sink& data, Operation with, deadline until,
      const detail::lasting_ranks& ranks = detail::all_members) const {
    // This object and `data` are used only before the first suspension.
    const detail::combiner<T, Operation> by(with);
    const detail::combination combined = by.combination();
    auto begun = all_reduce_by(data, combined, until, ranks.get());
    co_return co_await std::move(begun);
  }
  /// Combines the elements of all members into the buffer of rank `root`; see group::reduce().
  /// Copies `with`.
  template <class T, reduces<T> Operation>
  [[nodiscard]] steps<void> reduce(const sink& data, Operation with, std::uint32_t root,
                                   deadline until,
                                   const detail::lasting_ranks& ranks = detail::all_members) const {
    const detail::combiner<T, Operation> by(with);
    const detail::combination combined = by.combination();
    auto begun = reduce_by(data, combined, root, until, ranks.get());
    co_return co_await std::move(begun);
  }

 private:
  // `with` must exist until the steps have ended.
  [[nodiscard]] steps<void> all_reduce_by(const sink& data, const detail::combination& with,
                                          deadline until,
                                          std::span<const std::uint32_t> ranks) const;
  [[nodiscard]] steps<void> reduce_by(const sink& data, const detail::combination& with,
                                      std::uint32_t root, deadline until,
                                      std::span<const std::uint32_t> ranks) const;

  detail::group_state* of_;
};

}  // namespace verbena::inline VERBENA_ABI::net
