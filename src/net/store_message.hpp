// SPDX-License-Identifier: MIT
// The messages between a store and its clients: the blobs of a bringup::stream. All numbers are
// big-endian.
//
//   hello      1 u8   version u8   entry u8   rank u32   size u32   nonce (16 bytes)   name
//   exchange   2 u8   number u32   timeout in ms u32   name   parts
//   proof      3 u8   proof (32 bytes)
//   agreement  4 u8   number u32   timeout in ms u32   agreement_kind u8   renewal u32
//              awaited ranks   name   parts
//   publish    5 u8   number u32   name   value
//   withdraw   6 u8   number u32   name
//   find       7 u8   number u32   timeout in ms u32   rank u32   name
//   check      8 u8   number u32
//
//   done       1 u8   parts
//   failed     2 u8   store_failure u8   rank u32   ranks   name
//   left       3 u8   ranks
//   challenge  4 u8   nonce (16 bytes)   proof (32 bytes)
//   agreed     5 u8   renewal u32   ranks   parts
//   returned   6 u8   ranks
//   reply      7 u8   number u32   value_outcome u8   detail u64   value
//   numbered   8 u8   number u32, then done, failed or agreed
//
//   name       u16 length, bytes
//   ranks      u32 count, u32 each
//   parts      u32 count, and for each part: u32 length, bytes
//   value      u32 length, bytes
//
// A client sends hello once. The store answers with done or failed. This done has one part: the
// maximum size of a message as u64, store_options::max_message_bytes. A store with a
// secret first answers with challenge and expects proof. A proof is the HMAC-SHA-256 of the side
// ("store" or "rank"), both nonces, entry, rank, size and name, with the secret as the key. The
// formats of hello and of a failed without number are equal in all versions, so that each version
// can report store_failure::other_version.
//
// Then the client sends requests with numbers, which are not 0. The store answers exchange and
// agreement with a numbered message that has the number of the request. The client sends each of
// them after the answer to the previous one. After a timeout, the client ignores this answer, but
// sends its next request only after it. A failed without number is the last message of the store:
// store_failure::expelled. Between answers, the store sends left and returned: these ranks have
// closed their connections, or have connected again with store_entry::rejoins, since the last such
// message.
//
// The store answers publish, withdraw, find and check with a reply that has the number of the
// request. After a timeout, the client may send its next request, which ends a pending find. The
// client ignores replies with another number.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "src/net/hmac.hpp"
#include "verbena/base/result.hpp"

namespace verbena::inline VERBENA_ABI::net::detail {

inline constexpr std::uint8_t store_version = 7;
inline constexpr std::size_t max_store_name_bytes = 255;
inline constexpr std::size_t max_value_bytes = std::size_t{64} * 1024;
/// The limit of the store for the messages of a client that is not admitted yet: a hello, and the
/// proof.
inline constexpr std::size_t max_greeting_bytes = 1024;

using blob = std::vector<std::byte>;

/// The parts that a rank contributes: one part for all ranks, or one part per rank.
using blobs = std::vector<blob>;

using nonce = std::array<std::byte, 16>;

/// How a rank enters its group.
enum class store_entry : std::uint8_t {
  joins = 0,   ///< in group::join()
  rejoins = 1  ///< in group::rejoin(): a new process of a rank that has left
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
  std::uint32_t number = 0;
  std::uint32_t timeout_ms = 0;
  std::string name;
  blobs parts;
};

/// The result of an agreement if connected ranks do not take part before its deadline.
enum class agreement_kind : std::uint8_t {
  leaves_out = 0,  ///< expels these ranks if store_group::can_expel() permits, otherwise fails
  waits = 1        ///< fails
};

/// An exchange of the connected ranks. If it succeeds, exchanges that have failed are possible
/// again.
struct store_agreement {
  std::uint32_t number = 0;
  std::uint32_t timeout_ms = 0;
  agreement_kind kind = agreement_kind::leaves_out;
  std::uint32_t renewal = 0;  ///< store_agreed::renewal of the first step; 0: begins a renewal
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

/// Asks the store for a reply, to check that the store answers.
struct store_check {
  std::uint32_t number = 0;
};

/// The outcome of a request about a value.
enum class value_outcome : std::uint8_t {
  done = 0,            ///< success; store_reply::value is the value of a find
  missing = 1,         ///< the rank did not publish the name before the deadline
  gone = 2,            ///< the rank has closed its connection to the store
  interrupted = 3,     ///< the rank of store_reply::detail began an agreement
  unknown = 4,         ///< withdraw: the sender has not published the name
  too_many = 5,        ///< the sender has the maximum number of values: store_reply::detail
  too_many_bytes = 6,  ///< the values of the sender exceed store_reply::detail bytes
  full = 7             ///< the values of all groups exceed store_reply::detail bytes
};

struct store_reply {
  std::uint32_t number = 0;  ///< number of the request
  value_outcome outcome = value_outcome::done;
  std::uint64_t detail = 0;
  blob value;
};

/// Why a request failed. `ranks` are store_failed::ranks.
enum class store_failure : std::uint8_t {
  missing = 1,        ///< the ranks did not take part before the deadline of `rank`
  gone = 2,           ///< the ranks have closed their connection to the store
  duplicate = 3,      ///< another process has the rank of the sender
  other_size = 4,     ///< the group has another size: `rank`
  other_name = 5,     ///< the ranks are in an exchange or step with another name
  wrong_parts = 6,    ///< the ranks contributed neither one part nor one for each rank
  too_large = 7,      ///< the parts for a rank exceed the limit of the store
  full = 8,           ///< the store has no room for another group or rank
  other_version = 9,  ///< the sender has another version of the protocol
  other_secret = 10,  ///< the sender has not proved that it has the secret of the store
  interrupted = 11,   ///< the ranks began an agreement during the exchange
  expelled = 12,      ///< the other ranks have agreed to continue without the receiver
  outdated = 13,      ///< a renewal has failed, or the ranks have begun another one
  /// The sender rejoins a group that is still forming: `ranks` have not joined. Or no member of the
  /// group is connected: `ranks` is empty.
  forming = 14
};

struct store_failed {
  store_failure why = store_failure::missing;
  std::uint32_t rank = 0;  ///< see store_failure; usually the rank whose deadline passed
  std::vector<std::uint32_t> ranks;
  std::string name;  ///< name of the exchange or step
};

/// Returns the failure of a rejoin into a group of which no member is connected.
[[nodiscard]] inline store_failed without_members(std::string name = {}) {
  return {.why = store_failure::forming, .ranks = {}, .name = std::move(name)};
}

/// The proof that the store has the secret, and the nonce for the proof of the rank.
struct store_challenge {
  nonce random = {};
  digest proof = {};
};

using store_request = std::variant<store_hello, store_exchange, store_proof, store_agreement,
                                   store_publish, store_withdraw, store_find, store_check>;
/// Ranks that have closed their connections.
struct store_left {
  std::vector<std::uint32_t> ranks;
};
/// Ranks that have connected again and wait in rejoin().
struct store_returned {
  std::vector<std::uint32_t> ranks;
};
/// The ranks that took part in an agreement, in ascending order, and their parts for the receiver.
struct store_agreed {
  std::uint32_t renewal = 0;  ///< number of the renewal, for its later steps
  std::vector<std::uint32_t> ranks;
  blobs parts;
};
using store_answer = std::variant<blobs, store_failed, store_left, store_challenge, store_agreed,
                                  store_returned, store_reply>;

/// A message of the store.
struct store_message {
  std::uint32_t number = 0;  ///< number of the answered exchange or agreement; 0: not numbered
  store_answer what;
};

[[nodiscard]] blob encode(const store_hello& of);
[[nodiscard]] blob encode(const store_failed& of);
[[nodiscard]] blob encode(const store_proof& of);
[[nodiscard]] blob encode(const store_challenge& of);
[[nodiscard]] blob encode(const store_withdraw& of);
[[nodiscard]] blob encode(const store_find& of);
[[nodiscard]] blob encode(const store_check& of);
[[nodiscard]] blob encode(const store_reply& of);
/// Returns the proof of a side, "store" or "rank", for a hello and the nonce of the store.
[[nodiscard]] digest prove(std::string_view secret, std::string_view side, const store_hello& hello,
                           const nonce& of_store);
[[nodiscard]] blob encode_left(std::span<const std::uint32_t> ranks);
[[nodiscard]] blob encode_returned(std::span<const std::uint32_t> ranks);
/// Encodes an exchange with `parts`. `of.parts` is ignored.
[[nodiscard]] blob encode_exchange(const store_exchange& of,
                                   std::span<const std::span<const std::byte>> parts);
/// Encodes a publish request, without a store_publish.
[[nodiscard]] blob encode_publish(std::uint32_t number, std::string_view name,
                                  std::span<const std::byte> value);
/// Encodes an agreement with `parts`. `of.parts` is ignored.
[[nodiscard]] blob encode_agreement(const store_agreement& of,
                                    std::span<const std::span<const std::byte>> parts);
/// Encodes the answer to an agreement.
[[nodiscard]] blob encode_agreed(std::uint32_t renewal, std::span<const std::uint32_t> ranks,
                                 std::span<const std::span<const std::byte>> parts);
/// Returns the size in bytes of the result of encode_agreed().
[[nodiscard]] std::size_t agreed_bytes(std::span<const std::uint32_t> ranks,
                                       std::span<const std::span<const std::byte>> parts) noexcept;
/// The number of bytes that encode_numbered() adds to an answer.
inline constexpr std::size_t bytes_of_number = 5;
/// Returns the numbered message with an encoded done, failed or agreed.
[[nodiscard]] blob encode_numbered(std::uint32_t number, std::span<const std::byte> answer);
/// Encodes the answer that admits a rank, with the limit of the store.
[[nodiscard]] blob encode_admission(std::size_t max_message_bytes);
/// Returns the limit of the store. Errors: `protocol` if `admission` is not the result of
/// encode_admission() with a permitted limit.
[[nodiscard]] result<std::size_t> read_admission(const blobs& admission);
/// Encodes the answer to an exchange.
[[nodiscard]] blob encode_done(std::span<const std::span<const std::byte>> parts);
/// Returns the size in bytes of the result of encode_done().
[[nodiscard]] std::size_t done_bytes(std::span<const std::span<const std::byte>> parts) noexcept;

/// Returns true if `name` is a valid name of a value: 1 to 255 printable ASCII characters.
[[nodiscard]] bool is_value_name(std::string_view name) noexcept;

/// Errors: `protocol` for an unknown type, entry, kind, outcome or failure, counts that exceed the
/// message, bytes after the message, more than max_ranks parts or ranks, values of more than
/// max_value_bytes, names of values for which is_value_name() is false, and numbers 0.
[[nodiscard]] result<store_request> decode_request(std::span<const std::byte> bytes);
[[nodiscard]] result<store_message> decode_message(std::span<const std::byte> bytes);
/// Decodes a message without its number.
[[nodiscard]] result<store_answer> decode_answer(std::span<const std::byte> bytes);

}  // namespace verbena::inline VERBENA_ABI::net::detail
