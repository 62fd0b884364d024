// SPDX-License-Identifier: MIT
// The requests that a message channel has in its send queue, in the order of posting, which is the
// order of their ends: numbers, places, which of them ask for a completion, and the buffers.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "verbena/memory/buffer.hpp"

namespace verbena::inline VERBENA_ABI::detail {

/// What a request of a message channel is for; each kind has places of its own.
enum class line_kind : std::uint8_t { message, notice };

/// Threads: one thread at a time.
class send_line {
 public:
  send_line(std::uint32_t messages, std::uint32_t notices)
      : entries_(std::size_t{messages} + notices),
        places_{messages, notices},
        period_(std::max(1U, messages / 4)) {}

  /// Whether a request of this kind can be posted.
  [[nodiscard]] bool has_place(line_kind kind) const noexcept {
    return used_[index_of(kind)] != places_[index_of(kind)];
  }
  /// Whether the next request asks for a completion: so does the last of a period, and what takes
  /// the last place of its kind. When a kind has no place, one that asked is therefore on its way.
  [[nodiscard]] bool must_signal(line_kind kind) const noexcept {
    return silent_ + 1 >= period_ || used_[index_of(kind)] + 1 == places_[index_of(kind)];
  }
  /// The number of the next request: 0, 1, …
  [[nodiscard]] std::uint64_t next_id() const noexcept { return next_id_; }
  /// Whether messages are on their way behind the last request that asked for a completion.
  [[nodiscard]] bool has_silent_tail() const noexcept { return silent_messages_ != 0; }
  /// Requests on their way.
  [[nodiscard]] std::uint64_t count() const noexcept { return next_id_ - first_id_; }
  /// Whether the request is on its way.
  [[nodiscard]] bool has(std::uint64_t id) const noexcept {
    return id >= first_id_ && id < next_id_;
  }
  /// Whether it is a message. Precondition: has(id).
  [[nodiscard]] bool is_message(std::uint64_t id) const noexcept {
    return entries_[place_of(id)].kind == line_kind::message;
  }

  /// The next request was posted; `held` is its memory, or empty.
  void posted(line_kind kind, bool signaled, buffer&& held) noexcept {
    entry& added = entries_[place_of(next_id_)];
    added.held = std::move(held);
    added.kind = kind;
    ++used_[index_of(kind)];
    ++next_id_;
    silent_ = signaled ? 0 : silent_ + 1;
    silent_messages_ = signaled ? 0 : silent_messages_ + (kind == line_kind::message ? 1 : 0);
  }
  /// All requests before `end` are over, and their memory goes back; how many messages there were.
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
  // On their way, behind the last one that asked for a completion.
  std::uint32_t silent_ = 0;
  std::uint32_t silent_messages_ = 0;
  std::size_t first_ = 0;  // where the oldest lies
  std::uint64_t first_id_ = 0;
  std::uint64_t next_id_ = 0;
};

}  // namespace verbena::inline VERBENA_ABI::detail
