// SPDX-License-Identifier: MIT
// Records which READ responses have arrived although an earlier response is missing.
#pragma once

#include <bitset>
#include <cstdint>
#include <utility>

#include "softdev/wire/engine/sequence.hpp"

namespace verbena::softdev::wire {

/// The PSNs from the oldest unacknowledged one on. Responses arrive in the order of their PSNs,
/// unless packets are lost or reordered: one beyond a gap shows that the responses before it are
/// lost. Threads: one thread at a time.
class response_window {
 public:
  static constexpr std::uint32_t capacity = 1024;

  void begin(std::uint32_t psn) noexcept {
    oldest_ = end_ = from_ = asked_ = beyond_ = dropped_ = acknowledged_ = psn;
    rest_ = {.begin = psn, .end = psn};
  }
  /// All responses before `oldest` have arrived, and `take` was called for them.
  void advance(std::uint32_t oldest) noexcept {
    oldest_ = oldest;
    for (std::uint32_t* const each :
         {&from_, &asked_, &end_, &beyond_, &dropped_, &acknowledged_, &rest_.end})
      *each = later_psn(*each, oldest);
    if (rest_.end == oldest) rest_.awaited = false;
    if (end_ != oldest) return;
    // Now the responses that arrived beyond the window can be requested again, except those after a
    // response that is being repeated.
    if (beyond_ != oldest) expect_before(beyond_);
    if (dropped_ != oldest && (rest_.end == oldest || psn_distance(dropped_, rest_.end) >= 0))
      expect_before(std::exchange(dropped_, oldest));
  }

  /// Returns whether there is room for a response, which is not the oldest missing one.
  [[nodiscard]] bool has_room_for(std::uint32_t psn) noexcept {
    if (psn_distance(oldest_, psn) < static_cast<std::int32_t>(capacity)) return true;
    note_dropped(psn);
    return false;
  }
  /// Records that a response was dropped. It is expected again when all earlier ones have arrived.
  void note_dropped(std::uint32_t psn) noexcept {
    dropped_ = later_psn(dropped_, psn_plus(psn, 1));
  }
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
  /// Called for a response before it is recorded or taken, and if it was recorded before. If it is
  /// the first one of a rest that was requested again, later responses are of this repetition: a
  /// gap in it is new.
  void note_arrival(std::uint32_t psn) noexcept {
    const std::uint32_t next = psn_plus(psn, 1);
    if (rest_.awaited && psn == rest_.begin) {
      rest_.awaited = false;
      end_ = from_ = beyond_ = next;
    } else if (contains(psn)) {
      expect_before(psn);
      end_ = later_psn(end_, next);
    }
  }
  /// Removes a recorded response. Returns false if it was not recorded.
  [[nodiscard]] bool take(std::uint32_t psn) noexcept {
    if (!contains(psn)) return false;
    recorded_.reset(psn % capacity);
    return true;
  }
  /// True if responses are expected, or if an acknowledgement waits for earlier responses.
  [[nodiscard]] bool is_ahead() const noexcept {
    return end_ != oldest_ || acknowledged_ != oldest_;
  }
  /// From now on, all responses before `end` are expected: they were sent, or a timeout has passed.
  /// Those that are missing form a gap, if they were not expected before.
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
    return psn_distance(psn, asked_) > 0;
  }
  void note_requested_before(std::uint32_t psn) noexcept {
    from_ = later_psn(from_, psn);
    asked_ = later_psn(asked_, psn);
  }
  /// Records that the rest of a response, from `begin` to `end`, was requested again.
  void note_rest_requested(std::uint32_t begin, std::uint32_t end) noexcept {
    rest_.begin = begin;
    rest_.end = end;
    rest_.awaited = true;
  }
  /// After a timeout: all missing responses before `end` are expected and requested again.
  void restart(std::uint32_t end) noexcept {
    from_ = oldest_;
    expect_before(end);
    gap_ = false;
  }

 private:
  /// The rest of a response that was last requested again.
  struct rest {
    std::uint32_t begin = 0;
    std::uint32_t end = 0;
    bool awaited = false;  ///< `begin` has not arrived since
  };

  std::bitset<capacity> recorded_;  // by the lowest bits of the PSN
  std::uint32_t oldest_ = 0;
  std::uint32_t from_ = 0;    ///< the missing responses before it have been requested again
  std::uint32_t asked_ = 0;   ///< parts before it were requested again at any time
  std::uint32_t end_ = 0;     ///< all responses before it are expected
  std::uint32_t beyond_ = 0;  ///< the same, without the limit of the window
  /// The PSN after the last dropped response: beyond the window, or to a later READ. Never both: a
  // later READ is sent only if at most `packet_requester::window` PSNs are outstanding.
  std::uint32_t dropped_ = 0;
  std::uint32_t acknowledged_ = 0;
  rest rest_;
  bool gap_ = false;
};

}  // namespace verbena::softdev::wire
