// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <span>

#include "verbena/base/deadline.hpp"
#include "verbena/base/steps.hpp"
#include "verbena/channel/sink.hpp"
#include "verbena/channel/source.hpp"
#include "verbena/net/barrier_algorithm.hpp"
#include "verbena/net/reduction.hpp"

namespace verbena::inline VERBENA_ABI::net {

namespace detail {
struct group_state;
}

/// The barriers and collective operations of a group, in steps, none of which blocks.
///
///   co_await engine.complete(group.in_steps().barrier(until));
///
/// Each function begins an operation and returns its steps, which end with the result of the
/// function of group with this name; no ranks mean all members. Ranks may mix blocking functions
/// and steps. On one rank, operations in steps take place one after the other, in the order of the
/// calls; blocking ones, shrink() and readmit() return `invalid_argument` meanwhile.
///
/// The steps poll the hub and the memory of the group, because a write of another rank causes no
/// event: at first each time they are continued; after 50 us, they wait for an eighth of the time
/// that they have waited, at most 1 ms. A call allocates one or two frames of coroutines; all else
/// as the blocking function does.
///
/// *Contract*: the group, the registered memory and the elements of `ranks` must exist until the
/// steps have ended or were destroyed, and the program does not access the memory. Steps that are
/// destroyed before their end let the operation fail on all its ranks (here: ECANCELED).
///
/// Two cases block: finding the missing ranks and reporting a failure to the others, for at most
/// 0.25 s, also in the destructor of the steps; and with connect_mode::on_first_use, connecting a
/// channel.
///
/// Threads: one thread at a time, with the group.
class group_steps {
 public:
  /// Made by group::in_steps().
  explicit group_steps(detail::group_state& of) noexcept : of_(&of) {}

  /// Waits until all ranks have called barrier(); see group::barrier().
  [[nodiscard]] steps<void> barrier(deadline until,
                                    barrier_algorithm algorithm = barrier_algorithm::dissemination,
                                    std::span<const std::uint32_t> ranks = {}) const;
  /// Copies the memory of rank `root` to all ranks; see group::broadcast().
  [[nodiscard]] steps<void> broadcast(const sink& data, std::uint32_t root, deadline until,
                                      std::span<const std::uint32_t> ranks = {}) const;
  /// Gives each rank the parts of all; see group::all_gather().
  [[nodiscard]] steps<void> all_gather(const sink& data, deadline until,
                                       std::span<const std::uint32_t> ranks = {}) const;
  /// Exchanges a part with each rank; see group::all_to_all().
  [[nodiscard]] steps<void> all_to_all(const source& out, const sink& in, deadline until,
                                       std::span<const std::uint32_t> ranks = {}) const;
  /// Combines the elements of all ranks; see group::all_reduce(). Copies `with`.
  template <class T, reduces<T> Operation>
  [[nodiscard]] steps<void> all_reduce(const sink& data, Operation with, deadline until,
                                       std::span<const std::uint32_t> ranks = {}) const {
    // This object and `data` are used before the first suspension only.
    const detail::combiner<T, Operation> by(with);
    const detail::combination combined = by.combination();
    auto begun = all_reduce_by(data, combined, until, ranks);
    co_return co_await std::move(begun);
  }
  /// Combines the elements of all ranks into the memory of rank `root`; see group::reduce(). Copies
  /// `with`.
  template <class T, reduces<T> Operation>
  [[nodiscard]] steps<void> reduce(const sink& data, Operation with, std::uint32_t root,
                                   deadline until,
                                   std::span<const std::uint32_t> ranks = {}) const {
    const detail::combiner<T, Operation> by(with);
    const detail::combination combined = by.combination();
    auto begun = reduce_by(data, combined, root, until, ranks);
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
