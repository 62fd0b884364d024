// SPDX-License-Identifier: MIT
// The requests of a message channel in its send queue: numbers, places, signaling and buffers.
// Requests complete in the order in which they were posted.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "verbena/memory/buffer.hpp"

namespace verbena::inline VERBENA_ABI::detail {

/// The kind of a request of a message channel. Each kind has its own places.
enum class line_kind : std::uint8_t { message, notice };

/// Threads: one thread at a time.
class send_line {
 public:
  send_line(std::uint32_t messages, std::uint32_t notices)
      : entries_(std::size_t{messages} + notices),
        places_{messages, notices},
        period_(std::max(1U, messages / 4)) {}

  /// Returns true if a request of this kind can be posted.
  [[nodiscard]] bool has_place(line_kind kind) const noexcept {
    return used_[index_of(kind)] != places_[index_of(kind)];
  }
  /// Returns true if the next request must be signaled, because it is the last of a period or takes
  /// the last place of its kind. Therefore, if a kind has no free place, a signaled request is in
  /// flight.
  [[nodiscard]] bool must_signal(line_kind kind) const noexcept {
    return silent_ + 1 >= period_ || used_[index_of(kind)] + 1 == places_[index_of(kind)];
  }
  /// Returns the number of the next request: 0, 1, …
  [[nodiscard]] std::uint64_t next_id() const noexcept { return next_id_; }
  /// Returns true if messages are in flight after the last signaled request.
  [[nodiscard]] bool has_silent_tail() const noexcept { return silent_messages_ != 0; }
  /// Returns true if requests are in flight after the last signaled request. If they succeed, no
  /// completion reports it.
  [[nodiscard]] bool ends_silent() const noexcept { return silent_ != 0; }
  /// Returns the number of requests in flight.
  [[nodiscard]] std::uint64_t count() const noexcept { return next_id_ - first_id_; }
  /// Returns the number of the request in flight whose low bits are `low`.
  [[nodiscard]] std::uint64_t id_of(std::uint64_t low, std::uint64_t mask) const noexcept {
    return first_id_ + ((low - first_id_) & mask);
  }
  /// Returns true if the request is in flight.
  [[nodiscard]] bool has(std::uint64_t id) const noexcept {
    return id >= first_id_ && id < next_id_;
  }
  /// Returns true if the request is a message. Precondition: has(id).
  [[nodiscard]] bool is_message(std::uint64_t id) const noexcept {
    return entries_[place_of(id)].kind == line_kind::message;
  }

  /// Records that the next request was posted. `held` is its buffer, or empty.
  void posted(line_kind kind, bool signaled, buffer&& held) noexcept {
    entry& added = entries_[place_of(next_id_)];
    added.held = std::move(held);
    added.kind = kind;
    ++used_[index_of(kind)];
    ++next_id_;
    silent_ = signaled ? 0 : silent_ + 1;
    silent_messages_ = signaled ? 0 : silent_messages_ + (kind == line_kind::message ? 1 : 0);
  }
  /// Retires all requests before `end`; their buffers return to their pools. Returns the number of
  /// retired messages.
  std::uint64_t retire_before(std::uint64_t end) noexcept {
    std::uint64_t messages = 0;
    for (; first_id_ < end && first_id_ < next_id_; ++first_id_) {
      entry& over = entries_[first_];
      over.held.reset();
      --used_[index_of(over.kind)];
      if (over.kind == line_kind::message) ++messages;
      if (++first_ == entries_.size()) first_ = 0;
    }
    if (first_id_ == next_id_) silent_ = silent_messages_ = 0;
    return messages;
  }

 private:
  struct entry {
    buffer held;
    line_kind kind = line_kind::message;
  };
  [[nodiscard]] static std::size_t index_of(line_kind kind) noexcept {
    return static_cast<std::size_t>(kind);
  }
  [[nodiscard]] std::size_t place_of(std::uint64_t id) const noexcept {
    const std::size_t place = first_ + static_cast<std::size_t>(id - first_id_);
    return place < entries_.size() ? place : place - entries_.size();
  }

  std::vector<entry> entries_;
  std::array<std::uint32_t, 2> places_;
  std::array<std::uint32_t, 2> used_{};
  std::uint32_t period_;
  // Numbers of requests and messages in flight after the last signaled request.
  std::uint32_t silent_ = 0;
  std::uint32_t silent_messages_ = 0;
  std::size_t first_ = 0;  // place of the oldest request
  std::uint64_t first_id_ = 0;
  std::uint64_t next_id_ = 0;
};

}  // namespace verbena::inline VERBENA_ABI::detail
