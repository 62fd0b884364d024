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

/// What `context::create_cq` can be told.
struct completion_queue_options {
  /// Where the queue reports that it has completions; none: it is only polled.
  std::optional<completion_channel> channel = {};
  /// Which interrupt vector notifications use; below `num_comp_vectors` of the context.
  std::uint32_t completion_vector = 0;
};

/// Which completion makes an armed queue send its notification.
enum class notify : std::uint8_t {
  any_completion,  ///< the next one, whatever it is
  solicited_only,  ///< a receive whose sender asked for it (`.solicited`), or any failure
};

/// How long notifications are held back so that several completions share one.
struct notification_moderation {
  /// A notification after so many completions; 0 and 1 do not hold back.
  std::uint16_t completions = 0;
  /// A notification after this time, whatever came; at most 65,535 µs.
  std::chrono::microseconds period = std::chrono::microseconds(0);
};

namespace detail {
/// The error of a poll that ended with `status`: what ibv_poll_cq(3) returned, or an errno.
[[nodiscard]] error polling_failure(int status);
[[noreturn]] void raise_polling_failure(int status);
}  // namespace detail

/// What poll() found: completions at the front of the caller's array, or a failure of the device.
/// Threads: immutable value; borrows the caller's array.
class [[nodiscard("polling can fail: check it or call value()")]] poll_result {
 public:
  /// Of what ibv_poll_cq(3) returned, whose completions begin at `begin`.
  constexpr poll_result(completion* begin, int count) noexcept : begin_(begin), count_(count) {}

  /// Whether polling worked, also when it found nothing.
  [[nodiscard]] constexpr bool has_value() const noexcept { return count_ >= 0; }
  /// As has_value().
  constexpr explicit operator bool() const noexcept { return has_value(); }
  /// The completions; empty when there were none. Precondition: has_value().
  [[nodiscard]] constexpr std::span<completion> operator*() const noexcept {
    return {begin_, static_cast<std::size_t>(count_)};
  }
  /// The completions, or raises error().
  [[nodiscard]] constexpr std::span<completion> value() const {
    if (!has_value()) detail::raise_polling_failure(count_);
    return **this;
  }
  /// The failure. Precondition: !has_value().
  [[nodiscard]] verbena::error error() const { return detail::polling_failure(count_); }

 private:
  completion* begin_;
  int count_;
};

/// Where work requests report their end, polled in batches. Copies share one queue, and queue pairs
/// keep it alive.
/// Threads: thread-safe in what the device does; a handle itself is used by one thread at a time.
class completion_queue : public detail::handle<detail::completion_queue_state> {
 public:
  /// Takes over or borrows a queue that the C API made from `of`.
  [[nodiscard]] static completion_queue adopt(ibv_cq* native, const context& of, ownership owner);

  /// Moves up to `out.size()` completions to the front of `out`, oldest first, and returns that
  /// part. Never blocks, never allocates. Errors: the device's, as ibv_poll_cq(3) gives it; a
  /// failed work request is a completion and not an error.
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

  /// Arms the queue: the next completion that `which` means puts one event into the channel. What
  /// arrived before does not count: arm, then drain, then wait (completion_channel.hpp). Without a
  /// channel it has no effect. Does not block. Errors: the errno of ibv_req_notify_cq(3).
  [[nodiscard]] result<void> request_notification(notify which) const;

  /// How many completions it can hold; at least what was asked. A queue that overflows is lost, so
  /// it has to hold as many as the queue pairs on it can have outstanding.
  [[nodiscard]] std::size_t capacity() const;
  /// Changes how many completions it can hold: ibv_resize_cq(3). Completions that are there stay.
  /// Errors: the verb's errno; EINVAL when more completions are there or more entries are asked
  /// than the device has; `not_supported` for devices that cannot. May block in the kernel.
  [[nodiscard]] result<void> resize(std::uint32_t capacity) const;
  /// Lets several completions share one notification: ibv_modify_cq(3). Errors: `invalid_argument`
  /// for a period that is negative or too long; the verb's errno; `not_supported` for devices that
  /// cannot. extended_device_attributes::max_moderation() says what the device takes.
  [[nodiscard]] result<void> moderate(const notification_moderation& how) const;
  /// The channel it reports to; nothing if it was made without.
  [[nodiscard]] std::optional<completion_channel> channel() const;
  /// Why `failed` failed, in the device's own words: which check, on which key, with which numbers.
  /// Empty for devices that do not say (only the software device does) and when it is forgotten.
  [[nodiscard]] std::string explain(const completion& failed) const;

  /// Destroys the queue now, or hands it back with the reason.
  [[nodiscard]] close_result<completion_queue> close() &&;

 protected:
  friend struct detail::internals;
  explicit completion_queue(std::shared_ptr<detail::completion_queue_state> state) noexcept
      : handle(std::move(state)), cq_(handle::native()) {}

 private:
  detail::native_pointer<ibv_cq> cq_;
};

}  // namespace verbena::inline VERBENA_ABI
