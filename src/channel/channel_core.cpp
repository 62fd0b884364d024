// SPDX-License-Identifier: MIT
// Waits for completions, and flushes, disconnects and destroys the queue pair of a channel.
#include "verbena/channel/detail/channel_core.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <new>
#include <string>
#include <utility>

#include "src/base/relax.hpp"
#include "src/channel/connection_options.hpp"
#include "src/channel/connection_record.hpp"
#include "src/channel/disconnect.hpp"
#include "verbena/base/assert.hpp"
#include "verbena/base/log.hpp"
#include "verbena/channel/operation_scope.hpp"

namespace verbena::inline VERBENA_ABI::detail {
namespace {

// A buffer that the adapter may still access because its queue pair could not be destroyed. It is
// kept until the process ends, and reachable, so that leak checkers do not report it.
struct leaked_buffer {
  buffer memory;
  leaked_buffer* next;
};
std::atomic<leaked_buffer*> newest_leaked_buffer = nullptr;

void leak(buffer&& memory) noexcept {
  auto* const kept =
      new (std::nothrow) leaked_buffer{.memory = {}, .next = newest_leaked_buffer.load()};
  if (kept == nullptr) {
    // Without memory for the list, a destructor that does not run keeps the buffer.
    alignas(buffer) std::array<std::byte, sizeof(buffer)> never_destroyed;
    new (never_destroyed.data()) buffer(std::move(memory));
    return;
  }
  kept->memory = std::move(memory);
  while (!newest_leaked_buffer.compare_exchange_weak(kept->next, kept)) continue;
}

}  // namespace

// NOLINTNEXTLINE(cppcoreguidelines-owning-memory): the sole_owner calls it
void destroy(connection_record& record) noexcept { delete &record; }

channel_core::channel_core(parts of)
    : record_(std::move(of.record)),
      queue_(std::move(of.queue)),
      slots_(std::move(of.slots)),
      domain_(std::move(of.domain)),
      options_(of.options),
      usual_domain_(usual_domain()),
      max_read_sge_(of.max_read_sge),
      free_{options_.queues.max_send_wr, options_.queues.max_recv_wr},
      lines_{queued_line(this, free_[0]), queued_line(this, free_[1])},
      next_look_(deadline::after(time_between_looks)) {
  pieces_.reserve(std::max(options_.queues.max_send_sge, options_.queues.max_recv_sge));
  if (!queue_) free_ = {};
}

channel_core::~channel_core() {
  if (record_->released.is_released())
    lose_released(0);
  else if (in_flight() != 0)
    lose(0);
  // Completions of a destroyed queue pair must not be delivered to later users of its slots.
  queue_.reset();
  deliver_the_rest();
  for (queued_line& line : lines_) slots_.table().dismiss(line);
}

void channel_core::keep(std::shared_ptr<cm::connection> connection) noexcept {
  record_->connection = std::move(connection);
}

cm::connection* channel_core::connection() const noexcept { return record_->connection.get(); }

const channel_failure* channel_core::failure() const noexcept {
  const auto& known = record_->failure;
  return known ? &*known : nullptr;
}

const void* channel_core::usual_domain() const noexcept {
  // `this` is not the address of a protection domain.
  return options_.counts_messages || record_->failure ? static_cast<const void*>(this)
                                                      : static_cast<const void*>(domain_.native());
}

// Other channels of the same queue may make progress at each poll, so the clock is read in any
// case.
template <class Ended, class Watch>
bool channel_core::spin(deadline until, Ended&& ended, Watch&& watch) {
  constexpr std::uint32_t polls_per_clock_read = 64;
  for (std::uint32_t polls = 1; !ended(); ++polls) {
    const bool is_idle = progress() <= 0;
    if (polls % polls_per_clock_read == 0) {
      watch();
      if (until.expired()) return ended();
    }
    if (is_idle) relax();
  }
  return true;
}

template <class Ended>
bool channel_core::spin_watching(deadline until, Ended&& ended) {
  return spin(until, ended, [this] { look(); });
}

void channel_core::look() {
  if (!next_look_.expired()) return;
  next_look_ = deadline::after(time_between_looks);
  if (!has_lost_connection()) return;
  if (!flush_limit_.is_never()) {
    if (flush_limit_.expired()) lose(0);
    return;
  }
  flush_limit_ = deadline::after(flush_timeout);
  fail_because(failure_cause::connection);
  static_cast<void>(move_to_error());
}

bool channel_core::has_lost_connection() {
  if (!queue_) return false;
  if (record_->failure) return true;
  if (record_->connection && has_disconnected(*record_->connection)) return true;
  const auto state = queue_->current_state();
  return state && *state == queue_pair_state::error;
}

bool channel_core::flush_if_disconnected() {
  if (!queue_) return true;
  if (!has_lost_connection()) return false;
  fail_and_flush_posted(failure_cause::connection);
  return true;
}

void channel_core::await_longer(const operation_waiter& waiter, deadline until) {
  if (wait(waiter, until)) return;
  flush_because(failure_cause::aborted);
  auto& failure = record_->failure;
  if (failure && failure->cause == failure_cause::aborted && !failure->first &&
      !waiter.result.has_value())
    failure->first = waiter.result;
}

bool channel_core::wait(const operation_waiter& waiter, deadline until) {
  return spin_watching(until, [&] { return waiter.ended; });
}

void channel_core::drain(const operation_scope& scope, deadline until) {
  if (!spin_watching(until, [&] { return scope.in_flight() == 0; }))
    flush_because(failure_cause::aborted);
}

void channel_core::fail_because(failure_cause why, int code) noexcept {
  if (!record_->failure) set_failure(channel_failure{.cause = why, .code = code});
}

void channel_core::set_failure(const std::optional<channel_failure>& to) noexcept {
  record_->failure = to;
  usual_domain_ = usual_domain();
}

// Some devices do not flush a receive that was posted after the queue pair had entered the error
// state. They flush it if the queue pair is moved to that state once more; no post follows, because
// check() refuses it.
void channel_core::fail_and_flush_posted(failure_cause why) noexcept {
  if (record_->failure) return;
  fail_because(why);
  if (queue_)
    static_cast<void>(queue_->modify(queue_pair_attributes().set_state(queue_pair_state::error)));
}

bool channel_core::move_to_error() noexcept {
  auto moved = queue_->modify(queue_pair_attributes().set_state(queue_pair_state::error));
  if (moved) return true;
  log(log_level::warning, moved.error().message());
  lose(moved.error().code());
  return false;
}

void channel_core::flush_because(failure_cause why) {
  flush_because(why, deadline::after(flush_timeout));
}

void channel_core::flush_because(failure_cause why, deadline until) {
  if (!queue_) return;
  fail_because(why);
  // After begin_abort(), all flushed operations end as aborted, whichever call waits for them.
  const bool was_aborting = aborting_;
  aborting_ = was_aborting || why == failure_cause::aborted;
  if (move_to_error() && !spin(until, [&] { return in_flight() == 0; }, [] {})) {
    log(log_level::warning,
        "a queue pair in the error state did not flush within 5 s; it is destroyed");
    lose(0);
  }
  aborting_ = was_aborting;
}

void channel_core::begin_abort(failure_cause why) noexcept {
  if (!queue_ || aborting_) return;
  fail_because(why);
  aborting_ = true;
  static_cast<void>(move_to_error());
}

void channel_core::disconnect() {
  flush_because(failure_cause::program);
  if (queue_) lose(0);
  // Completions of a destroyed queue pair must not be delivered to later users of its slots.
  deliver_the_rest();
  record_->connection.reset();
  record_->book.finish(posted_);
}

void channel_core::connect_again(queue_pair<rc> queue) {
  VERBENA_ASSERT(!queue_,
                 "connect_again() of a channel that has a queue pair: call disconnect() first");
  queue_.emplace(std::move(queue));
  aborting_ = false;
  is_queue_kept_ = false;
  flush_limit_ = deadline::never();
  free_ = {options_.queues.max_send_wr, options_.queues.max_recv_wr};
  posted_ = {};
  set_failure(std::nullopt);
  record_->connector.reset();
}

void channel_core::prepare_release() { record_->released.mark(*queue_); }

queue_pair<rc> channel_core::release_for_connect() noexcept {
  return *std::exchange(queue_, std::nullopt);
}

result<void> channel_core::take_back(queue_pair<rc> connected) {
  queue_.emplace(std::move(connected));
  const auto lost = record_->released.take_back(*queue_);
  if (!lost) return {};
  lose(*lost);
  return error::from_errno(*lost, "ibv_poll_cq", domain_.name(),
                           "the completion queue failed while the channel was being connected; "
                           "its queue pair was destroyed");
}

void channel_core::lose_released(int code) noexcept {
  if (!record_->released.end()) {
    log(log_level::error,
        "the queue pair of a channel that was being connected cannot be destroyed; its buffers "
        "are leaked");
    leak_buffers();
  }
  lose(code);
}

void channel_core::stay_apart(int code, const std::optional<channel_failure>& before) noexcept {
  lose_released(code);
  record_->book.abandon();
  set_failure(before);
}

void channel_core::leak_buffers() noexcept {
  for (operation_slot& slot : slots_.table().slots()) {
    if (slot.owner != this) continue;
    VERBENA_ASSERT(slot.has_buffer,
                   "the device may still access the program's memory: the operation did not "
                   "complete and the queue pair could not be destroyed");
    leak(std::move(slot.waiter != nullptr ? static_cast<buffer_waiter*>(slot.waiter)->held
                                          : slots_.table().held(slot)));
  }
  VERBENA_ASSERT(lines_[0].empty() && lines_[1].empty(),
                 "the device may still access the program's memory: an operation of an "
                 "async::channel did not complete and the queue pair could not be destroyed");
}

void channel_core::lose(int code) noexcept {
  if (record_->released.lose(code)) return fail_because(failure_cause::adapter, code);
  if (queue_) {
    fail_because(failure_cause::adapter, code);
    auto closed = std::move(*queue_).close();
    queue_.reset();
    if (!closed) {
      record_->has_undestroyed_queue = true;
      log(log_level::error,
          "the queue pair of a channel cannot be destroyed; its buffers are "
          "leaked: " +
              closed.error().message());
      leak_buffers();
    }
  }
  end_all(code);
  // Refuses further posts.
  free_ = {};
}

void channel_core::end_all(int code) noexcept {
  for (operation_slot& slot : slots_.table().slots())
    if (slot.owner == this) end(slot, operation_result::lose(code, slot.posted));
  for (queued_line& line : lines_) {
    while (!line.empty()) {
      queued_waiter& waiter = line.pop();
      waiter.result = operation_result::lose(code, waiter.result.posted());
      remember(waiter.kind, waiter.result);
      waiter.ended = true;
      slots_.table().append_completed(waiter);
    }
  }
}

void channel_core::fail(queued_waiter& waiter, const completion& done) noexcept {
  waiter.result = operation_result::of(done, aborting_, waiter.result.posted());
  remember(waiter.kind, waiter.result);
}

void channel_core::deliver_the_rest() noexcept {
  while (slots_.table().progress() > 0) {
  }
}

void channel_core::remember(operation_kind kind, operation_result& failed) noexcept {
  failed.kind_ = kind;
  if (!failed.completed_) {
    record_->book.lose_count();
  } else if (kind == operation_kind::receive) {
    record_->book.count_failed_receive();
  } else if (is_message(kind)) {
    failed.number_ = static_cast<int>(record_->book.number_of_failed());
  }
  const bool is_cause =
      failed.end() == operation_end::failed && failed.done_.status() != completion_status::flushed;
  fail_and_flush_posted(is_cause ? failure_cause::operation : failure_cause::connection);
  auto& failure = record_->failure;
  if (failure->cause == failure_cause::connection && is_cause) {
    // Flushed operations may be polled before the failure that caused the flush.
    failure->cause = failure_cause::operation;
    failure->first.reset();
  }
  if (!failure->first && failure->cause != failure_cause::aborted &&
      failure->cause != failure_cause::program)
    failure->first = failed;
  operation_fates& fates = failure->fates;
  ++(kind == operation_kind::receive          ? fates.receives
     : failed.delivery() == delivery::unknown ? fates.unknown
                                              : fates.not_done);
}

void channel_core::hand_over(operation_slot& slot, const operation_result& how) noexcept {
  const bool has_buffer = std::exchange(slot.has_buffer, false);
  if (slot.waiter != nullptr) {
    slot.waiter->result = how;
    slot.waiter->ended = true;
  } else if (slot.scope != nullptr) {
    slot.scope->ended_unseen(how);
  } else {
    if (has_buffer) slots_.table().held(slot).reset();
    if (!how.has_value() && unseen_failures_++ == 0) first_unseen_failure_ = how;
  }
  if (slot.scope != nullptr) ended_in(*slot.scope, slot.waiter);
}

void channel_core::end(operation_slot& slot, const operation_result& how) noexcept {
  if (how.has_value()) [[likely]] {
    hand_over(slot, how);
  } else {
    operation_result failed = how;
    remember(slot.kind, failed);
    hand_over(slot, failed);
  }
  release_place(slot);
}

}  // namespace verbena::inline VERBENA_ABI::detail
