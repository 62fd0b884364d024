// SPDX-License-Identifier: MIT
#include "tools/verbena/doctor/peer_endpoint.hpp"

#include <cstddef>
#include <optional>
#include <vector>

namespace verbena::tool {
namespace {

std::optional<unsigned> digit(char character) {
  constexpr std::string_view lower = "0123456789abcdef";
  constexpr std::string_view upper = "0123456789ABCDEF";
  auto found = lower.find(character);
  if (found == std::string_view::npos) found = upper.find(character);
  if (found == std::string_view::npos) return std::nullopt;
  return static_cast<unsigned>(found);
}

}  // namespace

result<endpoint> read_peer_endpoint(std::string_view digits) {
  std::vector<std::byte> bytes;
  for (; digits.size() >= 2; digits.remove_prefix(2)) {
    const auto high = digit(digits[0]);
    const auto low = digit(digits[1]);
    if (!high || !low) break;
    bytes.push_back(static_cast<std::byte>(*high << 4U | *low));
  }
  if (!digits.empty())
    return error::invalid_argument("--endpoint", "",
                                   "the endpoint must be an even number of hexadecimal digits");
  return endpoint::decode(bytes);
}

}  // namespace verbena::tool
