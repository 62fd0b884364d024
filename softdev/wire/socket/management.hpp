// SPDX-License-Identifier: MIT
// Messages of the general services: datagrams to queue pair 1 (IBTA 13.4, 16).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "softdev/wire/network.hpp"
#include "softdev/wire/packet.hpp"

namespace verbena::softdev::wire {

inline constexpr std::uint32_t general_services_qpn = 1;
inline constexpr std::uint32_t general_services_qkey = 0x8001'0000;
inline constexpr std::size_t management_bytes = 256;
using management_view = std::span<const std::byte, management_bytes>;

/// Between which hosts a message goes.
struct management_ends {
  network_address own{};
  network_address peer{};
  std::uint32_t interface = 0;  ///< that of link-local addresses
};

/// Learns of the messages of other hosts. Threads: one thread at a time, with the right to receive.
class management_observer {
 public:
  /// The slot of the process that a message is for, or nullopt: the process that has the port.
  [[nodiscard]] virtual std::optional<std::uint32_t> slot_of(
      management_view message) const noexcept = 0;
  /// Must not block.
  virtual void message_arrived(const management_ends& ends, management_view message) noexcept = 0;

 protected:
  ~management_observer() = default;
};

/// True for a packet that has a message: a datagram to queue pair 1 with its Q_Key.
[[nodiscard]] inline bool has_message(const packet& what) noexcept {
  return what.opcode == make_opcode(packet_transport::ud, operation::send_only) &&
         what.destination_qpn == general_services_qpn &&
         what.datagram.qkey == general_services_qkey && what.payload.size() == management_bytes;
}

}  // namespace verbena::softdev::wire
