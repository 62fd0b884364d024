// SPDX-License-Identifier: MIT
#include "verbena/net/rail_memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "src/net/rail_checks.hpp"
#include "verbena/base/bytes.hpp"

namespace verbena::inline VERBENA_ABI::net {
namespace {

constexpr const char* decode_call = "rail_region::decode";

}  // namespace

std::vector<std::byte> rail_region::encode() const {
  std::vector<std::byte> out(18 + std::size_t{4} * rails_);
  out[0] = std::byte{wire_version};
  out[1] = static_cast<std::byte>(rails_);
  store_network_order(&out[2], address_);
  store_network_order(&out[10], length_);
  for (std::size_t each = 0; each < rails_; ++each)
    store_network_order(&out[18 + 4 * each], keys_[each]);
  return out;
}

result<rail_region> rail_region::decode(std::span<const std::byte> bytes) {
  byte_reader from(bytes);
  const auto version = from.take<std::uint8_t>();
  const auto rails = from.take<std::uint8_t>();
  const auto address = from.take<std::uint64_t>();
  const auto length = from.take<std::uint64_t>();
  if (!length || from.rest().size() != std::size_t{4} * *rails)
    return error::protocol(decode_call, {},
                           fmt::format("{} bytes are no region of rails", bytes.size()));
  if (version != wire_version)
    return error::protocol(decode_call, {},
                           fmt::format("a region of rails has version {}, not {}; use one version "
                                       "of the library on both sides",
                                       *version, wire_version));
  if (*rails == 0 || *rails > max_rails)
    return error::protocol(
        decode_call, {},
        fmt::format("a region has {} rails, which are not 1 to {}", *rails, max_rails));
  VERBENA_TRY(const auto checked,
              remote_region::try_make({.address = *address, .length = *length, .key = {}}));
  rail_region out;
  out.address_ = checked.address();
  out.length_ = checked.length();
  out.rails_ = *rails;
  for (std::size_t each = 0; each < *rails; ++each)
    out.keys_[each] = from.take<std::uint32_t>().value_or(0);
  return out;
}

std::string to_string(const rail_region& of) {
  if (of.rails() == 0) return "a region without rails";
  std::string keys;
  for (std::uint32_t each = 0; each < of.rails(); ++each)
    keys += fmt::format("{}{:#x}", each == 0 ? "" : ", ", of.on(each).key().value());
  return fmt::format("{:#x}+{} (rkeys {})", of.on(0).address(), of.length(), keys);
}

rail_memory& rail_memory::operator=(rail_memory&& other) noexcept {
  rail_memory taken(std::move(other));
  std::swap(memory_, taken.memory_);
  std::swap(first_, taken.first_);
  std::swap(others_, taken.others_);
  std::swap(of_rail_, taken.of_rail_);
  return *this;
}

result<rail_memory> rail_memory::make(std::span<const rail_port> rails, memory_region first,
                                      std::span<std::byte> memory, access_flags access) {
  rail_memory out;
  out.memory_ = memory;
  out.first_.emplace(std::move(first));
  std::vector<const ibv_pd*> domains{rails.front().domain.native()};
  for (const rail_port& each : rails) {
    const auto known = std::ranges::find(domains, each.domain.native());
    out.of_rail_.push_back(static_cast<std::size_t>(known - domains.begin()));
    if (known != domains.end()) continue;
    VERBENA_TRY(auto region, each.domain.register_memory(memory, access));
    out.others_.push_back(std::move(region));
    domains.push_back(each.domain.native());
  }
  return out;
}

result<rail_memory> rail_memory::allocate(std::span<const rail_port> rails, std::size_t bytes,
                                          access_flags access) {
  VERBENA_TRY_VOID(detail::check_rails("rail_memory::allocate", rails));
  VERBENA_TRY(auto first, rails.front().domain.allocate(bytes, access));
  const auto memory = first.bytes();
  return make(rails, std::move(first), memory, access);
}

result<rail_memory> rail_memory::register_memory(std::span<const rail_port> rails,
                                                 std::span<std::byte> memory, access_flags access) {
  VERBENA_TRY_VOID(detail::check_rails("rail_memory::register_memory", rails));
  VERBENA_TRY(auto first, rails.front().domain.register_memory(memory, access));
  return make(rails, std::move(first), memory, access);
}

rail_region rail_memory::remote() const {
  rail_region out;
  const remote_region first = region(0).remote();
  out.address_ = first.address();
  out.length_ = first.length();
  out.rails_ = rails();
  for (std::uint32_t each = 0; each < rails(); ++each)
    out.keys_[each] = region(each).remote_key().value();
  return out;
}

}  // namespace verbena::inline VERBENA_ABI::net
