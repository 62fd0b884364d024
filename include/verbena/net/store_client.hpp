// SPDX-License-Identifier: MIT
// The connection of a rank to the store of its group.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "verbena/base/deadline.hpp"
#include "verbena/base/detail/sole_owner.hpp"
#include "verbena/base/result.hpp"
#include "verbena/net/membership.hpp"

namespace verbena::inline VERBENA_ABI::net {

namespace detail {
struct store_link;
struct store_agreed;
struct store_agreement;
class renewal;
class rail_meeting;
struct first_use_group;
void destroy(store_link& link) noexcept;
}  // namespace detail

/// The bytes that a rank contributes to an exchange.
using exchanged_bytes = std::vector<std::byte>;

/// A connection to a store, through which a rank exchanges bytes with all other ranks or publishes
/// named values. A group contains a store_client; a program that needs only these functions can use
/// the store_client without a group.
///
/// If an exchange fails, the group has failed: all later exchanges of all ranks fail with the same
/// error, until group::shrink() or group::readmit() has succeeded. The destructor closes the
/// connection, and the store reports to the other ranks that this rank has left.
/// Threads: one thread at a time.
class store_client {
 public:
  /// The default of store_options::max_message_bytes, the maximum size of a message. The limit of
  /// the store applies to all its clients.
  static constexpr std::size_t max_message_bytes = std::size_t{1} << 20U;

  /// The maximum size of a value of publish(), in bytes.
  static constexpr std::size_t max_value_bytes = std::size_t{64} * 1024;

  /// Connects to the store and sends the rank and the size. If the store does not listen yet,
  /// retries until it does. Blocks and allocates.
  ///
  /// Errors: `invalid_argument` of membership::check(), if another process has the rank, or if
  /// other ranks have another size; `unavailable` if the store is full; ECONNABORTED if the rank
  /// has left the group; EACCES if the secrets differ, or if only one side has a secret;
  /// ECONNREFUSED with the reason if the store has closed the connection; those of
  /// bringup::stream::connect().
  [[nodiscard]] static result<store_client> connect(const membership& who, deadline until);

  /// Contributes bytes and returns the bytes of all ranks, in rank order. The element of a rank
  /// that is not a member is empty.
  ///
  /// All members must make the same calls in the same order, with the same `name` of at most 255
  /// bytes. `parts` has one element for all ranks, or one element per rank: element r is for rank
  /// r. Blocks until all members have called exchange(), or until the earliest deadline of a rank.
  /// The last eighth of the time, at most 250 ms, is reserved for the reply of the store.
  /// Allocates.
  ///
  /// If the store does not answer before the deadline, returns `timed_out`. The next call waits for
  /// the late answer and ignores it. If the exchange has succeeded on the other ranks, later
  /// exchanges of this rank fail, until group::shrink() or group::readmit() has succeeded. While
  /// the store does not read the request, the call exceeds the deadline by up to 2 s.
  ///
  /// Errors: `timed_out` with the ranks that have not called exchange(); ECONNABORTED with the
  /// ranks that have left, or that have called group::shrink() or group::readmit();
  /// `invalid_argument` if the names differ, if the number of parts is wrong, or if a name, the
  /// parts of this rank or the parts of all ranks exceed their limit; `protocol` if a message of
  /// the store is malformed, or with the reason of the store if it has closed the connection
  /// because of a message of this rank; those of bringup::stream.
  /// @{
  [[nodiscard]] result<std::vector<exchanged_bytes>> exchange(
      std::string_view name, std::span<const std::span<const std::byte>> parts, deadline until);
  [[nodiscard]] result<std::vector<exchanged_bytes>> exchange(std::string_view name,
                                                              std::span<const std::byte> for_all,
                                                              deadline until);
  /// @}

  /// Publishes bytes under a name of this rank, for find() on all ranks. Replaces an earlier value
  /// of the name. The other ranks do not take part in the call.
  ///
  /// The store keeps the value until withdraw(), or until this process leaves the group. `name` has
  /// 1 to 255 printable ASCII characters, `value` at most max_value_bytes. Returns when the store
  /// has stored the value. Blocks and allocates.
  ///
  /// publish(), withdraw() and find() also work after an exchange has failed. If the deadline
  /// passes, a call returns and the connection remains usable, unless the store does not read the
  /// request within 2 s.
  ///
  /// Errors: `invalid_argument` if the name or the length is not permitted; `unavailable` with the
  /// limit of store_options that the value exceeds; `timed_out` if the store does not reply, in
  /// which case it may have stored the value; ECONNABORTED if the group has expelled this rank;
  /// those of bringup::stream.
  [[nodiscard]] result<void> publish(std::string_view name, std::span<const std::byte> value,
                                     deadline until);
  /// Removes a name of this rank and its value. Blocks and allocates. Errors: those of publish();
  /// ENOENT if no value is published under the name.
  [[nodiscard]] result<void> withdraw(std::string_view name, deadline until);
  /// Returns the value that `rank` has published under `name`. Waits until it is published. Blocks
  /// and allocates.
  ///
  /// If a process ends or leaves the group, the store removes its values; a new process of the rank
  /// publishes its own. A process can also end after find() has returned its value. The last eighth
  /// of the time, at most 250 ms, is reserved for the reply of the store.
  ///
  /// Errors: `timed_out` with the rank and the name; ECONNABORTED without waiting if the rank has
  /// left and no new process waits in group::rejoin(); ECONNABORTED if a member calls
  /// group::shrink() or group::readmit() while this rank waits; `invalid_argument` if `rank` is not
  /// less than size(); those of publish(), except its limits.
  [[nodiscard]] result<exchanged_bytes> find(std::uint32_t rank, std::string_view name,
                                             deadline until);

  /// Returns the ranks that have ended or left the group, in the order in which the store detected
  /// it. Receives pending messages of the store without blocking. If rank 0 has the store and ends,
  /// or its host does not answer for about 30 s, the last element is 0. If a separate store ends,
  /// later departures are not reported. The span is valid until the next call of a member function.
  /// Allocates if the store has sent a message.
  [[nodiscard]] std::span<const std::uint32_t> departed();

  /// Returns the ranks whose new processes wait in group::rejoin(). Blocking, allocation and
  /// validity: see departed().
  [[nodiscard]] std::span<const std::uint32_t> returning();

  /// Returns the rank of this process.
  [[nodiscard]] std::uint32_t rank() const noexcept { return who_.rank; }
  /// Returns the number of ranks.
  [[nodiscard]] std::uint32_t size() const noexcept { return who_.size; }

 private:
  friend class detail::renewal;
  friend class detail::rail_meeting;
  friend struct detail::first_use_group;
  // Returns the local address of the connection to the store.
  [[nodiscard]] result<std::string> local_host() const;
  // Connects as the new process of a rank that has left. Retries while the old process is
  // connected.
  [[nodiscard]] static result<store_client> connect_again(const membership& who, deadline until);
  // Exchanges parts with the connected ranks; see store_agreement in store_message.hpp. The store
  // waits for the other ranks during half of the time. The other half is for its answer and for
  // later steps.
  [[nodiscard]] result<detail::store_agreed> agree(
      std::string_view call, const detail::store_agreement& what,
      std::span<const std::span<const std::byte>> parts, deadline until);
  // Waits for a reply of the store, to check that the store answers.
  [[nodiscard]] result<void> check_store(std::string_view call, deadline until);
  // Returns true if the result of the last agreement is not known: the answer of the store did not
  // arrive before the deadline, or the connection has ended.
  [[nodiscard]] bool is_agreement_open() const noexcept;
  // Returns true if the store has sent that the other ranks continue without this one, or after
  // leave(). Does not receive.
  [[nodiscard]] bool is_expelled() const noexcept;
  // Returns the error of calls of an expelled rank. Precondition: is_expelled().
  [[nodiscard]] error expulsion(std::string_view call) const;
  // Returns the limit of the store for a message, in bytes.
  [[nodiscard]] std::size_t message_limit() const noexcept;
  // Marks all ranks except `ranks` as departed. Precondition: `ranks` are in ascending order.
  void set_members(std::span<const std::uint32_t> ranks);
  // Closes the connection. Later calls fail.
  void leave();

  store_client(detail::store_link* link, membership who) : link_(link), who_(std::move(who)) {}

  verbena::detail::sole_owner<detail::store_link> link_;
  membership who_;
};

}  // namespace verbena::inline VERBENA_ABI::net
