// SPDX-License-Identifier: MIT
// Buffers that are made known to the peer in messages of the queue pair itself: the messages, and
// the book in which each side keeps what it has told and what it was told. No I/O: the one who has
// the queue pair sends the messages that the book makes, and gives it those that arrive.
//
//   message    0x56 42 41 44 ("VBAD")   version u8   kind u8   rights u8   length of the name u8
//              number u32   region 21 bytes   zero 3 bytes   name 44 bytes, zero behind its end
//
// A message has always `advertisement_bytes`. Like every message of a reliable connection it goes
// into the next receive of the peer: beside messages of the application, both sides agree on the
// order, as with any other message; a message of the application that comes where one of these was
// expected is named.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "verbena/base/result.hpp"
#include "verbena/verbs/access.hpp"
#include "verbena/verbs/remote_region.hpp"

namespace verbena::inline VERBENA_ABI::bringup {

/// Bytes of every message about buffers: the room that a receive for one needs.
inline constexpr std::size_t advertisement_bytes = 80;
/// The longest name of a buffer.
inline constexpr std::size_t max_buffer_name = 44;
/// One message about a buffer.
using advertisement_message = std::array<std::byte, advertisement_bytes>;

/// A buffer of the peer. Threads: one thread at a time.
struct advertised_buffer {
  std::uint32_t number = 0;   ///< that the peer gave it: unique on this connection
  std::string name = {};      ///< printable; may be empty
  remote_region region = {};  ///< where it is
  /// What may be done to it: remote_read, remote_write and remote_atomic.
  access_flags rights = {};

  friend bool operator==(const advertised_buffer&, const advertised_buffer&) = default;
};

/// What a message of the peer was about.
enum class advertisement_kind : std::uint8_t {
  advertised = 1,  ///< the peer has a buffer for this side: book.next() has it
  revoked = 2,     ///< the peer wants it back: end what uses it, then give_back()
  returned = 3,    ///< the peer gave a buffer of this side back: it may be deregistered
};

/// A message that was taken, and the buffer that it was about.
struct advertisement_news {
  advertisement_kind kind = advertisement_kind::advertised;  ///< what happened
  std::uint32_t number = 0;                                  ///< to which buffer

  friend bool operator==(advertisement_news, advertisement_news) noexcept = default;
};

/// How much a book holds. Threads: immutable value.
struct advertisement_limits {
  /// Buffers of the peer that were not given back; a peer with more breaks the protocol.
  std::size_t buffers_of_peer = 256;
  /// Buffers of this side that the peer has.
  std::size_t own_buffers = 256;
};

/// What one side of a connection has told of its buffers, and what it was told. Each buffer is
/// advertised, then perhaps revoked, and ends when the peer gives it back.
/// Threads: one thread at a time. Allocates when buffers come, not when they are looked up.
class advertisement_book {
 public:
  /// An empty book.
  explicit advertisement_book(advertisement_limits limits = {}) noexcept : limits_(limits) {}

  /// Makes a buffer of this side known. Returns its number, and in `out` the message to send.
  /// Errors: `invalid_argument` for an empty region, rights other than remote ones or none, a name
  /// that is too long, not printable, or in use; ENOSPC when the peer has as many as it may.
  [[nodiscard]] result<std::uint32_t> advertise(const remote_region& region, access_flags rights,
                                                std::string_view name, advertisement_message& out);
  /// Asks for a buffer of this side back. Errors: ENOENT for one that the peer does not have;
  /// EALREADY when it was asked before.
  [[nodiscard]] result<advertisement_message> revoke(std::uint32_t number);
  /// Whether the peer has this buffer of this side, so that it must stay registered.
  [[nodiscard]] bool is_lent(std::uint32_t number) const noexcept { return own_.contains(number); }

  /// Takes a message of the peer. Errors: `protocol` when it is no message about buffers, has
  /// impossible fields, or is about a buffer that is not in that state; the book is unchanged.
  [[nodiscard]] result<advertisement_news> take(std::span<const std::byte> message);

  /// Buffers of the peer that next() has not handed out yet.
  [[nodiscard]] std::size_t pending() const noexcept { return arrived_.size(); }
  /// The oldest buffer that was not handed out; those revoked meanwhile are left out.
  [[nodiscard]] std::optional<advertised_buffer> next();
  /// A buffer by its name, handed out or not; nothing if there is none or it was revoked.
  [[nodiscard]] std::optional<advertised_buffer> find(std::string_view name) const;
  /// Whether requests to this buffer of the peer may be begun: it is there and was not revoked.
  [[nodiscard]] bool is_usable(std::uint32_t number) const noexcept;
  /// Gives a buffer of the peer back, asked or not: no request to it may be on its way. Returns the
  /// message to send. Errors: ENOENT for one that this side does not have.
  [[nodiscard]] result<advertisement_message> give_back(std::uint32_t number);

 private:
  struct own_buffer {
    std::string name;
    bool revoked = false;
  };
  struct peer_buffer {
    advertised_buffer what;
    bool revoked = false;
  };

  result<void> check_new(const advertised_buffer& what) const;
  result<void> note_arrival(advertised_buffer what);

  advertisement_limits limits_;
  std::uint32_t last_number_ = 0;
  std::map<std::uint32_t, own_buffer> own_;
  std::map<std::uint32_t, peer_buffer> peers_;
  std::deque<std::uint32_t> arrived_;
};

}  // namespace verbena::inline VERBENA_ABI::bringup
