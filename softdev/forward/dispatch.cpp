// SPDX-License-Identifier: MIT
// The exported functions of functions.inc, and those whose object is harder to find.
#include <cerrno>

#include "softdev/abi/failure.hpp"
#include "softdev/forward/dispatch.hpp"
#include "softdev/forward/real.hpp"
#include "softdev/forward/slots.hpp"

// A private function of rdma-core that ibv_devinfo calls.
extern "C" int ibv_query_gid_type(ibv_context* context, uint8_t port_num, unsigned int index,
                                  int* type);

namespace verbena::forward {

using softdev::convention;
using softdev::not_supported;
namespace {

template <slot Which, class Signature, convention How>
struct dispatcher;

template <slot Which, class Return, class Object, class... Others, convention How>
struct dispatcher<Which, Return(Object*, Others...), How> {
  using signature = Return(Object*, Others...);

  static Return call(Object* object, Others... others) {
    const function_table& table = owned_by_soft(object) ? soft_engine().table : real_table();
    signature* function = table.at<signature>(Which);
    if (function == nullptr) function = &not_supported<signature, How>::call;
    return function(object, others...);
  }
};

// The table of the software device if the event is about one of its objects.
const function_table& table_of(const ibv_async_event& event) noexcept {
  bool soft = false;
  switch (event.event_type) {
    case IBV_EVENT_CQ_ERR:
      soft = owned_by_soft(event.element.cq);
      break;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
      soft = owned_by_soft(event.element.qp);
      break;
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED:
      soft = owned_by_soft(event.element.srq);
      break;
    default:
      break;  // about a port or the whole device: nothing is counted there
  }
  return soft ? soft_engine().table : real_table();
}

}  // namespace
}  // namespace verbena::forward

using namespace verbena::forward;

#define FORWARD(node, how, result, name, parameters, arguments)                       \
  extern "C" __attribute__((visibility("default"))) result name parameters {          \
    return dispatcher<slot::name, decltype(::name), convention::how>::call arguments; \
  }
#include "softdev/forward/functions.inc"
#undef FORWARD

// A newer verbs.h may declare these with types that are not known here, so the names differ.
#define FORWARD(node, how, result, name, parameters, arguments)                             \
  extern "C" result newer_##name parameters __asm__(#name);                                 \
  extern "C" __attribute__((visibility("default"))) result newer_##name parameters {        \
    return dispatcher<slot::name, decltype(newer_##name), convention::how>::call arguments; \
  }
#include "softdev/forward/newer.inc"
#undef FORWARD

extern "C" __attribute__((visibility("default"))) void ibv_ack_async_event(ibv_async_event* event) {
  if (auto* const function =
          table_of(*event).at<decltype(ibv_ack_async_event)>(slot::ibv_ack_async_event))
    function(event);
}

// Of the software device alone: programs that have a forwarder find it by dlsym.
extern "C" __attribute__((visibility("default"))) int verbena_soft_inject_event(
    ibv_context* context, const char* command) {
  if (context == nullptr) return EINVAL;
  if (!owned_by_soft(context)) return EOPNOTSUPP;
  auto* const function =
      soft_engine().table.at<decltype(verbena_soft_inject_event)>(slot::verbena_soft_inject_event);
  return function != nullptr ? function(context, command) : EOPNOTSUPP;
}

// From a kernel's descriptor, which soft0 does not have.
extern "C" __attribute__((visibility("default"))) ibv_context* ibv_import_device(int cmd_fd) {
  auto* function = real_table().at<decltype(ibv_import_device)>(slot::ibv_import_device);
  if (function == nullptr)
    function = &not_supported<decltype(::ibv_import_device), convention::null>::call;
  return function(cmd_fd);
}
