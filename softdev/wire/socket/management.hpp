// SPDX-License-Identifier: MIT
// Management datagrams (MADs) of the general services interface: datagrams to queue pair 1 (IBTA
// 13.4, 16).
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "softdev/wire/network.hpp"
#include "softdev/wire/packet.hpp"

namespace verbena::softdev::wire {

inline constexpr std::uint32_t general_services_qpn = 1;
inline constexpr std::uint32_t general_services_qkey = 0x8001'0000;
inline constexpr std::size_t management_bytes = 256;
using management_view = std::span<const std::byte, management_bytes>;

/// The hosts between which a message is sent.
struct management_addresses {
  network_address own{};
  network_address peer{};
  std::uint32_t interface = 0;  ///< of link-local addresses
};

/// Receives the management datagrams of other hosts. Threads: one thread at a time, with the
/// receive right.
class management_observer {
 public:
  /// Returns the slot of the process to which a message belongs; nullopt: the owner of the port.
  [[nodiscard]] virtual std::optional<std::uint32_t> slot_of(
      management_view message) const noexcept = 0;
  /// Must not block.
  virtual void message_arrived(const management_addresses& ends,
                               management_view message) noexcept = 0;

 protected:
  ~management_observer() = default;
};

/// True for a packet with a management datagram: a datagram to queue pair 1 with its Q_Key.
[[nodiscard]] inline bool has_message(const packet& what) noexcept {
  return what.opcode == make_opcode(packet_transport::ud, operation::send_only) &&
         what.destination_qpn == general_services_qpn &&
         what.datagram.qkey == general_services_qkey && what.payload.size() == management_bytes;
}

/// Informs a host that its packets are dropped because the two hosts have different keys. The
/// notice is sent like all packets of this process. The receiver therefore also drops it, and
/// reports the mismatch. Other implementations ignore the notice, because it has a vendor
/// management class.
inline constexpr std::array<std::byte, management_bytes> key_mismatch_notice = [] {
  std::array<std::byte, management_bytes> made{};
  // Base version, vendor class, class version, method Send.
  constexpr std::array<std::uint8_t, 4> head{1, 0x0f, 1, 3};
  constexpr std::string_view text = "soft0: VERBENA_SOFTDEV_WIRE_KEY_FILE differs";
  constexpr std::size_t header_bytes = 24;
  for (std::size_t i = 0; i < head.size(); ++i) made[i] = std::byte{head[i]};
  for (std::size_t i = 0; i < text.size(); ++i)
    made[header_bytes + i] = static_cast<std::byte>(text[i]);
  return made;
}();

/// Returns whether a packet is a key mismatch notice.
[[nodiscard]] inline bool is_key_mismatch_notice(const packet& what) noexcept {
  return has_message(what) && std::ranges::equal(what.payload, key_mismatch_notice);
}

}  // namespace verbena::softdev::wire
