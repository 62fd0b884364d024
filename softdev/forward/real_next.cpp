// SPDX-License-Identifier: MIT
// For the forwarders that precede libibverbs under another name: the real library is the next one
// in the process. If the program has none, it is loaded.
#include <dlfcn.h>

#include <cstdlib>

#include "softdev/forward/message.hpp"
#include "softdev/forward/real.hpp"

namespace verbena::forward {
namespace {

constexpr int load_flags = RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE;

// A library behind this one: its name, one of its functions, the variable that selects another
// file, and the message if that file cannot be loaded.
struct behind {
  const char* soname;
  const char* function;
  const char* choice;
  warning kind;
  const char* complaint;
};

void* find(const behind& wanted) noexcept {
  const char* const chosen = secure_getenv(wanted.choice);
  if (chosen != nullptr && *chosen != '\0') {
    void* const handle = dlopen(chosen, load_flags);
    if (handle == nullptr) warn_once(wanted.kind, wanted.complaint, chosen);
    return handle;
  }
  const void* const next = dlsym(RTLD_NEXT, wanted.function);
  if (next != nullptr) {
    // Returns the library's own handle, because other libraries may be between it and this one.
    Dl_info found;
    if (dladdr(next, &found) != 0 && found.dli_fname != nullptr)
      if (void* const handle = dlopen(found.dli_fname, load_flags | RTLD_NOLOAD)) return handle;
    return RTLD_NEXT;
  }
  return dlopen(wanted.soname, load_flags);
}

}  // namespace

void* find_real_library() noexcept {
  return find({.soname = "libibverbs.so.1",
               .function = "ibv_get_device_list",
               .choice = "VERBENA_LIBIBVERBS",
               .kind = warning::no_libibverbs,
               .complaint = "VERBENA_LIBIBVERBS cannot be loaded: "});
}

void* find_real_efa() noexcept {
  return find({.soname = "libefa.so.1",
               .function = "efadv_query_device",
               .choice = "VERBENA_LIBEFA",
               .kind = warning::no_libefa,
               .complaint = "VERBENA_LIBEFA cannot be loaded: "});
}

void* find_real_rdmacm() noexcept {
  return find({.soname = "librdmacm.so.1",
               .function = "rdma_create_event_channel",
               .choice = "VERBENA_LIBRDMACM",
               .kind = warning::no_librdmacm,
               .complaint = "VERBENA_LIBRDMACM cannot be loaded: "});
}

}  // namespace verbena::forward
