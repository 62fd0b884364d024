// SPDX-License-Identifier: MIT
// RoCE v2 packets from the network.
#include "softdev/wire/packet.hpp"

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "softdev/wire/network.hpp"
#include "tests/fuzz/target.hpp"
#include "tests/unit/softdev/wire/golden_packets.hpp"

namespace verbena::softdev::wire {
namespace {

using fuzz::require;

/// Checks that a parsed packet is within its limits, and that encoding and parsing it again gives
/// the same packet.
void check_packet(std::span<const std::byte> bytes, std::uint32_t mtu) {
  packet got;
  if (parse(bytes, mtu, got) != packet_fault::none) return;
  const packet_format& format = format_of(got.opcode);
  require(format.known &&
          got.payload.size() <= std::max<std::size_t>(mtu, congestion_payload_bytes));
  require(got.destination_qpn <= max_24_bits && got.psn <= max_24_bits);
  require(got.remote.length <= max_message_bytes);
  if (!got.payload.empty())
    require(got.payload.data() >= bytes.data() + format.header_bytes() &&
            got.payload.data() + got.payload.size() + icrc_bytes <= bytes.data() + bytes.size());
  require(encoded_bytes(got) == bytes.size());
  std::vector<std::byte> written(bytes.size());
  require(encode(got, written) == bytes.size() - icrc_bytes);
  packet again;
  require(parse(written, mtu, again) == packet_fault::none);
  std::vector<std::byte> second(bytes.size());
  require(encode(again, second) == bytes.size() - icrc_bytes && written == second);
  require(std::ranges::equal(again.payload, got.payload) && again.remote == got.remote &&
          again.atomic == got.atomic && again.answer == got.answer &&
          again.datagram == got.datagram && again.immediate == got.immediate);
}

/// Checks that parsed headers are written as the same bytes, and that an identification is found
/// for which the ICRC is correct.
void check_network(std::span<const std::byte> bytes, const network_header& got,
                   std::span<const std::byte> transport) {
  const std::size_t headers = network_bytes(got);
  require(headers + transport.size() <= bytes.size());
  require(transport.empty() || transport.data() == bytes.data() + headers);
  std::vector<std::byte> written(headers);
  write_network(got, transport.size(), written);
  // Except the UDP checksum, and the IPv4 checksum, for which zero has two representations.
  const auto same = [&](std::size_t begin, std::size_t end) {
    return std::equal(written.begin() + static_cast<std::ptrdiff_t>(begin),
                      written.begin() + static_cast<std::ptrdiff_t>(end),
                      bytes.begin() + static_cast<std::ptrdiff_t>(begin));
  };
  const bool ipv4 = headers == 28;
  require(same(0, ipv4 ? 10 : headers - 2) && same(ipv4 ? 12 : 0, headers - 2));
  if (transport.size() < 16) return;
  const auto covered = transport.first(transport.size() - icrc_bytes);
  const auto found = recover_identification(got, covered, icrc(got, covered));
  require(ipv4 ? found == got.identification : !found);
}

void run_wire_packet(fuzz::input input) {
  fuzz::reader from(input);
  const std::uint32_t mtu = 256U << (from.take<std::uint8_t>() % 5U);
  const std::span<const std::byte> bytes = from.rest();
  check_packet(bytes, mtu);
  network_header network;
  std::span<const std::byte> transport;
  if (parse_network(bytes, network, transport) != packet_fault::none) return;
  check_network(bytes, network, transport);
  check_packet(transport, mtu);
}

void packet_seeds(fuzz::seed_folder& into) {
  for (const std::span<const golden_packet> all :
       {std::span<const golden_packet>(golden_packets), {golden_ipv6_packets}}) {
    std::size_t number = 0;
    for (const golden_packet& golden : all) {
      const auto bytes = bytes_of(golden);
      const std::string name = std::string(golden.origin) + "_" + std::to_string(++number);
      into.add(name.c_str(), fuzz::writer().put(std::uint8_t{2}).put(fuzz::input(bytes)).bytes());
    }
  }
  packet notification{.opcode = packet_opcode::congestion_notification};
  const std::vector<std::byte> zeros(congestion_payload_bytes);
  notification.payload = zeros;
  const network_header over_ipv6{.source = {0xfd, 1}, .destination = {0xfd, 2}, .flow_label = 9};
  std::vector<std::byte> bytes(network_bytes(over_ipv6) + encoded_bytes(notification));
  write_network(over_ipv6, encoded_bytes(notification), bytes);
  require(encode(notification, std::span(bytes).subspan(network_bytes(over_ipv6))) != 0);
  write_udp_checksum(bytes);
  into.add("ipv6", fuzz::writer().put(std::uint8_t{0}).put(fuzz::input(bytes)).bytes());
}

const fuzz::target wire_packets("wire_packet", run_wire_packet, packet_seeds);

}  // namespace
}  // namespace verbena::softdev::wire
