// SPDX-License-Identifier: MIT
// A library with all functions of librdmacm, which only count their calls. Compiled twice: as a
// librdmacm, and with FAKE_ENGINE as a software device.
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <rdma/rsocket.h>

#include <atomic>
#include <cstdarg>
#include <cstring>
#include <iterator>

#include "tests/unit/softdev/forward/fake_devices.hpp"
#include "verbena/base/soft_entry.hpp"

namespace {

struct tally {
  const char* name;
  std::atomic<int> calls{0};
};

tally tallies[] = {
#define CM(node, how, result, name, parameters, arguments) {#name},
#define CM_NEWER CM
#define CM_OWN(node, name)
#define SOCKET CM
#define SOCKET_NEWER CM
#include "softdev/forward/rdmacm.inc"
#undef CM
#undef CM_NEWER
#undef CM_OWN
#undef SOCKET
#undef SOCKET_NEWER
    {"rfcntl"},
};

tally* find(const char* name) {
  for (tally& each : tallies)
    if (std::strcmp(each.name, name) == 0) return &each;
  return nullptr;
}

template <class Result>
struct counted {
  tally* which;

  template <class... Arguments>
  Result operator()(Arguments... /*arguments*/) const {
    which->calls.fetch_add(1);
    return Result();
  }
};

}  // namespace

#define CM(node, how, result, name, parameters, arguments)                          \
  extern "C" result fake_##name parameters __asm__(#name);                          \
  extern "C" __attribute__((visibility("default"))) result fake_##name parameters { \
    return counted<result>{find(#name)} arguments;                                  \
  }
#define CM_NEWER CM
#define CM_OWN(node, name)
#define SOCKET CM
#define SOCKET_NEWER CM
#include "softdev/forward/rdmacm.inc"

// Returns the argument of F_SETFL (4), or -1 for other commands.
extern "C" __attribute__((visibility("default"))) int rfcntl(int /*socket*/, int cmd, ...) {
  find("rfcntl")->calls.fetch_add(1);
  if (cmd != 4) return -1;
  va_list arguments;
  va_start(arguments, cmd);
  const auto got = static_cast<int>(va_arg(arguments, long));
  va_end(arguments);
  return got;
}

extern "C" __attribute__((visibility("default"))) int fake_calls(const char* name) {
  const tally* const found = find(name);
  return found != nullptr ? found->calls.load() : -1;
}

#ifdef FAKE_ENGINE
namespace {

ibv_device* the_device() {
  static ibv_device device{};
  return &device;
}

const verbena_soft_function table[] = {
    {"verbena_soft_device", reinterpret_cast<void (*)()>(&the_device)}};

}  // namespace

extern "C" __attribute__((visibility("default"))) const verbena_soft_functions* verbena_soft_entry(
    std::uint32_t abi) {
  static const verbena_soft_functions functions{verbena::soft_abi, std::size(table), table};
  return abi == verbena::soft_abi ? &functions : nullptr;
}
#endif
