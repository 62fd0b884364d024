// SPDX-License-Identifier: MIT
// libefa's functions: those of soft0's objects go to the software device, which exports them by
// name, any other to the real libefa. That is looked for at the first call that needs it.
#include <dlfcn.h>
#include <infiniband/efadv.h>
#include <pthread.h>

#include "softdev/abi/failure.hpp"
#include "softdev/forward/dispatch.hpp"
#include "softdev/forward/real.hpp"

namespace verbena::forward {
namespace {

using softdev::convention;
using softdev::not_supported;

constinit void* real_library = nullptr;
pthread_once_t once = PTHREAD_ONCE_INIT;

void* real_efa() noexcept {
  pthread_once(&once, [] { real_library = find_real_efa(); });
  return real_library;
}

template <class Signature, convention How>
struct efa_dispatcher;

template <class Return, class Object, class... Others, convention How>
struct efa_dispatcher<Return(Object*, Others...), How> {
  using signature = Return(Object*, Others...);

  static Return call(const char* name, Object* object, Others... others) {
    void* const library = owned_by_soft(object) ? soft_engine().library : real_efa();
    void* const found = library != nullptr ? dlsym(library, name) : nullptr;
    auto* function = reinterpret_cast<signature*>(found);
    if (function == nullptr) function = &not_supported<signature, How>::call;
    return function(object, others...);
  }
};

}  // namespace
}  // namespace verbena::forward

using namespace verbena::forward;

// A row's arguments as those of `call`, behind the name.
#define EFA_CALL(type, how, name, ...) \
  efa_dispatcher<type, convention::how>::call(#name, __VA_ARGS__)
#define EFA_ARGUMENTS(...) __VA_ARGS__
#define EFA_APPLY(macro, type, how, name, arguments) macro(type, how, name, EFA_ARGUMENTS arguments)

#define EFA(how, result, name, parameters, arguments)                        \
  extern "C" __attribute__((visibility("default"))) result name parameters { \
    return EFA_APPLY(EFA_CALL, decltype(::name), how, name, arguments);      \
  }
// A newer efadv.h may declare these with types that are not known here, so the names differ.
#define EFA_NEWER(how, result, name, parameters, arguments)                          \
  extern "C" result newer_##name parameters __asm__(#name);                          \
  extern "C" __attribute__((visibility("default"))) result newer_##name parameters { \
    return EFA_APPLY(EFA_CALL, decltype(newer_##name), how, name, arguments);        \
  }
#include "softdev/forward/efa.inc"
#undef EFA
#undef EFA_NEWER
