// SPDX-License-Identifier: MIT
// Completion events and asynchronous events.
#include <poll.h>

#include <array>
#include <future>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "tests/zoo/crates.hpp"
#include "tests/zoo/entry.hpp"
#include "tests/zoo/pair.hpp"

namespace verbena::zoo {
namespace events_entries {
namespace {

/// Returns whether `fd` becomes readable within the time.
bool readable(int fd, std::chrono::milliseconds within) {
  pollfd waiting{.fd = fd, .events = POLLIN, .revents = 0};
  return poll(&waiting, 1, static_cast<int>(within.count())) == 1;
}

// A message arrives between the poll that finds the queue empty and the arming.
void arm_after_poll() {
  qp_with_channel with;
  require(take(with.receives, 1, deadline::after(1ms)).empty(), "the queue is empty");
  with.message(1);
  with.receives.request_notification(notify::any_completion).value();
  if (!with.channel.wait(short_deadline()).value())
    harmed("a completion is in the queue, but no event was generated");
}
void wait_of_channel_polls() {
  channels with;
  const auto pool = with.pool();
  auto receiving = with.b->post_receive(*pool.take(64));
  require(receiving.poll() == nullptr, "a message arrived too early");
  require(with.a->send(source(with.memory, 0, 64), abort_at(long_deadline())).has_value(),
          "the message was not sent");
  require(receiving.wait(long_deadline()) != nullptr && receiving.poll()->has_value(),
          "no message arrived");
  verified("the message between poll and wait was received");
}
void arm_before_poll() {
  qp_with_channel with;
  with.receives.request_notification(notify::any_completion).value();
  require(take(with.receives, 1, deadline::after(1ms)).empty(), "the queue is empty");
  with.message(1);
  const auto event = with.channel.wait(long_deadline()).value();
  require(event && event->is_from(with.receives), "no event was generated");
  take_successful(with.receives, 1);
}

// ibv_destroy_cq waits until all events of the completion queue have been acknowledged.
void destroy_cq_before_ack() {
  qp_with_channel with;
  with.receives.request_notification(notify::any_completion).value();
  with.message(1);
  const auto& verbs = with.receives.provider().verbs;
  ibv_cq* of = nullptr;
  void* cookie = nullptr;
  require(readable(with.channel.fd(), 20s), "no event was generated");
  require(verbs.get_cq_event(with.channel.native(), &of, &cookie) == 0, "no event is pending");
  take_successful(with.receives, 1);
  require(std::move(with.queue).close().has_value(), "the queue pair was not destroyed");
  std::promise<void> closed;
  std::thread closer([&] {
    static_cast<void>(std::move(with.receives).close());
    closed.set_value();
  });
  if (closed.get_future().wait_for(300ms) == std::future_status::timeout)
    harmed("ibv_destroy_cq does not return");
  closer.join();
}
template <class Event>
concept acknowledged_by_hand =
    requires(Event event) { event.acknowledge(); } || requires(Event event) { event.ack(); };
static_assert(!acknowledged_by_hand<completion_event> && !acknowledged_by_hand<async_event>);
void destroy_cq_with_kept_event() {
  qp_with_channel with;
  with.receives.request_notification(notify::any_completion).value();
  with.message(1);
  const auto event = with.channel.wait(long_deadline()).value();
  require(event.has_value(), "no event was generated");
  take_successful(with.receives, 1);
  require(std::move(with.queue).close().has_value(), "the queue pair was not destroyed");
  require(std::move(with.receives).close().has_value(), "the queue was not destroyed");
  verified("the completion queue was destroyed while its event existed");
}

// ibv_req_notify_cq(cq, 1) requests solicited events only.
void wait_for_solicited(notify which) {
  qp_with_channel with;
  with.receives.request_notification(which).value();
  with.message(1);
  if (!with.channel.wait(which == notify::any_completion ? long_deadline() : short_deadline())
           .value())
    harmed("an unsolicited message does not generate an event");
  take_successful(with.receives, 1);
}
void cq_armed_for_solicited_events_only() { wait_for_solicited(notify::solicited_only); }
void cq_armed_for_any_completion() { wait_for_solicited(notify::any_completion); }

/// A shared receive queue that is refilled when its limit event occurs.
struct refilled {
  context device = open_device("soft0").value();
  protection_domain pd = device.allocate_pd().value();
  memory_region memory = pd.allocate(4096, all_access).value();
  completion_queue sends = device.create_cq(64).value();
  completion_queue receives = device.create_cq(64).value();
  shared_receive_queue shared = pd.create_srq({.max_wr = 8}).value();
  queue_pair<rc> a = connected();
  std::uint64_t posted = 0;

  queue_pair<rc> connected() const {
    auto made =
        pd.create_qp<rc>(sends, receives, shared, {.reliability = {.rnr_retry_count = 7}}).value();
    const auto self = made.endpoint();
    return std::move(made).handshake(self).value();
  }
  void refill() {
    for (int each = 0; each < 2; ++each, ++posted)
      shared.post_receive({.id = posted}, std::span<const local_slice>()).value();
    shared.arm_limit(2).value();
  }
  void handle_events() {
    while (const auto event = device.poll_event().value())
      if (event->kind() == async_event_kind::srq_limit_reached && event->concerns(shared)) refill();
  }
  void send_one(std::uint64_t id) {
    send(a, {.id = id, .signaled = true}, std::span<const local_slice>());
  }
  static void send(queue_pair<rc>& queue, send_request request,
                   std::span<const local_slice> nothing) {
    auto batch = queue.start_send();
    batch.send(request, nothing);
    batch.submit().value();
  }
};
void ignore_limit_event() {
  refilled with;
  with.refill();
  with.send_one(1);
  require(readable(with.device.async_fd(), 20s), "no asynchronous event occurred");
  static_cast<void>(with.device.poll_event());  // the mistake: the event is discarded
  with.send_one(2);
  with.send_one(3);
  if (take(with.sends, 3, short_deadline()).size() == 3) return;
  if (!readable(with.device.async_fd(), 1ms))
    harmed("no receive is left, and the limit event was discarded");
}
void handle_limit_event() {
  refilled with;
  with.refill();
  for (std::uint64_t id = 1; id <= 6; ++id) {
    with.send_one(id);
    const auto until = long_deadline();
    while (take(with.receives, 1, deadline::after(1ms)).empty() && !until.expired())
      with.handle_events();
    take_successful(with.sends, 1);
    with.handle_events();
  }
}

// A thread that waits for asynchronous events and must end with the program.
void wait_without_deadline() {
  const auto device = open_device("soft0").value();
  const auto& verbs = device.provider().verbs;
  std::atomic<bool> stop = false;
  std::promise<void> ended;
  std::thread waiting([&] {
    ibv_async_event event{};
    do {
      if (verbs.get_async_event(device.native(), &event) == 0) verbs.ack_async_event(&event);
    } while (!stop);
    ended.set_value();
  });
  stop = true;
  if (ended.get_future().wait_for(300ms) == std::future_status::timeout)
    harmed("the thread waits for an event that does not occur, and cannot be joined");
  waiting.join();
}
void wait_with_deadline() {
  const auto device = open_device("soft0").value();
  std::atomic<bool> stop = false;
  std::thread waiting([&] {
    while (!stop) require(!device.wait_event(deadline::after(5ms)).value(), "an event occurred");
  });
  stop = true;
  waiting.join();
}

constexpr crate without_events = {answer::absent, "its completion queues have no channel"};

constexpr std::array entries = {
    entry{.name = "cq_armed_after_it_was_drained",
          .kind = "events",
          .mistake = "a queue is polled until it is empty and armed afterwards: the lost wakeup",
          .seen = "rust-rdma-io docs/bugs/cq-notification-loss.md; beegfs PR #133",
          .does = harm::hang,
          .caught_by = level::unwritable,
          .words = "the message between poll and wait was received",
          .ibverbs = {answer::no, "only its documentation states the order"},
          .ibverbs_rs = without_events,
          .rrddmma = without_events,
          .harmful = &arm_after_poll,
          .caught = &wait_of_channel_polls,
          .twin = &arm_before_poll},
    entry{.name = "event_never_acknowledged",
          .kind = "events",
          .mistake = "ibv_get_cq_event without ibv_ack_cq_events",
          .seen = "ibv_get_cq_event(3): ibv_destroy_cq waits for acknowledgements; UCX #1039",
          .does = harm::hang,
          .caught_by = level::unwritable,
          .words = "the completion queue was destroyed while its event existed",
          .ibverbs = {answer::yes, "get_event acknowledges immediately"},
          .ibverbs_rs = without_events,
          .rrddmma = without_events,
          .harmful = &destroy_cq_before_ack,
          .caught = &destroy_cq_with_kept_event,
          .twin = &arm_before_poll},
    entry{.name = "cq_armed_for_solicited_events_only",
          .kind = "events",
          .mistake = "ibv_req_notify_cq(cq, 1), which requests only solicited events",
          .seen = "ibv_req_notify_cq(3)",
          .does = harm::hang,
          .caught_by = level::compiler,
          .words = "verbs/notification_takes_an_enumerator",
          .ibverbs = {answer::no, "req_notify takes a bool"},
          .ibverbs_rs = without_events,
          .rrddmma = without_events,
          .harmful = &cq_armed_for_solicited_events_only,
          .caught = nullptr,
          .twin = &cq_armed_for_any_completion},
    entry{.name = "async_event_read_and_ignored",
          .kind = "events",
          .mistake = "an asynchronous event is read and ignored; it is delivered only once",
          .seen = "rdmapp srq.cc:20: a limit event that is never handled",
          .does = harm::hang,
          .caught_by = level::compiler,
          .words = "verbs/polled_event_must_be_used",
          .ibverbs = {answer::no, "the Option of an event may be ignored"},
          .ibverbs_rs = {answer::absent, "it has no asynchronous events"},
          .rrddmma = {answer::absent, "it has no asynchronous events"},
          .harmful = &ignore_limit_event,
          .caught = nullptr,
          .twin = &handle_limit_event},
    entry{.name = "wait_for_async_event_never_ends",
          .kind = "events",
          .mistake = "a thread in ibv_get_async_event, which returns only when an event occurs",
          .seen = "ibv_get_async_event(3): blocks; sideway #84",
          .does = harm::hang,
          .caught_by = level::compiler,
          .words = "verbs/waiting_for_an_event_needs_a_deadline",
          .ibverbs = {answer::no, "a wait without a timeout never ends"},
          .ibverbs_rs = {answer::absent, "it has no asynchronous events"},
          .rrddmma = {answer::absent, "it has no asynchronous events"},
          .harmful = &wait_without_deadline,
          .caught = nullptr,
          .twin = &wait_with_deadline},
};

}  // namespace
}  // namespace events_entries

std::span<const entry> events() { return events_entries::entries; }

}  // namespace verbena::zoo
