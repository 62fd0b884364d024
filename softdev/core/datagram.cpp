// SPDX-License-Identifier: MIT
#include "softdev/core/datagram.hpp"

#include <algorithm>

namespace verbena::softdev {
namespace {

constexpr std::size_t ipv4_offset = 20;
constexpr std::uint8_t default_hops = 64;
constexpr std::uint8_t udp_protocol = 17;
constexpr std::uint8_t infiniband_transport = 0x1b;
// Behind the network header: UDP, base transport header, datagram header, invariant checksum.
constexpr std::uint32_t udp_bytes = 8;
constexpr std::uint32_t transport_bytes = 12 + 8 + 4;
constexpr std::uint32_t immediate_bytes = 4;

bool is_mapped_ipv4(const gid_bytes& gid) noexcept {
  return std::all_of(gid.begin(), gid.begin() + 10, [](std::uint8_t b) { return b == 0; }) &&
         gid[10] == 0xff && gid[11] == 0xff;
}

void put8(std::span<std::byte> out, std::size_t at, std::uint32_t value) noexcept {
  out[at] = static_cast<std::byte>(value & 0xffU);
}
void put16(std::span<std::byte> out, std::size_t at, std::uint32_t value) noexcept {
  put8(out, at, value >> 8U);
  put8(out, at + 1, value);
}
void put_bytes(std::span<std::byte> out, std::size_t at,
               std::span<const std::uint8_t> bytes) noexcept {
  std::ranges::transform(bytes, out.begin() + static_cast<std::ptrdiff_t>(at),
                         [](std::uint8_t b) { return std::byte{b}; });
}

/// The checksum of an IPv4 header of 20 bytes (RFC 791).
std::uint32_t checksum(std::span<const std::byte> header) noexcept {
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i < 20; i += 2)
    sum += std::to_integer<std::uint32_t>(header[i]) << 8U |
           std::to_integer<std::uint32_t>(header[i + 1]);
  while (sum >> 16U != 0) sum = (sum & 0xffffU) + (sum >> 16U);
  return ~sum & 0xffffU;
}

}  // namespace

bool is_multicast(const gid_bytes& gid) noexcept {
  constexpr std::uint8_t class_d = 0xe0;
  return gid[0] == 0xff || (is_mapped_ipv4(gid) && (gid[12] & 0xf0U) == class_d);
}

datagram_route route_of(std::span<const std::byte, grh_bytes> header) noexcept {
  const auto byte = [&](std::size_t at) { return std::to_integer<std::uint8_t>(header[at]); };
  const auto copy = [](std::span<const std::byte> from, std::span<std::uint8_t> to) {
    std::ranges::transform(from, to.begin(),
                           [](std::byte b) { return std::to_integer<std::uint8_t>(b); });
  };
  datagram_route out;
  if (byte(ipv4_offset) == 0x45 && byte(0) == 0) {
    for (gid_bytes* const each : {&out.source, &out.destination}) (*each)[10] = (*each)[11] = 0xff;
    copy(header.last<8>().first<4>(), std::span(out.source).last<4>());
    copy(header.last<4>(), std::span(out.destination).last<4>());
    out.traffic_class = byte(ipv4_offset + 1);
    out.hop_limit = byte(ipv4_offset + 8);
    return out;
  }
  copy(header.subspan<8, 16>(), out.source);
  copy(header.last<16>(), out.destination);
  out.traffic_class = static_cast<std::uint8_t>((byte(0) & 0xfU) << 4U | byte(1) >> 4U);
  out.flow_label = (byte(1) & 0xfU) << 16U | std::uint32_t{byte(2)} << 8U | byte(3);
  out.hop_limit = byte(7);
  out.over_udp = byte(6) == udp_protocol;
  return out;
}

gid_bytes destination_of(std::span<const std::byte, grh_bytes> header) noexcept {
  return route_of(header).destination;
}

datagram_address::datagram_address(const datagram_route& route, datagram_origin origin) noexcept
    : origin_(origin),
      is_ipv4_(route.over_udp && is_mapped_ipv4(route.source) && is_mapped_ipv4(route.destination)),
      over_udp_(route.over_udp) {
  origin_.has_grh = true;
  const std::uint8_t hops = route.hop_limit == 0 ? default_hops : route.hop_limit;
  if (is_ipv4_) {
    const std::span<std::byte> ip = std::span(header_).subspan(ipv4_offset);
    put8(ip, 0, 0x45);
    put8(ip, 1, route.traffic_class);
    put16(ip, 6, 0x4000);  // do not fragment
    put8(ip, 8, hops);
    put8(ip, 9, udp_protocol);
    put_bytes(ip, 12, std::span(route.source).last<4>());
    put_bytes(ip, 16, std::span(route.destination).last<4>());
    return;
  }
  put8(header_, 0, 0x60U | route.traffic_class >> 4U);
  put8(header_, 1, (route.traffic_class & 0xfU) << 4U | (route.flow_label >> 16U & 0xfU));
  put16(header_, 2, route.flow_label & 0xffffU);
  put8(header_, 6, over_udp_ ? udp_protocol : infiniband_transport);
  put8(header_, 7, hops);
  put_bytes(header_, 8, route.source);
  put_bytes(header_, 24, route.destination);
}

void datagram_address::write(std::span<std::byte, grh_bytes> out, std::uint32_t payload_bytes,
                             bool immediate) const noexcept {
  std::ranges::copy(header_, out.begin());
  if (!origin_.has_grh) return;
  const std::uint32_t padded = (payload_bytes + 3) / 4 * 4;
  const std::uint32_t bytes =
      (over_udp_ ? udp_bytes : 0) + transport_bytes + (immediate ? immediate_bytes : 0) + padded;
  if (!is_ipv4_) return put16(out, 4, bytes);
  const std::span<std::byte> ip = out.subspan<ipv4_offset>();
  put16(ip, 2, 20 + bytes);
  put16(ip, 10, checksum(ip));
}

}  // namespace verbena::softdev
