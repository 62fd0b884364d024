// SPDX-License-Identifier: MIT
#include "softdev/wire/network.hpp"

#include <algorithm>

#include "softdev/wire/byte_cursor.hpp"
#include "softdev/wire/crc32.hpp"

namespace verbena::softdev::wire {
namespace {

constexpr std::size_t ipv4_bytes = 20;
constexpr std::size_t ipv6_bytes = 40;
constexpr std::size_t udp_bytes = 8;
constexpr std::uint8_t udp_protocol = 17;
constexpr std::uint8_t ipv4_first_byte = 0x45;
constexpr std::uint16_t do_not_fragment = 0x4000;
constexpr std::uint16_t fragment_mask = 0x3fff;  ///< more-fragments flag and fragment offset
constexpr std::size_t ipv4_checksum_offset = 10;
/// The CRC state after eight bytes of 0xff, which replace the local route header of InfiniBand.
constexpr std::uint32_t icrc_start = 0xdebb'20e3;
constexpr std::size_t ipv4_identification_end = 6;
constexpr std::size_t bth_masked_byte = 4;

constexpr std::array<std::uint8_t, 12> mapped_prefix{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

bool over_ipv4(const network_header& which) noexcept {
  return is_ipv4(which.source) && is_ipv4(which.destination);
}

std::uint32_t sum_of(std::span<const std::byte> bytes, std::uint32_t sum = 0) noexcept {
  byte_source from(bytes);
  for (std::size_t i = 0; i + 1 < bytes.size(); i += 2) sum += from.take<std::uint16_t>();
  if (bytes.size() % 2 != 0) sum += std::to_integer<std::uint32_t>(bytes.back()) << 8U;
  return sum;
}

/// The Internet checksum (RFC 1071).
std::uint16_t checksum_of(std::uint32_t sum) noexcept {
  while (sum >> 16U != 0) sum = (sum & 0xffffU) + (sum >> 16U);
  return static_cast<std::uint16_t>(~sum);
}

/// The IP fields that routers can change. The ICRC is computed with ones in their place.
struct variant_fields {
  std::uint8_t traffic_class;
  std::uint8_t hop_limit;
  std::uint32_t flow_label;
  std::uint16_t checksum;
};
constexpr variant_fields masked{0xff, 0xff, 0xf'ffff, 0xffff};

void put_ipv4(const network_header& which, const variant_fields& variant,
              std::size_t transport_bytes, byte_sink& to) noexcept {
  to.put(ipv4_first_byte);
  to.put(variant.traffic_class);
  to.put(static_cast<std::uint16_t>(ipv4_bytes + udp_bytes + transport_bytes));
  to.put(which.identification);
  to.put(do_not_fragment);
  to.put(variant.hop_limit);
  to.put(udp_protocol);
  to.put(variant.checksum);
  to.put_bytes(std::span(which.source).last<4>());
  to.put_bytes(std::span(which.destination).last<4>());
}

void put_ipv6(const network_header& which, const variant_fields& variant,
              std::size_t transport_bytes, byte_sink& to) noexcept {
  to.put(0x6000'0000U | std::uint32_t{variant.traffic_class} << 20U | variant.flow_label);
  to.put(static_cast<std::uint16_t>(udp_bytes + transport_bytes));
  to.put(udp_protocol);
  to.put(variant.hop_limit);
  to.put_bytes(which.source);
  to.put_bytes(which.destination);
}

void put_network(const network_header& which, const variant_fields& variant,
                 std::size_t transport_bytes, byte_sink& to) noexcept {
  if (over_ipv4(which))
    put_ipv4(which, variant, transport_bytes, to);
  else
    put_ipv6(which, variant, transport_bytes, to);
  to.put(which.source_port);
  to.put(which.destination_port);
  to.put(static_cast<std::uint16_t>(udp_bytes + transport_bytes));
}

packet_fault parse_ipv4(std::span<const std::byte> bytes, network_header& out,
                        std::span<const std::byte>& rest) noexcept {
  if (bytes.size() < ipv4_bytes || std::to_integer<std::uint8_t>(bytes[0]) != ipv4_first_byte)
    return packet_fault::network_header_invalid;
  byte_source from(bytes);
  from.skip(1);
  out.traffic_class = from.take<std::uint8_t>();
  const std::size_t total = from.take<std::uint16_t>();
  out.identification = from.take<std::uint16_t>();
  const auto fragment = from.take<std::uint16_t>();
  out.hop_limit = from.take<std::uint8_t>();
  const auto protocol = from.take<std::uint8_t>();
  from.skip(2);
  out.source = out.destination = {};
  std::ranges::copy(mapped_prefix, out.source.begin());
  std::ranges::copy(mapped_prefix, out.destination.begin());
  from.take_bytes(std::span(out.source).last<4>());
  from.take_bytes(std::span(out.destination).last<4>());
  if (total < ipv4_bytes || total > bytes.size()) return packet_fault::network_length_wrong;
  if (checksum_of(sum_of(bytes.first(ipv4_bytes))) != 0)
    return packet_fault::network_checksum_wrong;
  if ((fragment & fragment_mask) != 0) return packet_fault::network_fragment;
  // RoCE v2 packets have the don't-fragment flag, which the ICRC covers.
  if (fragment != do_not_fragment) return packet_fault::network_header_invalid;
  if (protocol != udp_protocol) return packet_fault::not_roce;
  rest = bytes.subspan(ipv4_bytes, total - ipv4_bytes);
  return packet_fault::none;
}

packet_fault parse_ipv6(std::span<const std::byte> bytes, network_header& out,
                        std::span<const std::byte>& rest) noexcept {
  if (bytes.size() < ipv6_bytes) return packet_fault::network_header_invalid;
  byte_source from(bytes);
  const auto word = from.take<std::uint32_t>();
  out.traffic_class = static_cast<std::uint8_t>(word >> 20U & 0xffU);
  out.flow_label = word & 0xf'ffffU;
  const std::size_t length = from.take<std::uint16_t>();
  const auto next = from.take<std::uint8_t>();
  out.hop_limit = from.take<std::uint8_t>();
  from.take_bytes(out.source);
  from.take_bytes(out.destination);
  if (length > bytes.size() - ipv6_bytes) return packet_fault::network_length_wrong;
  if (next != udp_protocol) return packet_fault::not_roce;
  // IPv4-mapped addresses do not occur in IPv6 packets (RFC 4038).
  if (is_ipv4(out.source) || is_ipv4(out.destination)) return packet_fault::network_header_invalid;
  rest = bytes.subspan(ipv6_bytes, length);
  return packet_fault::none;
}

}  // namespace

bool is_ipv4(const network_address& which) noexcept {
  return std::ranges::equal(std::span(which).first<mapped_prefix.size()>(), mapped_prefix);
}

bool is_link_local(const network_address& which) noexcept {
  return which[0] == 0xfe && (which[1] & 0xc0U) == 0x80;
}

std::size_t network_bytes(const network_header& which) noexcept {
  return (over_ipv4(which) ? ipv4_bytes : ipv6_bytes) + udp_bytes;
}

packet_fault parse_network(std::span<const std::byte> bytes, network_header& out,
                           std::span<const std::byte>& transport) noexcept {
  if (bytes.empty()) return packet_fault::network_header_invalid;
  const auto version = std::to_integer<unsigned>(bytes[0]) >> 4U;
  out = {};
  std::span<const std::byte> datagram;
  const packet_fault wrong = version == 4   ? parse_ipv4(bytes, out, datagram)
                             : version == 6 ? parse_ipv6(bytes, out, datagram)
                                            : packet_fault::network_header_invalid;
  if (wrong != packet_fault::none) return wrong;
  if (datagram.size() < udp_bytes) return packet_fault::network_length_wrong;
  byte_source from(datagram);
  out.source_port = from.take<std::uint16_t>();
  out.destination_port = from.take<std::uint16_t>();
  if (from.take<std::uint16_t>() != datagram.size()) return packet_fault::network_length_wrong;
  if (out.destination_port != roce_port) return packet_fault::not_roce;
  transport = datagram.subspan(udp_bytes);
  return packet_fault::none;
}

void write_network(const network_header& which, std::size_t transport_bytes,
                   std::span<std::byte> out) noexcept {
  byte_sink to(out);
  put_network(which, {which.traffic_class, which.hop_limit, which.flow_label, 0}, transport_bytes,
              to);
  to.put(std::uint16_t{0});
  if (over_ipv4(which))
    store_network_order(out.data() + ipv4_checksum_offset,
                        checksum_of(sum_of(out.first(ipv4_bytes))));
}

void write_udp_checksum(std::span<std::byte> packet) noexcept {
  if (std::to_integer<unsigned>(packet[0]) >> 4U != 6) return;
  const std::span<std::byte> datagram = packet.subspan(ipv6_bytes);
  constexpr std::size_t checksum_offset = 6;
  constexpr std::size_t addresses_offset = 8;
  store_network_order(datagram.data() + checksum_offset, std::uint16_t{0});
  const auto pseudo_header =
      static_cast<std::uint32_t>(datagram.size()) + udp_protocol +
      sum_of(packet.subspan(addresses_offset, ipv6_bytes - addresses_offset));
  const std::uint16_t sum = checksum_of(sum_of(datagram, pseudo_header));
  constexpr std::uint16_t zero = 0xffff;  // 0 means that there is no checksum
  store_network_order(datagram.data() + checksum_offset, sum != 0 ? sum : zero);
}

std::uint32_t icrc(const network_header& around, std::span<const std::byte> covered) noexcept {
  constexpr std::size_t bth_start = bth_masked_byte + 1;
  std::array<std::byte, max_network_bytes + bth_start> front;
  byte_sink to(front);
  put_network(around, masked, covered.size() + icrc_bytes, to);
  to.put(std::uint16_t{0xffff});
  to.put_bytes(covered.first<bth_masked_byte>());
  to.put(std::uint8_t{0xff});
  const std::uint32_t state = crc32_update(
      icrc_start, {front.data(), static_cast<std::size_t>(to.position() - front.data())});
  return ~crc32_update(state, covered.subspan(bth_start));
}

void store_icrc(std::uint32_t value, std::span<std::byte, icrc_bytes> out) noexcept {
  store_network_order(out.data(), byte_swap(value));
}

std::uint32_t load_icrc(std::span<const std::byte, icrc_bytes> from) noexcept {
  return byte_swap(byte_source(from).take<std::uint32_t>());
}

std::optional<std::uint16_t> recover_identification(const network_header& around,
                                                    std::span<const std::byte> covered,
                                                    std::uint32_t received) noexcept {
  if (!over_ipv4(around)) return std::nullopt;
  network_header zero = around;
  zero.identification = 0;
  // A CRC is linear: the difference of the ICRCs is the CRC of the identification followed by
  // zeros, with the initial state 0. A CRC in state 0 that processes two bytes has the same state
  // as a CRC with these bytes as its state that processes two zero bytes. Reversing the CRC over
  // all of these bytes therefore gives the identification.
  const std::uint32_t difference = icrc(zero, covered) ^ received;
  const std::size_t behind = ipv4_bytes - ipv4_identification_end + udp_bytes + covered.size();
  const std::uint32_t field = crc32_before_zeros(difference, behind + sizeof(std::uint16_t));
  if (field > 0xffffU) return std::nullopt;
  return byte_swap(static_cast<std::uint16_t>(field));
}

}  // namespace verbena::softdev::wire
