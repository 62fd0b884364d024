// SPDX-License-Identifier: MIT
#include "softdev/capture/wire_recorder.hpp"

namespace verbena::softdev::capture {

void wire_recorder::sent(const wire::network_header& around,
                         std::span<const std::byte> packet) noexcept {
  // A dropped packet causes no other packet. So if this thread examines a packet, that packet
  // caused the one sent now and was not dropped: write it first.
  if (::pthread_equal(taker_.load(std::memory_order_relaxed), ::pthread_self()) != 0) settled({});
  to_.put(sent_at_, around, packet, {.direction = packet_notes::way::outbound, .comment = {}});
}

void wire_recorder::arrived(const wire::network_header& around,
                            std::span<const std::byte> packet) noexcept {
  last_ = {wall_clock(), around, packet};
  taker_.store(::pthread_self(), std::memory_order_relaxed);
}

void wire_recorder::settled(std::string_view note) noexcept {
  // sent() may have written it before.
  if (taker_.exchange(pthread_t{}, std::memory_order_relaxed) == pthread_t{}) return;
  to_.put(last_.time_ns, last_.around, last_.packet,
          {.direction = packet_notes::way::inbound, .comment = note});
}

}  // namespace verbena::softdev::capture
