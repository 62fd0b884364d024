// SPDX-License-Identifier: MIT
// The sockets of librdmacm (rsocket.h). They access memory behind the identifiers of librdmacm's
// own connection manager, so they work only if that one was chosen.
#include <fcntl.h>
#include <rdma/rsocket.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>

#include "softdev/forward/by_name.hpp"
#include "softdev/forward/connection_manager.hpp"
#include "softdev/forward/message.hpp"

namespace verbena::forward {
namespace {

// Returns the function of the real library. If the connection manager is soft0's, reports that once
// and returns nullptr.
plain_function socket_function(std::atomic<plain_function>& known, const char* name) noexcept {
  if (!chosen_manager().soft) return manager_function(known, name);
  warn_once(warning::no_rsockets, name,
            " is refused: rsocket needs the kernel's connection manager, but this process "
            "uses soft0's; use TCP sockets, or rdma_connect and rdma_accept");
  return nullptr;
}

}  // namespace
}  // namespace verbena::forward

using namespace verbena::forward;
using verbena::softdev::convention;

#define SOCKET_CALL(type, how, name, ...)                      \
  static constinit std::atomic<plain_function> known{nullptr}; \
  return by_name<type, convention::how>::call(socket_function(known, #name), __VA_ARGS__)
#define SOCKET_ARGUMENTS(...) __VA_ARGS__
#define SOCKET_APPLY(macro, type, how, name, arguments) \
  macro(type, how, name, SOCKET_ARGUMENTS arguments)

#define CM(node, how, result, name, parameters, arguments)        // rdmacm.cpp
#define CM_NEWER(node, how, result, name, parameters, arguments)  // rdmacm.cpp
#define SOCKET(node, how, result, name, parameters, arguments)               \
  extern "C" __attribute__((visibility("default"))) result name parameters { \
    SOCKET_APPLY(SOCKET_CALL, decltype(::name), how, name, arguments);       \
  }
#define SOCKET_NEWER(node, how, result, name, parameters, arguments)                 \
  extern "C" result newer_##name parameters __asm__(#name);                          \
  extern "C" __attribute__((visibility("default"))) result newer_##name parameters { \
    SOCKET_APPLY(SOCKET_CALL, decltype(newer_##name), how, name, arguments);         \
  }
#define CM_OWN(node, name)  // by hand
#include "softdev/forward/rdmacm.inc"
#undef CM_OWN
#undef CM
#undef CM_NEWER
#undef SOCKET
#undef SOCKET_NEWER

extern "C" __attribute__((visibility("default"))) int rfcntl(int socket, int cmd, ...) {
  static constinit std::atomic<plain_function> known{nullptr};
  auto* function = reinterpret_cast<decltype(rfcntl)*>(socket_function(known, "rfcntl"));
  if (function == nullptr) {
    errno = EOPNOTSUPP;
    return -1;
  }
  if (cmd == F_GETFL) return function(socket, cmd);
  // The real function also supports F_SETFL, whose argument some of its releases read as a long.
  va_list arguments;
  va_start(arguments, cmd);
  const long argument = va_arg(arguments, int);
  va_end(arguments);
  return function(socket, cmd, argument);
}
