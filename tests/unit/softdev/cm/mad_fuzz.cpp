// SPDX-License-Identifier: MIT
// Messages of connection managers on other hosts.
#include "softdev/cm/mad.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>

#include "tests/fuzz/target.hpp"
#include "tests/unit/softdev/cm/golden_mads.hpp"

namespace verbena::softdev::cm {
namespace {

using fuzz::require;

/// A parsed message is within its ranges, and keeps its meaning when it is written and read again.
void run_mad(fuzz::input input) {
  std::array<std::byte, mad_bytes> bytes{};
  std::copy_n(input.begin(), std::min(input.size(), bytes.size()), bytes.begin());
  const auto parsed = parse_mad(bytes);
  const auto receiver = receiver_of(bytes);
  if (!parsed) return;
  const bool is_request =
      parsed->kind == mad_kind::request || parsed->kind == mad_kind::sidr_request;
  require(receiver.has_value() == !is_request && receiver.value_or(0) == parsed->receiver_id);
  const frame& content = parsed->content;
  require(content.from.queue_pair <= 0xff'ffff && content.from.starting_psn <= 0xff'ffff);
  require(content.from.retry_count <= 7 && content.from.rnr_retry_count <= 7);
  require(content.from.path_mtu <= 5 && content.from.shared_receives <= 1);
  require(parsed->kind == mad_kind::mra || content.data.length == private_limit(content.kind));
  const bool can_be_written =
      content.source.family != address_family::none && parsed->rejection_reason == 0;
  if (is_request && !can_be_written) return;
  std::array<std::byte, mad_bytes> written{};
  write_mad(*parsed, written);
  const auto again = parse_mad(written);
  require(again.has_value() && again->kind == parsed->kind &&
          again->sender_id == parsed->sender_id);
  require(again->receiver_id == parsed->receiver_id && again->subject == parsed->subject);
  require(again->content.source == content.source);
  require(again->content.destination == content.destination);
  require(again->content.from.queue_pair == content.from.queue_pair);
  require(again->content.from.retry_count == content.from.retry_count);
  require(again->content.reason == content.reason);
  require(again->content.data.bytes == content.data.bytes);
}

void mad_seeds(fuzz::seed_folder& into) {
  for (const golden_mad& each : golden_mads) {
    const auto bytes = bytes_of(each);
    into.add((std::string(each.origin) + "_" + std::to_string(each.kind)).c_str(), bytes);
  }
}

const fuzz::target mads("cm_mad", run_mad, mad_seeds);

}  // namespace
}  // namespace verbena::softdev::cm
