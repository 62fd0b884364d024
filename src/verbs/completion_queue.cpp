// SPDX-License-Identifier: MIT
#include "verbena/verbs/completion_queue.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <limits>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "src/base/relax.hpp"
#include "src/verbs/completion_queue_creation.hpp"
#include "src/verbs/creation.hpp"
#include "src/verbs/device_reason.hpp"
#include "verbena/verbs/context.hpp"

namespace verbena::inline VERBENA_ABI {

namespace detail {

std::shared_ptr<completion_queue_state> make_completion_queue_state(
    ibv_cq* native, const context& of, ownership owner,
    const std::optional<completion_channel>& channel) {
  return std::make_shared<completion_queue_state>(completion_queue_state::arguments{
      .provider = &of.provider(),
      .native = native,
      .owner = owner,
      .name = "completion queue of " + of.name(),
      .parents = {internals::state_of(of), channel ? internals::state_of(*channel) : nullptr}});
}

result<void> check_completion_queue(const context& of, completion_queue_request request,
                                    const std::optional<completion_channel>& channel) {
  const auto refuse = [&](const std::string& diagnosis) {
    return error::invalid_argument(request.call, of.name(), diagnosis);
  };
  if (request.capacity == 0)
    return refuse("the capacity is 0; a completion queue has at least one entry");
  if (request.capacity > static_cast<std::uint32_t>(std::numeric_limits<int>::max()))
    return refuse(fmt::format("the capacity is {}; a completion queue has at most {} entries",
                              request.capacity, std::numeric_limits<int>::max()));
  if (const auto vectors = of.completion_vectors();
      request.completion_vector >= std::max(vectors, 1U))
    return refuse(
        fmt::format("completion vector {} does not exist: the device has {}, counted from 0",
                    request.completion_vector, vectors));
  if (channel && channel->native()->context != of.native())
    return refuse(
        "the completion channel belongs to another context; create it with the context "
        "of the completion queue");
  return {};
}

error completion_queue_error(const context& of, completion_queue_request request, int code) {
  error failed = creation_error(code, request.call, of.name());
  if (code != EINVAL && code != ENOMEM) return failed;
  ibv_device_attr limits{};
  if (call(of.provider().verbs.query_device, of.native(), &limits).failed) return failed;
  if (limits.max_cqe > 0 && request.capacity > static_cast<std::uint32_t>(limits.max_cqe))
    return std::move(failed).with_diagnosis(
        above_limits({{"the capacity", request.capacity, limits.max_cqe}}));
  return std::move(failed).with_diagnosis(
      fmt::format("{} entries were requested; the device has at most {} completion queues",
                  request.capacity, limits.max_cq));
}

error polling_failure(int status) {
  // Some providers return the negated errno, others -1; lazy polls return the errno.
  const int code = status == -1 ? 0 : std::abs(status);
  return error::from_errno(code, "polling", "a completion queue",
                           "the queue overflowed or its device was removed; completions were lost "
                           "and its queue pairs are no longer usable; create the queue with an "
                           "entry for each work request that can be outstanding");
}

void raise_polling_failure(int status) { raise(polling_failure(status)); }

}  // namespace detail

result<completion_queue> context::create_cq(std::uint32_t capacity) const {
  return create_cq(capacity, completion_queue_options{});
}

result<completion_queue> context::create_cq(std::uint32_t capacity,
                                            const completion_queue_options& options) const {
  const detail::completion_queue_request request{"ibv_create_cq", capacity,
                                                 options.completion_vector};
  VERBENA_TRY_VOID(detail::check_completion_queue(*this, request, options.channel));
  ibv_comp_channel* const channel = options.channel ? options.channel->native() : nullptr;
  const auto made =
      detail::call_create(state().verbs().create_cq, native(), static_cast<int>(capacity), nullptr,
                          channel, static_cast<int>(options.completion_vector));
  if (!made) return detail::completion_queue_error(*this, request, made.code);
  return detail::internals::make<completion_queue>(
      detail::make_owner(state().verbs(), made.native, [&](ibv_cq* owned) {
        return detail::make_completion_queue_state(owned, *this, ownership::take, options.channel);
      }));
}

completion_queue completion_queue::adopt(ibv_cq* native, const context& of, ownership owner) {
  VERBENA_ASSERT(native != nullptr, "completion_queue::adopt() with a null pointer");
  VERBENA_ASSERT(native->context == of.native(), "completion_queue::adopt() with another context");
  return detail::internals::make<completion_queue>(
      detail::make_completion_queue_state(native, of, owner, std::nullopt));
}

namespace {

// Returns whether the queue is the only one of its completion channel. Queues that were created or
// adopted here hold `use`, as the channel does. libibverbs counts those of other code.
bool is_only_user(ibv_cq* queue, const std::shared_ptr<const detail::channel_user>& use) {
  if (use == nullptr || use.use_count() != 2 || queue->channel == nullptr) return false;
  pthread_mutex_lock(&queue->context->mutex);
  const int users = queue->channel->refcnt;
  pthread_mutex_unlock(&queue->context->mutex);
  return users == 1;
}

}  // namespace

result<void> completion_queue::request_notification(notify which) const {
  const int solicited_only = which == notify::solicited_only ? 1 : 0;
  if (const auto status = detail::call(state().verbs().req_notify_cq, native(), solicited_only);
      status.failed)
    return error::from_errno(status.code, "ibv_req_notify_cq", name());
  return {};
}

result<std::span<completion>> completion_queue::wait(std::span<completion> out, deadline until,
                                                     call_site where) const {
  VERBENA_ASSERT(!out.empty(), "wait() with room for 0 completions: pass room for at least one");
  constexpr unsigned pauses_per_yield = 64;
  std::optional<bool> can_sleep;
  bool is_armed = false;
  for (unsigned round = 1;; ++round) {
    const poll_result polled = poll(out, where);
    if (!polled) return polled.error();
    if (!(*polled).empty()) return *polled;
    if (until.expired())
      return error::timed_out("waiting for a completion", name(),
                              "no completion arrived before the deadline");
    if (!can_sleep) can_sleep = is_only_user(native(), state().parents().use);
    if (!*can_sleep) {
      round % pauses_per_yield == 0 ? std::this_thread::yield() : detail::relax();
      continue;
    }
    const auto channel = detail::internals::make<completion_channel>(state().parents().channel);
    if (is_armed) {
      VERBENA_TRY_DISCARD(channel.wait(until));
    } else {
      // Takes the events of earlier arms, which would end the wait at once.
      for (bool has_event = true; has_event;) {
        VERBENA_TRY(const auto earlier, channel.poll_event());
        has_event = earlier.has_value();
      }
      VERBENA_TRY_VOID(request_notification(notify::any_completion));
    }
    is_armed = !is_armed;
  }
}

std::size_t completion_queue::capacity() const {
  return static_cast<std::size_t>(std::max(native()->cqe, 0));
}

result<void> completion_queue::resize(std::uint32_t capacity) const {
  const auto& verb = state().verbs().resize_cq;
  const context of = detail::internals::make<context>(state().parents().context);
  const detail::completion_queue_request request{verb.name(), capacity, 0};
  VERBENA_TRY_VOID(detail::check_completion_queue(of, request, std::nullopt));
  const auto status = detail::call(verb, native(), static_cast<int>(capacity));
  if (!status.failed) return {};
  ibv_device_attr limits{};
  const bool known = !detail::call(of.provider().verbs.query_device, of.native(), &limits).failed;
  std::string diagnosis;
  if (known && limits.max_cqe > 0 && capacity > static_cast<std::uint32_t>(limits.max_cqe))
    diagnosis = detail::above_limits({{"the capacity", capacity, limits.max_cqe}});
  else if (status.code == EOPNOTSUPP)
    diagnosis = "the device does not support resizing: create a larger completion queue";
  else if (status.code == EINVAL || status.code == EBUSY)
    diagnosis =
        fmt::format("the queue contains more than {} completions: poll them first", capacity);
  return error::from_errno(status.code, verb.name(), name(), diagnosis);
}

result<void> completion_queue::moderate(const notification_moderation& how) const {
  const auto& verb = state().verbs().modify_cq;
  const auto period = how.period.count();
  if (period < 0 || period > std::numeric_limits<std::uint16_t>::max())
    return error::invalid_argument(
        verb.name(), name(),
        fmt::format("the period of {} µs is outside its range, 0 to 65535 µs", period));
  ibv_modify_cq_attr changes{};
  changes.attr_mask = IBV_CQ_ATTR_MODERATE;
  changes.moderate = {.cq_count = how.completions, .cq_period = static_cast<std::uint16_t>(period)};
  const auto status = detail::call(verb, native(), &changes);
  if (!status.failed) return {};
  std::string diagnosis;
  if (status.code == EINVAL)
    diagnosis = fmt::format(
        "{} completions or {} µs exceed a limit of the device; max_moderation() of the extended "
        "device attributes returns the limits",
        how.completions, period);
  if (status.code == EOPNOTSUPP)
    diagnosis = "the device does not support moderation of notifications: omit moderate()";
  return error::from_errno(status.code, verb.name(), name(), diagnosis);
}

std::optional<completion_channel> completion_queue::channel() const {
  const auto& channel_state = state().parents().channel;
  if (channel_state == nullptr) return std::nullopt;
  return detail::internals::make<completion_channel>(channel_state);
}

std::string completion_queue::explain(const completion& failed) const {
  return detail::device_reason(
      provider(), {failed.id(), failed.status(), failed.queue_pair(), failed.vendor_error()});
}

close_result<completion_queue> completion_queue::close() && {
  return close_handle(std::move(*this));
}

}  // namespace verbena::inline VERBENA_ABI
