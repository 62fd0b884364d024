// SPDX-License-Identifier: MIT
#include "softdev/capture/frame_writer.hpp"

#include <ctime>

#include "softdev/core/datagram.hpp"
#include "verbena/base/bytes.hpp"

namespace verbena::softdev::capture {
namespace {

constexpr std::size_t ethernet_bytes = 14;
constexpr std::uint16_t ethernet_ipv4 = 0x0800;
constexpr std::uint16_t ethernet_ipv6 = 0x86dd;

/// Writes a MAC address derived from the network address, because soft0 has no MAC address.
void put_hardware_address(const wire::network_address& of, std::span<std::byte, 6> out) noexcept {
  const bool multicast = is_multicast(of);
  constexpr std::array<std::byte, 6> locally_administered{std::byte{0x02}};
  std::ranges::copy(locally_administered, out.begin());
  if (wire::is_ipv4(of)) {
    std::ranges::transform(std::span(of).last<4>(), out.begin() + 2,
                           [](std::uint8_t each) { return std::byte{each}; });
    if (!multicast) return;
    out[0] = std::byte{0x01};
    out[2] = std::byte{0x5e};
    out[3] &= std::byte{0x7f};
    return;
  }
  std::ranges::transform(std::span(of).last<4>(), out.begin() + 2,
                         [](std::uint8_t each) { return std::byte{each}; });
  if (multicast) out[0] = out[1] = std::byte{0x33};
}

/// Writes the headers of Ethernet, IP and UDP in front of a packet. Returns their size in bytes.
std::size_t put_headers(const wire::network_header& around, std::size_t packet_bytes,
                        std::span<std::byte> frame) noexcept {
  put_hardware_address(around.destination, frame.first<6>());
  put_hardware_address(around.source, frame.subspan<6, 6>());
  const std::size_t network = wire::network_bytes(around);
  const std::span<std::byte> headers = frame.subspan(ethernet_bytes, network);
  wire::write_network(around, packet_bytes, headers);
  constexpr std::size_t type_offset = 12;
  const bool ipv4 = std::to_integer<unsigned>(headers[0]) >> 4U == 4;
  store_network_order(frame.data() + type_offset, ipv4 ? ethernet_ipv4 : ethernet_ipv6);
  return ethernet_bytes + network;
}

}  // namespace

std::uint64_t wall_clock() noexcept {
  constexpr std::uint64_t second = 1'000'000'000;
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * second + static_cast<std::uint64_t>(now.tv_nsec);
}

void frame_writer::put(std::uint64_t time_ns, const wire::network_header& around,
                       const wire::packet& what) noexcept {
  std::array<std::byte, capture_file::max_captured_bytes> encoded;
  const std::span<std::byte> bytes = std::span(encoded).first(wire::encoded_bytes(what));
  const std::size_t covered = wire::encode(what, bytes);
  wire::store_icrc(wire::icrc(around, bytes.first(covered)), bytes.last<wire::icrc_bytes>());
  put(time_ns, around, bytes, {});
}

void frame_writer::put(std::uint64_t time_ns, const wire::network_header& around,
                       std::span<const std::byte> packet, const packet_notes& notes) noexcept {
  const std::lock_guard lock(mutex_);
  const std::span<std::byte> frame(frame_);
  const std::size_t headers = put_headers(around, packet.size(), frame);
  const std::size_t bytes = headers + packet.size();
  const std::size_t stored = std::min(bytes, frame.size());
  std::ranges::copy(packet.first(stored - headers), frame.begin() + headers);
  if (stored == bytes)
    wire::write_udp_checksum(frame.subspan(ethernet_bytes, bytes - ethernet_bytes));
  file_.add(time_ns, frame.first(std::min(stored, packet_bytes_)), bytes, notes);
}

void frame_writer::note_lost() noexcept {
  const std::lock_guard lock(mutex_);
  file_.note_lost();
}

void frame_writer::flush() noexcept {
  const std::lock_guard lock(mutex_);
  file_.flush();
}

}  // namespace verbena::softdev::capture
