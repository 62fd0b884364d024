// SPDX-License-Identifier: MIT
#include "softdev/peers/outgoing_ring.hpp"

#include <algorithm>

namespace verbena::softdev {

void outgoing_ring::open(std::uint32_t ring_bytes) noexcept {
  producer_ = ring_producer(how_.memory.own_ring(ring_bytes), how_.memory.own().published,
                            how_.memory.theirs().consumed_bytes);
  max_record_ = max_record_bytes(ring_bytes);
  max_unseen_ = ring_bytes / 8;
}

ring_producer::reservation outgoing_ring::reserve_slowly(std::uint16_t type, std::uint32_t bytes,
                                                         std::uint32_t spare) noexcept {
  auto reserved = producer_.try_reserve(type, bytes, spare);
  shared_u32& wants_space = how_.memory.own().wants_space;
  if (reserved.status == ring_status::full) {
    // Request room, then try again: the peer may have returned room before it saw the request.
    wants_space.store(1, std::memory_order_seq_cst);
    reserved = producer_.try_reserve(type, bytes, spare);
    if (reserved.status == ring_status::full) {
      full_spare_ = std::max(full_spare_, spare);
      full_at_.store(producer_.consumed(), std::memory_order_release);
      how_.full_rings.insert(how_.slot);
      return reserved;
    }
  }
  if (wants_space.load(std::memory_order_relaxed) != 0 && spare >= full_spare_) {
    wants_space.store(0, std::memory_order_relaxed);
    full_at_.store(no_position, std::memory_order_release);
    full_spare_ = 0;
    room_used_.store(true, std::memory_order_relaxed);
  }
  return reserved;
}

bool outgoing_ring::announce(attention wanted) noexcept {
  producer_.announce();
  const public_header& flags = how_.memory.segment().header();
  if (flags.doorbells.load(std::memory_order_seq_cst) != 0) {
    doorbell_page& bells = how_.memory.doorbell();
    const std::uint32_t word = how_.own_slot / 64;
    const std::uint64_t bit = std::uint64_t{1} << (how_.own_slot % 64);
    if ((bells.words[word].load(std::memory_order_seq_cst) & bit) == 0) {
      bells.words[word].fetch_or(bit, std::memory_order_seq_cst);
      bells.summary.fetch_or(std::uint64_t{1} << word, std::memory_order_seq_cst);
    }
  }
  const std::uint32_t sleep = flags.sleeping.load(std::memory_order_seq_cst);
  if (wanted == attention::at_check && (sleep & sleep_bits::checks) != 0 && !is_filling())
    return false;
  if (sleeper_.wanted(sleep)) how_.messages.wake();
  return true;
}

/// Returns whether much of the ring is unread.
bool outgoing_ring::is_filling() const noexcept {
  const std::uint64_t consumed =
      how_.memory.theirs().consumed_bytes.load(std::memory_order_relaxed);
  return producer_.position() - consumed > max_unseen_;
}

bool outgoing_ring::may_have_room() const noexcept {
  const std::uint64_t full_at = full_at_.load(std::memory_order_acquire);
  return full_at == no_position ||
         how_.memory.theirs().consumed_bytes.load(std::memory_order_seq_cst) != full_at;
}

bool outgoing_ring::take_returned_room() noexcept {
  if (!is_full()) return false;
  const std::uint64_t seen = how_.memory.theirs().consumed_bytes.load(std::memory_order_seq_cst);
  if (seen == full_at_.load(std::memory_order_acquire) || seen == room_reported_) return false;
  room_reported_ = seen;  // once: the queue pair that waited for room may be gone
  return true;
}

}  // namespace verbena::softdev
