// SPDX-License-Identifier: MIT
// librdmacm's functions: all go to the connection manager that was chosen for this process.
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#include "softdev/abi/failure.hpp"
#include "softdev/forward/connection_manager.hpp"

namespace verbena::forward {
namespace {

using softdev::convention;
using softdev::not_supported;

template <class Signature, convention How>
struct cm_dispatcher;

template <class Return, class... Arguments, convention How>
struct cm_dispatcher<Return(Arguments...), How> {
  using signature = Return(Arguments...);

  static Return call(std::atomic<plain_function>& known, const char* name, Arguments... arguments) {
    auto* function = reinterpret_cast<signature*>(manager_function(known, name));
    if (function == nullptr) function = &not_supported<signature, How>::call;
    return function(arguments...);
  }
};

}  // namespace
}  // namespace verbena::forward

using namespace verbena::forward;

// A row's arguments as those of `call`, behind the name.
#define CM_CALL(type, how, name, ...)                          \
  static constinit std::atomic<plain_function> known{nullptr}; \
  return cm_dispatcher<type, convention::how>::call(known, #name __VA_OPT__(, ) __VA_ARGS__)
#define CM_ARGUMENTS(...) __VA_ARGS__
#define CM_APPLY(macro, type, how, name, arguments) macro(type, how, name, CM_ARGUMENTS arguments)

#define SOCKET(how, result, name, parameters, arguments)        // rsocket.cpp
#define SOCKET_NEWER(how, result, name, parameters, arguments)  // rsocket.cpp
#define CM(how, result, name, parameters, arguments)                         \
  extern "C" __attribute__((visibility("default"))) result name parameters { \
    CM_APPLY(CM_CALL, decltype(::name), how, name, arguments);               \
  }
// A newer rdma_cma.h may declare these with types that are not known here, so the names differ.
#define CM_NEWER(how, result, name, parameters, arguments)                           \
  extern "C" result newer_##name parameters __asm__(#name);                          \
  extern "C" __attribute__((visibility("default"))) result newer_##name parameters { \
    CM_APPLY(CM_CALL, decltype(newer_##name), how, name, arguments);                 \
  }
#include "softdev/forward/rdmacm.inc"
#undef SOCKET
#undef SOCKET_NEWER
#undef CM
#undef CM_NEWER
