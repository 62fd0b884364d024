// SPDX-License-Identifier: MIT
// The functions of librdmacm: all calls go to the connection manager that was chosen for this
// process.
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#include "softdev/forward/by_name.hpp"
#include "softdev/forward/connection_manager.hpp"

using namespace verbena::forward;
using verbena::softdev::convention;

// Passes the arguments of a row to `call`, after the function.
#define CM_CALL(type, how, name, ...)                                                       \
  static constinit std::atomic<plain_function> known{nullptr};                              \
  return by_name<type, convention::how>::call(manager_function(known, #name) __VA_OPT__(, ) \
                                                  __VA_ARGS__)
#define CM_ARGUMENTS(...) __VA_ARGS__
#define CM_APPLY(macro, type, how, name, arguments) macro(type, how, name, CM_ARGUMENTS arguments)

#define SOCKET(node, how, result, name, parameters, arguments)        // rsocket.cpp
#define SOCKET_NEWER(node, how, result, name, parameters, arguments)  // rsocket.cpp
#define CM(node, how, result, name, parameters, arguments)                   \
  extern "C" __attribute__((visibility("default"))) result name parameters { \
    CM_APPLY(CM_CALL, decltype(::name), how, name, arguments);               \
  }
#define CM_NEWER(node, how, result, name, parameters, arguments)                     \
  extern "C" result newer_##name parameters __asm__(#name);                          \
  extern "C" __attribute__((visibility("default"))) result newer_##name parameters { \
    CM_APPLY(CM_CALL, decltype(newer_##name), how, name, arguments);                 \
  }
#define CM_OWN(node, name)  // by hand
#include "softdev/forward/rdmacm.inc"
#undef CM_OWN
#undef SOCKET
#undef SOCKET_NEWER
#undef CM
#undef CM_NEWER
