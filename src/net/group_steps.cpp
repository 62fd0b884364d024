// SPDX-License-Identifier: MIT
#include "verbena/net/group_steps.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <utility>

#include "src/net/board_turn.hpp"
#include "src/net/collectives.hpp"
#include "src/net/group_state.hpp"
#include "src/net/renewal.hpp"
#include "src/net/step_pauses.hpp"

namespace verbena::inline VERBENA_ABI::net {
// Types in coroutine frames are not in an unnamed namespace, because g++ 12 warns about them in
// unity builds (-Wsubobject-linkage).
namespace detail {

/// The arguments of an operation in steps. Threads: immutable value.
struct collective_call {
  enum class kind : std::uint8_t {
    barrier,
    broadcast,
    all_gather,
    all_to_all,
    all_reduce,
    reduce,
  };

  kind what;
  operation_name name;
  std::span<const std::uint32_t> ranks;
  deadline until;
  registered_bytes bytes = {};
  registered_bytes out = {};  // of all_to_all
  std::uint32_t root = 0;
  const combination* with = nullptr;
  barrier_algorithm algorithm = barrier_algorithm::dissemination;

  [[nodiscard]] result<collective> begin(const participants& of) const {
    switch (what) {
      case kind::broadcast:
        return begin_broadcast(of, bytes, root);
      case kind::all_gather:
        return begin_all_gather(of, bytes);
      case kind::all_to_all:
        return begin_all_to_all(of, out, bytes);
      case kind::all_reduce:
        return begin_all_reduce(of, bytes, *with);
      case kind::reduce:
        return begin_reduce(of, bytes, root, *with);
      case kind::barrier:
        break;
    }
    return begin_barrier(of, algorithm);
  }
};

namespace {

/// An operation in steps that is queued. If its steps are destroyed before the operation begins,
/// the destructor makes the operation fail on all its ranks. Threads: one thread at a time, with
/// the board.
class queued_operation {
 public:
  queued_operation(const participants& of, operation_name name) noexcept : of_(of), name_(name) {}
  queued_operation(const queued_operation&) = delete;
  queued_operation& operator=(const queued_operation&) = delete;
  ~queued_operation() {
    if (!has_left_ && !are_members_changed()) of_.board.give_up(of_, name_);
  }

  /// Records that the operation leaves the queue.
  void leave() noexcept { has_left_ = true; }
  /// Returns true if shrink() or readmit() has changed the epoch since the operation was queued.
  [[nodiscard]] bool are_members_changed() const noexcept { return of_.board.epoch() != epoch_; }
  /// Removes the operation from the queue and returns its error.
  [[nodiscard]] error fail_after_change() {
    leave();
    if (of_.board.failure()) return *of_.board.failure();
    return error::from_errno(
        ECANCELED, name_.function, fmt::format("rank {}", of_.client.rank()),
        fmt::format("the members of the group changed before {} began; call it again", name_.noun));
  }
  [[nodiscard]] error fail_late() {
    leave();
    return of_.board.give_up(
        of_, name_,
        error::timed_out(name_.function, fmt::format("rank {}", of_.client.rank()),
                         "earlier barriers and collective operations of this rank had not ended "
                         "when the deadline passed"));
  }

 private:
  const participants& of_;
  operation_name name_;
  std::uint32_t epoch_ = of_.board.epoch();
  bool has_left_ = false;
};

// Waits until the earlier operations of this rank have ended, then runs the operation.
steps<void> run_in_steps(group_state& in, collective_call of) {
  const board_turn turn(in.board);
  const participants who{.board = in.board,
                         .channels = in.channels,
                         .client = in.client,
                         .ranks = of.ranks.empty() ? in.members : of.ranks,
                         .until = of.until,
                         .turn = &turn};
  queued_operation queued(who, of.name);
  step_pauses pauses;
  while (true) {
    if (queued.are_members_changed()) co_return queued.fail_after_change();
    if (turn.has_come()) break;
    if (of.until.expired()) co_return queued.fail_late();
    VERBENA_CO_TRY_DISCARD(co_await verbena::detail::expiry(pauses.next(of.until)));
  }
  renewal::take_late_answer(in);
  result<collective> begun = of.begin(who);
  queued.leave();
  if (!begun) co_return std::move(begun).error();
  running_operation running(in.board, *begun);
  pauses.restart();
  while (true) {
    const std::uint64_t moves = begun->moves;
    const result<bool> has_ended = in.board.poll(*begun);
    if (!has_ended.has_value() || *has_ended) {
      running.end();
      if (!has_ended.has_value()) co_return has_ended.error();
      co_return {};
    }
    if (begun->moves != moves) pauses.restart();
    VERBENA_CO_TRY_DISCARD(co_await verbena::detail::expiry(pauses.next(begun->give_up)));
  }
}

}  // namespace

}  // namespace detail

using detail::collective_call;
using detail::registered_bytes;
using detail::run_in_steps;
using kind = collective_call::kind;

steps<void> group_steps::barrier(deadline until, barrier_algorithm algorithm,
                                 const detail::lasting_ranks& ranks) const {
  return run_in_steps(*of_, {.what = kind::barrier,
                             .name = {"barrier", "a barrier"},
                             .ranks = ranks.get(),
                             .until = until,
                             .algorithm = algorithm});
}

steps<void> group_steps::broadcast(const sink& data, std::uint32_t root, deadline until,
                                   const detail::lasting_ranks& ranks) const {
  return run_in_steps(*of_, {.what = kind::broadcast,
                             .name = {"broadcast", "a broadcast"},
                             .ranks = ranks.get(),
                             .until = until,
                             .bytes = registered_bytes(data),
                             .root = root});
}

steps<void> group_steps::all_gather(const sink& data, deadline until,
                                    const detail::lasting_ranks& ranks) const {
  return run_in_steps(*of_, {.what = kind::all_gather,
                             .name = {"all_gather", "an all_gather"},
                             .ranks = ranks.get(),
                             .until = until,
                             .bytes = registered_bytes(data)});
}

steps<void> group_steps::all_to_all(const source& out, const sink& in, deadline until,
                                    const detail::lasting_ranks& ranks) const {
  return run_in_steps(*of_, {.what = kind::all_to_all,
                             .name = {"all_to_all", "an all_to_all"},
                             .ranks = ranks.get(),
                             .until = until,
                             .bytes = registered_bytes(in),
                             .out = registered_bytes(out)});
}

steps<void> group_steps::all_reduce_by(const sink& data, const detail::combination& with,
                                       deadline until, std::span<const std::uint32_t> ranks) const {
  return run_in_steps(*of_, {.what = kind::all_reduce,
                             .name = {"all_reduce", "an all_reduce"},
                             .ranks = ranks,
                             .until = until,
                             .bytes = registered_bytes(data),
                             .with = &with});
}

steps<void> group_steps::reduce_by(const sink& data, const detail::combination& with,
                                   std::uint32_t root, deadline until,
                                   std::span<const std::uint32_t> ranks) const {
  return run_in_steps(*of_, {.what = kind::reduce,
                             .name = {"reduce", "a reduce"},
                             .ranks = ranks,
                             .until = until,
                             .bytes = registered_bytes(data),
                             .root = root,
                             .with = &with});
}

}  // namespace verbena::inline VERBENA_ABI::net
