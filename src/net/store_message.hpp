// SPDX-License-Identifier: MIT
// The messages between a store and its clients: the blobs of a bringup::stream. All numbers are
// big-endian.
//
//   hello      1 u8   version u8   entry u8   rank u32   size u32   nonce (16 bytes)   name
//   exchange   2 u8   timeout in ms u32   name   parts
//   proof      3 u8   proof (32 bytes)
//   agreement  4 u8   timeout in ms u32   agreement_kind u8   renewal u32   awaited ranks   name
//              parts
//   publish    5 u8   number u32   name   value
//   withdraw   6 u8   number u32   name
//   find       7 u8   number u32   timeout in ms u32   rank u32   name
//
//   done       1 u8   parts
//   failed     2 u8   store_failure u8   rank u32   ranks   name
//   left       3 u8   ranks
//   challenge  4 u8   nonce (16 bytes)   proof (32 bytes)
//   agreed     5 u8   renewal u32   ranks   parts
//   returned   6 u8   ranks
//   reply      7 u8   number u32   value_outcome u8   detail u64   value
//
//   name       u16 length, bytes
//   ranks      u32 count, u32 each
//   parts      u32 count, and for each part: u32 length, bytes
//   value      u32 length, bytes
//
// A client sends hello once, and the store answers it with done (no parts) or failed. A store with
// a secret answers with challenge before, and expects proof. A proof is the HMAC-SHA-256 of the
// side ("store" or "rank"), both nonces, entry, rank, size and name with the secret as key. Then
// the client sends exchange and agreement messages, each after the answer to the message before.
// The store sends left and returned between answers: the ranks have closed their connections, or
// have come back with a hello of store_entry::rejoins, since the last message.
//
// publish, withdraw and find are answered by a reply with the number of the request. A client that
// no longer waits for a reply sends its next request, which ends a find that waits, and ignores
// replies with another number.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "src/net/hmac.hpp"
#include "verbena/base/result.hpp"

namespace verbena::inline VERBENA_ABI::net::detail {

inline constexpr std::uint8_t store_version = 5;
inline constexpr std::size_t max_store_name_bytes = 255;
inline constexpr std::size_t max_value_bytes = std::size_t{64} * 1024;

using blob = std::vector<std::byte>;

/// The parts that a rank contributes: one for all ranks, or one for each rank.
using blobs = std::vector<blob>;

using nonce = std::array<std::byte, 16>;

/// How a rank enters its group.
enum class store_entry : std::uint8_t {
  joins = 0,   ///< a group that begins
  rejoins = 1  ///< as a new process of a rank that has left: it waits for the other ranks
};

struct store_hello {
  std::uint8_t version = store_version;
  store_entry entry = store_entry::joins;
  std::uint32_t rank = 0;
  std::uint32_t size = 0;
  nonce random = {};
  std::string name;
};

/// The proof that a rank has the secret.
struct store_proof {
  digest proof = {};
};

struct store_exchange {
  std::uint32_t timeout_ms = 0;
  std::string name;
  blobs parts;
};

/// Whether an agreement goes on without connected ranks that do not take part before its deadline.
enum class agreement_kind : std::uint8_t {
  leaves_out = 0,  ///< the others expel them, if these are at least half of the connected ranks
  waits = 1        ///< the agreement fails
};

/// An exchange of the ranks that are connected. It ends failures of exchanges.
struct store_agreement {
  std::uint32_t timeout_ms = 0;
  agreement_kind kind = agreement_kind::leaves_out;
  std::uint32_t renewal = 0;           ///< the number of store_agreed; 0: a renewal begins
  std::vector<std::uint32_t> awaited;  ///< ranks that must take part
  std::string name;
  blobs parts;
};

/// Sets the value of a name of the sender.
struct store_publish {
  std::uint32_t number = 0;
  std::string name;
  blob value;
};

/// Removes a name of the sender.
struct store_withdraw {
  std::uint32_t number = 0;
  std::string name;
};

/// Waits until a rank has published a name.
struct store_find {
  std::uint32_t number = 0;
  std::uint32_t timeout_ms = 0;
  std::uint32_t rank = 0;
  std::string name;
};

/// The outcome of a request about a value.
enum class value_outcome : std::uint8_t {
  done = 0,            ///< with the value that was found
  missing = 1,         ///< the rank has not published the name before the deadline
  gone = 2,            ///< the rank has closed its connection to the store
  interrupted = 3,     ///< the rank of store_reply::detail began an agreement
  unknown = 4,         ///< the sender has not published the name
  too_many = 5,        ///< the sender has as many values as permitted: store_reply::detail
  too_many_bytes = 6,  ///< the values of the sender exceed a limit: store_reply::detail
  full = 7             ///< the values of all groups exceed a limit: store_reply::detail
};

struct store_reply {
  std::uint32_t number = 0;  ///< of the request
  value_outcome outcome = value_outcome::done;
  std::uint64_t detail = 0;
  blob value;
};

/// Why an exchange failed.
enum class store_failure : std::uint8_t {
  missing = 1,        ///< the ranks have not called it before a deadline passed
  gone = 2,           ///< the ranks have closed their connection to the store
  duplicate = 3,      ///< another process has the rank of the sender
  other_size = 4,     ///< the ranks state another size of the group than the sender
  other_name = 5,     ///< the ranks are in an exchange of another name
  wrong_parts = 6,    ///< the ranks contributed neither one part nor one for each rank
  too_large = 7,      ///< the parts for a rank exceed the limit of the store
  full = 8,           ///< the store has no room for another group or rank
  other_version = 9,  ///< the sender has another version of the protocol
  other_secret = 10,  ///< the sender has not proved that it has the secret of the store
  interrupted = 11,   ///< the ranks began an agreement during the exchange
  expelled = 12,      ///< the other ranks have agreed to continue without the receiver
  outdated = 13       ///< a renewal has failed, or the ranks have begun another one
};

struct store_failed {
  store_failure why = store_failure::missing;
  std::uint32_t rank = 0;  ///< whose deadline passed
  std::vector<std::uint32_t> ranks;
  std::string name;  ///< of the exchange
};

/// The proof that the store has the secret, and its demand for that of the rank.
struct store_challenge {
  nonce random = {};
  digest proof = {};
};

using store_request = std::variant<store_hello, store_exchange, store_proof, store_agreement,
                                   store_publish, store_withdraw, store_find>;
/// Ranks that have closed their connections.
struct store_left {
  std::vector<std::uint32_t> ranks;
};
/// Ranks that have come back and wait for an agreement.
struct store_returned {
  std::vector<std::uint32_t> ranks;
};
/// The ranks that took part in an agreement, in ascending order, and the part of each.
struct store_agreed {
  std::uint32_t renewal = 0;  ///< for the later steps
  std::vector<std::uint32_t> ranks;
  blobs parts;
};
using store_answer = std::variant<blobs, store_failed, store_left, store_challenge, store_agreed,
                                  store_returned, store_reply>;

[[nodiscard]] blob encode(const store_hello& of);
[[nodiscard]] blob encode(const store_failed& of);
[[nodiscard]] blob encode(const store_proof& of);
[[nodiscard]] blob encode(const store_challenge& of);
[[nodiscard]] blob encode(const store_withdraw& of);
[[nodiscard]] blob encode(const store_find& of);
[[nodiscard]] blob encode(const store_reply& of);
/// Returns the proof of a side, "store" or "rank", for a hello and the nonce of the store.
[[nodiscard]] digest prove(std::string_view secret, std::string_view side, const store_hello& hello,
                           const nonce& of_store);
[[nodiscard]] blob encode_left(std::span<const std::uint32_t> ranks);
[[nodiscard]] blob encode_returned(std::span<const std::uint32_t> ranks);
/// Encodes an exchange. `parts` are not copied into a message first.
[[nodiscard]] blob encode_exchange(std::uint32_t timeout_ms, std::string_view name,
                                   std::span<const std::span<const std::byte>> parts);
/// Encodes a value to publish, without a copy in a message first.
[[nodiscard]] blob encode_publish(std::uint32_t number, std::string_view name,
                                  std::span<const std::byte> value);
/// Encodes an agreement; `of.parts` is not used.
[[nodiscard]] blob encode_agreement(const store_agreement& of,
                                    std::span<const std::span<const std::byte>> parts);
/// Encodes the answer to an agreement.
[[nodiscard]] blob encode_agreed(std::uint32_t renewal, std::span<const std::uint32_t> ranks,
                                 std::span<const std::span<const std::byte>> parts);
/// Returns the bytes that encode_agreed() needs.
[[nodiscard]] std::size_t agreed_bytes(std::span<const std::uint32_t> ranks,
                                       std::span<const std::span<const std::byte>> parts) noexcept;
/// Encodes the answer to an exchange.
[[nodiscard]] blob encode_done(std::span<const std::span<const std::byte>> parts);
/// Returns the bytes that encode_done() needs.
[[nodiscard]] std::size_t done_bytes(std::span<const std::span<const std::byte>> parts) noexcept;

/// Returns whether a value can have the name: 1 to 255 printable characters of ASCII.
[[nodiscard]] bool is_value_name(std::string_view name) noexcept;

/// Errors (both `protocol`): unknown type, entry, kind, outcome or failure, counts that exceed the
/// message, bytes after the message, more than max_ranks parts or ranks, values of more than
/// max_value_bytes, names of values for which is_value_name() is false.
[[nodiscard]] result<store_request> decode_request(std::span<const std::byte> bytes);
[[nodiscard]] result<store_answer> decode_answer(std::span<const std::byte> bytes);

}  // namespace verbena::inline VERBENA_ABI::net::detail
