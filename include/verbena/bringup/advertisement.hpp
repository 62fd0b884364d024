// SPDX-License-Identifier: MIT
// Advertisements of buffers in messages of the queue pair: the messages, and a table of the buffers
// that each side has advertised. No I/O: the owner of the queue pair sends the messages that the
// table produces, and passes received messages to the table.
//
//   message    0x56 42 41 44 ("VBAD")   version u8   kind u8   access u8   length of the name u8
//              number u32   region 21 bytes   zero 3 bytes   name 44 bytes, padded with zeros
//
// A message always has `advertisement_bytes`. Like every message of a reliable connection, it
// consumes the next receive of the peer. If the program sends messages as well, both sides must
// agree on the order. A message of the program in place of an advertisement message is an error.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "verbena/base/detail/sole_owner.hpp"
#include "verbena/base/result.hpp"
#include "verbena/verbs/access.hpp"
#include "verbena/verbs/remote_region.hpp"

namespace verbena::inline VERBENA_ABI::bringup {

/// Bytes of every advertisement message: the size of a receive for one.
inline constexpr std::size_t advertisement_bytes = 80;
/// The largest length of a buffer's name.
inline constexpr std::size_t max_buffer_name = 44;
/// One advertisement message.
using advertisement_message = std::array<std::byte, advertisement_bytes>;

/// A buffer of the peer. Threads: one thread at a time.
struct advertised_buffer {
  std::uint32_t number = 0;   ///< assigned by the peer, unique on this connection
  std::string name = {};      ///< printable; may be empty
  remote_region region = {};  ///< address, length and rkey
  /// Permitted operations: remote_read, remote_write and remote_atomic.
  access_flags access = {};

  friend bool operator==(const advertised_buffer&, const advertised_buffer&) = default;
};

/// The kinds of advertisement messages.
enum class advertisement_kind : std::uint8_t {
  advertised = 1,  ///< the peer advertised a buffer: next() returns it
  revoked = 2,     ///< the peer revokes a buffer: call release() when no request uses it
  released = 3,    ///< the peer released a buffer of this side: it may be deregistered
};

/// A received message: its kind, and the buffer. Threads: immutable value.
struct advertisement_update {
  advertisement_kind kind = advertisement_kind::advertised;  ///< the kind of the message
  std::uint32_t number = 0;                                  ///< of the buffer

  friend bool operator==(advertisement_update, advertisement_update) noexcept = default;
};

/// Limits of a table. Threads: immutable value.
struct advertisement_limits {
  /// Unreleased buffers of the peer. If the peer advertises more, it violates the protocol.
  std::size_t buffers_of_peer = 256;
  /// Advertised buffers of this side that the peer has not released.
  std::size_t own_buffers = 256;
};

namespace detail {
struct known_buffers;
void destroy(known_buffers& known) noexcept;
}  // namespace detail

/// Records the advertised buffers of both sides of a connection. A buffer is advertised, may be
/// revoked, and leaves the table when the other side releases it.
/// Threads: one thread at a time. Allocates when it is created or copied and when buffers are
/// added, not on lookup.
class advertisement_table {
 public:
  /// Creates an empty table.
  explicit advertisement_table(advertisement_limits limits = {});
  /// Copies both sides' buffers.
  /// @{
  advertisement_table(const advertisement_table& other);
  advertisement_table& operator=(const advertisement_table& other);
  /// @}
  /// Moves the table; the other object must not be used afterwards.
  /// @{
  advertisement_table(advertisement_table&& other) noexcept = default;
  advertisement_table& operator=(advertisement_table&& other) noexcept = default;
  /// @}

  /// Advertises a buffer of this side. Returns its number, and in `out` the message to send.
  /// Errors: `invalid_argument` for an empty region, for access flags that are empty or not remote,
  /// and for a name that is too long, not printable or in use; ENOSPC at the limit.
  [[nodiscard]] result<std::uint32_t> advertise(const remote_region& region, access_flags access,
                                                std::string_view name, advertisement_message& out);
  /// Revokes a buffer of this side. Returns the message to send. Errors: ENOENT for a number that
  /// is not advertised; EALREADY if the buffer was revoked before.
  [[nodiscard]] result<advertisement_message> revoke(std::uint32_t number);
  /// Returns whether the buffer must stay registered, because the peer can still use it.
  [[nodiscard]] bool is_advertised(std::uint32_t number) const noexcept;

  /// Processes a message of the peer. Errors: `protocol` if it is not an advertisement message, has
  /// invalid fields, or does not fit the state of the buffer. The table is then unchanged.
  [[nodiscard]] result<advertisement_update> take(std::span<const std::byte> message);

  /// Returns the number of buffers that next() will return.
  [[nodiscard]] std::size_t pending() const noexcept;
  /// Removes and returns the oldest pending buffer of the peer. Skips revoked buffers. Returns
  /// `nullopt` if no buffer is pending.
  [[nodiscard]] std::optional<advertised_buffer> next();
  /// Returns the buffer of this name, or `nullopt` if there is none or it is revoked.
  [[nodiscard]] std::optional<advertised_buffer> find(std::string_view name) const;
  /// Returns whether new requests may use this buffer of the peer: it is known and not revoked.
  [[nodiscard]] bool is_usable(std::uint32_t number) const noexcept;
  /// Releases a buffer of the peer, revoked or not. No request to it may be in flight. Returns the
  /// message to send. Errors: ENOENT for an unknown number.
  [[nodiscard]] result<advertisement_message> release(std::uint32_t number);

 private:
  [[nodiscard]] detail::known_buffers& known() const;
  result<void> check_new(const advertised_buffer& what) const;
  result<void> note_arrival(advertised_buffer what);

  verbena::detail::sole_owner<detail::known_buffers> known_;
};

}  // namespace verbena::inline VERBENA_ABI::bringup
