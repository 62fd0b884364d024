// SPDX-License-Identifier: MIT
// For the drop-ins, which have the names of the real libraries. The loader would find the drop-in
// again, so this searches the places where the loader searches, and opens the file by its path.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "softdev/forward/loader_cache.hpp"
#include "softdev/forward/message.hpp"
#include "softdev/forward/real.hpp"

// Marks a library as one of these forwarders: verbena_forwarder, verbena_efa_forwarder,
// verbena_rdmacm_forwarder.
extern "C" {
__attribute__((visibility("default"))) extern const int VERBENA_MARK;
constinit const int VERBENA_MARK = 1;
}

namespace verbena::forward {
namespace {

// Set by the build: the library that this one replaces.
constexpr const char* soname = VERBENA_STANDS_FOR;
constexpr const char* choice = VERBENA_CHOICE;  // the variable that selects the real one
constexpr const char* mark = VERBENA_MARK_NAME;
constexpr int load_flags = RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE;

// Opens the library at `path`. Returns nullptr if it is a forwarder: this one, or a copy of it.
void* open_real(const char* path) noexcept {
  struct stat candidate;
  if (stat(path, &candidate) != 0) return nullptr;
  Dl_info self;
  struct stat own;
  if (dladdr(&VERBENA_MARK, &self) != 0 && self.dli_fname != nullptr &&
      stat(self.dli_fname, &own) == 0 && own.st_dev == candidate.st_dev &&
      own.st_ino == candidate.st_ino)
    return nullptr;
  void* const handle = dlopen(path, load_flags);
  if (handle == nullptr || dlsym(handle, mark) != nullptr) return nullptr;
  return handle;
}

void* open_real_in(std::string_view directory) noexcept {
  std::array<char, PATH_MAX> path;
  const int length = std::snprintf(path.data(), path.size(), "%.*s/%s",
                                   static_cast<int>(directory.size()), directory.data(), soname);
  if (length < 0 || static_cast<std::size_t>(length) >= path.size()) return nullptr;
  return open_real(path.data());
}

void* search_library_path() noexcept {
  const char* const value = secure_getenv("LD_LIBRARY_PATH");
  std::string_view rest = value != nullptr ? value : "";
  while (!rest.empty()) {
    const auto end = rest.find_first_of(":;");
    const std::size_t length = end == std::string_view::npos ? rest.size() : end;
    if (length > 0)
      if (void* const handle = open_real_in({rest.data(), length})) return handle;
    rest.remove_prefix(length < rest.size() ? length + 1 : length);
  }
  return nullptr;
}

// Searches the built-in directories of the process's loader, and those of its run path.
void* search_own_directories() noexcept {
  Dl_serinfo size;
  void* const self = dlopen(nullptr, RTLD_LAZY);
  if (self == nullptr || dlinfo(self, RTLD_DI_SERINFOSIZE, &size) != 0) return nullptr;
  auto* const info = static_cast<Dl_serinfo*>(std::calloc(1, size.dls_size));
  if (info == nullptr) return nullptr;
  void* handle = nullptr;
  if (dlinfo(self, RTLD_DI_SERINFOSIZE, info) == 0 && dlinfo(self, RTLD_DI_SERINFO, info) == 0)
    for (unsigned i = 0; i < info->dls_cnt && handle == nullptr; ++i)
      handle = open_real_in(info->dls_serpath[i].dls_name);
  std::free(info);
  return handle;
}

}  // namespace

void* find_real_library() noexcept {
  const char* const chosen = secure_getenv(choice);
  if (chosen != nullptr && *chosen != '\0') {
    void* const handle = open_real(chosen);
    if (handle == nullptr)
      warn_once(VERBENA_WARNING,
                VERBENA_CHOICE " cannot be used as the real " VERBENA_STANDS_FOR ": ", chosen);
    return handle;
  }
  if (void* const handle = search_library_path()) return handle;
  if (void* const handle = visit_loader_cache(soname, &open_real)) return handle;
  return search_own_directories();
}

}  // namespace verbena::forward
