// SPDX-License-Identifier: MIT
// The rings of work requests of a queue pair. An entry is at the place `index & mask`. Indices only
// increase, even across RESET, so that a late answer never matches a newer request.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <span>
#include <type_traits>

#include "softdev/core/types.hpp"

namespace verbena::softdev {

/// A send request as posted, without its data.
struct send_request {
  std::uint64_t wr_id = 0;
  softdev::opcode opcode = opcode::send;
  send_flags flags;
  std::uint32_t immediate = 0;  ///< passed on unchanged (network order)
  std::uint64_t remote_address = 0;
  std::uint32_t remote_key = 0;
  std::uint64_t compare_or_add = 0;
  std::uint64_t swap = 0;
};

/// A posted send request and its progress.
struct send_entry {
  /// `held`: done, but an injected fault delays the completion. `completed`: completed before an
  /// earlier request (SRD).
  enum class progress : std::uint8_t { queued, in_flight, held, done, completed };

  send_request request;
  std::uint32_t sge_count = 0;
  std::uint32_t inline_bytes = 0;  ///< of data in the entry; only with send_flag::inline_data
  progress stage = progress::queued;
  progress settled = progress::done;  ///< the stage after success: `held` or `done`
  completion_status status = completion_status::success;
  std::uint32_t psn = 0;
  std::uint32_t byte_count = 0;
};

/// A posted receive request.
struct receive_entry {
  std::uint64_t wr_id = 0;
  std::uint32_t sge_count = 0;
};

/// A ring of entries of type `Entry`, each followed by room for scatter/gather elements or inline
/// data, and by `extra_bytes` for data that only some transports have. Threads: one thread at a
/// time, except for `released()`. Allocates at construction only.
template <class Entry>
class work_queue {
 public:
  struct sizes {
    std::uint32_t wr_count = 0;
    std::uint32_t max_sges = 0;
    std::uint32_t max_inline_bytes = 0;
    std::size_t extra_bytes = 0;
  };
  /// Precondition: the sizes are within limits. `memory` has `bytes_of(of)` bytes and is aligned to
  /// a cache line; if it is nullptr, the queue allocates.
  explicit work_queue(const sizes& of, std::byte* memory = nullptr);
  work_queue(const work_queue&) = delete;
  work_queue& operator=(const work_queue&) = delete;
  ~work_queue();
  /// Returns the bytes that the entries use.
  [[nodiscard]] static std::size_t bytes_of(const sizes& of) noexcept;

  [[nodiscard]] std::uint32_t capacity() const noexcept { return capacity_; }
  [[nodiscard]] std::uint32_t max_sges() const noexcept { return max_sges_; }
  [[nodiscard]] std::uint32_t max_inline_bytes() const noexcept { return max_inline_bytes_; }
  [[nodiscard]] bool full() const noexcept {
    return posted_ - released_.load(std::memory_order_acquire) >= capacity_;
  }
  /// Returns whether all entries are free.
  [[nodiscard]] bool unused() const noexcept {
    return posted_ == released_.load(std::memory_order_acquire);
  }
  /// Returns the index after the newest entry.
  [[nodiscard]] std::uint64_t posted() const noexcept { return posted_; }
  /// Entries below this index are free again: their completions were polled.
  [[nodiscard]] std::atomic<std::uint64_t>& released() noexcept { return released_; }

  /// Returns the next entry, reset to its defaults. `push` adds it to the queue.
  [[nodiscard]] Entry& next() noexcept { return *new (place(posted_)) Entry; }
  void push() noexcept { ++posted_; }
  /// Removes all entries from `index` on.
  void truncate(std::uint64_t index) noexcept { posted_ = index; }
  /// Discards all entries and frees their places.
  void clear() noexcept { released_.store(posted_, std::memory_order_release); }
  /// Moves the next entry to the first place, so that a rarely used queue uses the same memory each
  /// time. Precondition: unused().
  void start_over() noexcept {
    posted_ = (posted_ + mask_) & ~std::uint64_t{mask_};
    clear();
  }

  [[nodiscard]] Entry& at(std::uint64_t index) noexcept {
    return *std::launder(reinterpret_cast<Entry*>(place(index)));
  }
  [[nodiscard]] std::span<sge> sges(std::uint64_t index) noexcept { return sges_of(at(index)); }
  /// Returns the room behind the entry, for its elements or its inline data.
  [[nodiscard]] std::byte* payload(std::uint64_t index) noexcept { return payload_of(at(index)); }
  [[nodiscard]] static std::byte* payload_of(Entry& entry) noexcept {
    return reinterpret_cast<std::byte*>(&entry) + sizeof(Entry);
  }
  [[nodiscard]] static std::span<sge> sges_of(Entry& entry) noexcept {
    return {std::launder(reinterpret_cast<sge*>(payload_of(entry))), entry.sge_count};
  }
  /// Returns the extra room, aligned as an Entry.
  [[nodiscard]] std::byte* extra(std::uint64_t index) noexcept {
    return place(index) + extra_offset_;
  }

 private:
  [[nodiscard]] std::byte* place(std::uint64_t index) noexcept {
    return memory_ + (index & mask_) * stride_;
  }
  [[nodiscard]] static std::size_t extra_offset_of(const sizes& of) noexcept;
  [[nodiscard]] static std::size_t stride_of(const sizes& of) noexcept;
  [[nodiscard]] static std::size_t places_of(const sizes& of) noexcept;

  // The members are small: loading a queue pair into the caches then takes few lines.
  std::uint64_t posted_ = 0;
  std::atomic<std::uint64_t> released_{0};
  std::byte* memory_;
  std::uint16_t mask_;
  std::uint16_t stride_;
  std::uint16_t extra_offset_;
  std::uint16_t capacity_;
  std::uint16_t max_inline_bytes_;
  std::uint16_t max_sges_;
  bool allocated_ = false;
};

using send_queue = work_queue<send_entry>;
using receive_queue = work_queue<receive_entry>;
extern template class work_queue<send_entry>;
extern template class work_queue<receive_entry>;

}  // namespace verbena::softdev
