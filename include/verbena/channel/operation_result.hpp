// SPDX-License-Identifier: MIT
// How an operation of a channel ended: one type for what a verb, a completion or the channel itself
// says, which loses nothing that they said.
#pragma once

#include <cstdint>
#include <optional>
#include <source_location>

#include "verbena/base/assert.hpp"
#include "verbena/base/result.hpp"
#include "verbena/channel/detail/operation_kind.hpp"
#include "verbena/verbs/completion.hpp"

namespace verbena::inline VERBENA_ABI {

class reconnection;

namespace detail {
class channel_core;
}

/// How an operation ended.
enum class operation_end : std::uint8_t {
  success,  ///< it did what it was to do
  failed,   ///< its completion says how it failed: completion()
  refused,  ///< it was not posted, nothing happened: refusal(), code()
  /// A deadline passed; the channel was put into its error state to get the memory back, and this
  /// was flushed. Whether the peer has seen something of it is unknown.
  deadline,
  /// The channel lost its queue pair before the completion came. The adapter is done with the
  /// memory; whether the peer has seen something of it is unknown. code() is the errno of the
  /// poll that failed, or 0.
  lost,
};

/// Why an operation was not posted.
enum class refusal : std::uint8_t {
  none,            ///< it was posted
  verb,            ///< ibv_post_send(3) or ibv_post_recv(3) refused it with code()
  queue_full,      ///< as many operations are in flight as the channel has places: ENOMEM
  foreign_domain,  ///< memory of another protection domain than the channel's: EINVAL
  /// More pieces of memory than `max_send_sge` or `max_recv_sge`, or than the device reads into at
  /// once: EINVAL.
  too_many_pieces,
  remote_bounds,  ///< more bytes than the peer's region has: EINVAL
  atomic_shape,   ///< an atomic operation on other than 8 aligned bytes: EINVAL
  not_connected,  ///< the channel has lost its queue pair: ENOTCONN
};

/// Where an operation was posted: by itself the place of the call. Threads: immutable value.
class place_of_post {
 public:
  /// The place `at`.
  // NOLINTNEXTLINE(google-explicit-constructor): std::source_location::current() is its default
  constexpr place_of_post(std::source_location at) noexcept : at_(at) {}
  /// The place.
  [[nodiscard]] constexpr std::source_location at() const noexcept { return at_; }

 private:
  std::source_location at_;
};

/// What is known of what an operation was to do.
enum class delivery : std::uint8_t {
  done,      ///< it was done, once
  not_done,  ///< it was not, and will never be: doing it again does it once
  unknown,   ///< it may have been done, in whole or in part: doing it again may do it twice
};

/// How an operation ended, and what it brought. On success cheap to make and to copy; the words of
/// a failure are made when error() is asked. Threads: immutable value.
class [[nodiscard("an operation can fail: check it, or call value()")]] operation_result {
 public:
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init): the completion is there if posted
  operation_result() noexcept = default;

  /// Ended with a completion. `flushed_by_deadline`: the channel flushed it because one passed.
  [[nodiscard]] static operation_result of(const verbena::completion& done,
                                           bool flushed_by_deadline,
                                           std::source_location posted) noexcept {
    operation_result made;
    made.done_ = done;
    made.posted_ = posted;
    made.completed_ = true;
    made.end_ = done.ok() ? operation_end::success
                : flushed_by_deadline && done.status() == completion_status::flushed
                    ? operation_end::deadline
                    : operation_end::failed;
    return made;
  }
  /// Not posted.
  [[nodiscard]] static operation_result refuse(verbena::refusal why, int code,
                                               std::source_location posted) noexcept {
    operation_result made;
    made.number_ = code;
    made.why_ = why;
    made.end_ = operation_end::refused;
    made.posted_ = posted;
    return made;
  }
  /// Its completion will never be known.
  [[nodiscard]] static operation_result lose(int code, std::source_location posted) noexcept {
    operation_result made;
    made.number_ = code;
    made.end_ = operation_end::lost;
    made.posted_ = posted;
    return made;
  }

  /// How it ended.
  [[nodiscard]] operation_end end() const noexcept { return end_; }
  /// Whether it did what it was to do.
  [[nodiscard]] bool ok() const noexcept { return end_ == operation_end::success; }
  /// As ok().
  explicit operator bool() const noexcept { return ok(); }

  /// Bytes received or read. Precondition: ok(). Of sends and writes it means nothing.
  [[nodiscard]] std::uint32_t byte_length() const {
    VERBENA_ASSERT(ok(), "byte_length() is of an operation that succeeded");
    return done_.byte_length();
  }
  /// The number that the sender added to what was received, in host order.
  [[nodiscard]] std::optional<std::uint32_t> immediate() const noexcept {
    return completed_ ? done_.immediate() : std::nullopt;
  }

  /// All that the completion says; nullptr if there was none.
  [[nodiscard]] const verbena::completion* completion() const noexcept {
    return completed_ ? &done_ : nullptr;
  }
  /// Why it was not posted.
  [[nodiscard]] verbena::refusal refusal() const noexcept { return why_; }
  /// Of what was refused or lost: the errno, or 0.
  [[nodiscard]] int code() const noexcept { return completed_ ? 0 : number_; }
  /// What is known of what it was to do.
  ///
  /// Success is `done`: the peer's adapter has the message, or its memory the bytes; whether the
  /// peer's program has looked at it only that program can say. What was not posted is `not_done`.
  /// So are a read that failed, which changes nothing at the peer, a receive whose completion says
  /// that it failed, which brought nothing here, and a message that the peer refused
  /// (`rnr_retries_exceeded`, `remote_*`) or that this side could not read
  /// (`local_protection_error`, `local_length_error`). Everything else is `unknown`. When a
  /// connection ends without an answer
  /// (`retries_exceeded`), the request may have been lost, or the acknowledgement was; of what was
  /// `flushed` behind it the same is true, since several requests are on their way at once. Writes
  /// are executed packet by packet: also one that was refused may have written some bytes. What was
  /// lost with the queue pair (operation_end::lost) has no completion that could tell. On iWARP,
  /// messages and writes are `done` when the connection has taken them: it may still lose them when
  /// it ends, before the peer has answered anything that came behind.
  /// channel::reconnect() can turn `unknown` into what the peer knows: reconnection::settle().
  /// Source: enum ibv_wc_status of verbs.h and ibv_poll_cq(3); check_resource() of the kernel's
  /// rxe_resp.c, which looks for a receive per packet.
  [[nodiscard]] verbena::delivery delivery() const noexcept;
  /// Where it was posted.
  [[nodiscard]] std::source_location posted() const noexcept { return posted_; }

  /// The failure in words, with the number and the place of the post. channel::describe() knows
  /// more. Precondition: !ok(). Allocates.
  [[nodiscard]] verbena::error error() const;
  /// Bytes received or read, or raises error().
  std::uint32_t value() const {
    if (!ok()) raise(error());
    return done_.byte_length();
  }

 private:
  friend class detail::channel_core;
  friend class reconnection;
  // A completion that was polled to where it belongs.
  void succeeded(std::source_location posted) noexcept {
    posted_ = posted;
    end_ = operation_end::success;
    completed_ = true;
    why_ = verbena::refusal::none;
    kind_ = detail::operation_kind::send;
    number_ = 0;
  }

  verbena::completion done_;
  std::source_location posted_;
  // In this order, and with nothing between them, so that one store makes them of a success.
  operation_end end_ = operation_end::refused;
  bool completed_ = false;
  verbena::refusal why_ = verbena::refusal::none;
  detail::operation_kind kind_ = detail::operation_kind::send;  // of a failure
  // code(); of a message that completed and failed, its number among those of the channel, modulo
  // 2^32.
  int number_ = 0;
};

}  // namespace verbena::inline VERBENA_ABI
