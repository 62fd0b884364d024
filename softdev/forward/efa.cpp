// SPDX-License-Identifier: MIT
// The functions of libefa. Calls with an object of soft0 go to the software device, which exports
// the functions by name. All others go to the real libefa, which is searched at the first such
// call.
#include <dlfcn.h>
#include <infiniband/efadv.h>
#include <pthread.h>

#include "softdev/forward/by_name.hpp"
#include "softdev/forward/dispatch.hpp"
#include "softdev/forward/real.hpp"

namespace verbena::forward {
namespace {

constinit void* real_library = nullptr;
pthread_once_t once = PTHREAD_ONCE_INIT;

void* real_efa() noexcept {
  pthread_once(&once, [] { real_library = find_real_efa(); });
  return real_library;
}

// Returns the function of the library that owns `object`; nullptr if that library lacks it.
template <class Object, class... Others>
void* find(const char* name, Object* object, Others... /*others*/) noexcept {
  void* const library = owned_by_soft(object) ? soft_engine().library : real_efa();
  return library != nullptr ? dlsym(library, name) : nullptr;
}

}  // namespace
}  // namespace verbena::forward

using namespace verbena::forward;
using verbena::softdev::convention;

#define EFA_CALL(type, how, name, ...) \
  return by_name<type, convention::how>::call(find(#name, __VA_ARGS__), __VA_ARGS__)
#define EFA_ARGUMENTS(...) __VA_ARGS__
#define EFA_APPLY(macro, type, how, name, arguments) macro(type, how, name, EFA_ARGUMENTS arguments)

#define EFA(node, how, result, name, parameters, arguments)                  \
  extern "C" __attribute__((visibility("default"))) result name parameters { \
    EFA_APPLY(EFA_CALL, decltype(::name), how, name, arguments);             \
  }
// A newer efadv.h may declare these functions with types that are not known here, so their C++
// names differ.
#define EFA_NEWER(node, how, result, name, parameters, arguments)                    \
  extern "C" result newer_##name parameters __asm__(#name);                          \
  extern "C" __attribute__((visibility("default"))) result newer_##name parameters { \
    EFA_APPLY(EFA_CALL, decltype(newer_##name), how, name, arguments);               \
  }
#include "softdev/forward/efa.inc"
#undef EFA
#undef EFA_NEWER
