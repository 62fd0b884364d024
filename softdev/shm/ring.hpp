// SPDX-License-Identifier: MIT
// A bounded ring of records from one process to another. The bytes are in the producer's pair
// segment. The consumer maps them read-only and publishes its position in its own pair segment.
//
// A record begins at a multiple of 64 bytes with one header word. Before the producer publishes a
// record, it zeroes the header word of the next record. The consumer waits until that word is not
// 0, so a small record uses one cache line. The producer publishes a record by a release store and
// does not publish its position.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "softdev/shm/segment_layout.hpp"
#include "verbena/base/assert.hpp"

namespace verbena::softdev {

/// A record in the ring. The producer can still change the payload: copy each field once, then
/// validate the copy.
struct ring_record {
  std::uint16_t type = 0;
  std::span<const std::byte> payload;
};

enum class ring_status : std::uint8_t {
  ok,
  empty,    ///< (consumer) no record is published
  full,     ///< (producer) no room at the moment
  corrupt,  ///< the other side wrote invalid data; the ring stays unusable
};

/// Returns the longest payload of a record in a ring of `ring_bytes`.
[[nodiscard]] constexpr std::uint32_t max_record_bytes(std::uint32_t ring_bytes) noexcept {
  return ring_bytes / 4 - 64;
}

namespace detail {
inline constexpr std::uint64_t record_header_bytes = 8;
inline constexpr std::uint16_t pad_type = 0xffff;
inline constexpr std::uint64_t header_mark = 0xb1ad;  // so that no header word is 0

// A header word: length in the low 32 bits, then the type, then the mark.
[[nodiscard]] constexpr std::uint64_t make_header(std::uint16_t type,
                                                  std::uint32_t bytes) noexcept {
  return bytes | (std::uint64_t{type} << 32) | (header_mark << 48);
}
[[nodiscard]] constexpr std::uint64_t record_bytes(std::uint64_t payload) noexcept {
  return (record_header_bytes + payload + cache_line - 1) / cache_line * cache_line;
}
}  // namespace detail

/// A number that one thread writes and other threads may read. Copying it is not thread-safe.
class single_writer_u64 {
 public:
  single_writer_u64() noexcept = default;
  single_writer_u64(const single_writer_u64& other) noexcept : value_(other.load()) {}
  single_writer_u64& operator=(const single_writer_u64& other) noexcept {
    store(other.load());
    return *this;
  }
  [[nodiscard]] std::uint64_t load() const noexcept {
    return value_.load(std::memory_order_relaxed);
  }
  void store(std::uint64_t value) noexcept { value_.store(value, std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_ = 0;
};

/// Writes records. Threads: one thread at a time. No system call, no allocation, no waiting.
class ring_producer {
 public:
  ring_producer() noexcept = default;
  /// Writes to `ring`, which is writable and a power of two long. `consumed` is the consumer's
  /// position.
  ring_producer(std::span<std::byte> ring, shared_u64& published,
                const shared_u64& consumed) noexcept;

  struct reservation {
    ring_status status = ring_status::full;  ///< ok, full or corrupt
    std::span<std::byte> payload;            ///< of the requested size; begins 8 bytes into a line
  };
  /// Reserves a record with `bytes` of payload, which is not visible before commit(). The next call
  /// discards a reservation that was not committed. At least `spare` bytes of the ring stay free
  /// for others: without them the ring counts as full. Precondition: bytes <= max_record_bytes(ring
  /// size), type < 0xffff.
  [[nodiscard]] reservation try_reserve(std::uint16_t type, std::uint32_t bytes,
                                        std::uint32_t spare = 0) noexcept {
    VERBENA_CHECK(bytes <= max_record_bytes(static_cast<std::uint32_t>(ring_.size())),
                  "a record is at most a quarter of its ring");
    VERBENA_CHECK(type != detail::pad_type, "record type 0xffff is taken");
    return fits(bytes, spare) ? reserve(type, bytes) : refresh_and_reserve(type, bytes, spare);
  }
  /// Returns whether `try_reserve` succeeds without reading the consumer's position.
  [[nodiscard]] bool fits(std::uint32_t bytes, std::uint32_t spare) const noexcept {
    const std::uint64_t need = detail::record_bytes(bytes);
    // One line more than the record: zeroing the next header must not overwrite an unread record.
    return ring_.size() - (head() - consumed_) >= pad_before(need) + need + cache_line + spare;
  }
  /// Publishes the reserved record. The consumer may see it at once; a sleeping consumer is not
  /// woken.
  void commit() noexcept {
    VERBENA_CHECK(reserved_header_ != 0, "a record is reserved before it is committed");
    const std::uint64_t start = head() + reserved_pad_;
    word(start + reserved_bytes_).store(0, std::memory_order_relaxed);
    word(start).store(reserved_header_, std::memory_order_release);
    if (reserved_pad_ != 0) [[unlikely]] {
      const auto rest = static_cast<std::uint32_t>(reserved_pad_ - detail::record_header_bytes);
      word(head()).store(detail::make_header(detail::pad_type, rest), std::memory_order_release);
    }
    head_.store(start + reserved_bytes_);
    reserved_header_ = 0;
    ++committed_;
  }
  /// Publishes the count of committed records, which consumers read before they sleep, by one
  /// sequentially consistent store. Call it once per batch, then read the peer's flags.
  void announce() noexcept;

  /// Returns the consumer's position when it was last read.
  [[nodiscard]] std::uint64_t consumed() const noexcept { return consumed_; }
  /// Returns the position of the next record.
  [[nodiscard]] std::uint64_t position() const noexcept { return head(); }
  /// Returns whether a record with `bytes` of payload certainly fits; false if the consumer's
  /// position is invalid. Thread-safe, also while another thread writes records.
  [[nodiscard]] bool has_room(std::uint32_t bytes) const noexcept;

 private:
  // The size of the ring is a power of two.
  [[nodiscard]] std::uint64_t place(std::uint64_t position) const noexcept {
    return position & (ring_.size() - 1);
  }
  [[nodiscard]] shared_u64& word(std::uint64_t position) noexcept {
    return *static_cast<shared_u64*>(static_cast<void*>(ring_.data() + place(position)));
  }
  /// Returns the number of bytes to skip if the record does not fit at the end of the ring.
  [[nodiscard]] std::uint64_t pad_before(std::uint64_t record) const noexcept {
    const std::uint64_t to_end = ring_.size() - place(head());
    return record > to_end ? to_end : 0;
  }
  [[nodiscard]] reservation reserve(std::uint16_t type, std::uint32_t bytes) noexcept {
    reserved_header_ = detail::make_header(type, bytes);
    reserved_bytes_ = detail::record_bytes(bytes);
    reserved_pad_ = pad_before(reserved_bytes_);
    const std::uint64_t start = place(head() + reserved_pad_);
    return {ring_status::ok, ring_.subspan(start + detail::record_header_bytes, bytes)};
  }
  [[nodiscard]] reservation refresh_and_reserve(std::uint16_t type, std::uint32_t bytes,
                                                std::uint32_t spare) noexcept;
  [[nodiscard]] ring_status refresh() noexcept;

  std::span<std::byte> ring_;
  shared_u64* published_word_ = nullptr;
  const shared_u64* consumed_word_ = nullptr;
  [[nodiscard]] std::uint64_t head() const noexcept { return head_.load(); }

  single_writer_u64 head_;
  std::uint64_t consumed_ = 0;
  std::uint64_t committed_ = 0;
  std::uint64_t announced_ = 0;
  std::uint64_t reserved_header_ = 0;  ///< 0: no reservation
  std::uint64_t reserved_pad_ = 0;
  std::uint64_t reserved_bytes_ = 0;
};

/// Reads records. Threads: one thread at a time. No system call, no allocation, no waiting.
class ring_consumer {
 public:
  ring_consumer() noexcept = default;
  ring_consumer(std::span<const std::byte> ring, const shared_u64& published,
                shared_u64& consumed) noexcept;

  /// Reads the oldest record without consuming it. Returns ok, empty or corrupt.
  [[nodiscard]] ring_status peek(ring_record& out) noexcept;
  /// The type and the first word of one of the next records. They are not validated: the record may
  /// differ when peek() returns it.
  struct hint {
    std::uint16_t type = 0;
    std::uint32_t word = 0;
    friend bool operator==(const hint&, const hint&) = default;
  };
  /// Returns a hint for one of the next few records after the record of peek(), each of them once;
  /// then nullopt.
  [[nodiscard]] std::optional<hint> next_hint() noexcept;
  /// Consumes the record that peek() returned; its bytes must no longer be used. The producer sees
  /// the free room at once or after publish_position().
  void consume() noexcept;
  /// Publishes the position by a sequentially consistent store, unless it is unchanged. Returns
  /// whether it was published. Call it at the end of a batch.
  bool publish_position() noexcept;
  /// Returns the number of announced records that are not consumed (sequentially consistent load);
  /// 0 if the ring is corrupt.
  [[nodiscard]] std::uint64_t announced() const noexcept;
  /// Returns the number of records that were consumed so far.
  [[nodiscard]] std::uint64_t consumed_records() const noexcept { return consumed_records_; }
  /// Returns `ok` if an announced record is available, `empty` if no record is announced, `corrupt`
  /// if a record was announced and is missing.
  [[nodiscard]] ring_status check_announced() noexcept;

 private:
  std::span<const std::byte> ring_;
  const shared_u64* published_word_ = nullptr;
  shared_u64* consumed_word_ = nullptr;
  std::uint64_t tail_ = 0;
  std::uint64_t told_ = 0;
  std::uint64_t batch_start_ = 0;
  std::uint64_t consumed_records_ = 0;
  std::uint64_t peeked_bytes_ = 0;  ///< 0: no record was peeked
  std::uint64_t hinted_ = 0;        ///< position behind the last hint
  bool corrupt_ = false;
};

}  // namespace verbena::softdev
