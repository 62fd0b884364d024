// SPDX-License-Identifier: MIT
// Observes the packets that this process sends and receives.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "softdev/wire/network.hpp"

namespace verbena::softdev::wire {

/// Receives each packet from BTH to ICRC, and the header fields that a socket provides. Threads:
/// one thread at a time calls the functions of each group; the two groups can be called
/// concurrently.
class packet_watcher {
 public:
  // Sent packets.
  /// The process is about to pass packets to the kernel.
  virtual void sending() noexcept = 0;
  /// The kernel accepted a packet.
  virtual void sent(const network_header& around, std::span<const std::byte> packet) noexcept = 0;
  /// All packets that the kernel accepted have been reported. Can be omitted if there were none.
  virtual void sent_all() noexcept = 0;

  // Received packets.
  /// A packet is about to be checked. Its bytes remain valid until `settled` or `dismissed`.
  virtual void arrived(const network_header& around,
                       std::span<const std::byte> packet) noexcept = 0;
  /// The last packet has been processed. If the packet was dropped or an injected fault changed it,
  /// `note` is the reason; otherwise `note` is empty.
  virtual void settled(std::string_view note) noexcept = 0;
  /// The last packet was forwarded; only the process that receives it reports it.
  virtual void dismissed() noexcept = 0;
  /// All packets of one receive pass have been reported.
  virtual void settled_all() noexcept = 0;

 protected:
  ~packet_watcher() = default;
};

}  // namespace verbena::softdev::wire
