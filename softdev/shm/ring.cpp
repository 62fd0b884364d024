// SPDX-License-Identifier: MIT
#include "softdev/shm/ring.hpp"

#include <bit>
#include <cstring>

#include "verbena/base/assert.hpp"

namespace verbena::softdev {

namespace {
constexpr std::uint64_t header_bytes = 8;
constexpr std::uint16_t pad_type = 0xffff;
constexpr std::uint64_t hint_distance = 2 * cache_line;
constexpr std::uint64_t header_mark = 0xb1ad;  // so that no header word is 0

// A header word: length in the low 32 bits, then the type, then the mark.
constexpr std::uint64_t make_header(std::uint16_t type, std::uint32_t bytes) noexcept {
  return bytes | (std::uint64_t{type} << 32) | (header_mark << 48);
}
constexpr std::uint64_t record_bytes(std::uint64_t payload) noexcept {
  return (header_bytes + payload + cache_line - 1) / cache_line * cache_line;
}
}  // namespace

ring_producer::ring_producer(std::span<std::byte> ring, shared_u64& published,
                             const shared_u64& consumed) noexcept
    : ring_(ring), published_word_(&published), consumed_word_(&consumed) {
  VERBENA_ASSERT(std::has_single_bit(ring.size()) && ring.size() >= min_ring_bytes,
                 "the size of a ring is a power of two");
}

shared_u64& ring_producer::word(std::uint64_t position) noexcept {
  std::byte* at = ring_.data() + position % ring_.size();
  return *static_cast<shared_u64*>(static_cast<void*>(at));
}

ring_status ring_producer::refresh() noexcept {
  const std::uint64_t seen = consumed_word_->load(std::memory_order_seq_cst);
  if (seen - consumed_ > head() - consumed_ || seen % cache_line != 0) return ring_status::corrupt;
  consumed_ = seen;
  return ring_status::ok;
}

bool ring_producer::has_room(std::uint32_t bytes) const noexcept {
  // The record may need padding up to the end of the ring, which is shorter than the record.
  const std::uint64_t need = 2 * record_bytes(bytes) + cache_line;
  const std::uint64_t in_use = head() - consumed_word_->load(std::memory_order_acquire);
  return in_use <= ring_.size() && ring_.size() - in_use >= need;
}

ring_producer::reservation ring_producer::try_reserve(std::uint16_t type, std::uint32_t bytes,
                                                      std::uint32_t spare) noexcept {
  VERBENA_CHECK(bytes <= max_record_bytes(static_cast<std::uint32_t>(ring_.size())),
                "a record is at most a quarter of its ring");
  VERBENA_CHECK(type != pad_type, "record type 0xffff is taken");
  const std::uint64_t need = record_bytes(bytes);
  const std::uint64_t to_end = ring_.size() - head() % ring_.size();
  const std::uint64_t pad = need > to_end ? to_end : 0;
  // One line more than the record: the zeroed header of the next must not hit an unread record.
  if (ring_.size() - (head() - consumed_) < pad + need + cache_line + spare) {
    const ring_status status = refresh();
    if (status != ring_status::ok) return {status, {}};
    if (ring_.size() - (head() - consumed_) < pad + need + cache_line + spare) return {};
  }
  reserved_header_ = make_header(type, bytes);
  reserved_pad_ = pad;
  reserved_bytes_ = need;
  const std::uint64_t start = (head() + pad) % ring_.size();
  return {ring_status::ok, ring_.subspan(start + header_bytes, bytes)};
}

void ring_producer::commit() noexcept {
  VERBENA_CHECK(reserved_header_ != 0, "a record is reserved before it is committed");
  const std::uint64_t start = head() + reserved_pad_;
  word(start + reserved_bytes_).store(0, std::memory_order_relaxed);
  word(start).store(reserved_header_, std::memory_order_release);
  if (reserved_pad_ != 0) {
    const auto rest = static_cast<std::uint32_t>(reserved_pad_ - header_bytes);
    word(head()).store(make_header(pad_type, rest), std::memory_order_release);
  }
  head_.store(start + reserved_bytes_);
  reserved_header_ = 0;
  ++committed_;
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
    const std::uint64_t start = tail_ % ring_.size();
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
    if (header >> 48 != header_mark || !fits) {
      corrupt_ = true;
      return ring_status::corrupt;
    }
    if (!pad) {
      out = {type, ring_.subspan(start + header_bytes, bytes)};
      peeked_bytes_ = record_bytes(bytes);
      return ring_status::ok;
    }
    tail_ += to_end;  // to the ring's beginning, where no pad is accepted: this ends
  }
}

std::optional<ring_consumer::hint> ring_consumer::next_hint() noexcept {
  const std::uint64_t behind = tail_ + peeked_bytes_;
  if (hinted_ < behind) hinted_ = behind;
  if (hinted_ - behind > hint_distance) return std::nullopt;
  const std::byte* const at = ring_.data() + hinted_ % ring_.size();
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
  // Records are consumed as soon as they are committed, maybe before they are announced.
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
