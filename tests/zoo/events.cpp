// SPDX-License-Identifier: MIT
// Waking up: events of completion queues and of the device.
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

/// A queue pair that is connected to itself; its completions wake a channel.
struct woken {
  context device = open_device("soft0").value();
  protection_domain pd = device.allocate_pd().value();
  memory_region memory = pd.allocate(4096, every_right).value();
  completion_channel channel = device.create_completion_channel().value();
  completion_queue sends = device.create_cq(64).value();
  completion_queue receives = device.create_cq(64, {.channel = channel}).value();
  queue_pair<rc> queue = connected();

  queue_pair<rc> connected() const {
    auto made =
        pd.create_qp<rc>(sends, receives,
                         {.access = access::remote_write, .reliability = {.rnr_retry_count = 7}})
            .value();
    const auto self = made.endpoint();
    return std::move(made).handshake(self).value();
  }
  void message(std::uint64_t id) {
    queue.post_receive({.id = id}, memory.slice(id * 64, 64)).value();
    send(queue, {.id = id, .signaled = true}, memory.slice(2048, 64)).value();
    take_good(sends, 1);
  }
};
/// Whether there is something to read, by then.
bool readable(int fd, std::chrono::milliseconds within) {
  pollfd waiting{.fd = fd, .events = POLLIN, .revents = 0};
  return poll(&waiting, 1, static_cast<int>(within.count())) == 1;
}

// "Empty, so I wait": a message comes between the look and the arming.
void armed_after_the_look() {
  woken with;
  require(take(with.receives, 1, deadline::after(1ms)).empty(), "the queue is empty");
  with.message(1);
  with.receives.request_notification(notify::any_completion).value();
  if (!with.channel.wait(briefly()).value())
    harmed("a message is there, and nobody is woken for it");
}
void channel_waits_by_looking() {
  channels with;
  const auto pool = with.pool();
  auto receiving = with.b->post_receive(*pool.take(64));
  require(receiving.poll() == nullptr, "nothing was sent");
  require(with.a->send(source(with.memory, 0, 64), abort_at(patiently())).has_value(),
          "the message");
  require(receiving.wait(patiently()) != nullptr && receiving.poll()->has_value(), "nothing came");
  held("the message between the look and the wait was seen");
}
void armed_before_the_look() {
  woken with;
  with.receives.request_notification(notify::any_completion).value();
  require(take(with.receives, 1, deadline::after(1ms)).empty(), "the queue is empty");
  with.message(1);
  const auto event = with.channel.wait(patiently()).value();
  require(event && event->is_from(with.receives), "nobody is woken");
  take_good(with.receives, 1);
}

// libibverbs destroys a queue when all its events are acknowledged, and waits until then.
void never_acknowledged() {
  woken with;
  with.receives.request_notification(notify::any_completion).value();
  with.message(1);
  const auto& verbs = with.receives.provider().verbs;
  ibv_cq* of = nullptr;
  void* cookie = nullptr;
  require(readable(with.channel.fd(), 20s), "nobody is woken");
  require(verbs.get_cq_event(with.channel.native(), &of, &cookie) == 0, "there is no event");
  take_good(with.receives, 1);
  require(std::move(with.queue).close().has_value(), "the queue pair was not destroyed");
  std::promise<void> closed;
  std::thread closer([&] {
    static_cast<void>(std::move(with.receives).close());
    closed.set_value();
  });
  if (closed.get_future().wait_for(300ms) == std::future_status::timeout)
    harmed("the completion queue is being destroyed for ever");
  closer.join();
}
template <class Event>
concept acknowledged_by_hand =
    requires(Event event) { event.acknowledge(); } || requires(Event event) { event.ack(); };
static_assert(!acknowledged_by_hand<completion_event> && !acknowledged_by_hand<async_event>);
void event_kept_for_ever() {
  woken with;
  with.receives.request_notification(notify::any_completion).value();
  with.message(1);
  const auto event = with.channel.wait(patiently()).value();
  require(event.has_value(), "nobody is woken");
  take_good(with.receives, 1);
  require(std::move(with.queue).close().has_value(), "the queue pair was not destroyed");
  require(std::move(with.receives).close().has_value(), "the queue was not destroyed");
  held("the queue was destroyed while its event was kept");
}

// ibv_req_notify_cq(cq, 1): "yes, wake me".
void wait_for_solicited(notify which) {
  woken with;
  with.receives.request_notification(which).value();
  with.message(1);
  if (!with.channel.wait(which == notify::any_completion ? patiently() : briefly()).value())
    harmed("only messages that ask for it wake the receiver, and this one does not");
  take_good(with.receives, 1);
}
void armed_with_true() { wait_for_solicited(notify::solicited_only); }
void armed_for_any() { wait_for_solicited(notify::any_completion); }

/// A receive queue that is shared, and refilled when the device says that it runs low.
struct refilled {
  context device = open_device("soft0").value();
  protection_domain pd = device.allocate_pd().value();
  memory_region memory = pd.allocate(4096, every_right).value();
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
  void heed() {
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
void event_dropped() {
  refilled with;
  with.refill();
  with.send_one(1);
  require(readable(with.device.async_fd(), 20s), "the device says nothing");
  static_cast<void>(with.device.poll_event());  // "so that the descriptor is quiet"
  with.send_one(2);
  with.send_one(3);
  if (take(with.sends, 3, briefly()).size() == 3) return;
  if (!readable(with.device.async_fd(), 1ms))
    harmed("no receive is left, and the event that said so was taken");
}
void event_heeded() {
  refilled with;
  with.refill();
  for (std::uint64_t id = 1; id <= 6; ++id) {
    with.send_one(id);
    const auto until = patiently();
    while (take(with.receives, 1, deadline::after(1ms)).empty() && !until.expired()) with.heed();
    take_good(with.sends, 1);
    with.heed();
  }
}

// A thread that waits for events of the device, and is to end with the program.
void wait_without_an_end() {
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
    harmed("the thread waits for an event that does not come, and cannot be joined");
  waiting.join();
}
void wait_with_an_end() {
  const auto device = open_device("soft0").value();
  std::atomic<bool> stop = false;
  std::thread waiting([&] {
    while (!stop) require(!device.wait_event(deadline::after(5ms)).value(), "there is an event");
  });
  stop = true;
  waiting.join();
}

constexpr crate without_events = {answer::absent, "its completion queues have no channel"};

constexpr std::array entries = {
    entry{.name = "armed_after_the_queue_was_drained",
          .kind = "events",
          .mistake = "a queue is polled until it is empty, armed, and waited for: the lost wakeup",
          .seen = "rust-rdma-io docs/bugs/cq-notification-loss.md; beegfs PR #133",
          .does = harm::hang,
          .caught_by = level::unwritable,
          .words = "the message between the look and the wait was seen",
          .ibverbs = {answer::no, "the order is said in its documentation"},
          .ibverbs_rs = without_events,
          .rrddmma = without_events,
          .harmful = &armed_after_the_look,
          .caught = &channel_waits_by_looking,
          .twin = &armed_before_the_look},
    entry{.name = "event_never_acknowledged",
          .kind = "events",
          .mistake = "ibv_get_cq_event without ibv_ack_cq_events",
          .seen = "ibv_get_cq_event(3): destroying waits for it; UCX #1039",
          .does = harm::hang,
          .caught_by = level::unwritable,
          .words = "the queue was destroyed while its event was kept",
          .ibverbs = {answer::yes, "get_event acknowledges at once"},
          .ibverbs_rs = without_events,
          .rrddmma = without_events,
          .harmful = &never_acknowledged,
          .caught = &event_kept_for_ever,
          .twin = &armed_before_the_look},
    entry{.name = "armed_with_true",
          .kind = "events",
          .mistake = "ibv_req_notify_cq(cq, 1), which waits for solicited messages only",
          .seen = "ibv_req_notify_cq(3)",
          .does = harm::hang,
          .caught_by = level::compiler,
          .words = "verbs/notification_says_what_it_waits_for",
          .ibverbs = {answer::no, "req_notify takes a bool"},
          .ibverbs_rs = without_events,
          .rrddmma = without_events,
          .harmful = &armed_with_true,
          .caught = nullptr,
          .twin = &armed_for_any},
    entry{.name = "event_taken_and_dropped",
          .kind = "events",
          .mistake = "an event is taken to make the descriptor quiet; it comes only once",
          .seen = "rdmapp srq.cc:20: a limit event that nobody reads",
          .does = harm::hang,
          .caught_by = level::compiler,
          .words = "verbs/polled_event_is_looked_at",
          .ibverbs = {answer::no, "the Option of an event may be dropped"},
          .ibverbs_rs = {answer::absent, "it has no events of the device"},
          .rrddmma = {answer::absent, "it has no events of the device"},
          .harmful = &event_dropped,
          .caught = nullptr,
          .twin = &event_heeded},
    entry{.name = "wait_for_an_event_without_an_end",
          .kind = "events",
          .mistake = "a thread in ibv_get_async_event, which nothing but an event ends",
          .seen = "ibv_get_async_event(3): blocks; sideway #84",
          .does = harm::hang,
          .caught_by = level::compiler,
          .words = "verbs/waiting_for_an_event_needs_a_deadline",
          .ibverbs = {answer::no, "a wait without a timeout waits for ever"},
          .ibverbs_rs = {answer::absent, "it has no events of the device"},
          .rrddmma = {answer::absent, "it has no events of the device"},
          .harmful = &wait_without_an_end,
          .caught = nullptr,
          .twin = &wait_with_an_end},
};

}  // namespace
}  // namespace events_entries

std::span<const entry> events() { return events_entries::entries; }

}  // namespace verbena::zoo
