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
struct first_use_group;
void destroy(store_link& link) noexcept;
}  // namespace detail

/// Bytes of an exchange. Threads: immutable value.
using exchanged_bytes = std::vector<std::byte>;

/// A connection to a store, through which a rank exchanges bytes with all other ranks, or publishes
/// them for those that look for them. group has one; programs that need only these functions use it
/// without a group.
///
/// If an exchange fails, the group has failed: all later exchanges of all ranks fail with the same
/// error, until group::shrink() or group::readmit() has succeeded. The destructor closes the
/// connection, which the store notices. Threads: one thread at a time.
class store_client {
 public:
  /// The largest message, in bytes: at most store_options::max_message_bytes of the store.
  static constexpr std::size_t max_message_bytes = std::size_t{1} << 20U;

  /// The largest value of publish(), in bytes.
  static constexpr std::size_t max_value_bytes = std::size_t{64} * 1024;

  /// Connects to the store, and states rank and size. Waits until the store listens. Blocks and
  /// allocates.
  ///
  /// Errors: `invalid_argument` of membership::check(), if another process has the rank, or if
  /// other ranks state another size; `unavailable` if the store is full; ECONNABORTED if the rank
  /// has left the group; EACCES if the store has another secret, or only one of both has a secret;
  /// those of bringup::stream::connect().
  [[nodiscard]] static result<store_client> connect(const membership& who, deadline until);

  /// Contributes bytes and returns those of all ranks, in the order of the ranks. The element of a
  /// rank that is not a member, since group::shrink(), is empty.
  ///
  /// Each rank must call it with the same `name`, of at most 255 bytes, and in the same order.
  /// `parts` has one element for all ranks, or one for each rank: element r is for rank r. Blocks
  /// until all ranks have called it, or `until` of a rank passes. The last eighth of the time, at
  /// most 250 ms, is for the answer of the store. Allocates.
  ///
  /// Errors: `timed_out` with the ranks that have not called it; ECONNABORTED with the ranks that
  /// have left, or that have called group::shrink() or group::readmit(); `invalid_argument` if the
  /// names differ, or if a message exceeds its limit; `protocol` if the store breaks the format;
  /// those of bringup::stream.
  /// @{
  [[nodiscard]] result<std::vector<exchanged_bytes>> exchange(
      std::string_view name, std::span<const std::span<const std::byte>> parts, deadline until);
  [[nodiscard]] result<std::vector<exchanged_bytes>> exchange(std::string_view name,
                                                              std::span<const std::byte> for_all,
                                                              deadline until);
  /// @}

  /// Publishes bytes under a name of this rank, for find() of all ranks. Replaces an earlier value
  /// of the name. Other ranks need not call anything.
  ///
  /// The store keeps the value until withdraw(), or until this process leaves the group. `name` has
  /// 1 to 255 printable characters of ASCII, `value` at most max_value_bytes. Returns when the
  /// store has the value. Blocks and allocates.
  ///
  /// These functions also work after an exchange has failed. At its deadline, a call returns
  /// without ending the connection, except if the store does not read the request for 2 s.
  ///
  /// Errors: `invalid_argument` if the name or the length is not permitted; `unavailable` names a
  /// limit of store_options that the value exceeds; `timed_out` if the store does not answer: it
  /// may have the value; ECONNABORTED if the group has expelled this rank; those of
  /// bringup::stream.
  [[nodiscard]] result<void> publish(std::string_view name, std::span<const std::byte> value,
                                     deadline until);
  /// Removes a name of this rank. Errors: those of publish(); ENOENT if no value is published
  /// under the name.
  [[nodiscard]] result<void> withdraw(std::string_view name, deadline until);
  /// Returns the value that `rank` has published under `name`. Waits until it is published. Blocks
  /// and allocates.
  ///
  /// A value exists only while its process is in the group: if the process ends or leaves, the
  /// store removes its values. A new process of the rank publishes its own. The process can still
  /// end after find() has returned. The last eighth of the time, at most 250 ms, is for the answer
  /// of the store.
  ///
  /// Errors: `timed_out` names the rank and the name; ECONNABORTED at once if the rank has left,
  /// and no new process waits in group::rejoin(), or if a member calls group::shrink() or
  /// group::readmit() while this rank waits; `invalid_argument` if `rank` is not less than size();
  /// those of publish(), except its limits.
  [[nodiscard]] result<exchanged_bytes> find(std::uint32_t rank, std::string_view name,
                                             deadline until);

  /// Returns the ranks that have closed their connections, in the order in which the store noticed
  /// it: they have ended, or left the group. Reads what the store has sent, without blocking. If
  /// rank 0 has the store and ends, the last element is 0. After the end of a separate store, the
  /// list is not continued. Valid until the next call of a function. Allocates if a rank has left.
  [[nodiscard]] std::span<const std::uint32_t> departed();

  /// Returns the ranks whose new processes wait in group::rejoin(). Otherwise like departed().
  [[nodiscard]] std::span<const std::uint32_t> returning();

  /// Returns the rank of this process.
  [[nodiscard]] std::uint32_t rank() const noexcept { return who_.rank; }
  /// Returns the number of ranks.
  [[nodiscard]] std::uint32_t size() const noexcept { return who_.size; }

 private:
  friend class detail::renewal;
  friend struct detail::first_use_group;
  // Returns the address of this host that the connection to the store uses.
  [[nodiscard]] result<std::string> local_host() const;
  // Connects as the new process of a rank that has left; waits while the old process is connected.
  [[nodiscard]] static result<store_client> connect_again(const membership& who, deadline until);
  // Exchanges parts with the ranks that are connected; see store_message.hpp.
  [[nodiscard]] result<detail::store_agreed> agree(
      std::string_view call, const detail::store_agreement& what,
      std::span<const std::span<const std::byte>> parts, deadline until);
  // Regards all other ranks as departed. Precondition: `ranks` are in ascending order.
  void set_members(std::span<const std::uint32_t> ranks);
  // Closes the connection; later calls fail.
  void leave();

  store_client(detail::store_link* link, membership who) : link_(link), who_(std::move(who)) {}

  verbena::detail::sole_owner<detail::store_link> link_;
  membership who_;
};

}  // namespace verbena::inline VERBENA_ABI::net
