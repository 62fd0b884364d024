// SPDX-License-Identifier: MIT
#include "verbena/base/guid.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace verbena::inline VERBENA_ABI {
namespace {

constexpr std::array<std::uint8_t, 12> ipv4_mapped_prefix = {0, 0, 0, 0, 0,    0,
                                                             0, 0, 0, 0, 0xff, 0xff};

std::uint64_t load_number(const std::uint8_t* bytes) noexcept {
  std::uint64_t value;
  std::memcpy(&value, bytes, sizeof value);
  return network_order(value);
}

}  // namespace

guid guid::from_network_order(std::uint64_t be64) noexcept {
  guid made;
  std::memcpy(made.bytes_.data(), &be64, sizeof be64);
  return made;
}

std::string to_string(guid id) {
  std::array<char, 20> text;
  const auto& b = id.bytes();
  std::snprintf(text.data(), text.size(), "%02x%02x:%02x%02x:%02x%02x:%02x%02x", b[0], b[1], b[2],
                b[3], b[4], b[5], b[6], b[7]);
  return text.data();
}

std::uint64_t gid::subnet_prefix() const noexcept { return load_number(bytes_.data()); }
std::uint64_t gid::interface_id() const noexcept { return load_number(bytes_.data() + 8); }
bool gid::is_ipv4_mapped() const noexcept {
  return std::equal(ipv4_mapped_prefix.begin(), ipv4_mapped_prefix.end(), bytes_.begin());
}

std::string to_string(const gid& id) {
  std::array<char, INET6_ADDRSTRLEN> text;
  ::inet_ntop(AF_INET6, id.bytes().data(), text.data(), text.size());
  return text.data();
}

std::optional<gid> parse_gid(const std::string& text) {
  if (text.find('\0') != std::string::npos)
    return std::nullopt;  // inet_pton(3) would ignore the rest
  std::array<std::uint8_t, 16> bytes{};
  if (::inet_pton(AF_INET6, text.c_str(), bytes.data()) == 1) return gid(bytes);
  std::copy(ipv4_mapped_prefix.begin(), ipv4_mapped_prefix.end(), bytes.begin());
  if (::inet_pton(AF_INET, text.c_str(), bytes.data() + 12) == 1) return gid(bytes);
  return std::nullopt;
}

}  // namespace verbena::inline VERBENA_ABI
