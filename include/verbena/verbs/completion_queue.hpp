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
#include "verbena/verbs/detail/flights.hpp"
#include "verbena/verbs/detail/handle.hpp"
#include "verbena/verbs/detail/native_pointer.hpp"
#include "verbena/verbs/detail/open_alone.hpp"
#include "verbena/verbs/detail/queue_states.hpp"

namespace verbena::inline VERBENA_ABI {

/// The options of `context::create_cq`.
struct completion_queue_options {
  /// The completion channel that gets the notifications; nullopt if the queue is only polled.
  std::optional<completion_channel> channel = {};
  /// The interrupt vector of notifications; less than `num_comp_vectors` of the context.
  std::uint32_t completion_vector = 0;
};

/// Selects the completions that notify an armed queue.
enum class notify : std::uint8_t {
  any_completion,  ///< the next completion
  solicited_only,  ///< the next receive that was sent with `.solicited`, or the next failure
};

/// Moderates notifications, so that several completions share one notification.
struct notification_moderation {
  /// The number of completions that cause a notification; 0 and 1 do not delay it.
  std::uint16_t completions = 0;
  /// The longest delay of a notification; at most 65,535 µs.
  std::chrono::microseconds period = std::chrono::microseconds(0);
};

namespace detail {
/// Returns the error of a poll. `status` is a result of ibv_poll_cq(3) or an errno.
[[nodiscard]] error polling_failure(int status);
[[noreturn]] void raise_polling_failure(int status);
}  // namespace detail

/// The result of poll(): completions at the front of the caller's array, or a failure of the
/// device. Threads: immutable value; borrows the caller's array.
class [[nodiscard("polling can fail: check it or call value()")]] poll_result {
 public:
  /// Constructs a result from the result of ibv_poll_cq(3) and the address of its completions.
  constexpr poll_result(completion* begin, int count) noexcept : begin_(begin), count_(count) {}

  /// Returns whether polling succeeded, with or without completions.
  [[nodiscard]] constexpr bool has_value() const noexcept { return count_ >= 0; }
  /// Returns whether polling succeeded.
  constexpr explicit operator bool() const noexcept { return has_value(); }
  /// Returns the completions; empty if there were none. Precondition: has_value().
  [[nodiscard]] constexpr std::span<completion> operator*() const noexcept {
    return {begin_, static_cast<std::size_t>(count_)};
  }
  /// Returns the completions, or raises error().
  [[nodiscard]] constexpr std::span<completion> value() const {
    if (!has_value()) detail::raise_polling_failure(count_);
    return **this;
  }
  /// Returns the failure. Precondition: !has_value().
  [[nodiscard]] verbena::error error() const { return detail::polling_failure(count_); }

 private:
  completion* begin_;
  int count_;
};

/// A completion queue (CQ). Copies share one queue; queue pairs keep it alive.
///
/// Threads: a handle is used by one thread at a time; copies may be used by different threads.
class completion_queue : public detail::handle<detail::completion_queue_state> {
 public:
  /// Takes over or borrows a queue that the C API created from `of`.
  [[nodiscard]] static completion_queue adopt(ibv_cq* native, const context& of, ownership owner);

  /// Takes up to `out.size()` completions, oldest first, and returns the filled part of `out`.
  ///
  /// Errors: that of ibv_poll_cq(3). A failed work request is a completion, not an error. Does not
  /// block or allocate.
  poll_result poll(std::span<completion> out, call_site where = call_site::here()) const noexcept {
    VERBENA_CHECK(cq_.get() != nullptr, "a moved-from completion queue must not be used");
    detail::check_not_open(
        cq_.get(), "a thread that has a pass over a queue open polls nothing else from it", where);
    // completion has the layout of ibv_wc.
    auto* const polled = reinterpret_cast<ibv_wc*>(out.data());
    const int count = ibv_poll_cq(cq_.get(), static_cast<int>(out.size()), polled);
    detail::arrive(cq_.get(), polled, count, where);
    return {out.data(), count};
  }

  /// Waits for completions until the deadline, and returns the filled part of `out`.
  ///
  /// Polls first. If the queue is empty and is the only queue of its completion channel, arms it,
  /// polls again and sleeps until the channel has an event. No notification is lost. Otherwise
  /// (no channel, or a channel with several queues) polls until the deadline with pauses in
  /// between. An expired deadline polls once.
  ///
  /// It takes the events of the channel: do not read the channel at the same time by other means.
  /// Errors: `timed_out` if no completion arrived before the deadline; otherwise those of poll(),
  /// request_notification() and completion_channel::wait(). Precondition: `out` is not empty.
  [[nodiscard]] verbena::result<std::span<completion>> wait(
      std::span<completion> out, deadline until, call_site where = call_site::here()) const;

  /// Arms the queue: the next completion of kind `which` puts one event into the channel.
  ///
  /// Completions that arrived earlier cause no event: arm, then drain, then wait
  /// (completion_channel.hpp), or use wait(). Has no effect without a channel. Does not block.
  /// Errors: the errno of ibv_req_notify_cq(3).
  [[nodiscard]] result<void> request_notification(notify which) const;

  /// Returns the number of completions that the queue can hold; at least the requested number.
  ///
  /// A queue that overflows cannot be used any longer. So it must hold as many completions as its
  /// queue pairs can have outstanding requests.
  [[nodiscard]] std::size_t capacity() const;
  /// Changes the capacity of the queue: ibv_resize_cq(3). Completions in the queue are kept.
  ///
  /// Errors: EINVAL if the queue contains more completions or the device has fewer entries;
  /// `not_supported` if the device cannot resize; otherwise the errno of the verb. May block in the
  /// kernel.
  [[nodiscard]] result<void> resize(std::uint32_t capacity) const;
  /// Moderates notifications: ibv_modify_cq(3).
  ///
  /// extended_device_attributes::max_moderation() returns the limits of the device. Errors:
  /// `invalid_argument` if the period is negative or too long; `not_supported` if the device cannot
  /// moderate; otherwise the errno of the verb.
  [[nodiscard]] result<void> moderate(const notification_moderation& how) const;
  /// Returns the completion channel of the queue, or nullopt if it has none.
  [[nodiscard]] std::optional<completion_channel> channel() const;
  /// Returns the reason that the device gives for a failed completion.
  ///
  /// Only the software device gives reasons: the failed check, the key and the numbers. Empty for
  /// other devices, and if the device no longer stores the reason.
  [[nodiscard]] std::string explain(const completion& failed) const;

  /// Destroys the queue now; if that fails, returns the queue and the error.
  [[nodiscard]] close_result<completion_queue> close() &&;

 protected:
  friend struct detail::internals;
  explicit completion_queue(std::shared_ptr<detail::completion_queue_state> state) noexcept
      : handle(std::move(state)), cq_(handle::native()) {}

 private:
  detail::native_pointer<ibv_cq> cq_;
};

}  // namespace verbena::inline VERBENA_ABI
