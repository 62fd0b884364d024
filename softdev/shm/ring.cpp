// SPDX-License-Identifier: MIT
#include "softdev/shm/ring.hpp"

#include <bit>
#include <cstring>

#include "verbena/base/assert.hpp"

namespace verbena::softdev {

namespace {
constexpr std::uint64_t header_bytes = detail::record_header_bytes;
using detail::make_header, detail::pad_type, detail::record_bytes;
constexpr std::uint64_t hint_distance = 2 * cache_line;
}  // namespace

ring_producer::ring_producer(std::span<std::byte> ring, shared_u64& published,
                             const shared_u64& consumed) noexcept
    : ring_(ring), published_word_(&published), consumed_word_(&consumed) {
  VERBENA_ASSERT(std::has_single_bit(ring.size()) && ring.size() >= min_ring_bytes,
                 "the size of a ring is a power of two");
}

ring_status ring_producer::refresh() noexcept {
  const std::uint64_t seen = consumed_word_->load(std::memory_order_seq_cst);
  if (seen - consumed_ > head() - consumed_ || seen % cache_line != 0) return ring_status::corrupt;
  consumed_ = seen;
  return ring_status::ok;
}

bool ring_producer::has_room(std::uint32_t bytes) const noexcept {
  // Padding up to the end of the ring may be necessary; it is shorter than the record.
  const std::uint64_t need = 2 * record_bytes(bytes) + cache_line;
  const std::uint64_t in_use = head() - consumed_word_->load(std::memory_order_acquire);
  return in_use <= ring_.size() && ring_.size() - in_use >= need;
}

ring_producer::reservation ring_producer::refresh_and_reserve(std::uint16_t type,
                                                              std::uint32_t bytes,
                                                              std::uint32_t spare) noexcept {
  const ring_status status = refresh();
  if (status != ring_status::ok) return {status, {}};
  return fits(bytes, spare) ? reserve(type, bytes) : reservation{};
}

void ring_producer::announce() noexcept {
  if (announced_ == committed_) return;
  announced_ = committed_;
  published_word_->store(committed_, std::memory_order_seq_cst);
}

ring_consumer::ring_consumer(std::span<const std::byte> ring, const shared_u64& published,
                             shared_u64& consumed) noexcept
    : ring_(ring), published_word_(&published), consumed_word_(&consumed) {
  VERBENA_ASSERT(std::has_single_bit(ring.size()) && ring.size() >= min_ring_bytes,
                 "the size of a ring is a power of two");
}

ring_status ring_consumer::peek(ring_record& out) noexcept {
  if (corrupt_) return ring_status::corrupt;
  for (;;) {
    const std::uint64_t start = tail_ & (ring_.size() - 1);
    const void* at = ring_.data() + start;
    const std::uint64_t header =
        static_cast<const shared_u64*>(at)->load(std::memory_order_acquire);
    if (header == 0) return ring_status::empty;
    const auto bytes = static_cast<std::uint32_t>(header);
    const auto type = static_cast<std::uint16_t>(header >> 32);
    const std::uint64_t to_end = ring_.size() - start;
    const bool pad = type == pad_type;
    const bool fits = pad ? start != 0 && bytes == to_end - header_bytes
                          : bytes <= max_record_bytes(static_cast<std::uint32_t>(ring_.size())) &&
                                record_bytes(bytes) <= to_end;
    if (header >> 48 != detail::header_mark || !fits) {
      corrupt_ = true;
      return ring_status::corrupt;
    }
    if (!pad) {
      out = {type, ring_.subspan(start + header_bytes, bytes)};
      peeked_bytes_ = record_bytes(bytes);
      return ring_status::ok;
    }
    tail_ += to_end;  // to the start of the ring, where a pad is invalid: the loop ends
  }
}

std::optional<ring_consumer::hint> ring_consumer::next_hint() noexcept {
  const std::uint64_t behind = tail_ + peeked_bytes_;
  if (hinted_ < behind) hinted_ = behind;
  if (hinted_ - behind > hint_distance) return std::nullopt;
  const std::byte* const at = ring_.data() + (hinted_ & (ring_.size() - 1));
  const std::uint64_t header =
      static_cast<const shared_u64*>(static_cast<const void*>(at))->load(std::memory_order_acquire);
  if (header == 0) return std::nullopt;
  hinted_ += record_bytes(static_cast<std::uint32_t>(header));
  hint next{.type = static_cast<std::uint16_t>(header >> 32)};
  std::memcpy(&next.word, at + header_bytes, sizeof next.word);
  return next;
}

void ring_consumer::consume() noexcept {
  VERBENA_CHECK(peeked_bytes_ != 0, "a record is looked at before it is consumed");
  tail_ += peeked_bytes_;
  peeked_bytes_ = 0;
  ++consumed_records_;
  if (tail_ - told_ >= ring_.size() / 8) {
    told_ = tail_;
    consumed_word_->store(tail_, std::memory_order_release);
  }
}

bool ring_consumer::publish_position() noexcept {
  if (batch_start_ == tail_) return false;
  batch_start_ = tail_;
  told_ = tail_;
  consumed_word_->store(tail_, std::memory_order_seq_cst);
  return true;
}

std::uint64_t ring_consumer::announced() const noexcept {
  if (corrupt_) return 0;
  const std::uint64_t ahead = published_word_->load(std::memory_order_seq_cst) - consumed_records_;
  // A record may be consumed after its commit and before its announcement.
  return ahead >> 63 != 0 ? 0 : ahead;
}

ring_status ring_consumer::check_announced() noexcept {
  if (announced() == 0) return corrupt_ ? ring_status::corrupt : ring_status::empty;
  ring_record ignored;
  const ring_status status = peek(ignored);
  if (status != ring_status::empty) return status;
  corrupt_ = true;
  return ring_status::corrupt;
}

}  // namespace verbena::softdev
