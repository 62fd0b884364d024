// SPDX-License-Identifier: MIT
// Fuzzes the decoders of requests and answers of a store, which any TCP peer can send.
#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "src/net/store_message.hpp"
#include "tests/fuzz/target.hpp"
#include "verbena/net/membership.hpp"

namespace verbena::net::detail {
namespace {

using fuzz::require;

std::vector<std::span<const std::byte>> views(const blobs& of) { return {of.begin(), of.end()}; }

// A message has exactly one encoding, so encoding the decoded message returns the same bytes.
void require_same(std::span<const std::byte> encoded, fuzz::input bytes) {
  require(std::ranges::equal(encoded, bytes));
}

void check_request(fuzz::input bytes) {
  const auto request = decode_request(bytes);
  if (!request) return require(request.error().kind() == error_kind::protocol);
  if (const auto* const hello = std::get_if<store_hello>(&*request)) {
    require(hello->name.size() <= max_store_name_bytes);
    return require_same(encode(*hello), bytes);
  }
  if (const auto* const proof = std::get_if<store_proof>(&*request))
    return require_same(encode(*proof), bytes);
  if (const auto* const agreement = std::get_if<store_agreement>(&*request)) {
    require(agreement->awaited.size() <= max_ranks && agreement->parts.size() <= max_ranks);
    return require_same(encode_agreement(*agreement, views(agreement->parts)), bytes);
  }
  if (const auto* const publish = std::get_if<store_publish>(&*request)) {
    require(is_value_name(publish->name) && publish->value.size() <= max_value_bytes);
    return require_same(encode_publish(publish->number, publish->name, publish->value), bytes);
  }
  if (const auto* const withdraw = std::get_if<store_withdraw>(&*request)) {
    require(is_value_name(withdraw->name));
    return require_same(encode(*withdraw), bytes);
  }
  if (const auto* const find = std::get_if<store_find>(&*request)) {
    require(is_value_name(find->name));
    return require_same(encode(*find), bytes);
  }
  if (const auto* const check = std::get_if<store_check>(&*request))
    return require_same(encode(*check), bytes);
  const auto& exchange = std::get<store_exchange>(*request);
  require(exchange.parts.size() <= max_ranks && exchange.name.size() <= max_store_name_bytes);
  require_same(encode_exchange(exchange, views(exchange.parts)), bytes);
}

void check_answer(fuzz::input bytes) {
  const auto answer = decode_answer(bytes);
  if (!answer) return require(answer.error().kind() == error_kind::protocol);
  if (const auto* const failed = std::get_if<store_failed>(&*answer)) {
    require(failed->ranks.size() <= max_ranks);
    return require_same(encode(*failed), bytes);
  }
  if (const auto* const left = std::get_if<store_left>(&*answer)) {
    require(left->ranks.size() <= max_ranks);
    return require_same(encode_left(left->ranks), bytes);
  }
  if (const auto* const returned = std::get_if<store_returned>(&*answer))
    return require_same(encode_returned(returned->ranks), bytes);
  if (const auto* const agreed = std::get_if<store_agreed>(&*answer))
    return require_same(encode_agreed(agreed->renewal, agreed->ranks, views(agreed->parts)), bytes);
  if (const auto* const reply = std::get_if<store_reply>(&*answer)) {
    require(reply->value.size() <= max_value_bytes);
    return require_same(encode(*reply), bytes);
  }
  if (const auto* const challenge = std::get_if<store_challenge>(&*answer))
    return require_same(encode(*challenge), bytes);
  require_same(encode_done(views(std::get<blobs>(*answer))), bytes);
}

void check_numbered(fuzz::input bytes) {
  const auto message = decode_message(bytes);
  if (!message) return require(message.error().kind() == error_kind::protocol);
  if (message->number == 0) return;  // see check_answer()
  const auto answer = bytes.subspan(bytes_of_number);
  require_same(encode_numbered(message->number, answer), bytes);
  check_answer(answer);
}

void run_store_message(fuzz::input input) {
  check_request(input);
  check_answer(input);
  check_numbered(input);
}

void store_message_seeds(fuzz::seed_folder& into) {
  const blob part(3, std::byte{7});
  const std::array<std::span<const std::byte>, 2> parts{part, {}};
  into.add("hello", encode(store_hello{.rank = 1, .size = 2, .name = "job"}));
  into.add("exchange", encode_exchange({.number = 1, .timeout_ms = 1000, .name = "table"}, parts));
  into.add("agreement", encode_agreement({.number = 2, .awaited = {2}, .name = "readmit"}, parts));
  into.add("agreed", encode_agreed(7, std::array<std::uint32_t, 2>{0, 2}, parts));
  into.add("returned", encode_returned(std::array<std::uint32_t, 1>{2}));
  into.add("publish", encode_publish(3, "weights", part));
  into.add("withdraw", encode(store_withdraw{.number = 4, .name = "weights"}));
  into.add("find", encode(store_find{.number = 5, .timeout_ms = 9, .rank = 1, .name = "weights"}));
  into.add("reply", encode(store_reply{.number = 5, .value = part}));
  into.add("proof", encode(store_proof{}));
  into.add("done", encode_done(parts));
  into.add("left", encode_left(std::array<std::uint32_t, 2>{3, 0}));
  into.add("challenge", encode(store_challenge{}));
  into.add("check", encode(store_check{.number = 6}));
  into.add("numbered", encode_numbered(7, encode_done(parts)));
  into.add("failed", encode(store_failed{.ranks = {0, 3}, .name = "table"}));
}

const fuzz::target store_messages("store_message", run_store_message, store_message_seeds);

}  // namespace
}  // namespace verbena::net::detail
