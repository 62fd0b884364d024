// SPDX-License-Identifier: MIT
// Event channels and events, and the processing of an event before the program receives it.
#include <rdma/rdma_cma.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <mutex>
#include <new>
#include <optional>
#include <utility>

#include "softdev/host/event_queue.hpp"
#include "softdev/ipc/cancellation.hpp"
#include "softdev/shim/answers.hpp"
#include "softdev/shim/cm_address.hpp"
#include "softdev/shim/cm_operations.hpp"
#include "softdev/shim/guard.hpp"
#include "softdev/shim/objects.hpp"
#include "verbena/base/log.hpp"

namespace verbena::softdev {
namespace {

constexpr bool same(cm::event_kind ours, rdma_cm_event_type theirs) noexcept {
  return static_cast<int>(ours) == static_cast<int>(theirs);
}
static_assert(same(cm::event_kind::address_resolved, RDMA_CM_EVENT_ADDR_RESOLVED));
static_assert(same(cm::event_kind::connect_request, RDMA_CM_EVENT_CONNECT_REQUEST));
static_assert(same(cm::event_kind::unreachable, RDMA_CM_EVENT_UNREACHABLE));
static_assert(same(cm::event_kind::multicast_join, RDMA_CM_EVENT_MULTICAST_JOIN));
static_assert(same(cm::event_kind::timewait_exit, RDMA_CM_EVENT_TIMEWAIT_EXIT));

void complete(cm_id_object& id) {
  const std::lock_guard lock(id.lock);
  ++id.events_completed;
  id.completed.notify_all();
}

// Exchanges the peer's depths: its initiator depth becomes the responder resources of this side.
void fill_connection(const cm::event& from, cm_event_object& to) noexcept {
  rdma_conn_param& out = to.param.conn;
  const cm::side& peer = from.remote;
  out.private_data = from.data.length != 0 ? to.data.data() : nullptr;
  out.private_data_len = from.data.length;
  out.responder_resources = peer.initiator_depth;
  out.initiator_depth = peer.responder_resources;
  out.flow_control = peer.flow_control;
  out.retry_count = peer.retry_count;
  out.rnr_retry_count = peer.rnr_retry_count;
  out.srq = peer.shared_receives;
  out.qp_num = peer.queue_pair;
}

void fill_datagram(const cm::event& from, const cm_id_object& id, cm_event_object& to) {
  rdma_ud_param& out = to.param.ud;
  out.private_data = from.data.length != 0 ? to.data.data() : nullptr;
  out.private_data_len = from.data.length;
  out.qp_num = from.remote.queue_pair;
  out.qkey = from.remote.queue_key;
  if (from.kind != cm::event_kind::established) return;
  out.ah_attr = cm_way(id, id.home->manager->look(id.end).source, from.remote);
}

void fill(const cm::event& from, const cm_id_object& id, cm_event_object& to) {
  to.event = static_cast<rdma_cm_event_type>(from.kind);
  to.status = from.status;
  std::copy_n(from.data.bytes.begin(), from.data.length, to.data.begin());
  if (id.qp_type == IBV_QPT_UD) {
    fill_datagram(from, id, to);
  } else {
    fill_connection(from, to);
  }
}

// Creates the identifier of a connection request. On failure, destroys the request and returns
// false.
bool adopt(const cm::event& from, cm_id_object& listener, cm_event_object& to) {
  cm_id_object* const made = cm_adopt(listener, from.about);
  if (made == nullptr) {
    listener.home->manager->destroy(from.about);
    complete(listener);
    return false;
  }
  to.id = made;
  to.listen_id = &listener;
  made->responder_resources = from.remote.initiator_depth;
  made->initiator_depth = from.remote.responder_resources;
  made->remote_ece = {
      .vendor_id = from.remote.vendor, .options = from.remote.options, .comp_mask = 0};
  return true;
}

// Processes an event as librdmacm does before it returns the event. Returns false if the program
// must not receive the event.
bool process(const cm::event& from, cm_id_object& id, cm_event_object& to) {
  switch (from.kind) {
    case cm::event_kind::connect_request:
      return adopt(from, id, to);
    case cm::event_kind::address_resolved:
      cm_refresh(id);
      return true;
    case cm::event_kind::route_resolved:
      cm_fill_path(id);
      return true;
    case cm::event_kind::multicast_join:
      if (cm_joined(id, from.membership, to)) return true;
      complete(id);
      return false;
    case cm::event_kind::connect_response:
      id.remote_ece = {
          .vendor_id = from.remote.vendor, .options = from.remote.options, .comp_mask = 0};
      if (id.qp == nullptr) return true;
      to.event = RDMA_CM_EVENT_ESTABLISHED;
      if (cm_confirm(id) == 0) return true;
      to.event = RDMA_CM_EVENT_CONNECT_ERROR;
      to.status = -errno;
      id.connect_error = true;
      return true;
    case cm::event_kind::rejected:
    case cm::event_kind::disconnected:
      if (id.connect_error) {
        complete(id);
        return false;
      }
      if (from.kind == cm::event_kind::rejected) static_cast<void>(cm_to_error(id));
      return true;
    default:
      return true;
  }
}

// Keeps the channels that were destroyed last. As with the kernel, a thread that waits for an event
// while its channel is destroyed waits forever. A call within `moment` after the destruction also
// waits forever, because its thread cannot know of the destruction. A later call fails.
class destroyed_channels {
 public:
  static constexpr std::size_t capacity = 64;
  static constexpr std::chrono::seconds moment{1};

  static destroyed_channels& instance() {
    static auto* const made = new destroyed_channels;  // threads may use it during exit
    return *made;
  }

  void add(cm_channel_object& channel) noexcept {
    channel.destroyed_at = std::chrono::steady_clock::now();
    channel.destroyed.store(true);
    // Closes the descriptor, unless a thread waits for it.
    if (channel.takers.load() == 0) channel.events.reset();
    const std::lock_guard lock(mutex_);
    cm_channel_object*& place = places_[next_++ % capacity];
    if (place != nullptr && place->takers.load() == 0) delete place;
    place = &channel;
  }

 private:
  std::mutex mutex_;
  std::array<cm_channel_object*, capacity> places_{};
  std::size_t next_ = 0;
};

// Handles a call on a destroyed channel: waits forever, or returns EBADF.
int outlive(const cm_channel_object& channel) {
  const auto passed = std::chrono::steady_clock::now() - channel.destroyed_at;
  const with_cancellation permitted;
  while (passed < destroyed_channels::moment) pause();
  log(log_level::warning,
      "soft0: rdma_get_cm_event: the event channel was destroyed (EBADF); stop the thread that "
      "waits "
      "for events before rdma_destroy_event_channel");
  return EBADF;
}

// Counts a call that takes events, for its lifetime.
class taker {
 public:
  explicit taker(cm_channel_object& channel) noexcept : of_(channel) { of_.takers.fetch_add(1); }
  taker(const taker&) = delete;
  taker& operator=(const taker&) = delete;
  ~taker() { of_.takers.fetch_sub(1); }

 private:
  cm_channel_object& of_;
};

// Takes the next event, and first makes the object for it: a taken event counts until it is
// completed. Returns 0 or an errno. Blocks unless the descriptor is non-blocking.
int take(cm_channel_object& channel, cm::event& out, std::unique_ptr<cm_event_object>& object) {
  const taker counted(channel);
  if (channel.destroyed.load()) return outlive(channel);
  while (true) {
    if (!cm_usable(*channel.home)) return ENODEV;
    bool without_memory = false;
    std::optional<cm::event> found = channel.home->manager->take(*channel.events, [&] {
      object.reset(new (std::nothrow) cm_event_object{});
      without_memory = object == nullptr;
      return !without_memory;
    });
    if (found) {
      out = *std::move(found);
      return 0;
    }
    if (without_memory) return ENOMEM;
    if (const int failed = wait_readable(channel.fd)) return failed;
  }
}

}  // namespace

cm_channel_object* cm_create_channel(cm_process& home) {
  auto events = cm::create_channel();
  if (!events) return fail(events.error().code());
  auto* const made = new (std::nothrow) cm_channel_object{};
  if (made == nullptr) return fail(ENOMEM);
  made->home = &home;
  made->events = *std::move(events);
  made->fd = made->events->fd();
  return made;
}

void cm_destroy_channel(rdma_event_channel* channel) noexcept {
  destroyed_channels::instance().add(object_of(channel));
}

int cm_get_event(rdma_event_channel* channel, rdma_cm_event** out) {
  if (out == nullptr) return cm_result(EINVAL);
  cm::event next;
  while (true) {
    std::unique_ptr<cm_event_object> made;
    if (const int failed = take(object_of(channel), next, made)) return cm_result(failed);
    const cm::endpoint_ptr& counted = next.listener != nullptr ? next.listener : next.about;
    auto& id = *static_cast<cm_id_object*>(counted->owner);
    made->counted = &id;
    made->id = &id;
    try {
      fill(next, id, *made);
      if (!process(next, id, *made)) continue;
    } catch (...) {
      if (next.kind == cm::event_kind::connect_request && made->listen_id == nullptr)
        id.home->manager->destroy(next.about);
      complete(id);
      throw;
    }
    *out = made.release();
    return 0;
  }
}

int cm_acknowledge(rdma_cm_event* event) {
  if (event == nullptr) return cm_result(EINVAL);
  auto* const object = static_cast<cm_event_object*>(event);
  complete(*object->counted);
  delete object;
  return 0;
}

void cm_acknowledge_own(rdma_cm_id& id) {
  if (id.event == nullptr) return;
  static_cast<void>(cm_acknowledge(id.event));
  id.event = nullptr;
}

int cm_complete(cm_id_object& id) {
  if (!id.synchronous) return 0;
  cm_acknowledge_own(id);
  if (cm_get_event(id.channel, &id.event) != 0) return -1;
  const int status = id.event->status;
  if (status == 0) return 0;
  if (id.event->event == RDMA_CM_EVENT_REJECTED) return cm_result(ECONNREFUSED);
  return cm_result(status < 0 ? -status : status);
}

}  // namespace verbena::softdev

using namespace verbena::softdev;

#pragma GCC visibility push(default)
extern "C" {

rdma_event_channel* rdma_create_event_channel(void) try {
  const without_cancellation disabled;
  cm_process* const home = cm_here();
  return home != nullptr ? cm_create_channel(*home) : nullptr;
}
VERBENA_END_OF_C_FUNCTION(null)

void rdma_destroy_event_channel(rdma_event_channel* channel) try {
  const without_cancellation disabled;
  cm_destroy_channel(channel);
}
VERBENA_END_OF_SILENT_C_FUNCTION

int rdma_get_cm_event(rdma_event_channel* channel, rdma_cm_event** event) try {
  const without_cancellation disabled;
  return cm_get_event(channel, event);
}
VERBENA_END_OF_C_FUNCTION(minus_one)

int rdma_ack_cm_event(rdma_cm_event* event) try {
  const without_cancellation disabled;
  return cm_acknowledge(event);
}
VERBENA_END_OF_C_FUNCTION(minus_one)

}  // extern "C"
#pragma GCC visibility pop
