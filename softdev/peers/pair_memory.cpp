// SPDX-License-Identifier: MIT
#include "softdev/peers/pair_memory.hpp"

#include <utility>

namespace verbena::softdev {

bool pair_memory::create(std::uint32_t ring_bytes) {
  if (own_map_.size() != 0) return true;
  auto memory =
      create_sealed("verbena-pair", pair_ring_offset + ring_bytes, sealed_for::owner_only);
  if (!memory) return false;
  own_fd_ = std::move(memory->fd);
  own_map_ = std::move(memory->map);
  pair_header& header = own();
  header.version.store(layout_version, std::memory_order_relaxed);
  header.ring_bytes.store(ring_bytes, std::memory_order_relaxed);
  header.magic.store(segment_magic, std::memory_order_release);
  return true;
}

void pair_memory::set_theirs(peer_segment segment, mapping pair, mapping doorbell) noexcept {
  segment_ = std::move(segment);
  their_map_ = std::move(pair);
  doorbell_ = std::move(doorbell);
}

}  // namespace verbena::softdev
