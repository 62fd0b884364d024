// SPDX-License-Identifier: MIT
// For the forwarders that stand in front of libibverbs under another name: the real library is the
// next one in the process, or is loaded when the program has none.
#include <dlfcn.h>

#include <cstdlib>

#include "softdev/forward/message.hpp"
#include "softdev/forward/real.hpp"

namespace verbena::forward {

void* find_real_library() noexcept {
  constexpr int load_flags = RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE;
  const char* const chosen = secure_getenv("VERBENA_LIBIBVERBS");
  if (chosen != nullptr && *chosen != '\0') {
    void* const handle = dlopen(chosen, load_flags);
    if (handle == nullptr) complain("VERBENA_LIBIBVERBS cannot be loaded: ", chosen);
    return handle;
  }
  const void* const next = dlsym(RTLD_NEXT, "ibv_get_device_list");
  if (next != nullptr) {
    // By its own handle, whatever is between it and this library.
    Dl_info found;
    if (dladdr(next, &found) != 0 && found.dli_fname != nullptr)
      if (void* const handle = dlopen(found.dli_fname, load_flags | RTLD_NOLOAD)) return handle;
    return RTLD_NEXT;
  }
  return dlopen("libibverbs.so.1", load_flags);
}

void* find_real_efa() noexcept {
  const char* const chosen = secure_getenv("VERBENA_LIBEFA");
  const bool named = chosen != nullptr && *chosen != '\0';
  void* const handle =
      dlopen(named ? chosen : "libefa.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == nullptr && named) complain("VERBENA_LIBEFA cannot be loaded: ", chosen);
  return handle;
}

}  // namespace verbena::forward
