// SPDX-License-Identifier: MIT
// The option --endpoint of `verbena doctor`.
#include <array>
#include <cstddef>
#include <cstdio>
#include <string>

#include "tests/fuzz/target.hpp"
#include "tools/verbena/doctor/peer_endpoint.hpp"
#include "verbena/base/guid.hpp"

namespace verbena::tool {
namespace {

using fuzz::require;

std::string digits_of(const endpoint& of) {
  std::string text;
  for (const std::byte each : of.encode()) {
    std::array<char, 3> digits{};
    std::snprintf(digits.data(), digits.size(), "%02x", std::to_integer<unsigned>(each));
    text += digits.data();
  }
  return text;
}

void run_peer_endpoint(fuzz::input bytes) {
  const std::string text = fuzz::text_of(bytes);
  const auto got = read_peer_endpoint(text);
  if (!got) {
    require(!std::string(got.error().diagnosis()).empty());
    return;
  }
  require(text.size() == 2 * endpoint::encoded_size);
  std::string lower = text;
  for (char& each : lower)
    if (each >= 'A' && each <= 'F') each = static_cast<char>(each - 'A' + 'a');
  require(digits_of(*got) == lower);
}

void peer_endpoint_seeds(fuzz::seed_folder& into) {
  endpoint side{.queue_pair = queue_pair_number(17), .lid = lid(0xabcd)};
  into.add("lid", digits_of(side));
  side.gid = parse_gid("192.0.2.1").value();
  into.add("gid", digits_of(side));
  into.add("odd", digits_of(side).substr(1));
  into.add("no_digit", "0g");
}

const fuzz::target peer_endpoints("peer_endpoint", run_peer_endpoint, peer_endpoint_seeds);

}  // namespace
}  // namespace verbena::tool
