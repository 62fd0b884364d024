// SPDX-License-Identifier: MIT
// A group: processes with ranks, each with a channel to every other one and to itself.
//
//   auto who = net::membership::from_environment().value();
//   auto group = net::group::join(pd, who, deadline::after(60s)).value();
//   auto tables = group.exchange("table", table.remote(), until).value();
//   group[1].read(sink(page), tables[1].region).value();
//   group.barrier(until).value();
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "verbena/base/deadline.hpp"
#include "verbena/base/detail/sole_owner.hpp"
#include "verbena/base/result.hpp"
#include "verbena/channel/channel.hpp"
#include "verbena/channel/channel_options.hpp"
#include "verbena/channel/completion_hub.hpp"
#include "verbena/channel/sink.hpp"
#include "verbena/channel/source.hpp"
#include "verbena/net/barrier_algorithm.hpp"
#include "verbena/net/connect_mode.hpp"
#include "verbena/net/group_steps.hpp"
#include "verbena/net/membership.hpp"
#include "verbena/net/multi_channel.hpp"
#include "verbena/net/reduction.hpp"
#include "verbena/net/store.hpp"
#include "verbena/net/store_client.hpp"
#include "verbena/verbs/protection_domain.hpp"
#include "verbena/verbs/remote_region.hpp"

namespace verbena::inline VERBENA_ABI::net {

namespace detail {
struct group_state;
void destroy(group_state& state) noexcept;
}  // namespace detail

/// Options of group::join(). Threads: immutable value.
struct group_options {
  /// Of each channel. Remote reads and writes are always permitted, since barriers need them; the
  /// access of a memory region still decides what peers can do with it.
  channel_options channels = {};
  completion_hub_options hub = {};  ///< of the completion queue of all channels
  net::store_options store = {};    ///< of the store, if this process opens it
  /// When the channels are connected. All ranks select the same.
  connect_mode connect = connect_mode::at_join;
  first_use_options first_use = {};  ///< for connect_mode::on_first_use
};

/// The ranks of a group, connected to each other.
///
/// After an error of exchange() that concerns other ranks, later exchanges return the same error.
/// After such an error of a barrier or collective operation, later barriers and collective
/// operations return the same error. shrink() ends these errors. Channels to ranks that are alive
/// stay usable. A channel to a rank that is not a member refuses operations as
/// refusal::not_connected; operation_result::delivery() of earlier ones returns whether they
/// took effect.
///
/// The members are the ranks that take part: first all ranks, then those of the last shrink() or
/// readmit(). Ranks keep their numbers, and size() does not change.
///
/// Collective operations: broadcast(), all_gather(), reduce(), all_reduce() and all_to_all(). All
/// members, or those of a list in ascending order, call the same operation with memory of equal
/// length. If two ranks take part in several barriers and collective operations together, both must
/// call them in the same order. An operation returns as soon as this rank has its result and its
/// memory is free again, possibly before other ranks have called it. While it waits, it behaves
/// like barrier().
///
/// *Contract* of the memory: that of this process, in a region of the protection domain of the
/// group that is not zero-based. Until the operation returns, the program does not access it.
///
/// Errors of collective operations: those of barrier(); `invalid_argument` if the root is not one
/// of the ranks, or if the length does not fit, before anything is sent; if the lengths, roots or
/// operations of ranks differ, `invalid_argument` names one of them. After a failure, the content
/// of the memory is unspecified. If writes in flight do not complete within 100 ms after a failure,
/// or a full send queue has no room for the failure report within 100 ms, the operation ends the
/// connection to that rank.
///
/// With connect_mode::on_first_use, join() connects no channel. The first operation that either
/// side posts connects the channel, even if the operation normally does not block. It waits for the
/// connection until its own deadline, or without a deadline until first_use_options::timeout;
/// allocates; and makes system calls. The peer needs no call: a thread of its group connects its
/// side. If the channel cannot be connected, the operation is refused as refusal::connect_failed,
/// and channel::describe() returns the cause: ECONNREFUSED if the process of the peer has ended,
/// ENOBUFS if the queue_pair_budget of one side is in use, otherwise `timed_out`. The next
/// operation tries again. The peer must be able to connect to this process by TCP, at the local
/// address of the connection to the store.
///
/// The destructor closes the connection to the store, then the channels. With
/// connect_mode::on_first_use, it first waits for the thread that accepts connections. If this
/// process has the store, it also ends the store; answers that have begun are sent, for at most 2
/// s. Ranks that still exchange then fail, so end a program with a barrier.
///
/// Threads: one thread at a time, for the group, its channels and the hub together.
class group {
 public:
  /// Joins a group: connects to the store, exchanges endpoints with all ranks, and connects a
  /// channel to each of them. Returns when all ranks have connected their channels. If
  /// `who.host` is store_host::rank_0, rank 0 opens the store first. Blocks and allocates.
  ///
  /// Errors: those of membership::check(), store::open(), store_client::connect(),
  /// store_client::exchange() and prepared_multi_channel::create(); with
  /// connect_mode::on_first_use, also those of bringup::listener::open(). If a rank does not join
  /// before `until`, or ends while others join, the error names it. If `until` is not the same for
  /// all ranks, the earliest counts.
  [[nodiscard]] static result<group> join(const protection_domain& domain, const membership& who,
                                          deadline until, const group_options& options = {});

  /// Joins again as a new process of a rank that has left, and waits until the members call
  /// readmit(). Channels to ranks that are not members refuse operations. Blocks and allocates.
  ///
  /// The store must not have ended with the old process, so it is not that of rank 0 if this is
  /// rank 0. If all ranks have left, they join a new group instead.
  ///
  /// Errors: those of store_client::connect(); `not_supported` without a store that has survived;
  /// `invalid_argument` if the old process is still connected when `until` passes; `timed_out` if
  /// the members do not call readmit() in about half of the time; those of shrink().
  [[nodiscard]] static result<group> rejoin(const protection_domain& domain, const membership& who,
                                            deadline until, const group_options& options = {});

  /// Removes the ranks that have failed, and makes the group usable again. All surviving members
  /// must call shrink(). Blocks and allocates. May exceed `until` by 5 s for each connection that
  /// does not flush.
  ///
  /// A rank is no longer a member if it has closed its connection to the store; if it does not call
  /// shrink() in about half of the time, and more than half of the connected members do, or half of
  /// them without the highest rank; or if it and another member cannot reach each other. The
  /// members then leave out as few ranks as possible. A rank that is left out gets an error, and
  /// can only end or rejoin().
  ///
  /// Channels between members stay as they are, with the operations in flight. A channel that has
  /// failed on one side, also that of this rank to itself, or that does not answer a read within 2
  /// s, is reconnected: its operations end first. A send for which the peer has posted no receive
  /// delays this read.
  ///
  /// Exchanges in progress fail with ECONNABORTED. A program that caches data of other ranks, such
  /// as remote regions, must exchange it again.
  ///
  /// Errors: `timed_out` with the members that have not called it, if too few have; ECONNABORTED if
  /// the others continue without this rank, or began again after an error; `invalid_argument` if
  /// another rank called readmit(); those of bringup::stream if the store has
  /// ended. shrink() can be called again after an error, unless this rank was left out.
  [[nodiscard]] result<void> shrink(deadline until);
  /// Does the same as shrink(), and makes all ranks that wait in rejoin() members, at least
  /// `ranks`. All members that are alive call it, with the same ranks.
  ///
  /// Errors: those of shrink(), except that connected members that do not call it are not left out;
  /// `timed_out` if one of `ranks` does not call rejoin(): the members then stay the same.
  /// `invalid_argument` if one of `ranks` is not less than size(). ECONNABORTED if one of `ranks`
  /// has left again: the group works without it.
  [[nodiscard]] result<void> readmit(std::span<const std::uint32_t> ranks, deadline until);

  /// Returns the members in ascending order. Valid until shrink(), readmit() or a move.
  [[nodiscard]] std::span<const std::uint32_t> members() const noexcept;
  /// Returns the ranks that wait in rejoin(); see store_client::returning().
  [[nodiscard]] std::span<const std::uint32_t> returning();

  /// Returns the rank of this process.
  [[nodiscard]] std::uint32_t rank() const noexcept;
  /// Returns the number of ranks, including those that are not members.
  [[nodiscard]] std::uint32_t size() const noexcept;
  /// Returns the ranks that have ended or left; see store_client::departed().
  [[nodiscard]] std::span<const std::uint32_t> departed();
  /// Returns the channel to `rank`, which may be rank(). Precondition: rank < size().
  [[nodiscard]] channel& operator[](std::uint32_t rank) { return channels()[rank]; }
  /// Returns the channels to all ranks.
  [[nodiscard]] multi_channel& channels() noexcept;
  /// Returns counters of connections on first use; all are 0 with connect_mode::at_join.
  [[nodiscard]] first_use_statistics connections() const;

  /// Contributes bytes, and returns those of all ranks, in the order of the ranks; see
  /// store_client::exchange().
  [[nodiscard]] result<std::vector<exchanged_bytes>> exchange(std::string_view name,
                                                              std::span<const std::byte> for_all,
                                                              deadline until);
  /// Contributes a region, and returns those of all ranks: the element r is that of rank r. A rank
  /// without memory contributes a default-constructed region.
  ///
  /// Errors: those of the overload for bytes; `protocol` names a rank that contributed no region.
  [[nodiscard]] result<std::vector<peer_region>> exchange(std::string_view name,
                                                          const remote_region& mine,
                                                          deadline until);

  /// Publishes bytes, or a region, under a name of this rank, for find() of all ranks; see
  /// store_client::publish(). Blocks, without delivering completions.
  ///
  /// Before the memory of a region is freed, withdraw() its name, and make sure that no rank still
  /// uses it, for example by a barrier.
  /// @{
  [[nodiscard]] result<void> publish(std::string_view name, std::span<const std::byte> value,
                                     deadline until);
  [[nodiscard]] result<void> publish(std::string_view name, const remote_region& mine,
                                     deadline until);
  /// @}
  /// Removes a name of this rank; see store_client::withdraw().
  [[nodiscard]] result<void> withdraw(std::string_view name, deadline until);
  /// Returns the bytes that `rank` has published under `name`; waits until it has. See
  /// store_client::find(). Blocks, without delivering completions.
  [[nodiscard]] result<exchanged_bytes> find(std::uint32_t rank, std::string_view name,
                                             deadline until);
  /// Returns the region that `rank` has published under `name`; waits until it has.
  ///
  /// Errors: those of find(); `protocol` if the value is no region.
  [[nodiscard]] result<peer_region> find_region(std::uint32_t rank, std::string_view name,
                                                deadline until);

  /// Returns the barriers and collective operations in steps, for coroutines and event loops.
  [[nodiscard]] group_steps in_steps() const { return group_steps(state()); }

  /// Waits until all ranks have called barrier(). Writes that have completed on any rank before its
  /// call are then visible on all ranks. Polls without sleeping; delivers completions of other
  /// operations, so that it can be called while operations are in flight, and in a scope.
  ///
  /// A notification is executed after earlier operations on the same channel: a send for which the
  /// peer has not posted a receive delays the barrier.
  ///
  /// Posts at most size() requests at once. Yields the processor while it waits, and every 2 ms
  /// reads from the connection to the store without blocking. Allocates at the first barrier of a
  /// set of ranks, when the store reports a departed rank, and for errors.
  ///
  /// Errors: `timed_out` with the ranks that have not called it. To find them, the function reads
  /// the memory of the other ranks in the last eighth of the time, at most 50 ms. If a rank cannot
  /// be reached, the completion status of the write, with the rank. ECONNABORTED if another rank
  /// failed in a barrier with this one: its error has the cause. `invalid_argument` if another rank
  /// named other ranks or another algorithm.
  [[nodiscard]] result<void> barrier(
      deadline until, barrier_algorithm algorithm = barrier_algorithm::dissemination);
  /// Waits until all of `ranks` have called barrier() with the same ranks and algorithm. If two
  /// ranks take part in several barriers and collective operations together, both must call them in
  /// the same order. With one rank, returns at once.
  ///
  /// Errors: also `invalid_argument` if the ranks are not in ascending order, repeat a rank, or
  /// lack rank(). These errors do not make the group fail.
  [[nodiscard]] result<void> barrier(
      std::span<const std::uint32_t> ranks, deadline until,
      barrier_algorithm algorithm = barrier_algorithm::dissemination);

  /// Copies the memory of rank `root` to all ranks. See Collective operations; the same holds for
  /// the `ranks` of all of them, where no ranks means all.
  [[nodiscard]] result<void> broadcast(const sink& data, std::uint32_t root, deadline until,
                                       std::span<const std::uint32_t> ranks = {});
  /// Gives each rank the parts of all. The memory has a part of equal length for each rank; the
  /// rank with index i in the list has set part i.
  [[nodiscard]] result<void> all_gather(const sink& data, deadline until,
                                        std::span<const std::uint32_t> ranks = {});
  /// Sends part i of `out` to the rank with index i in the list, and receives its part for this
  /// rank as part i of `in`. Precondition: the memory of `out` and `in` does not overlap.
  [[nodiscard]] result<void> all_to_all(const source& out, const sink& in, deadline until,
                                        std::span<const std::uint32_t> ranks = {});
  /// Combines the elements of type T of all ranks by `with`, for example `std::plus<>()`. All ranks
  /// receive the same result, bit by bit. The order of the operands depends on the number of
  /// ranks and the length only. Up to 16 KiB by recursive doubling, otherwise in a ring.
  template <class T, reduces<T> Operation>
  [[nodiscard]] result<void> all_reduce(const sink& data, const Operation& with, deadline until,
                                        std::span<const std::uint32_t> ranks = {}) {
    const detail::combiner<T, Operation> by(with);
    return all_reduce_by(data, by.combination(), until, ranks);
  }
  /// Combines the elements of all ranks into the memory of rank `root`. Afterwards the content of
  /// the memory of the other ranks is unspecified.
  template <class T, reduces<T> Operation>
  [[nodiscard]] result<void> reduce(const sink& data, const Operation& with, std::uint32_t root,
                                    deadline until, std::span<const std::uint32_t> ranks = {}) {
    const detail::combiner<T, Operation> by(with);
    return reduce_by(data, by.combination(), root, until, ranks);
  }

 private:
  explicit group(detail::group_state* state) noexcept : state_(state) {}
  // Returns an error while an operation in steps is in progress.
  [[nodiscard]] result<void> check_idle(const char* call) const;
  [[nodiscard]] result<void> all_reduce_by(const sink& data, const detail::combination& with,
                                           deadline until, std::span<const std::uint32_t> ranks);
  [[nodiscard]] result<void> reduce_by(const sink& data, const detail::combination& with,
                                       std::uint32_t root, deadline until,
                                       std::span<const std::uint32_t> ranks);
  [[nodiscard]] detail::group_state& state() const;

  verbena::detail::sole_owner<detail::group_state> state_;
};

}  // namespace verbena::inline VERBENA_ABI::net
