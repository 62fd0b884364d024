// SPDX-License-Identifier: MIT
// The messages that connect two ranks on first use, and close idle connections. They are the blobs
// of a bringup::stream from the active side to the acceptor of the passive side. All numbers are
// big-endian.
//
//   request       1 u8   version u8   token (16 bytes)   rank u32   epoch u32   endpoint (30 bytes)
//   answer        2 u8   connection_answer u8   limit u32   endpoint (30 bytes) if accepted
//   confirmation  3 u8
//   close         4 u8   version u8   token (16 bytes)   rank u32   epoch u32   endpoint (30 bytes)
//                 number u32
//   closed        5 u8   close_answer u8
//
// The active side sends a request. If the answer is accepted, it connects its queue pair and sends
// a confirmation, which the acceptor sends back. A request to close a connection names it by the
// endpoint of the active side. Its number is greater than that of earlier requests for this
// connection, so that a late request is recognized. The contact of a rank, in the exchange of a
// group:
//
//   contact       board (21 bytes)   token (16 bytes)   host:port
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "verbena/base/bytes.hpp"
#include "verbena/base/result.hpp"
#include "verbena/bringup/address.hpp"
#include "verbena/verbs/endpoint.hpp"
#include "verbena/verbs/remote_region.hpp"

namespace verbena::inline VERBENA_ABI::net::detail {

/// A random value. A connection request must contain the token of the contact, which proves that
/// its sender is a rank of the group.
using connection_token = std::array<std::byte, 16>;

/// Appends `bytes` to a message.
void put_bytes(std::vector<std::byte>& to, std::span<const std::byte> bytes);
/// Returns the token at the front of `from`, or nullopt if too few bytes are left.
[[nodiscard]] std::optional<connection_token> take_token(byte_reader& from);

/// The board of a rank, and the address and token of its acceptor. Threads: immutable value.
struct rank_contact {
  remote_region board;
  connection_token token;
  bringup::address acceptor;
};

/// Threads: immutable value.
struct connect_request {
  connection_token token;
  std::uint32_t rank;
  std::uint32_t epoch;
  verbena::endpoint local;
};

enum class connection_answer : std::uint8_t {
  accepted = 1,
  busy,         ///< too many requests, or no free queue pair until another request ends
  crossed,      ///< the acceptor's rank requests the connection too, with precedence
  connected,    ///< the pair is already connected
  other_epoch,  ///< the epochs differ, or the sender is not a member
  no_room,      ///< the queue pair budget is in use
  failed,       ///< the queue pair could not be created or connected
};

/// Threads: immutable value.
struct connect_answer {
  connection_answer what = connection_answer::failed;
  std::uint32_t limit = 0;  ///< the limit of the budget if the budget is in use; otherwise 0
  std::optional<verbena::endpoint> local = {};
};

/// A request to close a connection. Threads: immutable value.
struct close_request {
  connection_token token;
  std::uint32_t rank;
  std::uint32_t epoch;
  verbena::endpoint local;  ///< the endpoint of the sender
  std::uint32_t number;     ///< greater than in earlier requests for this connection
};

enum class close_answer : std::uint8_t {
  closed = 1,   ///< the queue pair of the peer is destroyed, or will be
  in_use,       ///< the channel of the peer has the queue pair
  other_epoch,  ///< the epochs differ, the sender is not a member, or the peer is connecting
  unknown,      ///< the peer does not have this connection
};

/// The maximum size of a request, an answer or a confirmation.
inline constexpr std::size_t max_connection_message_bytes = 64;

[[nodiscard]] std::vector<std::byte> encode(const rank_contact& of);
[[nodiscard]] std::vector<std::byte> encode(const connect_request& of);
[[nodiscard]] std::vector<std::byte> encode(const connect_answer& of);
[[nodiscard]] std::vector<std::byte> encode_confirmation();
[[nodiscard]] std::vector<std::byte> encode(const close_request& of);
[[nodiscard]] std::vector<std::byte> encode(close_answer of);
/// Returns true if a message has the type of a close_request.
[[nodiscard]] bool is_close_request(std::span<const std::byte> bytes) noexcept;

/// Errors: `protocol` for bytes that the functions above do not return.
[[nodiscard]] result<rank_contact> decode_contact(std::span<const std::byte> bytes);
[[nodiscard]] result<connect_request> decode_connect_request(std::span<const std::byte> bytes);
[[nodiscard]] result<connect_answer> decode_connect_answer(std::span<const std::byte> bytes);
[[nodiscard]] result<void> check_confirmation(std::span<const std::byte> bytes);
[[nodiscard]] result<close_request> decode_close_request(std::span<const std::byte> bytes);
[[nodiscard]] result<close_answer> decode_close_answer(std::span<const std::byte> bytes);

/// Returns the reason for the rejection of a request, and the remedy. The caller puts "rank N" in
/// front of the text.
[[nodiscard]] std::string rejection_text(const connect_answer& of);

/// Checks the contacts of `ranks`, which are indices of `of`. Errors: `protocol`, with `call`, if
/// only some of the ranks have a loopback address, because the other ranks cannot reach them.
[[nodiscard]] result<void> check_contacts(const char* call, std::span<const rank_contact> of,
                                          std::span<const std::uint32_t> ranks);

/// Returns whether a peer that connects to `host` reaches its own host.
[[nodiscard]] bool is_wildcard(std::string_view host) noexcept;

/// Compares in constant time.
[[nodiscard]] bool are_equal(const connection_token& a, const connection_token& b) noexcept;

}  // namespace verbena::inline VERBENA_ABI::net::detail
