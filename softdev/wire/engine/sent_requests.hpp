// SPDX-License-Identifier: MIT
// The requests of a packet_requester that have PSNs. A request is removed when it ends; if it
// is acknowledged while it waits to be submitted again, when it is submitted.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>

#include "softdev/core/message.hpp"
#include "softdev/core/types.hpp"
#include "softdev/wire/engine/sequence.hpp"

namespace verbena::softdev::wire {

/// A request with PSNs.
struct sent_request {
  std::uint32_t number = 0;  ///< the sequence number in the core, which numbers requests
  std::uint32_t first_psn = 0;
  std::uint32_t packets = 1;       ///< PSNs; for a READ, those of the response
  std::uint32_t sent = 0;          ///< packets since the last submission
  std::uint32_t acknowledged = 0;  ///< packets; for a READ, received ones
  std::uint32_t length = 0;
  std::uint64_t original = 0;  ///< the result of an atomic operation that is complete
  std::uint16_t attempt = 0;
  softdev::opcode opcode = opcode::send;

  [[nodiscard]] bool complete() const noexcept { return acknowledged == packets; }
  /// Returns the first packet that is not acknowledged.
  [[nodiscard]] std::uint32_t oldest_psn() const noexcept {
    return psn_plus(first_psn, acknowledged);
  }
};

/// A ring of requests in the order of their PSNs. The first ones are in flight; the others wait to
/// be submitted again. Allocates only in `enlarge`. Threads: one thread at a time.
class sent_requests {
 public:
  static constexpr std::uint32_t initial_capacity = 128;
  static constexpr std::uint32_t largest_capacity = 1024;

  /// Sets the first PSN.
  void begin(std::uint32_t psn) noexcept { next_psn_ = psn; }

  [[nodiscard]] std::uint32_t count() const noexcept { return count_; }
  /// Returns the number of requests in flight.
  [[nodiscard]] std::uint32_t live() const noexcept { return live_; }
  [[nodiscard]] sent_request& operator[](std::uint32_t index) noexcept {
    return requests()[(begin_ + index) % capacity_];
  }
  /// Returns the first PSN of the next new request.
  [[nodiscard]] std::uint32_t next_psn() const noexcept { return next_psn_; }

  [[nodiscard]] bool is_full() const noexcept { return count_ == capacity_; }
  /// Makes room for the largest number of requests. Returns false if it has this room already, or
  /// if there is no memory.
  [[nodiscard]] bool enlarge() noexcept {
    if (capacity_ == largest_capacity) return false;
    std::unique_ptr<sent_request[]> made(new (std::nothrow) sent_request[largest_capacity]);
    if (made == nullptr) return false;
    for (std::uint32_t i = 0; i < count_; ++i) made[i] = (*this)[i];
    larger_ = std::move(made);
    capacity_ = largest_capacity;
    begin_ = 0;
    return true;
  }
  /// Adds a request, which gets the next `packets` PSNs. It is not in flight. Precondition:
  /// !is_full().
  void push(const message& what, std::uint32_t packets) noexcept {
    (*this)[count_++] = {.number = what.psn,
                         .first_psn = next_psn_,
                         .packets = packets,
                         .length = what.length,
                         .opcode = what.opcode};
    next_psn_ = psn_plus(next_psn_, packets);
  }
  /// Removes the first request, which is in flight.
  void pop() noexcept {
    begin_ = (begin_ + 1) % capacity_;
    --count_;
    --live_;
  }
  void set_live(std::uint32_t count) noexcept { live_ = count; }
  struct acknowledgement {
    sent_request last;      ///< the last request that was removed
    bool some = false;      ///< there is such a request
    bool progress = false;  ///< further packets are acknowledged
    bool lost = false;      ///< the response to a READ or atomic operation is missing
  };
  /// Acknowledges the packets before `end_psn`, up to a missing response. Removes the requests that
  /// are complete, except those that wait to be submitted again.
  [[nodiscard]] acknowledgement acknowledge_before(std::uint32_t end_psn) noexcept {
    acknowledgement made;
    for (std::uint32_t i = 0; i < count_;) {
      sent_request& each = (*this)[i];
      const std::int32_t ahead = psn_distance(each.first_psn, end_psn);
      if (ahead <= 0) break;
      const std::uint32_t covered = std::min(static_cast<std::uint32_t>(ahead), each.packets);
      made.lost = is_read_or_atomic(each.opcode) && each.acknowledged < covered;
      if (made.lost) break;
      made.progress |= each.acknowledged < covered;
      each.acknowledged = std::max(each.acknowledged, covered);
      if (!each.complete()) break;
      if (is_submitted(i)) {
        made.last = each;
        made.some = true;
        pop();
      } else {
        ++i;
      }
    }
    return made;
  }
  /// Returns whether all packets of request `index` were sent since it was last withdrawn.
  [[nodiscard]] bool is_submitted(std::uint32_t index) noexcept {
    return index < live_ && (*this)[index].sent == (*this)[index].packets;
  }

  /// Returns the first PSN of the oldest request, or of the next new one.
  [[nodiscard]] std::uint32_t first_psn() noexcept {
    return count_ > 0 ? (*this)[0].first_psn : next_psn_;
  }
  /// Returns the first unacknowledged PSN.
  [[nodiscard]] std::uint32_t oldest_psn() noexcept {
    for (std::uint32_t i = 0; i < count_; ++i)
      if (const sent_request& each = (*this)[i]; !each.complete()) return each.oldest_psn();
    return next_psn_;
  }
  /// Returns the PSN of the last packet in flight. Precondition: live() > 0.
  [[nodiscard]] std::uint32_t last_psn() noexcept {
    const sent_request& last = (*this)[live_ - 1];
    if (is_read_or_atomic(last.opcode)) return last.oldest_psn();
    return psn_plus(last.first_psn, std::max(last.sent, last.acknowledged + 1) - 1);
  }
  /// Returns whether a READ or atomic operation is in flight.
  [[nodiscard]] bool has_read_or_atomic() noexcept {
    for (std::uint32_t i = 0; i < live_; ++i)
      if (is_read_or_atomic((*this)[i].opcode)) return true;
    return false;
  }
  /// Returns whether `matches(psn)` is true for an unacknowledged request packet in flight.
  template <class Predicate>
  [[nodiscard]] bool any_in_flight(Predicate matches) noexcept {
    for (std::uint32_t i = 0; i < live_; ++i) {
      const sent_request& each = (*this)[i];
      const bool is_one = is_read_or_atomic(each.opcode);
      const std::uint32_t end = is_one ? each.acknowledged + 1 : each.sent;
      for (std::uint32_t k = each.acknowledged; k < end; ++k)
        if (matches(psn_plus(each.first_psn, k))) return true;
    }
    return false;
  }
  /// Returns the PSN after the last response to a READ or atomic operation before `end`, or
  /// oldest_psn() if no READ or atomic operation precedes `end`.
  [[nodiscard]] std::uint32_t responses_end_before(std::uint32_t end) noexcept {
    for (std::uint32_t i = count_; i > 0; --i) {
      const sent_request& each = (*this)[i - 1];
      if (!is_read_or_atomic(each.opcode) || psn_distance(each.first_psn, end) <= 0) continue;
      const std::uint32_t own_end = psn_plus(each.first_psn, each.packets);
      return psn_distance(own_end, end) < 0 ? end : own_end;
    }
    return oldest_psn();
  }
  /// Returns the first PSN that the responder can expect, if it has executed all requests before
  /// `executed_end`. After a READ, it expects the PSN after the response.
  [[nodiscard]] std::uint32_t least_expected_psn(std::uint32_t executed_end) noexcept {
    std::uint32_t expected = later_psn(oldest_psn(), executed_end);
    for (std::uint32_t i = 0; i < count_; ++i) {
      const sent_request& each = (*this)[i];
      if (psn_distance(each.first_psn, executed_end) <= 0) break;
      if (each.opcode == opcode::rdma_read)
        expected = later_psn(expected, psn_plus(each.first_psn, each.packets));
    }
    return expected;
  }
  /// True if an unacknowledged request is in flight. An acknowledged request is in flight only
  /// while its retransmitted packets wait for room; then it is the only request in flight.
  [[nodiscard]] bool has_outstanding() noexcept { return live_ > 0 && !(*this)[0].complete(); }

 private:
  [[nodiscard]] sent_request* requests() noexcept {
    return larger_ == nullptr ? requests_.data() : larger_.get();
  }

  std::uint32_t next_psn_ = 0;
  std::uint32_t begin_ = 0;  ///< the first entry of the ring
  std::uint32_t count_ = 0;
  std::uint32_t live_ = 0;
  std::uint32_t capacity_ = initial_capacity;
  std::array<sent_request, initial_capacity> requests_;
  std::unique_ptr<sent_request[]> larger_;  ///< replaces `requests_`
};

}  // namespace verbena::softdev::wire
