// SPDX-License-Identifier: MIT
#include "verbena/verbs/remote_region.hpp"

#include <limits>

#include "src/verbs/text.hpp"
#include "verbena/base/bytes.hpp"

namespace verbena::inline VERBENA_ABI {
namespace {

error refuse(const std::string& why) { return error::protocol("remote_region::decode", {}, why); }

}  // namespace

std::array<std::byte, remote_region::encoded_size> remote_region::encode() const noexcept {
  std::array<std::byte, encoded_size> bytes;
  store_network_order(bytes.data(), wire_version);
  store_network_order(bytes.data() + 1, address());
  store_network_order(bytes.data() + 9, length());
  store_network_order(bytes.data() + 17, key().value());
  return bytes;
}

result<remote_region> remote_region::decode(std::span<const std::byte> bytes) {
  byte_reader reader(bytes);
  const auto version = reader.take<std::uint8_t>();
  if (!version) return refuse("there are no bytes");
  if (*version != wire_version)
    return refuse("the description has version " + std::to_string(*version) +
                  ", this library reads version " + std::to_string(wire_version));
  if (bytes.size() != encoded_size)
    return refuse("the description has " + std::to_string(bytes.size()) + " bytes, version " +
                  std::to_string(wire_version) + " has " + std::to_string(encoded_size));
  // The size was checked: none of these can be missing.
  const auto address = reader.take<std::uint64_t>().value_or(0);
  const auto length = reader.take<std::uint64_t>().value_or(0);
  const remote_key key(reader.take<std::uint32_t>().value_or(0));
  const parts described{.address = address, .length = length, .key = key};
  if (!fits(described))
    return refuse("a region of " + std::to_string(length) + " bytes at " +
                  detail::hexadecimal(address) + " ends beyond the address space");
  if (length > std::numeric_limits<std::size_t>::max())
    return refuse("a region of " + std::to_string(length) +
                  " bytes is larger than this machine "
                  "can address");
  return remote_region(described);
}

std::string to_string(const remote_region& region) {
  return detail::hexadecimal(region.address()) + "+" + std::to_string(region.length()) + " (rkey " +
         detail::hexadecimal(region.key().value()) + ")";
}

}  // namespace verbena::inline VERBENA_ABI
