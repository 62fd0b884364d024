// SPDX-License-Identifier: MIT
// The values of fixed size that peers exchange. Each input is passed to all decoders.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/fuzz/target.hpp"
#include "verbena/channel/message_endpoint.hpp"
#include "verbena/channel/resume_token.hpp"
#include "verbena/verbs/endpoint.hpp"
#include "verbena/verbs/global_route_header.hpp"
#include "verbena/verbs/remote_region.hpp"

namespace verbena {
namespace {

using fuzz::require;

// Decodes a value; an accepted value has one encoding.
template <class Value>
std::optional<Value> check_value(fuzz::input bytes) {
  auto got = Value::decode(bytes);
  if (!got) {
    require(got.error().kind() == error_kind::protocol && !got.error().message().empty());
    return std::nullopt;
  }
  require(std::ranges::equal(got->encode(), bytes));
  require(Value::decode(got->encode()).value() == *got);
  return *std::move(got);
}

void check_route_header(fuzz::input bytes) {
  const auto got = global_route_header::decode(bytes);
  if (!got) {
    require(got.error().kind() == error_kind::protocol);
    return;
  }
  require(bytes.size() >= global_route_header::encoded_size && got->flow_label <= 0xf'ffff);
  require(!to_string(*got).empty());
  if (got->version == global_route_header::form::ipv4)
    require(got->source.is_ipv4_mapped() && got->destination.is_ipv4_mapped() &&
            got->payload_length <= 65'515);
  require(global_route_header::decode(got->encode()).value() == *got);
}

void run_wire_values(fuzz::input bytes) {
  if (const auto got = check_value<endpoint>(bytes)) {
    require(got->queue_pair.value() <= queue_pair_number::max && byte_count(got->mtu) != 0);
    require(!to_string(*got).empty());
  }
  if (const auto got = check_value<remote_region>(bytes)) {
    require(got->length() <= UINT64_MAX - got->address());
    const auto last = got->try_slice(got->length(), 0);
    require(last && last->length() == 0 && !got->try_slice(got->length(), 1));
  }
  if (const auto got = check_value<resume_token>(bytes))
    require(got->self.channel != 0 && got->self.connection != 0);
  if (const auto got = check_value<message_terms>(bytes))
    require(got->message_bytes > 0 && got->receives > 0 && got->word.length() == 8);
  static_cast<void>(check_value<message_endpoint>(bytes));
  check_route_header(bytes);
}

void wire_value_seeds(fuzz::seed_folder& into) {
  endpoint side{.queue_pair = queue_pair_number(17), .first_psn = packet_sequence_number(18)};
  into.add("endpoint_with_lid", side.encode());
  side.gid = parse_gid("192.0.2.1").value();
  into.add("endpoint_with_gid", side.encode());
  const auto word =
      remote_region::try_make({.address = 4096, .length = 8, .key = remote_key(7)}).value();
  into.add("remote_region", word.encode());
  resume_token token{.self = {.channel = 5, .connection = 1}};
  into.add("first_token", token.encode());
  token.before = {.connection = 1, .peer = {.channel = 6, .connection = 1}, .received = 9};
  into.add("second_token", token.encode());
  const message_terms terms{.message_bytes = 4096, .receives = 16, .word = word};
  into.add("terms", terms.encode());
  into.add("message_endpoint", message_endpoint{.terms = terms, .connection = side}.encode());
  global_route_header header{.source = *side.gid, .destination = *side.gid, .hop_limit = 64};
  into.add("route_header_ipv6", header.encode());
  header.version = global_route_header::form::ipv4;
  into.add("route_header_ipv4", header.encode());
}

const fuzz::target wire_values("wire_values", run_wire_values, wire_value_seeds);

}  // namespace
}  // namespace verbena
