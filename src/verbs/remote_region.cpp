// SPDX-License-Identifier: MIT
#include "verbena/verbs/remote_region.hpp"

#include <fmt/format.h>

#include <limits>

#include "src/base/hash.hpp"
#include "verbena/base/bytes.hpp"

namespace verbena::inline VERBENA_ABI {
namespace {

error refuse(const std::string& why) { return error::protocol("remote_region::decode", {}, why); }

}  // namespace

result<remote_region> remote_region::try_make(parts of) {
  const auto refuse_region = [&of](std::string_view reason) {
    return refuse(
        fmt::format("a region of {} bytes at {:#x} exceeds {}", of.length, of.address, reason));
  };
  if (!fits(of)) return refuse_region("the 64-bit address space");
  if (of.length > std::numeric_limits<std::size_t>::max())
    return refuse_region("the address space of this host");
  return remote_region(of);
}

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
  if (!version) return refuse("the description is empty");
  if (*version != wire_version)
    return refuse(fmt::format("the description has version {}, this library reads version {}",
                              *version, std::uint8_t{wire_version}));
  if (bytes.size() != encoded_size)
    return refuse(fmt::format("the description has {} bytes, version {} has {}", bytes.size(),
                              std::uint8_t{wire_version}, std::size_t{encoded_size}));
  // The size was checked, so each read succeeds.
  const auto address = reader.take<std::uint64_t>().value_or(0);
  const auto length = reader.take<std::uint64_t>().value_or(0);
  const remote_key key(reader.take<std::uint32_t>().value_or(0));
  return try_make({.address = address, .length = length, .key = key});
}

result<remote_region> remote_region::try_slice(std::uint64_t offset,
                                               std::uint64_t part_length) const {
  if (!detail::is_inside({offset, part_length}, length()))
    return detail::slice_error("try_slice", outside, {offset, part_length}, length());
  return slice(offset, part_length);
}

std::string to_string(const remote_region& region) {
  return fmt::format("{:#x}+{} (rkey {:#x})", region.address(), region.length(),
                     region.key().value());
}

}  // namespace verbena::inline VERBENA_ABI

std::size_t std::hash<verbena::remote_region>::operator()(
    const verbena::remote_region& of) const noexcept {
  return verbena::detail::hash_of(of.encode());
}
