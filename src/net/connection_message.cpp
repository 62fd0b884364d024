// SPDX-License-Identifier: MIT
#include "src/net/connection_message.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "src/bringup/own_names.hpp"
#include "verbena/base/bytes.hpp"

namespace verbena::inline VERBENA_ABI::net::detail {

void put_bytes(std::vector<std::byte>& to, std::span<const std::byte> bytes) {
  // Not insert(): g++ 12 reports a false -Warray-bounds for it.
  std::ranges::copy(bytes, std::back_inserter(to));
}

std::optional<connection_token> take_token(byte_reader& from) {
  const auto bytes = from.take_bytes(std::tuple_size_v<connection_token>);
  if (!bytes) return std::nullopt;
  connection_token token{};
  std::ranges::copy(*bytes, token.begin());
  return token;
}

namespace {

using bytes_out = std::vector<std::byte>;

constexpr std::uint8_t request_type = 1;
constexpr std::uint8_t answer_type = 2;
constexpr std::uint8_t confirmation_type = 3;
constexpr std::uint8_t close_type = 4;
constexpr std::uint8_t closed_type = 5;
constexpr std::uint8_t version = 2;

template <std::unsigned_integral T>
void put(bytes_out& to, T value) {
  std::array<std::byte, sizeof value> bytes;
  store_network_order(bytes.data(), value);
  std::ranges::copy(bytes, std::back_inserter(to));
}

error broken(const char* what, std::span<const std::byte> bytes) {
  return error::protocol("connect", {},
                         fmt::format("{} bytes do not encode a valid {}", bytes.size(), what));
}

error other_version(std::uint8_t theirs) {
  return error::protocol("connect", {},
                         fmt::format("a connection request has version {}, not {}; use one "
                                     "version of the library in all processes",
                                     theirs, version));
}

/// Returns the fields that both kinds of requests begin with.
template <class Request>
bytes_out encode_head(std::uint8_t type, const Request& of) {
  bytes_out out;
  put(out, type);
  put(out, version);
  put_bytes(out, of.token);
  put(out, of.rank);
  put(out, of.epoch);
  put_bytes(out, of.local.encode());
  return out;
}

/// The fields in front of the endpoint.
struct request_head {
  std::uint8_t version;
  connection_token token;
  std::uint32_t rank;
  std::uint32_t epoch;
};

std::optional<request_head> take_head(byte_reader& from, std::uint8_t type) {
  const auto found = from.take<std::uint8_t>();
  const auto spoken = from.take<std::uint8_t>();
  const auto token = take_token(from);
  const auto rank = from.take<std::uint32_t>();
  const auto epoch = from.take<std::uint32_t>();
  // A field that is missing does not make the shorter ones behind it fail.
  if (found != type || !token || !rank || !epoch) return std::nullopt;
  return request_head{.version = *spoken, .token = *token, .rank = *rank, .epoch = *epoch};
}

}  // namespace

bytes_out encode(const rank_contact& of) {
  const auto board = of.board.encode();
  bytes_out out(board.begin(), board.end());
  put_bytes(out, of.token);
  const std::string where = to_string(of.acceptor);
  put_bytes(out, bytes_of(where));
  return out;
}

result<rank_contact> decode_contact(std::span<const std::byte> bytes) {
  byte_reader from(bytes);
  const auto board = from.take_bytes(remote_region::encoded_size);
  const auto token = take_token(from);
  if (!board || !token) return broken("address of an acceptor", bytes);
  VERBENA_TRY(const auto region, remote_region::decode(*board));
  const auto text = from.rest();
  VERBENA_TRY(auto where, bringup::parse_address(std::string_view(
                              reinterpret_cast<const char*>(text.data()), text.size())));
  if (where.port == 0) return broken("address of an acceptor with a port", bytes);
  return rank_contact{.board = region, .token = *token, .acceptor = std::move(where)};
}

bytes_out encode(const connect_request& of) { return encode_head(request_type, of); }

result<connect_request> decode_connect_request(std::span<const std::byte> bytes) {
  byte_reader from(bytes);
  const auto head = take_head(from, request_type);
  if (!head) return broken("connection request", bytes);
  if (head->version != version) return other_version(head->version);
  VERBENA_TRY(const auto local, verbena::endpoint::decode(from.rest()));
  return connect_request{
      .token = head->token, .rank = head->rank, .epoch = head->epoch, .local = local};
}

bytes_out encode(const connect_answer& of) {
  bytes_out out;
  put(out, answer_type);
  put(out, static_cast<std::uint8_t>(of.what));
  put(out, of.limit);
  if (of.local) put_bytes(out, of.local->encode());
  return out;
}

result<connect_answer> decode_connect_answer(std::span<const std::byte> bytes) {
  byte_reader from(bytes);
  const auto type = from.take<std::uint8_t>();
  const auto what = from.take<std::uint8_t>();
  const auto limit = from.take<std::uint32_t>();
  constexpr auto first = static_cast<std::uint8_t>(connection_answer::accepted);
  constexpr auto last = static_cast<std::uint8_t>(connection_answer::failed);
  if (type != answer_type || !limit || *what < first || *what > last)
    return broken("answer to a connection request", bytes);
  connect_answer out{.what = static_cast<connection_answer>(*what), .limit = *limit};
  if (out.what != connection_answer::accepted)
    return from.rest().empty() ? result<connect_answer>(out)
                               : broken("answer to a connection request", bytes);
  VERBENA_TRY(out.local, verbena::endpoint::decode(from.rest()));
  return out;
}

bytes_out encode_confirmation() { return {std::byte{confirmation_type}}; }

result<void> check_confirmation(std::span<const std::byte> bytes) {
  if (bytes.size() == 1 && bytes.front() == std::byte{confirmation_type}) return {};
  return broken("confirmation of a connection", bytes);
}

bytes_out encode(const close_request& of) {
  auto out = encode_head(close_type, of);
  put(out, of.number);
  return out;
}

bool is_close_request(std::span<const std::byte> bytes) noexcept {
  return !bytes.empty() && bytes.front() == std::byte{close_type};
}

result<close_request> decode_close_request(std::span<const std::byte> bytes) {
  byte_reader from(bytes);
  const auto head = take_head(from, close_type);
  const auto local = from.take_bytes(verbena::endpoint::encoded_size);
  const auto number = from.take<std::uint32_t>();
  if (!head || !local || !number || !from.rest().empty())
    return broken("request to close a connection", bytes);
  if (head->version != version) return other_version(head->version);
  VERBENA_TRY(const auto end, verbena::endpoint::decode(*local));
  return close_request{.token = head->token,
                       .rank = head->rank,
                       .epoch = head->epoch,
                       .local = end,
                       .number = *number};
}

bytes_out encode(close_answer of) {
  bytes_out out;
  put(out, closed_type);
  put(out, static_cast<std::uint8_t>(of));
  return out;
}

result<close_answer> decode_close_answer(std::span<const std::byte> bytes) {
  byte_reader from(bytes);
  const auto type = from.take<std::uint8_t>();
  const auto what = from.take<std::uint8_t>();
  constexpr auto first = static_cast<std::uint8_t>(close_answer::closed);
  constexpr auto last = static_cast<std::uint8_t>(close_answer::unknown);
  if (type != closed_type || !what || *what < first || *what > last || !from.rest().empty())
    return broken("answer to a request to close a connection", bytes);
  return static_cast<close_answer>(*what);
}

std::string rejection_text(const connect_answer& of) {
  using enum connection_answer;
  switch (of.what) {
    case busy:
      if (of.limit != 0)
        return fmt::format(
            "is busy: its queue_pair_budget of {} queue pairs is in use, partly by "
            "connections in progress; raise the budget",
            of.limit);
      return "is busy: it is serving an earlier request of this rank, or as many requests as its "
             "first_use_options::max_accepting permits; raise the limit if many ranks connect at "
             "once";
    case crossed:
      return "is connecting to this rank at the same time; its request has precedence but did not "
             "complete before the deadline; use a longer deadline";
    case connected:
      return "is connected to this rank, but this rank is not connected to it; if this persists, "
             "call shrink()";
    case other_epoch:
      return "is changing its members, or this rank is not one of its members";
    case no_room:
      return fmt::format(
          "cannot connect: all {} queue pairs of its queue_pair_budget are in use; raise the limit "
          "of "
          "its queue_pair_budget",
          of.limit);
    case failed:
      return "could not create or connect a queue pair; its log has the reason";
    case accepted:
      break;
  }
  return "accepted without an endpoint";
}

result<void> check_contacts(const char* call, std::span<const rank_contact> of,
                            std::span<const std::uint32_t> ranks) {
  const auto is_loopback = [of](std::uint32_t rank) {
    return bringup::detail::is_loopback(of[rank].acceptor.host);
  };
  const auto inside = std::ranges::find_if(ranks, is_loopback);
  const auto outside = std::ranges::find_if_not(ranks, is_loopback);
  if (inside == ranks.end() || outside == ranks.end()) return {};
  return error::protocol(
      call, fmt::format("rank {}", *inside),
      fmt::format("peers on other hosts cannot reach it at {}, the address of its connection to "
                  "the store, and rank {} is at {}; set first_use_options::host to an address of "
                  "its host",
                  of[*inside].acceptor.host, *outside, of[*outside].acceptor.host));
}

bool is_wildcard(std::string_view host) noexcept {
  return host == "0.0.0.0" || host == "::" || host == "::ffff:0.0.0.0";
}

bool are_equal(const connection_token& a, const connection_token& b) noexcept {
  std::byte differences{};
  for (std::size_t i = 0; i < a.size(); ++i) differences |= a[i] ^ b[i];
  return differences == std::byte{};
}

}  // namespace verbena::inline VERBENA_ABI::net::detail
