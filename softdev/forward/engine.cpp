// SPDX-License-Identifier: MIT
// One engine per process: the search begins with a copy that is already loaded.
#include "softdev/forward/engine.hpp"

#include <dlfcn.h>
#include <pthread.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "softdev/forward/message.hpp"
#include "verbena/base/soft_entry.hpp"

namespace verbena::forward {
namespace {

constexpr int load_flags = RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE;
constexpr const char* soname = "libverbena-soft.so.0";

constinit engine loaded_engine;
constinit const engine no_engine;
constinit std::atomic<bool> loaded{false};
pthread_once_t once = PTHREAD_ONCE_INIT;

// Opens `name` in the directory of this library or the one above, if that directory is known.
void* open_beside(const char* name) noexcept {
  Dl_info self;
  if (dladdr(&once, &self) == 0 || self.dli_fname == nullptr) return nullptr;
  const std::string_view file = self.dli_fname;
  const auto slash = file.rfind('/');
  if (slash == std::string_view::npos) return nullptr;
  // The drop-in is in a separate directory, one below the other libraries.
  for (const char* up : {"", "../"}) {
    std::array<char, 4096> path;
    const int length = std::snprintf(path.data(), path.size(), "%.*s/%s%s", static_cast<int>(slash),
                                     file.data(), up, name);
    if (length < 0 || static_cast<std::size_t>(length) >= path.size()) continue;
    if (void* const handle = dlopen(path.data(), load_flags)) return handle;
  }
  return nullptr;
}

void* open_engine() noexcept {
  if (void* const handle = dlopen(soname, load_flags | RTLD_NOLOAD)) return handle;
  const char* const chosen = secure_getenv("VERBENA_SOFTDEV_LIBRARY");
  if (chosen != nullptr && *chosen != '\0') return dlopen(chosen, load_flags);
  if (void* const handle = open_beside(soname)) return handle;
  return dlopen(soname, load_flags);
}

plain_function find(const verbena_soft_functions& all, const char* name) noexcept {
  for (std::uint32_t i = 0; i < all.count; ++i)
    if (std::strcmp(all.functions[i].name, name) == 0) return all.functions[i].function;
  return nullptr;
}

void load() noexcept {
  void* const library = open_engine();
  if (library == nullptr) {
    const char* const reason = dlerror();  // NOLINT(concurrency-mt-unsafe): per thread in glibc
    warn_once(warning::no_engine,
              "the software device cannot be loaded: ", reason != nullptr ? reason : soname);
    return;
  }
  const auto entry =
      reinterpret_cast<verbena_soft_entry_function>(dlsym(library, "verbena_soft_entry"));
  const verbena_soft_functions* const all = entry != nullptr ? entry(soft_abi) : nullptr;
  const auto device =
      all != nullptr
          ? reinterpret_cast<verbena_soft_device_function>(find(*all, "verbena_soft_device"))
          : nullptr;
  if (device == nullptr) {
    warn_once(warning::other_engine,
              "the versions of the loaded software device and this library differ: ",
              "install both from the same build");
    return;
  }
  for (std::size_t i = 0; i < slot_count; ++i)
    loaded_engine.table.functions[i] = find(*all, name_of(static_cast<slot>(i)));
  loaded_engine.library = library;
  loaded_engine.device = device();
}

}  // namespace

listing wanted_listing() noexcept {
  const char* const value = secure_getenv("VERBENA_SOFTDEV");
  const std::string_view text = value != nullptr ? value : "";
  if (text == "off") return listing::off;
  if (text == "only") return listing::only;
  return listing::on;  // the engine reports an invalid value
}

const engine& soft_engine() noexcept {
  if (loaded.load(std::memory_order_acquire)) return loaded_engine;
  if (wanted_listing() == listing::off) return no_engine;
  pthread_once(&once, [] {
    load();
    loaded.store(true, std::memory_order_release);
  });
  return loaded_engine;
}

}  // namespace verbena::forward
