// SPDX-License-Identifier: MIT
#include "softdev/wire/network.hpp"

#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include "tests/unit/softdev/wire/golden_packets.hpp"

namespace verbena::softdev::wire {
namespace {

network_address ipv4(std::uint8_t last) {
  return {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, last};
}
network_address ipv6(std::uint8_t last) {
  return {0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last};
}
const network_header over_ipv4{.source = ipv4(1), .destination = ipv4(2), .identification = 7};
const network_header over_ipv6{
    .source = ipv6(1), .destination = ipv6(2), .traffic_class = 3, .flow_label = 0x98765};

/// Returns the IP packet of a SEND_ONLY with `payload` bytes.
std::vector<std::byte> packet_with(const network_header& network, std::size_t payload) {
  const std::vector<std::byte> data(payload, std::byte{0x77});
  const packet what{.opcode = make_opcode(packet_transport::rc, operation::send_only),
                    .destination_qpn = 17,
                    .psn = 99,
                    .payload = data};
  std::vector<std::byte> bytes(network_bytes(network) + encoded_bytes(what));
  write_network(network, encoded_bytes(what), bytes);
  const auto body = std::span(bytes).subspan(network_bytes(network));
  const std::size_t covered = encode(what, body);
  store_icrc(icrc(network, body.first(covered)), std::span<std::byte, 4>(body.last<4>()));
  write_udp_checksum(bytes);
  return bytes;
}
packet_fault network_fault(std::span<const std::byte> bytes) {
  network_header ignored;
  std::span<const std::byte> transport;
  return parse_network(bytes, ignored, transport);
}
bool has_valid_icrc(std::span<const std::byte> bytes) {
  network_header network;
  std::span<const std::byte> transport;
  if (parse_network(bytes, network, transport) != packet_fault::none) return false;
  return icrc(network, transport.first(transport.size() - icrc_bytes)) ==
         load_icrc(transport.last<icrc_bytes>());
}
void set16(std::vector<std::byte>& bytes, std::size_t at, std::uint16_t value) {
  bytes[at] = static_cast<std::byte>(value >> 8U);
  bytes[at + 1] = static_cast<std::byte>(value & 0xffU);
}

// parity: rocev2-21
TEST(softdev_wire_network, icrc_of_packets_of_rxe_is_the_recorded_one) {
  for (const golden_packet& golden : golden_packets) {
    const auto bytes = bytes_of(golden);
    network_header network;
    std::span<const std::byte> transport;
    ASSERT_EQ(parse_network(bytes, network, transport), packet_fault::none);
    const auto covered = transport.first(transport.size() - icrc_bytes);
    EXPECT_EQ(icrc(network, covered), golden.icrc) << golden.origin;
    EXPECT_EQ(load_icrc(transport.last<icrc_bytes>()), golden.icrc);
  }
}

// parity: rocev2-21
TEST(softdev_wire_network, icrc_of_ipv6_packets_of_rxe_is_the_recorded_one) {
  for (const golden_packet& golden : golden_ipv6_packets) {
    const auto bytes = bytes_of(golden);
    network_header network;
    std::span<const std::byte> transport;
    ASSERT_EQ(parse_network(bytes, network, transport), packet_fault::none);
    EXPECT_FALSE(is_ipv4(network.source));
    EXPECT_EQ(network.source_port, golden.source_port);
    const auto covered = transport.first(transport.size() - icrc_bytes);
    EXPECT_EQ(icrc(network, covered), golden.icrc) << golden.origin;
    EXPECT_EQ(load_icrc(transport.last<icrc_bytes>()), golden.icrc);
    EXPECT_EQ(recover_identification(network, covered, golden.icrc), std::nullopt);
  }
}

// parity: rocev2-18
TEST(softdev_wire_network, link_local_addresses_have_ten_bits) {
  const auto begins = [](std::uint8_t first, std::uint8_t second) {
    return is_link_local({first, second, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1});
  };
  EXPECT_TRUE(begins(0xfe, 0x80));
  EXPECT_TRUE(begins(0xfe, 0xbf));
  EXPECT_FALSE(begins(0xfe, 0xc0));
  EXPECT_FALSE(begins(0xfe, 0x7f));
  EXPECT_FALSE(is_link_local(ipv4(1)));
}

// The values were computed with Python's zlib.crc32 over the masked pseudo headers.
// parity: rocev2-21
TEST(softdev_wire_network, icrc_over_ipv6_is_that_of_another_implementation) {
  const auto bytes = packet_with(over_ipv6, 5);
  EXPECT_EQ(load_icrc(std::span(bytes).last<4>()), 0x76979a20U);
}

// The values were computed with Python's zlib.crc32. The port is a value of
// VERBENA_SOFTDEV_WIRE_PORT.
// parity: rocev2-22
TEST(softdev_wire_network, icrc_covers_the_destination_port) {
  struct example {
    network_header network;
    std::uint32_t icrc;
  };
  for (const example& each : {example{over_ipv6, 0x0d28'189eU}, example{over_ipv4, 0xb8dc'5642U}}) {
    network_header network = each.network;
    network.destination_port = 14791;
    const auto bytes = packet_with(network, 5);
    EXPECT_EQ(load_icrc(std::span(bytes).last<4>()), each.icrc);
  }
}

// parity: rocev2-12
TEST(softdev_wire_network, packet_to_another_port_is_not_of_roce) {
  network_header network = over_ipv4;
  network.destination_port = 14791;
  EXPECT_EQ(network_fault(packet_with(network, 5)), packet_fault::not_roce);
}

TEST(softdev_wire_network, headers_survive_a_round_trip) {
  for (const network_header& network : {over_ipv4, over_ipv6}) {
    const auto bytes = packet_with(network, 33);
    network_header got;
    std::span<const std::byte> transport;
    ASSERT_EQ(parse_network(bytes, got, transport), packet_fault::none);
    EXPECT_EQ(got, network);
    EXPECT_EQ(transport.size(), 12U + 36U + icrc_bytes);
    EXPECT_TRUE(has_valid_icrc(bytes));
  }
}

// parity: rocev2-22
TEST(softdev_wire_network, each_changed_bit_of_a_covered_field_changes_the_icrc) {
  for (const network_header& network : {over_ipv4, over_ipv6}) {
    const auto bytes = packet_with(network, 6);
    const std::size_t body = network_bytes(network);
    for (std::size_t bit = body * 8; bit < bytes.size() * 8; ++bit) {
      const bool masked = bit / 8 == body + 4;
      auto changed = bytes;
      changed[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
      EXPECT_EQ(has_valid_icrc(changed), masked) << bit;
    }
  }
}

// parity: rocev2-23
TEST(softdev_wire_network, fields_that_routers_change_do_not_change_the_icrc) {
  for (const network_header& network : {over_ipv4, over_ipv6}) {
    const auto bytes = packet_with(network, 6);
    network_header routed = network;
    routed.traffic_class ^= 0xff;
    routed.hop_limit -= 3;
    routed.flow_label ^= 0xf'ffff;
    const auto covered = std::span(bytes).subspan(network_bytes(network)).first(12 + 8);
    EXPECT_EQ(icrc(routed, covered), icrc(network, covered));
    routed.source_port ^= 1;
    EXPECT_NE(icrc(routed, covered), icrc(network, covered));
  }
}

// parity: rocev2-16
TEST(softdev_wire_network, udp_checksum_over_ipv6_makes_the_sum_all_ones) {
  const auto bytes = packet_with(over_ipv6, 7);
  std::uint32_t sum = 17 + static_cast<std::uint32_t>(bytes.size() - 40);
  for (std::size_t i = 8; i < bytes.size(); i += 2)
    sum += std::to_integer<std::uint32_t>(bytes[i]) << 8U |
           std::to_integer<std::uint32_t>(bytes[i + 1]);
  while (sum >> 16U != 0) sum = (sum & 0xffffU) + (sum >> 16U);
  EXPECT_EQ(sum, 0xffffU);
}

// parity: rocev2-25
TEST(softdev_wire_network, identification_of_packets_of_rxe_is_solved) {
  for (const golden_packet& golden : golden_packets) {
    const auto bytes = bytes_of(golden);
    network_header network;
    std::span<const std::byte> transport;
    ASSERT_EQ(parse_network(bytes, network, transport), packet_fault::none);
    network.identification = 0xbeef;  // unknown to a receiver
    const auto covered = transport.first(transport.size() - icrc_bytes);
    EXPECT_EQ(recover_identification(network, covered, golden.icrc), golden.identification);
  }
}

// parity: rocev2-25
TEST(softdev_wire_network, each_identification_is_solved) {
  network_header network = over_ipv4;
  const std::array<std::byte, 12 + 8> covered{};
  for (unsigned id = 0; id < 0x10000; id += 7) {
    network.identification = static_cast<std::uint16_t>(id);
    EXPECT_EQ(recover_identification(over_ipv4, covered, icrc(network, covered)), id);
  }
}

// parity: rocev2-25
TEST(softdev_wire_network, identification_of_a_damaged_packet_is_found_once_in_65536) {
  std::mt19937 random(5);
  std::array<std::byte, 12 + 64> covered{};
  unsigned found = 0;
  constexpr unsigned packets = 1U << 18U;
  for (unsigned i = 0; i < packets; ++i)
    found += recover_identification(over_ipv4, covered, random()).has_value() ? 1 : 0;
  EXPECT_LE(found, 20U);  // 4 are expected
}

TEST(softdev_wire_network, identification_over_ipv6_does_not_exist) {
  const std::array<std::byte, 12> covered{};
  EXPECT_EQ(recover_identification(over_ipv6, covered, icrc(over_ipv6, covered)), std::nullopt);
}

// parity: rocev2-15
TEST(softdev_wire_network, truncated_packet_is_refused_at_each_length) {
  for (const network_header& network : {over_ipv4, over_ipv6}) {
    const auto bytes = packet_with(network, 8);
    for (std::size_t size = 0; size < bytes.size(); ++size)
      EXPECT_NE(network_fault(std::span(bytes).first(size)), packet_fault::none) << size;
    auto longer = bytes;
    longer.resize(bytes.size() + 9);
    EXPECT_EQ(network_fault(longer), packet_fault::none);
  }
}

// parity: rocev2-13
TEST(softdev_wire_network, invalid_header_of_ipv4_is_refused) {
  const auto changed = [](std::size_t at, unsigned value, bool mend_checksum) {
    auto bytes = packet_with(over_ipv4, 8);
    const auto before = std::to_integer<unsigned>(bytes[at]);
    bytes[at] = static_cast<std::byte>(value);
    if (mend_checksum) {
      // Updates the header checksum (RFC 1624).
      const unsigned shift = at % 2 == 0 ? 8 : 0;
      unsigned sum =
          std::to_integer<unsigned>(bytes[10]) << 8U | std::to_integer<unsigned>(bytes[11]);
      sum = (~sum & 0xffffU) + (~(before << shift) & 0xffffU) + (value << shift);
      while (sum >> 16U != 0) sum = (sum & 0xffffU) + (sum >> 16U);
      set16(bytes, 10, static_cast<std::uint16_t>(~sum));
    }
    return network_fault(bytes);
  };
  EXPECT_EQ(changed(0, 0x46, true), packet_fault::network_header_invalid);  // IP options
  EXPECT_EQ(changed(0, 0x55, true), packet_fault::network_header_invalid);
  EXPECT_EQ(changed(3, 0xff, true), packet_fault::network_length_wrong);
  EXPECT_EQ(changed(3, 19, true), packet_fault::network_length_wrong);
  EXPECT_EQ(changed(6, 0x60, true), packet_fault::network_fragment);
  EXPECT_EQ(changed(7, 0x01, true), packet_fault::network_fragment);
  EXPECT_EQ(changed(6, 0x00, true), packet_fault::network_header_invalid);
  EXPECT_EQ(changed(9, 6, true), packet_fault::not_roce);
  EXPECT_EQ(changed(8, 63, true), packet_fault::none);
  EXPECT_EQ(changed(8, 63, false), packet_fault::network_checksum_wrong);
  EXPECT_EQ(changed(25, 3, false), packet_fault::network_length_wrong);  // UDP length
  EXPECT_EQ(changed(22, 0, false), packet_fault::not_roce);              // destination port
}

// parity: rocev2-14
TEST(softdev_wire_network, invalid_header_of_ipv6_is_refused) {
  const auto changed = [](std::size_t at, unsigned value) {
    auto bytes = packet_with(over_ipv6, 8);
    bytes[at] = static_cast<std::byte>(value);
    return network_fault(bytes);
  };
  EXPECT_EQ(changed(0, 0x70), packet_fault::network_header_invalid);
  EXPECT_EQ(changed(5, 0xff), packet_fault::network_length_wrong);
  EXPECT_EQ(changed(5, 4), packet_fault::network_length_wrong);
  EXPECT_EQ(changed(6, 44), packet_fault::not_roce);  // a fragment header
  EXPECT_EQ(changed(43, 0), packet_fault::not_roce);
  auto mapped = packet_with(over_ipv6, 8);
  const network_address address = ipv4(9);
  for (std::size_t i = 0; i < address.size(); ++i)
    mapped[8 + i] = static_cast<std::byte>(address[i]);
  EXPECT_EQ(network_fault(mapped), packet_fault::network_header_invalid);
}

}  // namespace
}  // namespace verbena::softdev::wire
