// SPDX-License-Identifier: MIT
#pragma once

#include <infiniband/verbs.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "verbena/base/call_site.hpp"
#include "verbena/base/deadline.hpp"
#include "verbena/base/result.hpp"
#include "verbena/verbs/completion.hpp"
#include "verbena/verbs/completion_channel.hpp"
#include "verbena/verbs/context.hpp"
#include "verbena/verbs/detail/exclusive_use.hpp"
#include "verbena/verbs/detail/in_flight.hpp"
#include "verbena/verbs/detail/native_pointer.hpp"
#include "verbena/verbs/detail/queue_states.hpp"
#include "verbena/verbs/handle.hpp"

namespace verbena::inline VERBENA_ABI {

/// Options of context::create_cq().
struct completion_queue_options {
  /// The completion channel of the events; `nullopt` if the queue is only polled.
  std::optional<completion_channel> channel = {};
  /// The completion vector of the events; less than context::completion_vectors().
  std::uint32_t completion_vector = 0;
};

/// Selects the completions that cause an event of an armed queue. Source: ibv_req_notify_cq(3).
enum class notify : std::uint8_t {
  any_completion,  ///< the next completion
  solicited_only,  ///< the next receive of a message sent with `.solicited`, or the next failure
};

/// Moderation of events: one event for several completions. Source: ibv_modify_cq(3).
struct notification_moderation {
  /// The number of completions that cause an event; 0 and 1 do not delay events.
  std::uint16_t completions = 0;
  /// The longest delay of an event; 0 to 65,535 µs. On soft0, 0 means no limit.
  std::chrono::microseconds period = std::chrono::microseconds(0);
};

namespace detail {
/// Returns the error of a poll. `status` is the result of ibv_poll_cq(3), or an errno.
[[nodiscard]] error polling_failure(int status);
[[noreturn]] void raise_polling_failure(int status);
}  // namespace detail

/// The result of poll(): completions at the front of the caller's array, or a failure of the
/// device. Threads: immutable value; borrows the caller's array.
class [[nodiscard("polling can fail: check it or call value()")]] poll_result {
 public:
  /// Makes a result from the result of ibv_poll_cq(3) and the address of its completions.
  constexpr poll_result(completion* begin, int count) noexcept : begin_(begin), count_(count) {}

  /// Returns whether polling succeeded, with or without completions.
  [[nodiscard]] constexpr bool has_value() const noexcept { return count_ >= 0; }
  /// Returns whether polling succeeded.
  constexpr explicit operator bool() const noexcept { return has_value(); }
  /// Returns the completions, or an empty span if the queue was empty. Precondition: has_value().
  [[nodiscard]] constexpr std::span<completion> operator*() const {
    VERBENA_CHECK(has_value(), "a poll_result with a failure was dereferenced: check it first");
    return {begin_, static_cast<std::size_t>(count_)};
  }
  /// Returns the completions, or raises error().
  [[nodiscard]] constexpr std::span<completion> value() const {
    if (!has_value()) detail::raise_polling_failure(count_);
    return **this;
  }
  /// Returns the failure. Precondition: !has_value().
  [[nodiscard]] verbena::error error() const {
    VERBENA_ASSERT(!has_value(), "error() of a poll_result that succeeded: check it first");
    return detail::polling_failure(count_);
  }

 private:
  completion* begin_;
  int count_;
};

/// A completion queue (CQ), created by context::create_cq(). Copies share the queue. The queue is
/// destroyed when its last copy and all queue pairs that complete into it have been destroyed.
///
/// Threads: one thread at a time uses each handle. Different threads may use copies concurrently.
class completion_queue : public handle<detail::completion_queue_state> {
 public:
  /// Adopts a completion queue of the C API. Precondition: the queue belongs to `of`.
  ///
  /// channel() is `nullopt`, and wait() polls in a loop without sleeping, even if `native` has a
  /// completion channel.
  [[nodiscard]] static completion_queue adopt(ibv_cq* native, const context& of, ownership owner);

  /// Takes up to `out.size()` completions, oldest first, and returns the filled part of `out`.
  ///
  /// The status of a failed work request is in its completion; poll() itself fails only if the
  /// queue overflowed or the device failed (ibv_poll_cq(3)). Does not block or allocate.
  poll_result poll(std::span<completion> out, call_site where = call_site::here()) const noexcept {
    VERBENA_CHECK(cq_.get() != nullptr, "a moved-from completion queue was used");
    detail::check_not_open(
        cq_.get(),
        "a thread called poll() of a completion queue between its ibv_start_poll and ibv_end_poll",
        where);
    // completion has the layout of ibv_wc.
    auto* const polled = reinterpret_cast<ibv_wc*>(out.data());
    const int count = ibv_poll_cq(cq_.get(), static_cast<int>(out.size()), polled);
    detail::record_completions(cq_.get(), polled, count, where);
    return {out.data(), count};
  }

  /// Waits for completions until the deadline, and returns the filled part of `out`.
  ///
  /// If the queue is the only one of its completion channel, arms the queue, polls again and sleeps
  /// until the completion channel has an event. Without a completion channel, or if several queues
  /// share it, polls in a loop without sleeping. If the deadline has expired, polls once. Blocks;
  /// does not allocate unless it fails.
  ///
  /// wait() takes the events of the completion channel. While wait() runs, no other thread may take
  /// events of that completion channel.
  /// Errors: `timed_out` if no completion arrived before the deadline; otherwise those of poll(),
  /// request_notification() and completion_channel::wait(). Precondition: `out` is not empty.
  [[nodiscard]] verbena::result<std::span<completion>> wait(
      std::span<completion> out, deadline until, call_site where = call_site::here()) const;

  /// Arms the queue: the next completion of the kind `which` adds one event to the completion
  /// channel.
  ///
  /// A completion that arrived before the queue was armed may cause no event: arm, poll until the
  /// queue is empty, then wait for the event (completion_channel.hpp), or use wait(). Has no effect
  /// without a completion channel. Does not block.
  /// Errors: the errno of ibv_req_notify_cq(3).
  [[nodiscard]] result<void> request_notification(notify which) const;

  /// Returns the number of completions that the queue can hold; at least the requested number.
  ///
  /// The queue must hold a completion for each outstanding work request of its queue pairs. If the
  /// queue overflows, it can no longer be used, and the device raises async_event_kind::cq_error.
  [[nodiscard]] std::size_t capacity() const;
  /// Changes the capacity to at least `capacity`: ibv_resize_cq(3). Keeps the completions in the
  /// queue. May block in the kernel.
  ///
  /// Errors: `invalid_argument` for 0 and for more than 2^31 - 1; EINVAL if the queue contains more
  /// completions, or if `capacity` exceeds device_attributes::max_completions(); `not_supported` if
  /// the device cannot resize; otherwise the errno of the verb.
  [[nodiscard]] result<void> resize(std::uint32_t capacity) const;
  /// Moderates the events of the queue: ibv_modify_cq(3). May block in the kernel.
  ///
  /// extended_device_attributes::max_moderation() returns the limits of the device. Errors:
  /// `invalid_argument` for a period out of range; `not_supported` if the device does not support
  /// moderation; otherwise the errno of the verb.
  [[nodiscard]] result<void> moderate(const notification_moderation& how) const;
  /// Returns the completion channel of the queue, or `nullopt` if it was created without one.
  [[nodiscard]] std::optional<completion_channel> channel() const;
  /// Returns the reason of a failed completion: the failed check, the key and the numbers.
  ///
  /// Only the software device stores reasons, and only of recent failures. If there is no reason,
  /// returns an empty string. Allocates.
  [[nodiscard]] std::string explain(const completion& failed) const;

  /// Destroys the queue: ibv_destroy_cq(3). If the queue is shared, or if the verb fails, returns
  /// the queue with the error.
  [[nodiscard]] close_result<completion_queue> close() &&;

 protected:
  friend struct detail::internals;
  explicit completion_queue(std::shared_ptr<detail::completion_queue_state> state) noexcept
      : handle(std::move(state)), cq_(handle::native()) {}

 private:
  detail::native_pointer<ibv_cq> cq_;
};

}  // namespace verbena::inline VERBENA_ABI
