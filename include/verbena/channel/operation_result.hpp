// SPDX-License-Identifier: MIT
// The result of an operation of a channel: a completion, the errno of a verb, or a refusal of the
// channel itself.
#pragma once

#include <cstdint>
#include <optional>
#include <source_location>

#include "verbena/base/assert.hpp"
#include "verbena/base/result.hpp"
#include "verbena/channel/detail/operation_kind.hpp"
#include "verbena/verbs/completion.hpp"

namespace verbena::inline VERBENA_ABI {

class channel;
class reconnection;

namespace detail {
class channel_core;
class operation_table;
}  // namespace detail

/// How an operation ended.
enum class operation_end : std::uint8_t {
  success,  ///< completed successfully
  failed,   ///< completed with an error: completion()
  refused,  ///< was not posted: refusal(), code()
  /// An abort_at passed, or async::channel::abort() or a cancellation ended the connection: the
  /// channel moved its queue pair to the error state to release the memory, and the operation was
  /// flushed. It may have taken effect at the peer. channel::failure() has the cause.
  aborted,
  /// The queue pair was destroyed before the completion arrived. The device no longer accesses the
  /// memory; the operation may have taken effect at the peer. code() is the errno of the failed
  /// poll, or 0.
  lost,
};

/// Why an operation was not posted.
enum class refusal : std::uint8_t {
  none,            ///< it was posted
  verb,            ///< ibv_post_send(3) or ibv_post_recv(3) refused it with code()
  queue_full,      ///< the send queue or the receive queue is full: ENOMEM
  foreign_domain,  ///< the memory belongs to another protection domain than the channel: EINVAL
  /// More slices than `max_send_sge` or `max_recv_sge`, or than one read of the device fills:
  /// EINVAL.
  too_many_slices,
  remote_bounds,  ///< the operation exceeds the remote region: EINVAL
  atomic_shape,   ///< an atomic operation on anything but 8 aligned bytes: EINVAL
  not_connected,  ///< the channel has no connection, or it has failed: ENOTCONN
  /// The channel is connected by its first operation (net::connect_mode::on_first_use), and this
  /// failed with code(). The next operation tries again. channel::describe() returns the cause.
  connect_failed,
  limit_passed,       ///< the abort_at of its call passed before it was posted: ETIMEDOUT
  cancelled,          ///< it was cancelled while it waited for room in the queue: ECANCELED
  channel_destroyed,  ///< the channel was destroyed while it waited for room in the queue: ENOTCONN
  /// The operations that have ended and that completion_hub::next_completed() has not returned
  /// occupy all places of the hub: ENOMEM.
  not_collected,
};

/// The source location of a post; by default that of the call. Threads: immutable value.
class place_of_post {
 public:
  /// Holds the location `at`.
  // NOLINTNEXTLINE(google-explicit-constructor): std::source_location::current() is the default
  constexpr place_of_post(std::source_location at) noexcept : at_(at) {}
  /// Returns the location.
  [[nodiscard]] constexpr std::source_location at() const noexcept { return at_; }

 private:
  std::source_location at_;
};

/// Whether an operation has taken effect.
enum class delivery : std::uint8_t {
  done,      ///< it took effect exactly once
  not_done,  ///< it has not taken effect and never will: it can be repeated safely
  unknown,   ///< it may have taken effect, in whole or in part: a repetition may be the second
};

/// The result of an operation. Cheap to create and to copy; the text of a failure is created by
/// error(). Threads: immutable value.
class [[nodiscard("an operation can fail: check the result, or call value()")]] operation_result {
 public:
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init): done_ is valid if completed_
  operation_result() noexcept = default;

  /// Creates the result of a completed operation. `aborting`: an abort_at of the channel passed.
  [[nodiscard]] static operation_result of(const verbena::completion& done, bool aborting,
                                           std::source_location posted) noexcept {
    operation_result made;
    made.done_ = done;
    made.posted_ = posted;
    made.completed_ = true;
    made.end_ = done.ok()                                                 ? operation_end::success
                : aborting && done.status() == completion_status::flushed ? operation_end::aborted
                                                                          : operation_end::failed;
    return made;
  }
  /// Creates the result of an operation that was not posted.
  [[nodiscard]] static operation_result refuse(verbena::refusal why, int code,
                                               std::source_location posted) noexcept {
    operation_result made;
    made.number_ = code;
    made.why_ = why;
    made.end_ = operation_end::refused;
    made.posted_ = posted;
    return made;
  }
  /// Creates the result of an operation of `kind` that a verb refused with `code`.
  [[nodiscard]] static operation_result refuse_post(detail::operation_kind kind, int code,
                                                    std::source_location posted) noexcept {
    operation_result made = refuse(verbena::refusal::verb, code, posted);
    made.kind_ = kind;
    return made;
  }
  /// Creates the result of an operation whose completion is lost.
  [[nodiscard]] static operation_result lose(int code, std::source_location posted) noexcept {
    operation_result made;
    made.number_ = code;
    made.end_ = operation_end::lost;
    made.posted_ = posted;
    return made;
  }

  /// Creates the result of an operation that has not ended: only posted() is defined.
  [[nodiscard]] static operation_result pending(std::source_location posted) noexcept {
    operation_result made;
    made.posted_ = posted;
    return made;
  }

  /// Returns how the operation ended.
  [[nodiscard]] operation_end end() const noexcept { return end_; }
  /// Returns true if the operation succeeded.
  [[nodiscard]] bool has_value() const noexcept { return end_ == operation_end::success; }
  /// Returns true if the operation succeeded.
  explicit operator bool() const noexcept { return has_value(); }
  /// Returns byte_length(). Precondition: has_value().
  [[nodiscard]] std::uint32_t operator*() const { return byte_length(); }

  /// Returns the number of bytes received or read; unspecified for sends and writes. It is 0 for a
  /// receive that a write with immediate data has consumed: the sink has no bytes of it. See
  /// written_length(). Precondition: has_value().
  [[nodiscard]] std::uint32_t byte_length() const {
    VERBENA_ASSERT(has_value(),
                   "byte_length() of an operation that failed: check the result first");
    return is_of_write() ? 0 : done_.byte_length();
  }
  /// Returns how many bytes a write with immediate data, which consumed this receive, has written
  /// to memory of this side. 0 for other operations. Precondition: has_value().
  [[nodiscard]] std::uint32_t written_length() const {
    VERBENA_ASSERT(has_value(),
                   "written_length() of an operation that failed: check the result first");
    return is_of_write() ? done_.byte_length() : 0;
  }
  /// Returns the immediate data of a received message, in host byte order; nullopt without any.
  [[nodiscard]] std::optional<std::uint32_t> immediate() const noexcept {
    return completed_ ? done_.immediate() : std::nullopt;
  }

  /// Returns the completion; nullptr if there was none.
  [[nodiscard]] const verbena::completion* completion() const noexcept {
    return completed_ ? &done_ : nullptr;
  }
  /// Returns why the operation was not posted.
  [[nodiscard]] verbena::refusal refusal() const noexcept { return why_; }
  /// Returns the errno of a refused or lost operation; otherwise 0.
  [[nodiscard]] int code() const noexcept { return completed_ ? 0 : number_; }
  /// Returns whether the operation has taken effect.
  ///
  /// `done`: the operation succeeded. The peer's device has the message, or its memory has the
  /// bytes; only the peer's program can confirm that it has processed them. `not_done`: the
  /// operation was not posted; a read failed; a receive completed with an error; a message was
  /// refused by the peer (`rnr_retries_exceeded`, `remote_*`) or could not be read here
  /// (`local_protection_error`, `local_length_error`). `unknown`: all other failures. After
  /// `retries_exceeded` either the request or its acknowledgement was lost; later requests that
  /// were flushed may have arrived as well. Writes take effect packet by packet, so a failed write
  /// may have written some bytes.
  ///
  /// On iWARP, messages and writes are `done` when the connection has accepted them; they may be
  /// lost if the connection ends before the peer responds to a later request.
  /// reconnection::reconcile() resolves `unknown` with the peer's count of received messages.
  /// Source: enum ibv_wc_status of verbs.h, ibv_poll_cq(3), check_resource() of rxe_resp.c.
  [[nodiscard]] verbena::delivery delivery() const noexcept;
  /// Returns the source location of the post.
  [[nodiscard]] std::source_location posted() const noexcept { return posted_; }

  /// Returns the failure in words, with code and source location. channel::describe() adds the
  /// state of peer and device. Precondition: !has_value(). Allocates.
  [[nodiscard]] verbena::error error() const;
  /// Returns the number of bytes received or read, or raises error().
  std::uint32_t value() const {
    if (!has_value()) raise(error());
    return byte_length();
  }

 private:
  friend class channel;
  friend class detail::channel_core;
  friend class detail::operation_table;
  friend class reconnection;
  [[nodiscard]] bool is_of_write() const noexcept {
    return done_.opcode() == completion_opcode::receive_write_with_immediate;
  }
  // Creates a successful result; leaves done_ unset.
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init): a poll sets done_
  explicit operation_result(std::source_location posted) noexcept
      : posted_(posted), end_(operation_end::success), completed_(true) {}
  // Makes a pending result that of a successful completion.
  void succeed(const verbena::completion& done) noexcept {
    done_ = done;
    succeeded(posted_);
  }
  // Marks a completion that was polled into done_ as a success.
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
  // Adjacent and in this order, so that one store initializes them on success.
  operation_end end_ = operation_end::refused;
  bool completed_ = false;
  verbena::refusal why_ = verbena::refusal::none;
  detail::operation_kind kind_ = detail::operation_kind::send;  // of a failure
  // code(); for a message that completed with an error: its number among the failed messages of the
  // channel, modulo 2^32.
  int number_ = 0;
};

namespace detail {
/// Returns a copy of `*result`, or nullopt for nullptr.
[[nodiscard]] inline std::optional<operation_result> copy_of(const operation_result* result) {
  return result == nullptr ? std::nullopt : std::optional<operation_result>(*result);
}
}  // namespace detail

}  // namespace verbena::inline VERBENA_ABI
