// SPDX-License-Identifier: MIT
#include "verbena/verbs/global_route_header.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "verbena/base/assert.hpp"
#include "verbena/base/bytes.hpp"

namespace verbena::inline VERBENA_ABI {
namespace {

constexpr std::size_t ipv4_at = 20;  ///< offset of an IPv4 header in the 40 bytes
constexpr std::size_t ipv4_bytes = 20;
constexpr std::size_t checksum_at = 10;  ///< offset in an IPv4 header

using form = global_route_header::form;

// Returns the checksum of an IPv4 header (RFC 791). Skips the checksum field of the header.
std::uint16_t checksum(std::span<const std::byte> ipv4) {
  std::uint32_t sum = 0;
  byte_reader in(ipv4);
  for (std::size_t at = 0; at < ipv4_bytes; at += 2) {
    const auto word = *in.take<std::uint16_t>();
    if (at != checksum_at) sum += word;
  }
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<std::uint16_t>(~sum);
}

std::uint8_t byte_at(std::span<const std::byte> bytes, std::size_t at) {
  return std::to_integer<std::uint8_t>(bytes[at]);
}

result<form> form_of(std::span<const std::byte> bytes) {
  const int first = byte_at(bytes, 0) >> 4;
  const auto ipv4 = bytes.subspan(ipv4_at, ipv4_bytes);
  if (first != 6) {
    if (byte_at(ipv4, 0) >> 4 == 4) return form::ipv4;
    return error::protocol("global_route_header::decode", "",
                           fmt::format("the bytes are neither an IPv6 header nor, at byte 20, an "
                                       "IPv4 header: their versions are {} and {}",
                                       first, byte_at(ipv4, 0) >> 4));
  }
  // The source address of an IPv6 header may by chance look like the start of an IPv4 header.
  if (byte_at(ipv4, 0) != 0x45) return form::ipv6;
  byte_reader sum(ipv4.subspan(checksum_at));
  return *sum.take<std::uint16_t>() == checksum(ipv4) ? form::ipv4 : form::ipv6;
}

gid mapped(std::span<const std::byte> address) {
  std::array<std::uint8_t, 16> bytes{};
  bytes[10] = bytes[11] = 0xff;
  for (std::size_t i = 0; i < 4; ++i) bytes[12 + i] = byte_at(address, i);
  return gid(bytes);
}

gid as_gid(std::span<const std::byte> address) {
  std::array<std::uint8_t, 16> bytes{};
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = byte_at(address, i);
  return gid(bytes);
}

void put(std::span<std::byte> out, std::span<const std::uint8_t> bytes) {
  std::ranges::copy(std::as_bytes(bytes), out.begin());
}

}  // namespace

result<global_route_header> global_route_header::decode(std::span<const std::byte> bytes) {
  if (bytes.size() < encoded_size)
    return error::protocol("global_route_header::decode", "",
                           fmt::format("a GRH has 40 bytes, not {}", bytes.size()));
  VERBENA_TRY(const auto found, form_of(bytes));
  global_route_header header;
  header.version = found;
  if (found == form::ipv4) {
    const auto ipv4 = bytes.subspan(ipv4_at, ipv4_bytes);
    byte_reader in(ipv4);
    static_cast<void>(in.take<std::uint8_t>());  // version and header length
    header.traffic_class = *in.take<std::uint8_t>();
    const auto total = *in.take<std::uint16_t>();
    header.payload_length =
        static_cast<std::uint16_t>(total >= ipv4_bytes ? total - ipv4_bytes : 0);
    static_cast<void>(in.take<std::uint32_t>());  // identification and fragment
    header.hop_limit = *in.take<std::uint8_t>();
    header.next_header = *in.take<std::uint8_t>();
    static_cast<void>(in.take<std::uint16_t>());  // checksum
    header.source = mapped(*in.take_bytes(4));
    header.destination = mapped(*in.take_bytes(4));
    return header;
  }
  byte_reader in(bytes);
  const auto first = *in.take<std::uint32_t>();
  header.traffic_class = static_cast<std::uint8_t>(first >> 20);
  header.flow_label = first & 0xf'ffff;
  header.payload_length = *in.take<std::uint16_t>();
  header.next_header = *in.take<std::uint8_t>();
  header.hop_limit = *in.take<std::uint8_t>();
  header.source = as_gid(*in.take_bytes(16));
  header.destination = as_gid(*in.take_bytes(16));
  return header;
}

std::array<std::byte, global_route_header::encoded_size> global_route_header::encode() const {
  std::array<std::byte, encoded_size> bytes{};
  const std::span out(bytes);
  if (version == form::ipv6) {
    store_network_order(out.data(), std::uint32_t{6} << 28 | std::uint32_t{traffic_class} << 20 |
                                        (flow_label & 0xf'ffff));
    store_network_order(out.data() + 4, payload_length);
    store_network_order(out.data() + 6, next_header);
    store_network_order(out.data() + 7, hop_limit);
    put(out.subspan(8, 16), source.bytes());
    put(out.subspan(24, 16), destination.bytes());
    return bytes;
  }
  VERBENA_ASSERT(source.is_ipv4_mapped() && destination.is_ipv4_mapped(),
                 "an address of an IPv4 header is not an IPv4-mapped GID");
  VERBENA_ASSERT(payload_length <= 0xffff - ipv4_bytes,
                 "the payload of an IPv4 header exceeds 65515 bytes");
  const auto ipv4 = out.subspan(ipv4_at, ipv4_bytes);
  ipv4[0] = std::byte{0x45};
  store_network_order(ipv4.data() + 1, traffic_class);
  store_network_order(ipv4.data() + 2, static_cast<std::uint16_t>(payload_length + ipv4_bytes));
  store_network_order(ipv4.data() + 8, hop_limit);
  store_network_order(ipv4.data() + 9, next_header);
  put(ipv4.subspan(12, 4), std::span(source.bytes()).last(4));
  put(ipv4.subspan(16, 4), std::span(destination.bytes()).last(4));
  store_network_order(ipv4.data() + checksum_at, checksum(ipv4));
  return bytes;
}

std::string to_string(const global_route_header& header) {
  return fmt::format("from {} to {}, hop limit {}", to_string(header.source),
                     to_string(header.destination), header.hop_limit);
}

}  // namespace verbena::inline VERBENA_ABI
