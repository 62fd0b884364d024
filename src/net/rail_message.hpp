// SPDX-License-Identifier: MIT
// The messages between a multi_rail_channel and its rail_responder: blobs of a bringup::stream. All
// numbers are big-endian.
//
//   hello      1 u8   version u8   number of rails u8   role u8   both sides, first
//   connect    2 u8   rail u8   generation u32   endpoint     to the responder
//   connected  3 u8   rail u8   generation u32   endpoint     its answer, or:
//   refused    4 u8   rail u8   generation u32   reason
//   fence      5 u8   rail u8   generation u32                to the responder
//   fenced     6 u8   rail u8   generation u32                its answer
//   port       7 u8   rail u8   0 or 1 u32                    whether the own port is active
//
// A generation is the number of a connection of a rail, from 1. After `fenced`, the queue pair of
// this generation and of earlier ones executes no more requests.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "verbena/base/deadline.hpp"
#include "verbena/base/result.hpp"
#include "verbena/base/steps.hpp"
#include "verbena/bringup/stream.hpp"
#include "verbena/verbs/endpoint.hpp"

namespace verbena::inline VERBENA_ABI::net::detail {

/// The number of messages after which a side does other work: a peer can send without a pause.
inline constexpr int most_messages_in_turn = 16;
/// The time limit for sending a message, and for receiving one after its first byte.
inline constexpr std::chrono::seconds time_for_rail_messages{5};

enum class rail_message_kind : std::uint8_t {
  connect = 2,
  connected = 3,
  refused = 4,
  fence = 5,
  fenced = 6,
  port = 7,
};

/// A message behind the hellos. Threads: one thread at a time.
struct rail_message {
  rail_message_kind kind = rail_message_kind::fence;
  std::uint32_t rail = 0;
  std::uint32_t generation = 0;                    ///< of `port`: whether it is active
  std::optional<verbena::endpoint> endpoint = {};  ///< of `connect` and `connected`
  std::string reason = {};                         ///< of `refused`
};

/// Returns the reason that a peer has sent, for a message of the program: bytes that are not
/// printable ASCII are `?`.
[[nodiscard]] std::string printable_reason(std::span<const std::byte> sent);
[[nodiscard]] std::vector<std::byte> encode(const rail_message& of);
/// Errors: `protocol` for bytes that encode() does not return, and for a rail that is not less than
/// `rails`.
[[nodiscard]] result<rail_message> decode_rail_message(std::span<const std::byte> bytes,
                                                       std::uint32_t rails);

/// The role of a side, as in the hello.
enum class rail_role : std::uint8_t { active = 1, passive = 2 };

/// The limit for the length of a message.
inline constexpr std::size_t max_rail_message_bytes = 1024;

using rail_hello_bytes = std::array<std::byte, 4>;
/// Returns the hello of a side.
[[nodiscard]] rail_hello_bytes hello_of(rail_role role, std::uint32_t rails) noexcept;
/// Checks the hello of the peer with the name `peer`. Errors: as exchange_hellos().
[[nodiscard]] result<void> check_hello(const char* call, const std::string& peer,
                                       const rail_hello_bytes& ours,
                                       std::span<const std::byte> theirs);
/// Sends the hello and receives that of the peer. Errors of `call`: `protocol` if the peer has
/// another number of rails, another version or the same role; those of the stream.
[[nodiscard]] result<void> exchange_hellos(const char* call, bringup::stream& with, rail_role role,
                                           std::uint32_t rails, deadline until);

/// The end of a stream after the hellos. Threads: one thread at a time.
class rail_control {
 public:
  /// If the stream is a TCP connection, makes it end 25 s after the host of the peer failed.
  rail_control(bringup::stream with, std::uint32_t rails) noexcept;

  /// Sends a message. Blocks only if the peer does not read. After an error, failure() has it.
  void send(const rail_message& what);
  /// Returns the next message if one has arrived. Does not block: if the peer has sent a part of a
  /// message, a later call returns the message. After an error, failure() has it. After the first
  /// call, the object must not be moved.
  [[nodiscard]] std::optional<rail_message> poll();
  /// Ends the stream because of a failure of this side, whose text the peer receives.
  void refuse(error why);
  /// Ends the stream, which the peer sees.
  void end() noexcept { stream_.shut_down(); }
  /// Returns why the stream has ended; nullptr while it works.
  [[nodiscard]] const error* failure() const noexcept { return failure_ ? &*failure_ : nullptr; }
  /// Returns the descriptor, which is readable if a message arrives.
  [[nodiscard]] int fd() const noexcept { return stream_.fd(); }
  [[nodiscard]] const std::string& peer() const noexcept { return stream_.peer(); }

 private:
  [[nodiscard]] std::optional<result<std::vector<std::byte>>> receive();

  bringup::stream stream_;
  std::uint32_t rails_;
  std::optional<error> failure_;
  std::optional<steps<std::vector<std::byte>>> receiving_;  // a message that has begun
};

}  // namespace verbena::inline VERBENA_ABI::net::detail
