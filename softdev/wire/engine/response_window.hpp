// SPDX-License-Identifier: MIT
// Records which READ responses have arrived although an earlier response is missing.
#pragma once

#include <bitset>
#include <cstdint>

#include "softdev/wire/engine/sequence.hpp"

namespace verbena::softdev::wire {

/// The PSNs from the oldest unacknowledged one on. Responses arrive in the order of their PSNs,
/// unless packets are lost or reordered: one beyond a gap shows that the responses before it are
/// lost. Threads: one thread at a time.
class response_window {
 public:
  static constexpr std::uint32_t capacity = 1024;

  void begin(std::uint32_t psn) noexcept { oldest_ = end_ = from_ = beyond_ = acknowledged_ = psn; }
  /// All responses before `oldest` have arrived, and `take` was called for them.
  void advance(std::uint32_t oldest) noexcept {
    oldest_ = oldest;
    from_ = later_psn(from_, oldest);
    end_ = later_psn(end_, oldest);
    beyond_ = later_psn(beyond_, oldest);
    acknowledged_ = later_psn(acknowledged_, oldest);
    // Now the responses that arrived beyond the window can be requested again.
    if (end_ == oldest_ && beyond_ != oldest_) expect_before(beyond_);
  }

  /// Returns whether there is room for a response, which is not the oldest missing one.
  [[nodiscard]] bool has_room_for(std::uint32_t psn) noexcept {
    if (psn_distance(oldest_, psn) < static_cast<std::int32_t>(capacity)) return true;
    note_dropped(psn);
    return false;
  }
  /// Records that a response was dropped. It is expected again when all earlier ones have arrived.
  void note_dropped(std::uint32_t psn) noexcept { beyond_ = later_psn(beyond_, psn_plus(psn, 1)); }
  /// Records a response. Precondition: has_room_for(psn).
  void add(std::uint32_t psn) noexcept {
    expect_before(psn);
    end_ = later_psn(end_, psn_plus(psn, 1));
    recorded_.set(psn % capacity);
  }
  [[nodiscard]] bool contains(std::uint32_t psn) const noexcept {
    return psn_distance(oldest_, psn) < static_cast<std::int32_t>(capacity) &&
           recorded_.test(psn % capacity);
  }
  /// Removes a recorded response. Returns false if it was not recorded.
  [[nodiscard]] bool take(std::uint32_t psn) noexcept {
    if (!contains(psn)) return false;
    recorded_.reset(psn % capacity);
    return true;
  }
  /// True if a response or an acknowledgement has arrived before an earlier response.
  [[nodiscard]] bool is_ahead() const noexcept {
    return end_ != oldest_ || acknowledged_ != oldest_;
  }
  /// Records that all responses before `end` were sent.
  void expect_before(std::uint32_t end) noexcept {
    const std::uint32_t last = psn_plus(oldest_, capacity);
    if (psn_distance(last, end) > 0) {
      beyond_ = later_psn(beyond_, end);
      end = last;
    }
    gap_ |= psn_distance(end_, end) > 0;
    end_ = later_psn(end_, end);
  }

  /// Records that the responder has acknowledged all packets before `end`: all responses before it
  /// were sent. `responses_end`: the PSN after the last of these responses.
  void note_acknowledged(std::uint32_t end, std::uint32_t responses_end) noexcept {
    acknowledged_ = later_psn(acknowledged_, end);
    expect_before(responses_end);
  }
  [[nodiscard]] std::uint32_t acknowledged() const noexcept { return acknowledged_; }

  /// True if a gap was found since the last `begin_requests`.
  [[nodiscard]] bool has_new_gap() const noexcept { return gap_; }
  void begin_requests() noexcept { gap_ = false; }
  /// Returns whether the response is missing and has not been requested again.
  [[nodiscard]] bool requests(std::uint32_t psn) const noexcept {
    return psn_distance(from_, psn) >= 0 && psn_distance(psn, end_) > 0 && !contains(psn);
  }
  /// Returns whether a part of the responses that can contain `psn` was requested again.
  [[nodiscard]] bool was_requested(std::uint32_t psn) const noexcept {
    return psn_distance(psn, from_) > 0;
  }
  void note_requested_before(std::uint32_t psn) noexcept { from_ = later_psn(from_, psn); }
  /// After a timeout: all missing responses before `end` are requested again.
  void restart(std::uint32_t end) noexcept {
    from_ = oldest_;
    expect_before(end);
    gap_ = false;
  }

 private:
  std::bitset<capacity> recorded_;  // by the lowest bits of the PSN
  std::uint32_t oldest_ = 0;
  std::uint32_t from_ = 0;    ///< the missing responses before it have been requested again
  std::uint32_t end_ = 0;     ///< all responses before it were sent
  std::uint32_t beyond_ = 0;  ///< the same, without the limit of the window
  std::uint32_t acknowledged_ = 0;
  bool gap_ = false;
};

}  // namespace verbena::softdev::wire
