// SPDX-License-Identifier: MIT
#include "softdev/capture/wire_recorder.hpp"

namespace verbena::softdev::capture {

void wire_recorder::sent(const wire::network_header& around,
                         std::span<const std::byte> packet) noexcept {
  // A dropped packet does not cause other packets. Therefore, if this thread is processing a
  // received packet, that packet has caused the sent one and was not dropped. It is written first.
  if (::pthread_equal(taker_.load(std::memory_order_relaxed), ::pthread_self()) != 0) settled({});
  to_.put(sent_at_, around, packet, {.direction = packet_notes::way::outbound, .comment = {}});
}

void wire_recorder::arrived(const wire::network_header& around,
                            std::span<const std::byte> packet) noexcept {
  last_ = {wall_clock(), around, packet};
  taker_.store(::pthread_self(), std::memory_order_relaxed);
}

void wire_recorder::settled(std::string_view note) noexcept {
  // sent() may already have written the packet.
  if (taker_.exchange(pthread_t{}, std::memory_order_relaxed) == pthread_t{}) return;
  to_.put(last_.time_ns, last_.around, last_.packet,
          {.direction = packet_notes::way::inbound, .comment = note});
}

}  // namespace verbena::softdev::capture
