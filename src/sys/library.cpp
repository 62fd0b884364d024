// SPDX-License-Identifier: MIT
#include "verbena/sys/library.hpp"

#include <dlfcn.h>

#include <cerrno>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

namespace verbena::inline VERBENA_ABI::sys {
namespace {

constexpr int load_flags = RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE;
constexpr const char* soft_soname = "libverbena-soft.so.0";

struct description {
  const char* soname;
  const char* variable;
  const char* need;
  const char* package;
};

const description& describe(rdma_library which) {
  static constexpr description all[] = {
      {"libibverbs.so.1", "VERBENA_LIBIBVERBS", "RDMA adapters need it",
       "install it with `apt install libibverbs1 ibverbs-providers` (Debian, Ubuntu), "
       "`dnf install libibverbs` (Fedora) or `pacman -S rdma-core` (Arch)"},
      {"librdmacm.so.1", "VERBENA_LIBRDMACM", "the connection manager needs it",
       "install it with `apt install librdmacm1` (Debian, Ubuntu), `dnf install librdmacm` "
       "(Fedora) or `pacman -S rdma-core` (Arch)"},
      {"libefa.so.1", "VERBENA_LIBEFA", "EFA queue pairs need it",
       "install it with `apt install ibverbs-providers` (Debian, Ubuntu), `dnf install libibverbs` "
       "(Fedora) or `pacman -S rdma-core` (Arch)"},
  };
  return all[static_cast<std::size_t>(which)];
}

const char* environment(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): read only
  return value != nullptr && *value != '\0' ? value : nullptr;
}

std::string last_dl_error() {
  const char* text = ::dlerror();  // NOLINT(concurrency-mt-unsafe): per thread in glibc
  return text != nullptr ? text : "no reason was given";
}

std::vector<std::string> soft_library_candidates() {
  std::vector<std::string> candidates{soft_soname};  // the search path of the loader is tried first
#ifdef VERBENA_SOFT_LIBRARY_PATHS
  std::string_view paths = VERBENA_SOFT_LIBRARY_PATHS;
  while (!paths.empty()) {
    const auto end = paths.find(':');
    candidates.emplace_back(paths.substr(0, end));
    paths = end == std::string_view::npos ? std::string_view() : paths.substr(end + 1);
  }
#endif
  return candidates;
}

}  // namespace

result<void*> load_system_library(rdma_library which) {
  const auto& library = describe(which);
  const char* chosen = environment(library.variable);
  const char* file = chosen != nullptr ? chosen : library.soname;
  if (void* handle = ::dlopen(file, load_flags)) return handle;
  std::string diagnosis = last_dl_error() + "; " + library.need + ": ";
  diagnosis += chosen != nullptr
                   ? std::string(library.variable) + " is set to this path; correct or unset it"
                   : std::string(library.package);
  return error::unavailable(ENOENT, "dlopen", file, diagnosis);
}

result<void*> load_soft_device_library() {
  if (const char* chosen = environment("VERBENA_SOFTDEV_LIBRARY")) {
    if (void* handle = ::dlopen(chosen, load_flags)) return handle;
    return error::unavailable(
        ENOENT, "dlopen", chosen,
        last_dl_error() + "; VERBENA_SOFTDEV_LIBRARY is set to this path; correct or unset it");
  }
  // A process has one software device: if the device is already loaded, that file is used.
  if (void* handle = ::dlopen(soft_soname, load_flags | RTLD_NOLOAD)) return handle;
  std::string reasons;
  for (const auto& candidate : soft_library_candidates()) {
    if (void* handle = ::dlopen(candidate.c_str(), load_flags)) return handle;
    reasons += last_dl_error() + "; ";
  }
  return error::unavailable(
      ENOENT, "dlopen", soft_soname,
      reasons +
          "the software device is not installed; build it with -DVERBENA_BUILD_SOFTDEV=ON, or set "
          "VERBENA_SOFTDEV_LIBRARY to its path");
}

}  // namespace verbena::inline VERBENA_ABI::sys
