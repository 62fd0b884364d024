// SPDX-License-Identifier: MIT
#include "softdev/wire/packet.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <set>
#include <span>
#include <vector>

#include "softdev/wire/network.hpp"
#include "tests/unit/softdev/wire/golden_packets.hpp"

namespace verbena::softdev::wire {
namespace {

constexpr std::uint32_t mtu = 1024;

packet_opcode rc(operation what) { return make_opcode(packet_transport::rc, what); }

/// Returns a packet from BTH to ICRC. The ICRC is 0.
std::vector<std::byte> encoded(const packet& what) {
  std::vector<std::byte> bytes(encoded_bytes(what));
  EXPECT_EQ(encode(what, bytes), bytes.size() - icrc_bytes);
  return bytes;
}
packet_fault parsed(std::span<const std::byte> bytes, packet& out) {
  return parse(bytes, mtu, out);
}
packet_fault fault_of(std::span<const std::byte> bytes) {
  packet ignored;
  return parsed(bytes, ignored);
}
/// Returns a SEND_ONLY with `count` bytes.
std::vector<std::byte> with_payload(std::size_t count) {
  const std::vector<std::byte> payload(count, std::byte{0x5a});
  return encoded({.opcode = rc(operation::send_only), .payload = payload});
}

// parity: rocev2-1
TEST(softdev_wire_packet, packet_of_rxe_decodes_to_its_fields) {
  for (const golden_packet& golden : golden_packets) {
    SCOPED_TRACE(golden.origin);
    const auto bytes = bytes_of(golden);
    network_header network;
    std::span<const std::byte> transport;
    ASSERT_EQ(parse_network(bytes, network, transport), packet_fault::none);
    EXPECT_EQ(network.identification, golden.identification);
    EXPECT_EQ(network.source_port, golden.source_port);
    packet got;
    ASSERT_EQ(parse(transport, mtu, got), packet_fault::none);
    EXPECT_EQ(static_cast<unsigned>(got.opcode), golden.opcode);
    EXPECT_EQ(got.solicited, golden.solicited);
    EXPECT_EQ(got.migrated, golden.migrated);
    EXPECT_EQ(got.pkey, golden.pkey);
    EXPECT_EQ(got.destination_qpn, golden.destination_qpn);
    EXPECT_EQ(got.ack_requested, golden.ack_requested);
    EXPECT_EQ(got.psn, golden.psn);
    EXPECT_EQ(got.payload.size(), golden.payload_bytes);
    EXPECT_EQ(got.immediate, golden.immediate);
    EXPECT_EQ(got.original, golden.original);
    EXPECT_EQ(got.datagram, (datagram_header{golden.qkey, golden.source_qpn}));
    const packet_format& format = format_of(got.opcode);
    if (format.atomic) {
      EXPECT_EQ(got.atomic,
                (atomic_operands{golden.address, golden.key, golden.swap_or_add, golden.compare}));
    } else {
      EXPECT_EQ(got.remote, (remote_range{golden.address, golden.key, golden.length}));
    }
    if (format.acknowledgement) {
      EXPECT_EQ(got.answer, (acknowledgement{golden.syndrome, golden.msn}));
    }
  }
}

// parity: rocev2-1
TEST(softdev_wire_packet, packet_of_rxe_encodes_to_the_same_bytes) {
  for (const golden_packet& golden : golden_packets) {
    SCOPED_TRACE(golden.origin);
    const auto bytes = bytes_of(golden);
    network_header network;
    std::span<const std::byte> transport;
    packet got;
    ASSERT_EQ(parse_network(bytes, network, transport), packet_fault::none);
    ASSERT_EQ(parse(transport, mtu, got), packet_fault::none);
    ASSERT_EQ(network_bytes(network) + encoded_bytes(got), bytes.size());
    std::vector<std::byte> made(bytes.size());
    write_network(network, transport.size(), made);
    const auto body = std::span(made).subspan(network_bytes(network));
    const std::size_t covered = encode(got, body);
    ASSERT_EQ(covered + icrc_bytes, body.size());
    store_icrc(icrc(network, body.first(covered)), std::span<std::byte, 4>(body.last<4>()));
    EXPECT_EQ(made, bytes);
  }
}

TEST(softdev_wire_packet, packets_of_rxe_cover_all_operations_without_invalidation) {
  std::set<unsigned> operations;
  for (const golden_packet& golden : golden_packets) operations.insert(golden.opcode);
  // The captures lack SEND LAST and WRITE LAST with immediate data, and SEND ONLY with immediate
  // data over RC.
  EXPECT_GE(operations.size(), 23U);
}

// parity: rocev2-2
TEST(softdev_wire_packet, random_packet_of_each_opcode_survives_a_round_trip) {
  std::mt19937_64 random(20);
  for (unsigned code = 0; code < 256; ++code) {
    const auto opcode = static_cast<packet_opcode>(code);
    const packet_format& format = format_of(opcode);
    if (!format.known) continue;
    for (int round = 0; round < 64; ++round) {
      const auto bits = [&](unsigned count) {
        return random() & ((std::uint64_t{1} << count) - 1);
      };
      std::size_t length = format.payload ? random() % (mtu + 1) : 0;
      if (opcode == packet_opcode::congestion_notification) length = congestion_payload_bytes;
      std::vector<std::byte> payload(length);
      std::ranges::generate(payload, [&] { return static_cast<std::byte>(random()); });
      packet what{.opcode = opcode, .payload = payload};
      what.solicited = bits(1) != 0;
      what.migrated = bits(1) != 0;
      what.fecn = bits(1) != 0;
      what.becn = bits(1) != 0;
      what.ack_requested = bits(1) != 0;
      what.pkey = static_cast<std::uint16_t>(bits(16));
      what.destination_qpn = static_cast<std::uint32_t>(bits(24));
      what.psn = static_cast<std::uint32_t>(bits(24));
      const auto u32 = [&] { return static_cast<std::uint32_t>(random()); };
      if (format.datagram) what.datagram = {u32(), static_cast<std::uint32_t>(bits(24))};
      if (format.remote) what.remote = {random(), u32(), u32() & (max_message_bytes - 1)};
      if (format.atomic) what.atomic = {random(), u32(), random(), random()};
      if (format.acknowledgement)
        what.answer = {static_cast<std::uint8_t>(bits(8)), static_cast<std::uint32_t>(bits(24))};
      if (format.original) what.original = random();
      if (format.immediate) what.immediate = u32();
      if (format.invalidate) what.invalidated_key = u32();
      const auto bytes = encoded(what);
      EXPECT_EQ(bytes.size() % 4, 0U);
      packet got;
      ASSERT_EQ(parsed(bytes, got), packet_fault::none) << code;
      EXPECT_TRUE(std::ranges::equal(got.payload, payload));
      EXPECT_EQ(encoded(got), bytes);
      EXPECT_EQ(got.datagram, what.datagram);
      EXPECT_EQ(got.remote, what.remote);
      EXPECT_EQ(got.atomic, what.atomic);
      EXPECT_EQ(got.invalidated_key, what.invalidated_key);
    }
  }
}

// parity: rocev2-3
TEST(softdev_wire_packet, each_transport_has_its_opcodes) {
  unsigned rc_codes = 0;
  unsigned uc_codes = 0;
  unsigned ud_codes = 0;
  unsigned others = 0;
  for (unsigned code = 0; code < 256; ++code) {
    if (!format_of(static_cast<packet_opcode>(code)).known) continue;
    if (code < 0x20)
      ++rc_codes;
    else if (code < 0x40)
      ++uc_codes;
    else if (code >= 0x60 && code < 0x80)
      ++ud_codes;
    else
      ++others;
  }
  EXPECT_EQ(rc_codes, 23U);
  EXPECT_EQ(uc_codes, 12U);
  EXPECT_EQ(ud_codes, 2U);
  EXPECT_EQ(others, 1U + 64U);
}

// parity: rocev2-6
TEST(softdev_wire_packet, packet_without_room_for_bth_and_icrc_is_too_short) {
  const auto bytes = with_payload(0);
  ASSERT_EQ(bytes.size(), 16U);
  EXPECT_EQ(fault_of(bytes), packet_fault::none);
  for (std::size_t size = 0; size < bytes.size(); ++size)
    EXPECT_EQ(fault_of(std::span(bytes).first(size)), packet_fault::too_short) << size;
}

// parity: rocev2-7
TEST(softdev_wire_packet, length_that_is_no_multiple_of_four_is_refused) {
  auto bytes = with_payload(8);
  for (int i = 0; i < 3; ++i) {
    bytes.push_back({});
    EXPECT_EQ(fault_of(bytes), packet_fault::length_not_aligned);
  }
}

// parity: rocev2-4
TEST(softdev_wire_packet, version_other_than_zero_is_refused) {
  for (unsigned version = 1; version < 16; ++version) {
    auto bytes = with_payload(8);
    bytes[1] |= static_cast<std::byte>(version);
    EXPECT_EQ(fault_of(bytes), packet_fault::version_unknown);
  }
}

// parity: rocev2-5
TEST(softdev_wire_packet, opcode_without_format_is_refused) {
  for (const unsigned code : {0x15U, 0x18U, 0x1cU, 0x1fU, 0x2cU, 0x37U, 0x40U, 0x60U, 0x66U, 0x7fU,
                              0x80U, 0x82U, 0xa4U, 0xbfU}) {
    auto bytes = with_payload(64);
    bytes[0] = static_cast<std::byte>(code);
    EXPECT_EQ(fault_of(bytes), packet_fault::opcode_unknown) << code;
  }
}

// parity: rocev2-6
TEST(softdev_wire_packet, packet_shorter_than_its_headers_is_refused) {
  for (unsigned code = 0; code < 256; ++code) {
    const packet_format& format = format_of(static_cast<packet_opcode>(code));
    if (!format.known) continue;
    std::vector<std::byte> bytes(format.header_bytes() + icrc_bytes);
    bytes[0] = static_cast<std::byte>(code);
    EXPECT_NE(fault_of(bytes), packet_fault::header_missing);
    if (format.header_bytes() == 12) continue;
    bytes.resize(bytes.size() - 4);
    EXPECT_EQ(fault_of(bytes), packet_fault::header_missing) << code;
  }
}

// parity: rocev2-7
TEST(softdev_wire_packet, pad_count_above_the_payload_is_refused) {
  for (unsigned pad = 1; pad < 4; ++pad) {
    auto bytes = with_payload(0);
    bytes[1] = static_cast<std::byte>(pad << 4U);
    EXPECT_EQ(fault_of(bytes), packet_fault::pad_exceeds_payload);
  }
}

// parity: rocev2-8
TEST(softdev_wire_packet, payload_behind_an_opcode_without_payload_is_refused) {
  for (const operation what :
       {operation::read_request, operation::acknowledge, operation::atomic_acknowledge,
        operation::compare_swap, operation::fetch_add}) {
    auto bytes = encoded({.opcode = rc(what)});
    EXPECT_EQ(fault_of(bytes), packet_fault::none);
    bytes.resize(bytes.size() + 4);
    EXPECT_EQ(fault_of(bytes), packet_fault::payload_not_allowed);
  }
}

// parity: rocev2-11
TEST(softdev_wire_packet, congestion_notification_with_another_length_is_refused) {
  const std::array<std::byte, 20> zeros{};
  for (const std::size_t length : {0U, 12U, 15U, 17U, 20U}) {
    const auto bytes = encoded({.opcode = packet_opcode::congestion_notification,
                                .payload = std::span(zeros).first(length)});
    EXPECT_EQ(fault_of(bytes), packet_fault::payload_not_allowed) << length;
  }
}

// parity: rocev2-9
TEST(softdev_wire_packet, payload_above_the_mtu_is_refused) {
  EXPECT_EQ(fault_of(with_payload(mtu)), packet_fault::none);
  EXPECT_EQ(fault_of(with_payload(mtu + 1)), packet_fault::payload_exceeds_mtu);
}

// parity: rocev2-10
TEST(softdev_wire_packet, message_above_two_gib_is_refused) {
  packet what{.opcode = rc(operation::read_request)};
  what.remote.length = max_message_bytes;
  EXPECT_EQ(fault_of(encoded(what)), packet_fault::none);
  ++what.remote.length;
  EXPECT_EQ(fault_of(encoded(what)), packet_fault::message_too_long);
}

TEST(softdev_wire_packet, encoding_into_too_little_room_returns_zero) {
  const packet what{.opcode = rc(operation::acknowledge)};
  std::array<std::byte, 16> room;
  EXPECT_EQ(encode(what, std::span(room).first(15)), 0U);
  EXPECT_EQ(encode(what, room), 16U);
}

TEST(softdev_wire_packet_death, opcode_without_format_cannot_be_encoded) {
  std::array<std::byte, 64> room;
  EXPECT_DEATH(static_cast<void>(encode({.opcode = static_cast<packet_opcode>(0x15)}, room)),
               "has an opcode with a format");
}

}  // namespace
}  // namespace verbena::softdev::wire
