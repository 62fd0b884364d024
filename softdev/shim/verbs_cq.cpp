// SPDX-License-Identifier: MIT
// Completion queues: creation, batch polling, arming.
#include <infiniband/verbs.h>

#include <sched.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <memory>
#include <mutex>
#include <new>

#include "softdev/host/device_clock.hpp"
#include "softdev/ipc/clock.hpp"
#include "softdev/shim/answers.hpp"
#include "softdev/shim/efa.hpp"
#include "softdev/shim/not_supported.hpp"
#include "softdev/shim/operations.hpp"
#include "softdev/shim/translate.hpp"

namespace verbena::softdev {
namespace {

struct cq_creation {
  ibv_context* context = nullptr;
  std::uint64_t capacity = 0;
  void* cq_context = nullptr;
  ibv_comp_channel* channel = nullptr;
  std::uint32_t comp_vector = 0;
  std::uint64_t wc_flags = IBV_WC_STANDARD_FLAGS;
  bool single_threaded = false;
};

constexpr std::uint64_t timestamp_flags =
    IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;

/// Shows peers that the queue is armed, if it is.
void publish_arming(const cq_object& cq) noexcept {
  const notify kind = cq.queue->armed();
  if (kind == notify::none || !cq.published_line) return;
  cq.context_of->host->segment().arm(
      *cq.published_line, kind == notify::solicited ? arm_state::solicited : arm_state::any);
}

class queue_events final : public completion_observer {
  void count_armed(completion_queue& queue, bool armed) noexcept override {
    host& home = *static_cast<cq_object*>(queue.owner())->context_of->host;
    home.count_armed(armed);
  }
  // Called on the thread that added the completion.
  void event(completion_queue& queue) override {
    auto& cq = *static_cast<cq_object*>(queue.owner());
    if (cq.channel == nullptr) return;
    if (cq.published_line) {
      cq.context_of->host->segment().arm(*cq.published_line, arm_state::none);
      publish_arming(cq);  // if another thread has armed the queue since
    }
    object_of(cq.channel).events->push(cq.completion_event);
  }
  void delayed(completion_queue& queue, time_ns when) override {
    auto& cq = *static_cast<cq_object*>(queue.owner());
    host& home = *cq.context_of->host;
    if (when != never) home.delays().schedule(queue, when);
    // Publishes the arming again: a peer that has signaled the channel for one message does not
    // signal it for the next.
    publish_arming(cq);
    home.look_again();
  }
  void overrun(completion_queue& queue) override {
    auto& cq = *static_cast<cq_object*>(queue.owner());
    cq.context_of->events->push_once(cq.error_event);
  }
};
constinit queue_events the_queue_events;

ibv_cq_ex* create(const cq_creation& wanted) {
  context_object& context = object_of(wanted.context);
  if (!working(context)) return nullptr;
  if (wanted.capacity < 1 || wanted.capacity > limits::max_completions ||
      wanted.comp_vector >= static_cast<std::uint32_t>(wanted.context->num_comp_vectors))
    return fail(EINVAL);
  if (wanted.channel != nullptr && wanted.channel->context != wanted.context) return fail(EINVAL);
  std::atomic<int>& queues = context.host->adapter().counts().completion_queues;
  if (queues.fetch_add(1) >= object_limits::max_cq) {
    queues.fetch_sub(1);
    return fail(ENOMEM);
  }
  const auto uncount = [](std::atomic<int>* counter) { counter->fetch_sub(1); };
  std::unique_ptr<std::atomic<int>, decltype(uncount)> counted(&queues, uncount);
  std::unique_ptr<cq_object> made(new (std::nothrow) cq_object{});
  cq_object* const object = made.get();
  if (object == nullptr) return fail(ENOMEM);
  object->context = wanted.context;
  object->context_of = &context;
  object->channel = wanted.channel;
  object->cq_context = wanted.cq_context;
  object->cqe = static_cast<int>(wanted.capacity);
  object->single_threaded = wanted.single_threaded;
  pthread_mutex_init(&object->mutex, nullptr);
  pthread_cond_init(&object->cond, nullptr);
  pthread_mutex_init(&object->poll_mutex, nullptr);
  object->queue = std::make_unique<completion_queue>(completion_queue_options{
      .capacity = static_cast<std::uint32_t>(wanted.capacity),
      .clock = (wanted.wc_flags & timestamp_flags) != 0 ? &device_clock::now : nullptr,
      .observer = &the_queue_events,
      .owner = object});
  prepare_events(*object);
  fill_lazy_interface(*object, wanted.wc_flags);
  {
    const std::lock_guard lock(context.working.lock);
    auto& working = context.working.completion_queues;
    working.insert(object);  // allocates: before anything is claimed or counted
    if (wanted.channel != nullptr)
      object->published_line =
          context.host->segment().claim_completion_queue(object_of(wanted.channel).wake.id);
    if (wanted.channel != nullptr && !object->published_line) {
      working.erase(object);
      return fail(ENOMEM);
    }
  }
  if (wanted.channel != nullptr) {
    pthread_mutex_lock(&wanted.context->mutex);
    ++wanted.channel->refcnt;
    pthread_mutex_unlock(&wanted.context->mutex);
  }
  context.users.add();
  object->index = context.host->next_queue_index();
  [[maybe_unused]] const auto* const kept = counted.release();
  return made.release();
}

}  // namespace

ibv_cq_ex* create_cq_ex(ibv_context* context, ibv_cq_init_attr_ex* attributes) {
  constexpr std::uint64_t supported = IBV_WC_STANDARD_FLAGS | timestamp_flags;
  constexpr std::uint32_t known_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD;
  constexpr std::uint32_t known_flags =
      IBV_CREATE_CQ_ATTR_SINGLE_THREADED | IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
  if ((attributes->wc_flags & ~supported) != 0) return fail(refuse(refusals::fields_of_cq));
  if ((attributes->comp_mask & ~known_mask) != 0) return fail(EINVAL);
  if ((attributes->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) != 0)
    return fail(refuse(refusals::domain_of_cq));
  const std::uint32_t flags =
      (attributes->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) != 0 ? attributes->flags : 0;
  if ((flags & ~known_flags) != 0) return fail(EINVAL);
  if ((flags & IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN) != 0)
    return fail(refuse(refusals::overrun_of_cq));
  return create({.context = context,
                 .capacity = attributes->cqe,
                 .cq_context = attributes->cq_context,
                 .channel = attributes->channel,
                 .comp_vector = attributes->comp_vector,
                 .wc_flags = attributes->wc_flags,
                 .single_threaded = (flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED) != 0});
}

int poll_cq(ibv_cq* cq, int num_entries, ibv_wc* entries) {
  cq_object& object = object_of(cq);
  if (num_entries < 0) return -EINVAL;
  host& home = *object.context_of->host;
  if (!home.usable()) return -ENODEV;
  completion_queue& queue = *object.queue;
  if (queue.empty()) {
    home.progress(host::caller::poll);
    if (queue.empty()) {
      if (queue.overrun()) return -EIO;
      if (object.idle.note_nothing()) sched_yield();
      return 0;
    }
  }
  object.idle.note_found();
  const std::size_t done = queue.poll_each(static_cast<std::size_t>(num_entries),
                                           [&](const completion& one) { to_wc(one, *entries++); });
  return static_cast<int>(done);
}

int req_notify_cq(ibv_cq* cq, int solicited_only) {
  cq_object& object = object_of(cq);
  host& home = *object.context_of->host;
  if (!home.usable()) return ENODEV;
  if (object.channel == nullptr) return 0;  // no channel to signal
  if (object.queue->arm(solicited_only != 0 ? notify::solicited : notify::any)) home.note_armed();
  publish_arming(object);
  // Finds the messages that arrived before peers could see the arming.
  home.progress();
  return 0;
}

int modify_cq(ibv_cq* cq, ibv_modify_cq_attr* changes) {
  cq_object& object = object_of(cq);
  if (!working(*object.context_of)) return errno;
  if (is_efa(*cq->context)) return refuse(refusals::moderation_of_efa);
  if (changes->attr_mask != IBV_CQ_ATTR_MODERATE) return EINVAL;
  const event_moderation wanted{.completions = changes->moderate.cq_count,
                                .period = static_cast<time_ns>(changes->moderate.cq_period) * 1000};
  if (wanted.period != 0) object.context_of->host->delays().add(*object.queue);
  object.queue->moderate(wanted, &monotonic_now);
  return 0;
}

void publish_completion_queues(qp_object& qp) noexcept {
  const auto line_of = [](ibv_cq* cq) {
    return cq != nullptr ? object_of(cq).published_line : std::nullopt;
  };
  const auto receive = line_of(qp.qp_base.recv_cq);
  const auto send = line_of(qp.qp_base.send_cq);
  if ((!receive && !send) || qp.has_published_queues) return;
  qp.has_published_queues = true;
  qp.context_of->host->segment().set_completion_queues(qp.core->number(), receive, send);
}

void withdraw_completion_queues(qp_object& qp) noexcept {
  if (!qp.has_published_queues) return;
  qp.context_of->host->segment().set_completion_queues(qp.core->number(), {}, {});
  qp.has_published_queues = false;
}

}  // namespace verbena::softdev

using namespace verbena::softdev;

extern "C" {

ibv_cq* ibv_create_cq(ibv_context* context, int cqe, void* cq_context, ibv_comp_channel* channel,
                      int comp_vector) {
  if (cqe < 1 || comp_vector < 0) {
    errno = EINVAL;
    return nullptr;
  }
  ibv_cq_ex* const cq = create({.context = context,
                                .capacity = static_cast<std::uint64_t>(cqe),
                                .cq_context = cq_context,
                                .channel = channel,
                                .comp_vector = static_cast<std::uint32_t>(comp_vector)});
  return cq == nullptr ? nullptr : ibv_cq_ex_to_cq(cq);
}

int ibv_resize_cq(ibv_cq* cq, int cqe) {
  cq_object& object = object_of(cq);
  if (!working(*object.context_of)) return errno;
  if (cqe < 1 || static_cast<std::uint32_t>(cqe) > limits::max_completions) return EINVAL;
  if (!object.queue->resize(static_cast<std::uint32_t>(cqe))) return EINVAL;
  cq->cqe = cqe;
  return 0;
}

int ibv_destroy_cq(ibv_cq* cq) {
  cq_object& object = object_of(cq);
  context_object& context = *object.context_of;
  if (!usable(context)) return ENODEV;
  if (object.children.any()) return EBUSY;
  {
    const std::lock_guard lock(context.working.lock);
    context.working.completion_queues.erase(&object);
  }
  context.host->delays().remove(*object.queue);
  finish_events(object);
  if (object.published_line)
    context.host->segment().release_completion_queue(*object.published_line);
  if (object.queue->armed() != notify::none) context.host->count_armed(false);
  if (ibv_comp_channel* const channel = object.channel; channel != nullptr) {
    pthread_mutex_lock(&channel->context->mutex);
    --channel->refcnt;
    pthread_mutex_unlock(&channel->context->mutex);
  }
  pthread_mutex_destroy(&object.mutex);
  pthread_cond_destroy(&object.cond);
  pthread_mutex_destroy(&object.poll_mutex);
  delete &object;
  context.host->adapter().counts().completion_queues.fetch_sub(1);
  leave(context);
  return 0;
}

}  // extern "C"
