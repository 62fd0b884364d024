// SPDX-License-Identifier: MIT
// Shared receive queues: creation, limit and size, posting, destruction.
#include <infiniband/verbs.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <new>

#include "softdev/shim/answers.hpp"
#include "softdev/shim/efa.hpp"
#include "softdev/shim/functions.hpp"
#include "softdev/shim/not_supported.hpp"
#include "softdev/shim/operations.hpp"
#include "softdev/shim/translate.hpp"
#include "verbena/base/enum_bits.hpp"

namespace verbena::softdev {
namespace {

class limit_events final : public shared_receive_observer {
  // Called on the thread that delivers a message, while it holds the lock of the receive side.
  void limit_reached(shared_receive_queue& queue) override {
    auto& srq = *static_cast<srq_object*>(queue.owner());
    srq.context_of->events->push_once(srq.limit_event);
  }
};
constinit limit_events the_limit_events;

struct srq_creation {
  ibv_pd* pd = nullptr;
  void* srq_context = nullptr;
  std::uint32_t max_wr = 0;
  std::uint32_t max_sge = 0;
};

srq_object* make(const srq_creation& wanted) {
  std::unique_ptr<srq_object> made(new (std::nothrow) srq_object{});
  srq_object* const object = made.get();
  if (object == nullptr) return nullptr;
  object->context = wanted.pd->context;
  object->srq_context = wanted.srq_context;
  object->pd = wanted.pd;
  object->context_of = &object_of(wanted.pd->context);
  object->queue = std::make_unique<shared_receive_queue>(
      shared_receive_options{.domain = static_cast<domain_id>(wanted.pd->handle),
                             .max_wr = wanted.max_wr,
                             .max_sge = wanted.max_sge,
                             .observer = &the_limit_events,
                             .owner = object});
  pthread_mutex_init(&object->mutex, nullptr);
  pthread_cond_init(&object->cond, nullptr);
  prepare_events(*object);
  return made.release();
}

// The values of ibv_srq_type; programs may pass others.
enum class srq_kind : std::uint32_t {
  basic = IBV_SRQT_BASIC,
  xrc = IBV_SRQT_XRC,
  tag_matching = IBV_SRQT_TM,
};

// As in the kernel, the limit in the attributes of creation is ignored.
ibv_srq* create(ibv_pd* pd, void* srq_context, ibv_srq_attr& attributes) {
  if (pd == nullptr) return fail(EINVAL);
  if (!working(object_of(pd->context))) return nullptr;
  if (is_efa(*pd->context)) return fail(refuse(refusals::srq_of_efa));
  if (attributes.max_wr == 0 || attributes.max_wr > limits::max_work_requests ||
      attributes.max_sge > limits::max_sges)
    return fail(EINVAL);
  std::atomic<int>& shared_queues = object_of(pd->context).host->adapter().counts().shared_queues;
  if (shared_queues.fetch_add(1) >= object_limits::max_srq) {
    shared_queues.fetch_sub(1);
    return fail(ENOMEM);
  }
  const auto uncount = [](std::atomic<int>* counter) { counter->fetch_sub(1); };
  std::unique_ptr<std::atomic<int>, decltype(uncount)> counted(&shared_queues, uncount);
  srq_object* const object =
      make({pd, srq_context, attributes.max_wr, std::max(attributes.max_sge, 1U)});
  if (object == nullptr) return fail(ENOMEM);
  static_cast<void>(counted.release());
  object_of(pd).children.add();
  attributes.max_sge = object->queue->max_sges();
  return object;
}

}  // namespace

ibv_srq* create_srq_ex(ibv_context* context, ibv_srq_init_attr_ex* attributes) {
  constexpr std::uint32_t known = (IBV_SRQ_INIT_ATTR_TM << 1) - 1;
  constexpr std::uint32_t supported = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD;
  const std::uint32_t mask = attributes->comp_mask;
  if ((mask & ~known) != 0) return fail(EINVAL);
  const auto kind = enum_from_bits<srq_kind>(attributes->srq_type);
  const bool basic = (mask & IBV_SRQ_INIT_ATTR_TYPE) == 0 || kind == srq_kind::basic;
  if (!basic && kind != srq_kind::xrc && kind != srq_kind::tag_matching) return fail(EINVAL);
  if (!basic || (mask & ~supported) != 0) return fail(refuse(refusals::kind_of_srq));
  if ((mask & IBV_SRQ_INIT_ATTR_PD) == 0 || attributes->pd == nullptr ||
      attributes->pd->context != context)
    return fail(EINVAL);
  return create(attributes->pd, attributes->srq_context, attributes->attr);
}

int post_shared_receive(ibv_srq* srq, ibv_recv_wr* request, ibv_recv_wr** bad_request) {
  srq_object& object = object_of(srq);
  if (!object.context_of->host->usable()) {
    *bad_request = request;
    return ENODEV;
  }
  shared_receive_queue& queue = *object.queue;
  int refused = 0;
  queue.open();
  for (; request != nullptr; request = request->next) {
    sge_list sinks;
    refused = to_list(request->sg_list, request->num_sge, sinks);
    if (refused == 0) refused = queue.add(request->wr_id, sinks);
    if (refused != 0) {
      *bad_request = request;
      break;
    }
  }
  queue.close();
  return refused;
}

}  // namespace verbena::softdev

using namespace verbena::softdev;

extern "C" {

ibv_srq* ibv_create_srq(ibv_pd* pd, ibv_srq_init_attr* srq_init_attr) {
  return create(pd, srq_init_attr->srq_context, srq_init_attr->attr);
}

int ibv_modify_srq(ibv_srq* srq, ibv_srq_attr* srq_attr, int srq_attr_mask) {
  srq_object& object = object_of(srq);
  if (!working(*object.context_of)) return errno;
  if ((srq_attr_mask & ~(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT)) != 0) return EINVAL;
  shared_receive_queue::change wanted;
  if ((srq_attr_mask & IBV_SRQ_MAX_WR) != 0) wanted.max_wr = srq_attr->max_wr;
  if ((srq_attr_mask & IBV_SRQ_LIMIT) != 0) wanted.limit = srq_attr->srq_limit;
  return object.queue->modify(wanted);
}

int ibv_query_srq(ibv_srq* srq, ibv_srq_attr* srq_attr) {
  srq_object& object = object_of(srq);
  if (!working(*object.context_of)) return errno;
  const auto now = object.queue->query();
  *srq_attr = {.max_wr = now.max_wr, .max_sge = now.max_sge, .srq_limit = now.limit};
  return 0;
}

int ibv_destroy_srq(ibv_srq* srq) {
  srq_object& object = object_of(srq);
  if (!usable(*object.context_of)) return ENODEV;
  if (object.children.any()) return EBUSY;
  finish_events(object);
  object_of(srq->pd).children.remove();
  pthread_mutex_destroy(&srq->mutex);
  pthread_cond_destroy(&srq->cond);
  object.context_of->host->adapter().counts().shared_queues.fetch_sub(1);
  delete &object;
  return 0;
}

}  // extern "C"
