// SPDX-License-Identifier: MIT
// Completion channels and asynchronous events.
#include <infiniband/verbs.h>

#include <unistd.h>

#include <cerrno>
#include <memory>
#include <utility>

#include "softdev/ipc/eventfd.hpp"
#include "softdev/shim/operations.hpp"
#include "verbena/base/log.hpp"

namespace verbena::softdev {
namespace {

constexpr std::array<ibv_event_type, qp_object::event_kinds> event_types = {
    IBV_EVENT_QP_FATAL, IBV_EVENT_QP_REQ_ERR, IBV_EVENT_QP_ACCESS_ERR,
    IBV_EVENT_COMM_EST, IBV_EVENT_SQ_DRAINED, IBV_EVENT_QP_LAST_WQE_REACHED};
static_assert(static_cast<int>(queue_pair_event::fatal) == 0);
static_assert(static_cast<int>(queue_pair_event::request_error) == 1);
static_assert(static_cast<int>(queue_pair_event::access_error) == 2);
static_assert(static_cast<int>(queue_pair_event::communication_established) == 3);
static_assert(static_cast<int>(queue_pair_event::send_queue_drained) == 4);
static_assert(static_cast<int>(queue_pair_event::last_request_reached) == 5);

constexpr bool same(device_event ours, ibv_event_type theirs) noexcept {
  return static_cast<int>(ours) == static_cast<int>(theirs);
}
static_assert(same(device_event::fatal, IBV_EVENT_DEVICE_FATAL));
static_assert(same(device_event::port_active, IBV_EVENT_PORT_ACTIVE));
static_assert(same(device_event::port_error, IBV_EVENT_PORT_ERR));
static_assert(same(device_event::lid_change, IBV_EVENT_LID_CHANGE));
static_assert(same(device_event::pkey_change, IBV_EVENT_PKEY_CHANGE));
static_assert(same(device_event::sm_change, IBV_EVENT_SM_CHANGE));
static_assert(same(device_event::client_reregister, IBV_EVENT_CLIENT_REREGISTER));
static_assert(same(device_event::gid_change, IBV_EVENT_GID_CHANGE));

void completion_taken(void* owner, std::uint32_t /*kind*/) {
  ++static_cast<cq_object*>(owner)->completion_events_taken;
}

void async_taken(void* owner, std::uint32_t kind) {
  switch (kind) {
    case IBV_EVENT_CQ_ERR:
      ++static_cast<cq_object*>(owner)->error_events_taken;
      return;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
      ++static_cast<qp_object*>(owner)->events_taken;
      return;
    case IBV_EVENT_SRQ_LIMIT_REACHED:
      ++static_cast<srq_object*>(owner)->events_taken;
      return;
    default:
      return;  // of a port or the device, which are not destroyed
  }
}

// See kind_of().
std::uint32_t type_of(std::uint32_t kind) noexcept { return kind & 0xffffU; }
std::uint8_t port_of(std::uint32_t kind) noexcept { return static_cast<std::uint8_t>(kind >> 16U); }

// Sets the object of an event from the owner of its node.
void fill_element(const event_queue::event& taken, ibv_async_event& event) noexcept {
  switch (type_of(taken.kind)) {
    case IBV_EVENT_CQ_ERR:
      event.element.cq = handle_of(*static_cast<cq_object*>(taken.owner));
      return;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
      event.element.qp = &static_cast<qp_object*>(taken.owner)->qp_base;
      return;
    case IBV_EVENT_SRQ_LIMIT_REACHED:
      event.element.srq = static_cast<srq_object*>(taken.owner);
      return;
    case IBV_EVENT_PORT_ACTIVE:
    case IBV_EVENT_PORT_ERR:
    case IBV_EVENT_LID_CHANGE:
    case IBV_EVENT_PKEY_CHANGE:
    case IBV_EVENT_SM_CHANGE:
    case IBV_EVENT_CLIENT_REREGISTER:
    case IBV_EVENT_GID_CHANGE:
      event.element.port_num = port_of(taken.kind);
      return;
    default:
      return;  // of the device
  }
}

// The acknowledged and the taken events of an object. `mutex` guards `completed`.
struct acknowledgements {
  pthread_mutex_t& mutex;
  pthread_cond_t& cond;
  const std::uint32_t& completed;
  std::uint32_t taken;
};
void wait_for(const acknowledgements& what) noexcept {
  pthread_mutex_lock(&what.mutex);
  while (what.completed != what.taken) pthread_cond_wait(&what.cond, &what.mutex);
  pthread_mutex_unlock(&what.mutex);
}

void acknowledge(pthread_mutex_t& mutex, pthread_cond_t& cond, std::uint32_t& completed,
                 std::uint32_t count) noexcept {
  pthread_mutex_lock(&mutex);
  completed += count;
  pthread_cond_signal(&cond);
  pthread_mutex_unlock(&mutex);
}

// A queue of events and the descriptor on which the program waits for them.
struct source {
  event_queue& events;
  int fd;               ///< the descriptor to wait on
  wake_receiver* wake;  ///< signaled by peers; may be nullptr
  void (*taken)(void* owner, std::uint32_t kind);
};

// Takes the oldest event, and waits for one if necessary. Returns 0 or an errno. A call that finds
// nothing costs two system calls if the descriptor has O_NONBLOCK.
int take_event(host& home, const source& from, event_queue::event& out) {
  // Takes the signals of peers before it looks for the messages that they announce.
  bool signaled = from.wake != nullptr && from.wake->take();
  while (true) {
    if (!home.usable()) return ENODEV;
    {
      const event_queue::collector collect(from.events);
      if (signaled) {
        home.peer_link().sleeper().note_signal_taken();
        home.progress();
      }
      out = from.events.pop(from.taken);
      if (out.owner != nullptr) return 0;
      if (!signaled) home.progress();
      out = from.events.pop(from.taken);
      if (out.owner != nullptr) return 0;
    }
    const int failed =
        from.wake != nullptr ? wait_readable(*from.wake, signaled) : wait_readable(from.fd);
    if (failed != 0) return failed;
  }
}

// Enables peers to signal a channel. If this fails, the device's thread receives their messages.
void open_to_peers(channel_object& channel, host& home) {
  auto wake = home.peer_link().channels().create();
  if (!wake) return;
  if (wake->receiver->watch(channel.events->fd(), 0)) {
    channel.wake = *wake;
    channel.fd = wake->receiver->fd();
  } else {
    home.peer_link().channels().destroy(wake->id);
  }
}

class queue_pair_events_of_contexts final : public queue_pair_observer {
  void event(queue_pair& which, queue_pair_event what) override {
    auto& qp = *static_cast<qp_object*>(which.options().owner);
    qp.context_of->events->push_once(qp.event_nodes[static_cast<std::size_t>(what)]);
  }
};

}  // namespace

queue_pair_observer& queue_pair_events() noexcept {
  static constinit queue_pair_events_of_contexts observer;
  return observer;
}

std::uint32_t kind_of(raised_event what) noexcept {
  return static_cast<std::uint32_t>(what.what) | std::uint32_t{what.port} << 16U;
}

void prepare_events(qp_object& qp) noexcept {
  for (std::size_t kind = 0; kind < qp.event_nodes.size(); ++kind) {
    qp.event_nodes[kind].owner = &qp;
    qp.event_nodes[kind].kind = event_types[kind];
  }
}

void prepare_events(context_object& context) noexcept {
  for (event_node& node : context.device_events) node.owner = &context;
}

void prepare_events(cq_object& cq) noexcept {
  cq.completion_event.owner = &cq;
  cq.error_event.owner = &cq;
  cq.error_event.kind = IBV_EVENT_CQ_ERR;
}

void prepare_events(srq_object& srq) noexcept {
  srq.limit_event.owner = &srq;
  srq.limit_event.kind = IBV_EVENT_SRQ_LIMIT_REACHED;
}

void finish_events(qp_object& qp) noexcept {
  for (event_node& node : qp.event_nodes) qp.context_of->events->drop(node);
  wait_for({qp.qp_base.mutex, qp.qp_base.cond, qp.qp_base.events_completed, qp.events_taken});
}

void finish_events(cq_object& cq) noexcept {
  if (cq.channel != nullptr) object_of(cq.channel).events->drop(cq.completion_event);
  cq.context_of->events->drop(cq.error_event);
  wait_for({cq.mutex, cq.cond, cq.comp_events_completed, cq.completion_events_taken});
  wait_for({cq.mutex, cq.cond, cq.async_events_completed, cq.error_events_taken});
}

void finish_events(srq_object& srq) noexcept {
  srq.context_of->events->drop(srq.limit_event);
  wait_for({srq.mutex, srq.cond, srq.events_completed, srq.events_taken});
}

}  // namespace verbena::softdev

using namespace verbena::softdev;

extern "C" {

ibv_comp_channel* ibv_create_comp_channel(ibv_context* context) {
  context_object& owner = object_of(context);
  if (!working(owner)) return nullptr;
  auto event_fd = create_eventfd(when_empty::wait);
  if (!event_fd) {
    const int code = event_fd.error().code();
    verbena::log(verbena::log_level::warning,
                 code == EMFILE ? "soft0: ibv_create_comp_channel: EMFILE: RLIMIT_NOFILE leaves no "
                                  "file descriptor; raise it with \"ulimit -n\""
                                : "soft0: ibv_create_comp_channel: there is no event descriptor");
    errno = code;
    return nullptr;
  }
  auto made = std::make_unique<channel_object>();
  made->events = std::make_unique<event_queue>(*std::move(event_fd));
  made->context = context;
  made->fd = made->events->fd();
  open_to_peers(*made, *owner.host);
  owner.users.add();
  return made.release();
}

int ibv_destroy_comp_channel(ibv_comp_channel* channel) {
  context_object& owner = object_of(channel->context);
  if (!usable(owner)) return ENODEV;
  pthread_mutex_lock(&channel->context->mutex);
  const bool busy = channel->refcnt != 0;
  pthread_mutex_unlock(&channel->context->mutex);
  if (busy) return EBUSY;
  channel_object& object = object_of(channel);
  if (object.wake.id != 0) owner.host->peer_link().channels().destroy(object.wake.id);
  delete &object;
  leave(owner);
  return 0;
}

int ibv_get_cq_event(ibv_comp_channel* channel, ibv_cq** cq, void** cq_context) {
  channel_object& object = object_of(channel);
  event_queue::event event;
  host& home = *object_of(channel->context).host;
  if (const int failed = take_event(
          home, {*object.events, channel->fd, object.wake.receiver, &completion_taken}, event)) {
    errno = failed;
    return -1;
  }
  auto& owner = *static_cast<cq_object*>(event.owner);
  *cq = handle_of(owner);
  *cq_context = owner.cq_context;
  return 0;
}

void ibv_ack_cq_events(ibv_cq* cq, unsigned int nevents) {
  acknowledge(cq->mutex, cq->cond, cq->comp_events_completed, nevents);
}

int ibv_get_async_event(ibv_context* context, ibv_async_event* event) {
  context_object& object = object_of(context);
  event_queue::event taken;
  // The thread detects changes of addresses. If it cannot start, all other events are still
  // reported.
  if (object.host->usable()) static_cast<void>(object.host->start_thread());
  if (const int failed = take_event(
          *object.host, {*object.events, context->async_fd, nullptr, &async_taken}, taken)) {
    errno = failed;
    return -1;
  }
  *event = {};
  event->event_type = static_cast<ibv_event_type>(type_of(taken.kind));
  fill_element(taken, *event);
  return 0;
}

void ibv_ack_async_event(ibv_async_event* event) {
  switch (event->event_type) {
    case IBV_EVENT_CQ_ERR: {
      ibv_cq& cq = *event->element.cq;
      acknowledge(cq.mutex, cq.cond, cq.async_events_completed, 1);
      return;
    }
    case IBV_EVENT_SRQ_LIMIT_REACHED: {
      ibv_srq& srq = *event->element.srq;
      acknowledge(srq.mutex, srq.cond, srq.events_completed, 1);
      return;
    }
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_QP_LAST_WQE_REACHED: {
      ibv_qp& qp = *event->element.qp;
      acknowledge(qp.mutex, qp.cond, qp.events_completed, 1);
      return;
    }
    default:
      return;  // no destruction waits for these
  }
}

}  // extern "C"
