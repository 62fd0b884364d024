// SPDX-License-Identifier: MIT
// Objects that are destroyed too early, in the wrong order, or not at all.
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

// Objects are destroyed in the order of their creation, and failures are ignored.
void destroy_in_creation_order() {
  const auto device = open_device("soft0").value();
  const auto pd = device.allocate_pd().value();
  const auto& c = c_of(device);
  ibv_comp_channel* const events = c.create_comp_channel(device.native());
  require(events != nullptr, "the completion channel was not created");
  ibv_cq* const cq = c.create_cq(device.native(), 16, nullptr, events, 0);
  require(cq != nullptr, "the completion queue was not created");
  ibv_qp_init_attr wanted{};
  wanted.send_cq = wanted.recv_cq = cq;
  wanted.qp_type = IBV_QPT_RC;
  wanted.cap = {.max_send_wr = 1,
                .max_recv_wr = 1,
                .max_send_sge = 1,
                .max_recv_sge = 1,
                .max_inline_data = 0};
  ibv_qp* const queue = c.create_qp(pd.native(), &wanted);
  require(queue != nullptr, "the queue pair was not created");
  const int fd = events->fd;
  require(c.destroy_cq(cq) == EBUSY, "ibv_destroy_cq did not return EBUSY");
  static_cast<void>(c.destroy_comp_channel(events));
  static_cast<void>(c.destroy_qp(queue));
  if (is_open(fd))
    harmed(
        "EBUSY of ibv_destroy_cq was ignored: completion queue, completion channel and file "
        "descriptor are leaked");
}
void destroy_handles_in_creation_order() {
  const auto device = open_device("soft0").value();
  const auto pd = device.allocate_pd().value();
  std::optional events(device.create_completion_channel().value());
  const int fd = events->fd();
  std::optional cq(device.create_cq(16, {.channel = events}).value());
  std::optional queue(pd.create_qp<rc>(*cq, *cq).value());
  events.reset();
  cq.reset();
  require(is_open(fd), "the channel was destroyed while a completion queue used it");
  queue.reset();
  require(!is_open(fd), "the channel was not destroyed");
  verified("handles may be destroyed in any order");
}

// The device is closed while its objects exist.
void close_device_first() {
  pair with;
  with.b->queue.post_receive({.id = 1}, with.memory.slice(4096, 64)).value();
  static_cast<void>(c_of(with.device).close_device(with.device.native()));
  static_cast<void>(c_send(with.a->queue.native(), 2, with.memory.slice(0, 8)));
  const auto ends = c_take(with.b->receives.native(), 1, short_deadline());
  if (ends.empty() || ends[0].status != IBV_WC_SUCCESS)
    harmed("the message never arrives, because the objects were destroyed with the device");
}
void destroy_device_handle_first() {
  std::optional device(open_device("soft0").value());
  const auto pd = device->allocate_pd().value();
  const auto memory = pd.allocate(4096, all_access).value();
  const auto cq = device->create_cq(16).value();
  auto prepared = pd.create_qp<rc>(cq, cq).value();
  device.reset();
  const auto itself = prepared.endpoint();
  auto queue = std::move(prepared).handshake(itself).value();
  queue.post_receive({.id = 1}, memory.slice(0, 64)).value();
  send(queue, {.id = 2, .signaled = true}, memory.slice(64, 8)).value();
  take_successful(cq, 2);
  verified("the device remains open as long as its objects exist");
}

// A completion queue with a pending completion event.
struct cq_with_pending_event {
  context device = open_device("soft0").value();
  protection_domain pd = device.allocate_pd().value();
  memory_region memory = pd.allocate(4096, all_access).value();
  completion_channel events = device.create_completion_channel().value();
  std::optional<completion_queue> cq{device.create_cq(16, {.channel = events}).value()};
  std::optional<queue_pair<rc>> queue;

  cq_with_pending_event() {
    auto prepared = pd.create_qp<rc>(*cq, *cq).value();
    const auto itself = prepared.endpoint();
    queue.emplace(std::move(prepared).handshake(itself).value());
    cq->request_notification(notify::any_completion).value();
    queue->post_receive({.id = 1}, memory.slice(0, 64)).value();
    send(*queue, {.id = 2, .signaled = true}, memory.slice(64, 8)).value();
  }
};
void destroy_cq_without_ack() {
  cq_with_pending_event with;
  const auto& c = c_of(with.device);
  ibv_cq* of = nullptr;
  void* cookie = nullptr;
  const auto until = long_deadline();
  while (c.get_cq_event(with.events.native(), &of, &cookie) != 0 && !until.expired()) continue;
  require(of == with.cq->native(), "no event arrived");
  take_successful(*with.cq, 2);
  with.queue.reset();
  if (!ends_in_time([&] { static_cast<void>(c.destroy_cq(of)); }))
    harmed("ibv_destroy_cq does not return");
}
void destroy_cq_after_event_of_library() {
  cq_with_pending_event with;
  const auto event = with.events.wait(long_deadline()).value();
  require(event.has_value() && event->is_from(*with.cq), "no event arrived");
  take_successful(*with.cq, 2);
  with.queue.reset();
  require(bool(std::move(*with.cq).close()), "the completion queue was not destroyed");
  verified("the event was acknowledged before it was returned");
}

// A queue pair that is attached to a multicast group cannot be destroyed; the failure is ignored.
void ignore_failed_destroy_qp() {
  datagrams with;
  const auto group = parse_gid("239.7.7.8").value();
  with.queue.attach(group).value();
  with.receive(1, 0, 128);
  require(c_of(with.device).destroy_qp(with.queue.native()) != 0, "the queue pair was destroyed");
  put(with.at(0, 128), std::string(128, 'L'));  // the mistake: the memory is reused
  const auto to_group =
      with.pd.create_ah({.gid = group, .source_gid_index = with.own.index}).value();
  auto sender = with.pd.create_qp<ud>(with.sends, with.sends).value().activate(with.key).value();
  put(with.at(4096, 8), "8 bytes!");
  auto batch = sender.start_send();
  batch.send({.id = 2, .signaled = true}, with.memory.slice(4096, 8),
             to_group.destination(queue_pair_number(queue_pair_number::max), with.key));
  batch.submit().value();
  take_successful(with.sends, 1);
  take_successful(with.receives, 1);
  if (text_at(with.at(40, 8), 8) != std::string(8, 'L'))
    harmed("a message was written into reused memory");
}
void detach_and_close() {
  datagrams with;
  const auto group = parse_gid("239.7.7.8").value();
  with.queue.attach(group).value();
  auto refused = std::move(with.queue).close();
  require(!refused, "the queue pair was destroyed");
  with.queue = std::move(refused).object();
  with.queue.detach(group).value();
  require(bool(std::move(with.queue).close()), "the queue pair was not destroyed");
}

// The program waits for a request whose queue pair it has destroyed.
void poll_cq_of_destroyed_qp() {
  pair with;
  const auto cq = with.b->receives;
  require(c_receive(with.b->queue.native(), 1, with.memory.slice(0, 64)) == 0, "the post failed");
  with.b.reset();
  if (c_take(cq.native(), 1, short_deadline()).empty()) harmed("the request never completes");
}
void handle_outlives_channel() {
  channels with;
  const auto pool = with.pool();
  auto receive = with.b->post_receive(pool.take(64).value());
  with.b.reset();
  with.a->send(source(with.memory, 0, 64), abort_at(long_deadline())).value();
  const auto* const ended = receive.wait(long_deadline());
  require(ended != nullptr && ended->has_value(), "no message arrived");
  verified("the operation keeps the queue pair until it has completed");
}

// The sender destroys its queue pair after the post: messages in flight are lost.
void destroy_qp_after_post() {
  pair with;
  put(with.at(0, 64), "last message");
  require(c_send(with.a->queue.native(), 1, with.memory.slice(0, 64)) == 0, "the post failed");
  with.a.reset();
  with.b->queue.post_receive({.id = 2}, with.memory.slice(4096, 64)).value();
  if (c_take(with.b->receives.native(), 1, short_deadline()).empty())
    harmed("the last message is lost");
}
void destroy_channel_after_post() {
  channels with;
  const auto pool = with.pool();
  auto sent = with.a->post_send(pool.take(64).value(), {.length = 64});
  with.a.reset();
  auto receive = with.b->post_receive(pool.take(64).value());
  require(sent.wait(long_deadline()) != nullptr && sent.poll()->has_value(), "the send failed");
  require(receive.wait(long_deadline()) != nullptr && receive.poll()->has_value(),
          "the message did not arrive");
  verified("the channel was destroyed, and the message arrived");
}
void destroy_qp_after_completion() {
  pair with;
  with.b->queue.post_receive({.id = 2}, with.memory.slice(4096, 64)).value();
  send(with.a->queue, {.id = 1, .signaled = true}, with.memory.slice(0, 64)).value();
  take_successful(with.a->sends, 1);
  with.a.reset();
  take_successful(with.b->receives, 1);
}

constexpr crate objects_keep_parents = {answer::yes, "objects keep their parents"};

constexpr std::array entries = {
    entry{.name = "completion_queue_destroyed_first",
          .kind = "teardown",
          .mistake = "objects are destroyed in the order of their creation",
          .seen = "ofi-cray/libfabric-cray #1160; ibv_destroy_cq(3): fails while a queue pair uses "
                  "it",
          .does = harm::leak,
          .caught_by = level::unwritable,
          .words = "handles may be destroyed in any order",
          .ibverbs = objects_keep_parents,
          .ibverbs_rs = objects_keep_parents,
          .rrddmma = objects_keep_parents,
          .harmful = &destroy_in_creation_order,
          .caught = &destroy_handles_in_creation_order,
          .twin = &destroy_handles_in_creation_order,
          .in_c_verbs = "EBUSY of ibv_destroy_cq"},
    entry{.name = "device_closed_before_its_objects",
          .kind = "teardown",
          .mistake = "ibv_close_device is called while queue pairs of the device are in use",
          .seen = "ibv_close_device(3): does not release the resources of the device",
          .does = harm::wrong_data,
          .caught_by = level::unwritable,
          .words = "the device remains open as long as its objects exist",
          .ibverbs = objects_keep_parents,
          .ibverbs_rs = objects_keep_parents,
          .rrddmma = objects_keep_parents,
          .harmful = &close_device_first,
          .caught = &destroy_device_handle_first,
          .twin = &destroy_device_handle_first},
    entry{.name = "cq_destroyed_before_event_acknowledged",
          .kind = "teardown",
          .mistake = "an event was not acknowledged before ibv_destroy_cq",
          .seen = "UCX #1039, rdma-core PR #657 (pyverbs)",
          .does = harm::hang,
          .caught_by = level::unwritable,
          .words = "acknowledged before it was returned",
          .ibverbs = {answer::yes, "get_event acknowledges immediately"},
          .ibverbs_rs = {answer::absent, "it has no completion events"},
          .rrddmma = {answer::absent, "it has no completion events"},
          .harmful = &destroy_cq_without_ack,
          .caught = &destroy_cq_after_event_of_library,
          .twin = &destroy_cq_after_event_of_library},
    entry{.name = "failure_of_destroy_qp_ignored",
          .kind = "teardown",
          .mistake =
              "ibv_destroy_qp returns EBUSY for an attached queue pair, and the result is ignored",
          .seen = "ibv_attach_mcast(3), ibv_destroy_qp(3): fails if the queue pair is attached",
          .does = harm::wrong_data,
          .caught_by = level::compiler,
          .words = "verbs/discarded_close_is_refused",
          .ibverbs = {answer::absent, "it has no multicast"},
          .ibverbs_rs = {answer::absent, "it has no multicast"},
          .rrddmma = {answer::absent, "it has no multicast"},
          .harmful = &ignore_failed_destroy_qp,
          .caught = nullptr,
          .twin = &detach_and_close},
    entry{
        .name = "wait_for_request_of_destroyed_qp",
        .kind = "teardown",
        .mistake = "the program waits for requests after it has destroyed their queue pair",
        .seen = "ibverbs-rs unpolled_ops.rs:16-23: a handle without its channel spins without end",
        .does = harm::hang,
        .caught_by = level::unwritable,
        .words = "the operation keeps the queue pair until it has completed",
        .ibverbs = {answer::no, "a queue pair may be dropped with requests in flight"},
        .ibverbs_rs = {answer::no, "pending work does not keep its channel, and spins"},
        .rrddmma = {answer::no, "a queue pair may be dropped with requests in flight"},
        .harmful = &poll_cq_of_destroyed_qp,
        .caught = &handle_outlives_channel,
        .twin = &handle_outlives_channel},
    entry{.name = "qp_destroyed_before_send_completed",
          .kind = "teardown",
          .mistake = "the sender destroys its queue pair after the post, not after the completion",
          .seen = "ibv_destroy_qp(3) does not wait; UCX PR #7080 tracks outstanding requests",
          .does = harm::hang,
          .caught_by = level::unwritable,
          .words = "the channel was destroyed, and the message arrived",
          .ibverbs = {answer::no, "a queue pair may be dropped with requests in flight"},
          .ibverbs_rs = {answer::yes, "scopes wait for their operations"},
          .rrddmma = {answer::no, "a queue pair may be dropped with requests in flight"},
          .harmful = &destroy_qp_after_post,
          .caught = &destroy_channel_after_post,
          .twin = &destroy_qp_after_completion},
};

}  // namespace
}  // namespace teardown_entries

std::span<const entry> teardown() { return teardown_entries::entries; }

}  // namespace verbena::zoo
