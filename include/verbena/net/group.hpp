// SPDX-License-Identifier: MIT
// A group: processes with ranks, each with a channel to every rank, including itself.
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

class rail_region;

namespace detail {
class rail_meeting;
struct group_state;
void destroy(group_state& state) noexcept;
}  // namespace detail

/// Options of group::join(). Threads: immutable value.
struct group_options {
  /// Options of each channel. Remote reads and writes are always enabled on the queue pairs, since
  /// barriers need them. The access flags of a memory region still limit the access of peers.
  channel_options channels = {};
  completion_hub_options hub = {};  ///< options of the shared completion queue
  net::store_options store = {};    ///< options of the store, if this process opens it
  /// Selects when the channels are connected. All ranks must use the same mode.
  connect_mode connect = connect_mode::at_join;
  first_use_options first_use = {};  ///< for connect_mode::on_first_use
};

/// The ranks of a group, connected to each other.
///
/// A barrier, collective operation or exchange can succeed on some members and fail on others.
/// After shrink(), exchange the progress of the program before it continues.
///
/// After an error of exchange() that concerns other ranks, later exchanges return the same error.
/// After such an error of a barrier or collective operation, later barriers and collective
/// operations return the same error. shrink() ends these errors. Channels to ranks whose processes
/// are alive remain usable. A channel to a rank that is not a member refuses operations as
/// refusal::not_connected; operation_result::delivery() of an earlier operation returns whether the
/// operation took effect.
///
/// The members are the ranks that take part in operations of the group: initially all ranks, then
/// the result of the last shrink() or readmit(). Ranks keep their numbers, and size() does not
/// change.
///
/// Collective operations: broadcast(), all_gather(), reduce(), all_reduce() and all_to_all(). All
/// members, or all ranks of a list in ascending order, call the same operation with buffers of
/// equal length. An empty list means all members. If two ranks take part in several barriers and
/// collective operations together, both must call them in the same order. An operation returns as
/// soon as this rank has its result and the operation no longer uses its buffer, possibly before
/// other ranks have called it. While an operation waits, it polls like barrier().
///
/// *Contract* of a buffer: it belongs to this process, is registered in the protection domain of
/// the group, and its region is not zero-based. Until the operation returns, the program does not
/// access the buffer.
///
/// Errors of collective operations: those of barrier(); `invalid_argument`, before anything is
/// sent, if the root is not one of the ranks, if the length is not a multiple of the element size
/// or of the number of ranks, or if the buffer is not aligned for the elements; `invalid_argument`
/// with the arguments of both ranks if a rank receives a message of another operation. After a
/// failure, the content of the buffer is unspecified. The operation ends the connection to a rank
/// if, after a failure, a write in flight that reads the buffer does not complete within 100 ms, or
/// if the send queue stays full for 100 ms, so that the failure cannot be reported.
///
/// A message shows the function, the ranks, the length, the root, the element size, whether the
/// elements are signed, unsigned or floating-point, and the operator if it is a function object of
/// the standard library or of Verbena. Equal operators and element types of the program are the
/// duty of the caller. So are equal arguments of ranks that send each other no message.
///
/// Memory: the group registers 32.2 KiB for each rank, including ranks that are not members, and
/// 1.2 KiB. Pages of payload slots, 32 KiB for each rank, are touched only by collective
/// operations.
///
/// With connect_mode::on_first_use, join() connects no channel. The first operation that either
/// side posts connects the channel, even if the operation normally does not block. The operation
/// waits for the connection until its own deadline, or without a deadline for at most
/// first_use_options::timeout. It allocates and makes system calls. The program of the peer calls
/// nothing: a thread of the peer's group connects its side. If the channel cannot be connected, the
/// operation is refused as refusal::connect_failed, and channel::describe() returns the cause:
/// ECONNREFUSED if the process of the peer has ended or left the group, ENOBUFS if the
/// queue_pair_budget of one side is exhausted, `timed_out` if the peer does not accept in time,
/// otherwise that of the local queue pair. May exceed the deadline by 2 s while it waits for the
/// confirmation of the peer. If the budget of this process is exhausted, the operation first closes
/// up to two connections of this group that have nothing in flight on either side, in the order in
/// which they were last connected or attached; see close_idle().
/// The next operation tries to connect again. The peer must be able to connect to this process by
/// TCP, at first_use_options::host or, if that is empty, at the local address of the connection to
/// the store.
///
/// The destructor closes the connection to the store, then the channels. With
/// connect_mode::on_first_use, it first waits for the thread that accepts connections. If this
/// process has the store, the destructor also stops the store, after it has spent at most 2 s on
/// replies in progress. Exchanges of other ranks that are still in progress then fail. To prevent
/// this, end a program with a barrier. After a failed collective operation, connections that still
/// have operations in flight end, also those of operations that outlive the group.
///
/// Threads: one thread at a time, for the group, its channels and the hub together.
class group {
 public:
  /// Joins a group: connects to the store, exchanges endpoints with all ranks, and connects a
  /// channel to each of them. Returns when all ranks have connected their channels. Unless
  /// `who.host` is store_host::separate, rank 0 opens the store first. Blocks and allocates.
  ///
  /// Errors: those of membership::check(), store::open(), store_client::connect(),
  /// store_client::exchange() and prepared_multi_channel::create(); with
  /// connect_mode::on_first_use, also those of bringup::listener::open(), `invalid_argument` for
  /// first_use_options that are out of range, and `protocol` if only some ranks have a loopback
  /// address. With store_host::pmix and store_host::etcd: `not_supported` if this library was built
  /// without PMIx or libcurl; `unavailable` if libpmix.so.2 or libcurl.so.4 is not installed;
  /// `timed_out` if the store is not found, or an errno if it cannot be reached. If a rank does not
  /// join before `until`, or ends while others join, the error names the rank. If the ranks pass
  /// different deadlines, the earliest one applies.
  [[nodiscard]] static result<group> join(const protection_domain& domain, const membership& who,
                                          deadline until, const group_options& options = {});

  /// Joins again as a new process of a rank that has left, and waits until the members call
  /// readmit(). Channels to ranks that are not members refuse operations. Blocks and allocates.
  ///
  /// The store must still exist. Therefore rank 0 can rejoin only with store_host::separate, and
  /// store_host::pmix does not support rejoin(). If all ranks have left, they join a new group
  /// instead.
  ///
  /// Errors: those of store_client::connect(); `not_supported` if the store ended with the old
  /// process, or with store_host::pmix; `invalid_argument` if the old process is still connected
  /// when `until` passes, or if no member is connected to the store; `timed_out` if the members do
  /// not call readmit() within about half of the time; those of shrink().
  [[nodiscard]] static result<group> rejoin(const protection_domain& domain, const membership& who,
                                            deadline until, const group_options& options = {});

  /// Removes failed ranks and makes the group usable again. All surviving members must call
  /// shrink(). Blocks and allocates. May exceed `until` by 5 s for each connection that does not
  /// flush.
  ///
  /// A rank is removed in three cases. First, it has closed its connection to the store. Second, it
  /// does not call shrink() within about half of the time, and more than half of the connected
  /// members do; if exactly half of them do, they continue only if the highest connected rank is
  /// not among them. Third, it and another member cannot reach each other; the rank with the most
  /// unreachable peers is removed first. A removed rank receives an error; afterwards it can only
  /// end, or call rejoin().
  ///
  /// Working channels between members are unaffected, including their operations in flight. A
  /// channel is reconnected if it has failed on one side, or if a read on it does not complete
  /// within 2 s, or within a quarter of the time if that is less. This includes the channel of this
  /// rank to itself. The operations of a reconnected channel end first. A send for which the peer
  /// has posted no receive delays the read.
  ///
  /// Exchanges in progress fail with ECONNABORTED. So do barriers and collective operations of
  /// other members that wait for this rank, if the channel to this rank is connected; the error
  /// names this rank, and its receiver must call shrink(). A program that caches data of other
  /// ranks, such as remote regions, must exchange the data again.
  ///
  /// If the store does not answer within a fifth of the time, shrink() fails and interrupts no
  /// operation. If shrink() fails later and the members are unchanged, later operations of this
  /// rank are unaffected, except with members whose operations it has interrupted. If the answer of
  /// the store to the agreement of the members does not arrive, this rank may be in an earlier
  /// state than the others: its barriers, collective operations and exchanges fail until shrink()
  /// succeeds, or until a late answer arrives that states that the members are unchanged.
  ///
  /// Errors: `timed_out` with the members that have not called shrink(), if too few have;
  /// ECONNABORTED if the other members continue without this rank, or have restarted shrink() after
  /// an error; `invalid_argument` if another rank called readmit(), or if an operation in steps is
  /// in progress; those of bringup::stream if the store has ended; `timed_out` if the store does
  /// not answer. shrink() can be called again after an error, unless this rank was removed.
  [[nodiscard]] result<void> shrink(deadline until);
  /// Does the same as shrink(), and adds all ranks that wait in rejoin(). Waits until each of
  /// `ranks` has called rejoin(). All members that are alive must call readmit() with the same
  /// ranks. Blocks and allocates.
  ///
  /// Errors: those of shrink(), with one difference: connected members that do not call readmit()
  /// are not removed. If one of them, or one of `ranks`, does not call in time, the error is
  /// `timed_out`, and the members are unchanged. `invalid_argument` if one of `ranks` is not less
  /// than size().
  /// ECONNABORTED if one of `ranks` has left again; the group continues without that rank.
  [[nodiscard]] result<void> readmit(std::span<const std::uint32_t> ranks, deadline until);

  /// Returns the members in ascending order. Valid until shrink(), readmit() or a move.
  [[nodiscard]] std::span<const std::uint32_t> members() const noexcept;
  /// Returns the ranks that wait in rejoin(); see store_client::returning(). Valid until the next
  /// call of a function of the group. readmit() accepts the result.
  [[nodiscard]] std::span<const std::uint32_t> returning();

  /// Returns the rank of this process.
  [[nodiscard]] std::uint32_t rank() const noexcept;
  /// Returns the number of ranks, including those that are not members.
  [[nodiscard]] std::uint32_t size() const noexcept;
  /// Returns the ranks that have ended or left; see store_client::departed(). Valid until the next
  /// call of a function of the group.
  [[nodiscard]] std::span<const std::uint32_t> departed();
  /// Returns the channel to `rank`, which may be rank(). Precondition: rank < size().
  [[nodiscard]] channel& operator[](std::uint32_t rank) { return channels()[rank]; }
  /// Returns the channels to all ranks.
  [[nodiscard]] multi_channel& channels() noexcept;
  /// Returns the counters of connections on first use; all are 0 with connect_mode::at_join. Locks.
  [[nodiscard]] first_use_statistics connections() const;
  /// Closes idle connections. Returns the number of connections that this call has closed; 0 with
  /// connect_mode::at_join. Blocks at most until `until` and allocates.
  ///
  /// Detaches the queue pair from each channel that has nothing in flight; the next operation
  /// attaches it again. If a queue pair is still detached at the next call, that call asks the peer
  /// to close the connection. The peer refuses while its own channel has the queue pair: if both
  /// sides have used a connection, both must call close_idle(), twice. The next operation connects
  /// the channel again. Skips a channel that has failed, that has operations or receives in flight,
  /// or on which the program has called the non-const channel::qp().
  ///
  /// While a queue pair is detached, free_sends() and free_receives() return 0, and flush() has no
  /// effect. An operation for which the queue_pair_budget is exhausted also detaches queue pairs of
  /// other channels of the group.
  ///
  /// Asks one peer after the other by TCP, at most 2 s each. If a peer does not answer, the
  /// connection stays, and the next operation on the channel asks again.
  std::uint32_t close_idle(deadline until);

  /// Contributes bytes and returns the bytes of all ranks, in rank order; see
  /// store_client::exchange().
  [[nodiscard]] result<std::vector<exchanged_bytes>> exchange(std::string_view name,
                                                              std::span<const std::byte> for_all,
                                                              deadline until);
  /// Contributes a region and returns the regions of all ranks: element r is the region of rank r.
  /// A rank without memory contributes a default-constructed region. The element of a rank that is
  /// not a member is default-constructed.
  ///
  /// Errors: those of the overload for bytes; `protocol` with the rank that contributed bytes that
  /// are not a region.
  [[nodiscard]] result<std::vector<peer_region>> exchange(std::string_view name,
                                                          const remote_region& mine,
                                                          deadline until);
  /// Contributes memory of rails and returns that of all ranks, in rank order; see group_rails. A
  /// rank without memory contributes a default-constructed region. Errors: as the overload for a
  /// remote_region.
  [[nodiscard]] result<std::vector<rail_region>> exchange(std::string_view name,
                                                          const rail_region& mine, deadline until);

  /// Publishes bytes or a region under a name of this rank, for find() on all ranks; see
  /// store_client::publish(). Blocks and allocates. Meanwhile,
  /// operations of the channels make no progress.
  ///
  /// Before the program frees the memory of a published region, it must withdraw() the name and
  /// ensure that no rank still uses the region, for example with a barrier.
  /// @{
  [[nodiscard]] result<void> publish(std::string_view name, std::span<const std::byte> value,
                                     deadline until);
  [[nodiscard]] result<void> publish(std::string_view name, const remote_region& mine,
                                     deadline until);
  /// @}
  /// Removes a name of this rank; see store_client::withdraw().
  [[nodiscard]] result<void> withdraw(std::string_view name, deadline until);
  /// Returns the bytes that `rank` has published under `name`. Waits until they are published; see
  /// store_client::find(). Blocks and allocates. Meanwhile,
  /// operations of the channels make no progress.
  [[nodiscard]] result<exchanged_bytes> find(std::uint32_t rank, std::string_view name,
                                             deadline until);
  /// Returns the region that `rank` has published under `name`. Waits until it is published.
  ///
  /// Errors: those of find(); `protocol` if the value is not a region.
  [[nodiscard]] result<peer_region> find_region(std::uint32_t rank, std::string_view name,
                                                deadline until);

  /// Returns the barriers and collective operations in steps, for coroutines and event loops.
  [[nodiscard]] group_steps in_steps() const { return group_steps(state()); }

  /// Waits until all members have called barrier(). Writes that have completed on a member before
  /// its call are then visible on all members. Polls without sleeping. Other operations of the
  /// channels make progress, so barrier() can be called while operations are in flight and inside a
  /// scope.
  ///
  /// A notification is executed after earlier operations on the same channel. Therefore, a send for
  /// which the peer has not posted a receive delays the barrier.
  ///
  /// Has at most size() requests in flight. While it waits, it yields the processor, and reads from
  /// the connection to the store every 2 ms without blocking. Allocates in the first barrier of a
  /// set of ranks, when the store reports a departed rank, and for errors.
  ///
  /// Errors: `timed_out` with the ranks that have not called barrier(). To find these ranks, the
  /// function reads memory of the other ranks during the last eighth of the time, at most 50 ms. If
  /// a rank cannot be reached: the completion status of the write, with the rank. ECONNABORTED if
  /// another rank failed in a barrier with this rank; the error on that rank has the cause.
  /// ECONNABORTED with the rank if an awaited rank has left the group. `invalid_argument` if
  /// another rank passed other ranks or another algorithm, or if an operation in steps is in
  /// progress.
  [[nodiscard]] result<void> barrier(
      deadline until, barrier_algorithm algorithm = barrier_algorithm::dissemination);
  /// Waits until all of `ranks` have called barrier() with the same ranks and algorithm. Empty
  /// `ranks` means all members. If two
  /// ranks take part in several barriers and collective operations together, both must call them in
  /// the same order. With one rank, returns immediately.
  ///
  /// Errors: those of the overload for all members; `invalid_argument` if the ranks are not in
  /// ascending order, contain a duplicate or a rank that is not a member, or do not contain rank().
  /// These errors do not make later operations fail.
  [[nodiscard]] result<void> barrier(
      std::span<const std::uint32_t> ranks, deadline until,
      barrier_algorithm algorithm = barrier_algorithm::dissemination);

  /// Copies the buffer of rank `root` to all members. The class comment describes buffers, errors
  /// and blocking of all collective operations. With a list, `ranks` replace the members in all of
  /// them.
  [[nodiscard]] result<void> broadcast(const sink& data, std::uint32_t root, deadline until,
                                       std::span<const std::uint32_t> ranks = {});
  /// Gathers the parts of all members on each member. A part has the length of the buffer, divided
  /// by the number of ranks of the operation. After shrink() or readmit(), parts of all members
  /// therefore have another length and place. Before the call, the rank with index i in the list,
  /// or in members(), stores its bytes in part i.
  [[nodiscard]] result<void> all_gather(const sink& data, deadline until,
                                        std::span<const std::uint32_t> ranks = {});
  /// Sends part i of `out` to the rank with index i in the list, or in members(). Receives the part
  /// of that rank for this rank as part i of `in`. Parts have the length of those of all_gather().
  /// Precondition: `out` and `in` do not overlap.
  [[nodiscard]] result<void> all_to_all(const source& out, const sink& in, deadline until,
                                        std::span<const std::uint32_t> ranks = {});
  /// Combines the elements of type T of all members by `with`, for example `std::plus<>()`. All
  /// receive the same result, bit for bit. The order of the operands depends only on the number of
  /// ranks and the length. Up to 16 KiB, or with at most two ranks, uses recursive doubling,
  /// otherwise a ring.
  template <class T, reduces<T> Operation>
  [[nodiscard]] result<void> all_reduce(const sink& data, const Operation& with, deadline until,
                                        std::span<const std::uint32_t> ranks = {}) {
    const detail::combiner<T, Operation> by(with);
    return all_reduce_by(data, by.combination(), until, ranks);
  }
  /// Combines the elements of all members into the buffer of rank `root`. Afterwards, the contents
  /// of the buffers of the other members are unspecified.
  template <class T, reduces<T> Operation>
  [[nodiscard]] result<void> reduce(const sink& data, const Operation& with, std::uint32_t root,
                                    deadline until, std::span<const std::uint32_t> ranks = {}) {
    const detail::combiner<T, Operation> by(with);
    return reduce_by(data, by.combination(), root, until, ranks);
  }

 private:
  friend class detail::rail_meeting;
  explicit group(detail::group_state* state) noexcept : state_(state) {}
  // Returns `invalid_argument` if an operation in steps is in progress.
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
