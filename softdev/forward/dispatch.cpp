// SPDX-License-Identifier: MIT
// The exported functions of functions.inc, and functions that find their library in another way.
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

// Returns the table of the software device if the event is of one of its objects.
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
      break;  // of a port or the device: not counted
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

// A newer verbs.h may declare these functions with types that are not known here, so their C++
// names differ.
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

// Only the software device has this function. Programs with a forwarder find it by dlsym.
extern "C" __attribute__((visibility("default"))) int verbena_soft_inject_event(
    ibv_context* context, const char* command) {
  if (context == nullptr) return EINVAL;
  if (!owned_by_soft(context)) return EOPNOTSUPP;
  auto* const function =
      soft_engine().table.at<decltype(verbena_soft_inject_event)>(slot::verbena_soft_inject_event);
  return function != nullptr ? function(context, command) : EOPNOTSUPP;
}

// Imports a descriptor of the kernel; soft0 has none.
extern "C" __attribute__((visibility("default"))) ibv_context* ibv_import_device(int cmd_fd) {
  auto* function = real_table().at<decltype(ibv_import_device)>(slot::ibv_import_device);
  if (function == nullptr)
    function = &not_supported<decltype(::ibv_import_device), convention::null>::call;
  return function(cmd_fd);
}
