// SPDX-License-Identifier: MIT
// The messages by which two ranks connect on first use: the blobs of a bringup::stream from the
// active side to the acceptor of the passive side. All numbers are big-endian.
//
//   request       1 u8   version u8   token (16 bytes)   rank u32   epoch u32   endpoint (30 bytes)
//   answer        2 u8   connection_answer u8   limit u32   endpoint (30 bytes) if accepted
//   confirmation  3 u8
//
// The active side sends a request. If the answer is accepted, it connects its queue pair and sends
// a confirmation, which the acceptor repeats. The address of an acceptor, in the exchange of a
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

#include "verbena/base/result.hpp"
#include "verbena/bringup/address.hpp"
#include "verbena/verbs/endpoint.hpp"
#include "verbena/verbs/remote_region.hpp"

namespace verbena::inline VERBENA_ABI::net::detail {

/// Proves that a process has received the contact from the store.
using connection_token = std::array<std::byte, 16>;

/// How to reach a rank. Threads: immutable value.
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
  busy,         ///< cannot serve the request now, possibly because of connections in progress
  crossed,      ///< the acceptor's process asks as well, and its request counts
  connected,    ///< this pair has a connection
  other_epoch,  ///< the members of the group change, or have changed
  no_room,      ///< the budget of queue pairs is in use
  failed,       ///< the queue pair could not be created or connected
};

/// Threads: immutable value.
struct connect_answer {
  connection_answer what = connection_answer::failed;
  std::uint32_t limit = 0;  ///< of the budget, if it is in use; otherwise 0
  std::optional<verbena::endpoint> local = {};
};

/// The largest message.
inline constexpr std::size_t max_connection_message_bytes = 64;

[[nodiscard]] std::vector<std::byte> encode(const rank_contact& of);
[[nodiscard]] std::vector<std::byte> encode(const connect_request& of);
[[nodiscard]] std::vector<std::byte> encode(const connect_answer& of);
[[nodiscard]] std::vector<std::byte> encode_confirmation();

/// Errors of all: `protocol` for bytes that the functions above do not return.
[[nodiscard]] result<rank_contact> decode_contact(std::span<const std::byte> bytes);
[[nodiscard]] result<connect_request> decode_connect_request(std::span<const std::byte> bytes);
[[nodiscard]] result<connect_answer> decode_connect_answer(std::span<const std::byte> bytes);
[[nodiscard]] result<void> check_confirmation(std::span<const std::byte> bytes);

/// Returns why a peer has rejected a request, and the remedy; the rank of the peer precedes it.
[[nodiscard]] std::string rejection_text(const connect_answer& of);

/// Checks the contacts of `ranks`, which are indices of `of`. Errors of `call`: `protocol` if only
/// some of the ranks are at a loopback address, because the others cannot reach them.
[[nodiscard]] result<void> check_contacts(const char* call, std::span<const rank_contact> of,
                                          std::span<const std::uint32_t> ranks);

/// Compares in constant time.
[[nodiscard]] bool are_equal(const connection_token& a, const connection_token& b) noexcept;

}  // namespace verbena::inline VERBENA_ABI::net::detail
