// SPDX-License-Identifier: MIT
// Objects that are taken down too early, or in the wrong order, or not at all.
#include <fcntl.h>

#include <array>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "tests/zoo/c_verbs.hpp"
#include "tests/zoo/crates.hpp"
#include "tests/zoo/datagrams.hpp"
#include "tests/zoo/entry.hpp"
#include "tests/zoo/pair.hpp"

namespace verbena::zoo {
namespace teardown_entries {
namespace {

bool is_open(int fd) { return fcntl(fd, F_GETFD) != -1; }

// Taken down in the order in which they were made; what is refused is not looked at.
void queues_taken_down_in_order() {
  const auto device = open_device("soft0").value();
  const auto pd = device.allocate_pd().value();
  const auto& c = c_of(device);
  ibv_comp_channel* const events = c.create_comp_channel(device.native());
  require(events != nullptr, "no channel");
  ibv_cq* const cq = c.create_cq(device.native(), 16, nullptr, events, 0);
  require(cq != nullptr, "no completion queue");
  ibv_qp_init_attr wanted{};
  wanted.send_cq = wanted.recv_cq = cq;
  wanted.qp_type = IBV_QPT_RC;
  wanted.cap = {.max_send_wr = 1,
                .max_recv_wr = 1,
                .max_send_sge = 1,
                .max_recv_sge = 1,
                .max_inline_data = 0};
  ibv_qp* const queue = c.create_qp(pd.native(), &wanted);
  require(queue != nullptr, "no queue pair");
  const int fd = events->fd;
  static_cast<void>(c.destroy_cq(cq));
  static_cast<void>(c.destroy_comp_channel(events));
  static_cast<void>(c.destroy_qp(queue));
  if (is_open(fd)) harmed("completion queue and channel are there for ever, and a descriptor");
}
void handles_dropped_in_order() {
  const auto device = open_device("soft0").value();
  const auto pd = device.allocate_pd().value();
  std::optional events(device.create_completion_channel().value());
  const int fd = events->fd();
  std::optional cq(device.create_cq(16, {.channel = events}).value());
  std::optional queue(pd.create_qp<rc>(*cq, *cq).value());
  events.reset();
  cq.reset();
  require(is_open(fd), "the channel is gone while there is a queue that reports to it");
  queue.reset();
  require(!is_open(fd), "the channel is still there");
  held("handles may be dropped in any order: the last one takes down what it needs");
}

// The device is closed while there are objects of it.
void device_closed_first() {
  pair with;
  with.b->queue.post_receive({.id = 1}, with.memory.slice(4096, 64)).value();
  static_cast<void>(c_of(with.device).close_device(with.device.native()));
  static_cast<void>(c_send(with.a->queue.native(), 2, with.memory.slice(0, 8)));
  const auto ends = c_take(with.b->receives.native(), 1, briefly());
  if (ends.empty() || ends[0].status != IBV_WC_SUCCESS)
    harmed("the message never comes, as everything went with the device");
}
void device_dropped_first() {
  std::optional device(open_device("soft0").value());
  const auto pd = device->allocate_pd().value();
  const auto memory = pd.allocate(4096, every_right).value();
  const auto cq = device->create_cq(16).value();
  auto prepared = pd.create_qp<rc>(cq, cq).value();
  device.reset();
  const auto itself = prepared.endpoint();
  auto queue = std::move(prepared).handshake(itself).value();
  queue.post_receive({.id = 1}, memory.slice(0, 64)).value();
  send(queue, {.id = 2, .signaled = true}, memory.slice(64, 8)).value();
  take_good(cq, 2);
  held("the device is open as long as there is anything of it");
}

// A completion queue that has an event out, and a message that makes one.
struct with_events {
  context device = open_device("soft0").value();
  protection_domain pd = device.allocate_pd().value();
  memory_region memory = pd.allocate(4096, every_right).value();
  completion_channel events = device.create_completion_channel().value();
  std::optional<completion_queue> cq{device.create_cq(16, {.channel = events}).value()};
  std::optional<queue_pair<rc>> queue;

  with_events() {
    auto prepared = pd.create_qp<rc>(*cq, *cq).value();
    const auto itself = prepared.endpoint();
    queue.emplace(std::move(prepared).handshake(itself).value());
    cq->request_notification(notify::any_completion).value();
    queue->post_receive({.id = 1}, memory.slice(0, 64)).value();
    send(*queue, {.id = 2, .signaled = true}, memory.slice(64, 8)).value();
  }
};
void event_not_acknowledged() {
  with_events with;
  const auto& c = c_of(with.device);
  ibv_cq* of = nullptr;
  void* cookie = nullptr;
  const auto until = patiently();
  while (c.get_cq_event(with.events.native(), &of, &cookie) != 0 && !until.expired()) continue;
  require(of == with.cq->native(), "no event came");
  take_good(*with.cq, 2);
  with.queue.reset();
  if (!ends_in_time([&] { static_cast<void>(c.destroy_cq(of)); }))
    harmed("ibv_destroy_cq waits for ever");
}
void event_of_the_library() {
  with_events with;
  const auto event = with.events.wait(patiently()).value();
  require(event.has_value() && event->is_from(*with.cq), "no event came");
  take_good(*with.cq, 2);
  with.queue.reset();
  require(bool(std::move(*with.cq).close()), "the queue cannot be destroyed");
  held("the event was acknowledged before it was handed out");
}

// A queue pair in a multicast group cannot be destroyed, and nobody looks.
void queue_that_refused_to_go() {
  datagrams with;
  const auto group = parse_gid("239.7.7.8").value();
  with.queue.attach(group).value();
  with.receive(1, 0, 128);
  require(c_of(with.device).destroy_qp(with.queue.native()) != 0, "it went");
  put(with.at(0, 128), std::string(128, 'L'));  // "the memory is ours again": a ledger
  const auto to_group = with.pd.create_ah({.gid = group, .source_gid = with.own.index}).value();
  auto sender = with.pd.create_qp<ud>(with.sends, with.sends).value().activate(with.key).value();
  put(with.at(4096, 8), "a letter");
  auto batch = sender.start_send();
  batch.send({.id = 2, .signaled = true}, with.memory.slice(4096, 8),
             to_group.destination(queue_pair_number(queue_pair_number::max), with.key));
  batch.submit().value();
  take_good(with.sends, 1);
  take_good(with.receives, 1);
  if (text_at(with.at(40, 8), 8) != std::string(8, 'L'))
    harmed("a letter was written into the ledger");
}
void queue_that_left_its_group() {
  datagrams with;
  const auto group = parse_gid("239.7.7.8").value();
  with.queue.attach(group).value();
  auto refused = std::move(with.queue).close();
  require(!refused, "it went");
  with.queue = std::move(refused).object();
  with.queue.detach(group).value();
  require(bool(std::move(with.queue).close()), "it did not go");
}

// The program waits for the end of a request whose queue pair it has destroyed.
void end_of_a_queue_that_is_gone() {
  pair with;
  const auto cq = with.b->receives;
  require(c_receive(with.b->queue.native(), 1, with.memory.slice(0, 64)) == 0, "refused");
  with.b.reset();
  if (c_take(cq.native(), 1, briefly()).empty()) harmed("its completion never comes");
}
void handle_outlives_its_channel() {
  channels with;
  const auto pool = with.pool();
  auto receive = with.b->post_receive(pool.take(64).value());
  with.b.reset();
  with.a->send(source(with.memory, 0, 64), abort_at(patiently())).value();
  const auto* const ended = receive.wait(patiently());
  require(ended != nullptr && ended->has_value(), "no message");
  held("the operation keeps the queue pair until it has ended");
}

// The sender goes as soon as it has posted: a message that was not executed yet is lost.
void sender_gone_before_it_sent() {
  pair with;
  put(with.at(0, 64), "the last will");
  require(c_send(with.a->queue.native(), 1, with.memory.slice(0, 64)) == 0, "refused");
  with.a.reset();
  with.b->queue.post_receive({.id = 2}, with.memory.slice(4096, 64)).value();
  if (c_take(with.b->receives.native(), 1, briefly()).empty()) harmed("the last message is lost");
}
void sender_dropped_before_it_sent() {
  channels with;
  const auto pool = with.pool();
  auto sent = with.a->post_send(pool.take(64).value(), {.length = 64});
  with.a.reset();
  auto receive = with.b->post_receive(pool.take(64).value());
  require(sent.wait(patiently()) != nullptr && sent.poll()->has_value(), "it was not sent");
  require(receive.wait(patiently()) != nullptr && receive.poll()->has_value(), "it did not come");
  held("the channel was dropped, and the message came");
}
void sender_waits_before_it_goes() {
  pair with;
  with.b->queue.post_receive({.id = 2}, with.memory.slice(4096, 64)).value();
  send(with.a->queue, {.id = 1, .signaled = true}, with.memory.slice(0, 64)).value();
  take_good(with.a->sends, 1);
  with.a.reset();
  take_good(with.b->receives, 1);
}

constexpr crate counts_its_parents = {answer::yes, "objects keep what they were made from"};

constexpr std::array entries = {
    entry{.name = "completion_queue_destroyed_first",
          .kind = "teardown",
          .mistake = "objects are destroyed in the order in which they were made",
          .seen = "ofi-cray/libfabric-cray #1160; ibv_destroy_cq(3): fails while a queue pair uses "
                  "it",
          .does = harm::leak,
          .caught_by = level::unwritable,
          .words = "handles may be dropped in any order",
          .ibverbs = counts_its_parents,
          .ibverbs_rs = counts_its_parents,
          .rrddmma = counts_its_parents,
          .harmful = &queues_taken_down_in_order,
          .caught = &handles_dropped_in_order,
          .twin = &handles_dropped_in_order},
    entry{.name = "device_closed_before_its_objects",
          .kind = "teardown",
          .mistake = "ibv_close_device is called while queue pairs of the device are in use",
          .seen = "ibv_close_device(3): does not release resources, which are released before",
          .does = harm::wrong_data,
          .caught_by = level::unwritable,
          .words = "the device is open as long as there is anything of it",
          .ibverbs = counts_its_parents,
          .ibverbs_rs = counts_its_parents,
          .rrddmma = counts_its_parents,
          .harmful = &device_closed_first,
          .caught = &device_dropped_first,
          .twin = &device_dropped_first},
    entry{.name = "queue_destroyed_with_an_event_out",
          .kind = "teardown",
          .mistake = "an event was taken and not acknowledged before ibv_destroy_cq",
          .seen = "UCX #1039, rdma-core PR #657 (pyverbs)",
          .does = harm::hang,
          .caught_by = level::unwritable,
          .words = "acknowledged before it was handed out",
          .ibverbs = {answer::yes, "an event is acknowledged when it is taken"},
          .ibverbs_rs = {answer::absent, "it has no completion events"},
          .rrddmma = {answer::absent, "it has no completion events"},
          .harmful = &event_not_acknowledged,
          .caught = &event_of_the_library,
          .twin = &event_of_the_library},
    entry{.name = "refused_destruction_not_looked_at",
          .kind = "teardown",
          .mistake = "ibv_destroy_qp says EBUSY, as the queue pair is in a group, and nobody looks",
          .seen = "ibv_attach_mcast(3), ibv_destroy_qp(3): a queue pair that is attached stays",
          .does = harm::wrong_data,
          .caught_by = level::compiler,
          .words = "verbs/discarded_close_is_refused",
          .ibverbs = {answer::absent, "it has no multicast"},
          .ibverbs_rs = {answer::absent, "it has no multicast"},
          .rrddmma = {answer::absent, "it has no multicast"},
          .harmful = &queue_that_refused_to_go,
          .caught = nullptr,
          .twin = &queue_that_left_its_group},
    entry{.name = "end_of_a_destroyed_queue_waited_for",
          .kind = "teardown",
          .mistake = "requests of a queue pair are waited for after it was destroyed",
          .seen = "ibverbs-rs unpolled_ops.rs:16-23: a handle spins for ever without its channel",
          .does = harm::hang,
          .caught_by = level::unwritable,
          .words = "the operation keeps the queue pair until it has ended",
          .ibverbs = {answer::no, "a queue pair may be dropped with requests in flight"},
          .ibverbs_rs = {answer::no, "pending work does not keep its channel, and then spins"},
          .rrddmma = {answer::no, "a queue pair may be dropped with requests in flight"},
          .harmful = &end_of_a_queue_that_is_gone,
          .caught = &handle_outlives_its_channel,
          .twin = &handle_outlives_its_channel},
    entry{.name = "sender_destroyed_after_its_post",
          .kind = "teardown",
          .mistake = "the sender destroys its queue pair after the post, not after the completion",
          .seen = "ibv_destroy_qp(3) waits for nothing; UCX PR #7080 had to track what is left",
          .does = harm::hang,
          .caught_by = level::unwritable,
          .words = "the channel was dropped, and the message came",
          .ibverbs = {answer::no, "a queue pair may be dropped with requests in flight"},
          .ibverbs_rs = {answer::yes, "scopes wait for what was posted in them"},
          .rrddmma = {answer::no, "a queue pair may be dropped with requests in flight"},
          .harmful = &sender_gone_before_it_sent,
          .caught = &sender_dropped_before_it_sent,
          .twin = &sender_waits_before_it_goes},
};

}  // namespace
}  // namespace teardown_entries

std::span<const entry> teardown() { return teardown_entries::entries; }

}  // namespace verbena::zoo
