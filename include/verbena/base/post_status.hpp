// SPDX-License-Identifier: MIT
// The result of posting: two registers, no allocation. Text is made only when error() is called.
#pragma once

#include <cerrno>
#include <cstdint>

#include "verbena/base/result.hpp"

namespace verbena::inline VERBENA_ABI {

/// Identifies the verb that posted requests.
enum class posting_verb : std::uint8_t {
  unknown,              ///< not stated
  post_send,            ///< ibv_post_send(3)
  wr_complete,          ///< ibv_wr_complete(3)
  post_receive,         ///< ibv_post_recv(3)
  post_shared_receive,  ///< ibv_post_srq_recv(3)
};

/// Describes requests that a verb refused. Threads: immutable value.
struct refused_post {
  int code = 0;                ///< the return value of the verb; some providers negate the errno
  std::uint32_t accepted = 0;  ///< requests at the front of the list that the queue accepted
  posting_verb verb = posting_verb::unknown;  ///< the verb
  std::uint32_t queue_pair = 0;               ///< the number of the queue pair; 0: not stated
};

/// Describes a batch that was not posted because requests were added beyond its capacity.
/// Threads: immutable value.
struct overfull_batch {
  std::uint16_t capacity = 0;   ///< requests that the batch can hold
  std::uint16_t excess = 0;     ///< requests that did not fit; 65,535 means that many or more
  bool has_long_lists = false;  ///< the requests fit, but not their lists of inline data
  posting_verb verb = posting_verb::unknown;  ///< the verb that would have posted the batch
  std::uint32_t queue_pair = 0;               ///< the number of the queue pair; 0: not stated
};

/// The result of posting one work request or a batch.
///
/// If the verb refused a request, accepted_before_failure() is the number of requests before it,
/// which complete.
/// The refused request and all later requests were not posted. If more requests were added to a
/// batch than it can hold, code() is ENOBUFS, no request was posted, and excess() is the number of
/// requests that did not fit.
/// Threads: immutable.
class [[nodiscard("a post can fail: check it or call value()")]] post_status {
 public:
  /// Constructs a success.
  constexpr post_status() noexcept = default;
  /// Constructs the refusal of a verb. A code of 0 is a success.
  constexpr explicit post_status(const refused_post& of) noexcept
      : code_(of.code < 0 ? -of.code : of.code),
        queue_pair_(of.queue_pair),
        count_(of.accepted),
        verb_(of.verb) {}
  /// Constructs the refusal of a batch that has too many requests.
  constexpr explicit post_status(const overfull_batch& of) noexcept
      : code_(ENOBUFS),
        queue_pair_(of.queue_pair),
        count_(of.excess),
        capacity_(of.capacity),
        verb_(of.verb),
        has_long_lists_(of.has_long_lists) {}

  /// Returns the errno of the failure; 0 for a success.
  [[nodiscard]] constexpr int code() const noexcept { return code_; }
  /// Returns the number of requests that were accepted before the refused one; 0 for a success.
  [[nodiscard]] constexpr std::uint32_t accepted_before_failure() const noexcept {
    return capacity_ == 0 ? count_ : 0;
  }
  /// Returns the number of requests that did not fit into the batch; otherwise 0.
  [[nodiscard]] constexpr std::uint32_t excess() const noexcept {
    return capacity_ == 0 ? 0 : count_;
  }
  /// Returns whether all requests were accepted.
  [[nodiscard]] constexpr bool has_value() const noexcept { return code_ == 0; }
  /// Returns whether all requests were accepted.
  constexpr explicit operator bool() const noexcept { return has_value(); }

  /// Raises error() if a request was refused.
  void value() const {
    if (!has_value()) raise(error());
  }
  /// Returns the failure: verb, queue pair, counts, the likely cause and the remedy.
  /// Precondition: !has_value().
  [[nodiscard]] verbena::error error() const;

  friend constexpr bool operator==(const post_status&, const post_status&) noexcept = default;

 private:
  std::int32_t code_ = 0;
  std::uint32_t queue_pair_ = 0;
  std::uint32_t count_ = 0;     // of accepted requests; of an overfull batch: its excess
  std::uint16_t capacity_ = 0;  // of an overfull batch
  posting_verb verb_ = posting_verb::unknown;
  bool has_long_lists_ = false;
};

}  // namespace verbena::inline VERBENA_ABI
