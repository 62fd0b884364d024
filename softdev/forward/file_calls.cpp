// SPDX-License-Identifier: MIT
// Functions of the C library that find the files of soft0 (kernel_files.cpp). For other paths each
// calls the next definition in the process, with errno unchanged. The functions take effect only in
// a library that precedes the C library: LD_PRELOAD, or a drop-in that the program links.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <type_traits>

#include "softdev/forward/engine.hpp"
#include "softdev/forward/file_tree.hpp"
#include "softdev/forward/kernel_files.hpp"

namespace verbena::forward {
namespace {

[[gnu::tls_model("initial-exec")]] constinit thread_local bool resolving = false;

// The next definition of a function in the process. `without` is called if no next definition
// exists, and by the loader itself while it looks one up.
template <class Signature>
struct next_call {
  const char* name;
  Signature* without;
  std::atomic<Signature*> known{nullptr};

  Signature* get() noexcept {
    if (Signature* const found = known.load(std::memory_order_acquire)) return found;
    if (resolving) return without;
    const int saved = errno;
    resolving = true;
    auto* found = reinterpret_cast<Signature*>(dlsym(RTLD_NEXT, name));
    resolving = false;
    errno = saved;
    if (found == nullptr) found = without;
    known.store(found, std::memory_order_release);
    return found;
  }
};

template <class Signature>
struct unavailable;
template <class Return, class... Arguments>
struct unavailable<Return(Arguments...)> {
  static Return call(Arguments... /*arguments*/) {
    errno = ENOSYS;
    if constexpr (std::is_pointer_v<Return>)
      return nullptr;
    else
      return -1;
  }
};

mode_t mode_of(int flags, va_list arguments) noexcept {
  const bool creates = (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
  return creates ? va_arg(arguments, mode_t) : 0;
}

int raw_openat(int directory, const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  return static_cast<int>(::syscall(SYS_openat, directory, path, flags, mode));
}
int raw_open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  return static_cast<int>(::syscall(SYS_openat, AT_FDCWD, path, flags, mode));
}
int raw_openat_2(int directory, const char* path, int flags) {
  return raw_openat(directory, path, flags);
}
int raw_open_2(const char* path, int flags) { return raw_openat(AT_FDCWD, path, flags); }
int raw_fstatat(int directory, const char* path, void* about, int flags) {
  return static_cast<int>(::syscall(SYS_newfstatat, directory, path, about, flags));
}
int raw_stat(const char* path, void* about) { return raw_fstatat(AT_FDCWD, path, about, 0); }
int raw_lstat(const char* path, void* about) {
  return raw_fstatat(AT_FDCWD, path, about, AT_SYMLINK_NOFOLLOW);
}
int raw_xstat(int /*version*/, const char* path, void* about) { return raw_stat(path, about); }
int raw_lxstat(int /*version*/, const char* path, void* about) { return raw_lstat(path, about); }
int raw_fxstatat(int /*version*/, int directory, const char* path, void* about, int flags) {
  return raw_fstatat(directory, path, about, flags);
}
int raw_statx(int directory, const char* path, int flags, unsigned mask, void* about) {
  return static_cast<int>(::syscall(SYS_statx, directory, path, flags, mask, about));
}
int raw_faccessat(int directory, const char* path, int mode, int /*flags*/) {
  return static_cast<int>(::syscall(SYS_faccessat, directory, path, mode));
}
int raw_access(const char* path, int mode) { return raw_faccessat(AT_FDCWD, path, mode, 0); }
ssize_t raw_readlinkat(int directory, const char* path, char* text, std::size_t size) {
  return ::syscall(SYS_readlinkat, directory, path, text, size);
}
ssize_t raw_readlink(const char* path, char* text, std::size_t size) {
  return raw_readlinkat(AT_FDCWD, path, text, size);
}
ssize_t raw_getxattr(const char* path, const char* name, void* value, std::size_t size) {
  return ::syscall(SYS_getxattr, path, name, value, size);
}
ssize_t raw_lgetxattr(const char* path, const char* name, void* value, std::size_t size) {
  return ::syscall(SYS_lgetxattr, path, name, value, size);
}
ssize_t raw_listxattr(const char* path, char* names, std::size_t size) {
  return ::syscall(SYS_listxattr, path, names, size);
}
ssize_t raw_llistxattr(const char* path, char* names, std::size_t size) {
  return ::syscall(SYS_llistxattr, path, names, size);
}
int raw_chdir(const char* path) { return static_cast<int>(::syscall(SYS_chdir, path)); }

using open_call = int(const char*, int, ...);
using open_2_call = int(const char*, int);
using openat_call = int(int, const char*, int, ...);
using openat_2_call = int(int, const char*, int);
using stat_call = int(const char*, void*);
using fstatat_call = int(int, const char*, void*, int);
using xstat_call = int(int, const char*, void*);
using fxstatat_call = int(int, int, const char*, void*, int);
using statx_call = int(int, const char*, int, unsigned, void*);
using access_call = int(const char*, int);
using faccessat_call = int(int, const char*, int, int);
using readlink_call = ssize_t(const char*, char*, std::size_t);
using readlinkat_call = ssize_t(int, const char*, char*, std::size_t);
using readlink_chk_call = ssize_t(const char*, char*, std::size_t, std::size_t);
using readlinkat_chk_call = ssize_t(int, const char*, char*, std::size_t, std::size_t);
using getxattr_call = ssize_t(const char*, const char*, void*, std::size_t);
using listxattr_call = ssize_t(const char*, char*, std::size_t);
using fopen_call = void*(const char*, const char*);
using opendir_call = void*(const char*);
using scandir_call = int(const char*, void*, void*, void*);
using realpath_call = char*(const char*, char*);
using realpath_chk_call = char*(const char*, char*, std::size_t);
using canonical_call = char*(const char*);

#define END(name)
#define CALL(name, signature, without) constinit next_call<signature> next_##name{#name, &without};
#include "softdev/forward/file_calls.inc"
#undef CALL

// Later calls need no lookup, so that signal handlers may call these functions.
__attribute__((constructor(101))) void find_next_calls() noexcept {
#define CALL(name, signature, without) next_##name.get();
#include "softdev/forward/file_calls.inc"
#undef CALL
#undef END
}

bool wanted() noexcept {
  static constinit std::atomic<int> answer{-1};
  int known = answer.load(std::memory_order_relaxed);
  if (known >= 0) return known != 0;
  const char* const setting = secure_getenv("VERBENA_SOFTDEV_SYSFS");
  const bool off = setting != nullptr && std::string_view(setting) == "off";
  known = !off && wanted_listing() != listing::off && getauxval(AT_SECURE) == 0 ? 1 : 0;
  answer.store(known, std::memory_order_relaxed);
  return known != 0;
}

// The real libibverbs searches these folders for adapters that need a driver. It must not find
// soft0, for which it would report a missing driver.
bool is_real_library(const void* caller) noexcept {
  Dl_info from;
  Dl_info self;
  if (dladdr(caller, &from) == 0 || from.dli_fname == nullptr) return false;
  if (dladdr(reinterpret_cast<const void*>(&wanted), &self) != 0 &&
      self.dli_fbase == from.dli_fbase)
    return false;
  const std::string_view file = from.dli_fname;
  return file.substr(file.rfind('/') + 1).starts_with("libibverbs.so");
}

// The file that a call accesses.
struct question {
  const char* path;
  bool follow;  ///< resolve a link at the end
  file_use use;
  const void* caller;
};

struct answer {
  kernel_file file;
  file_place place;

  explicit answer(const question& asked) noexcept {
    const int saved = errno;
    const file_search search;
    if (search && wanted() && !is_real_library(asked.caller) &&
        find_kernel_file(asked.path, asked.follow, file))
      place_file(file, asked.use, place);
    errno = saved;
  }
  [[nodiscard]] bool elsewhere() const noexcept {
    return place.found == file_place::state::elsewhere;
  }
};

// Calls `call(path)` with the path to use.
template <class Call>
[[gnu::noinline]] auto look(const question& asked, const Call& call) {
  const answer found(asked);
  return call(found.elsewhere() ? asked.path : found.place.path.data());
}

// Returns a descriptor on which read(2) fails with EINVAL: an epoll instance cannot be read.
int refusing_descriptor(int flags) noexcept {
  return ::epoll_create1((flags & O_CLOEXEC) != 0 ? EPOLL_CLOEXEC : 0);
}

bool writes_attribute(const answer& found, bool writes) noexcept {
  return writes && !found.elsewhere() &&
         (found.place.kind == file_kind::attribute || found.place.kind == file_kind::common);
}

template <class Open>
[[gnu::noinline]] int open_file(const question& asked, int flags, const Open& open) {
  const answer found(asked);
  if (found.elsewhere()) return open(asked.path);
  if (writes_attribute(found, (flags & O_ACCMODE) != O_RDONLY)) {
    errno = EACCES;
    return -1;
  }
  if (found.place.found == file_place::state::refused) return refusing_descriptor(flags);
  return open(found.place.path.data());
}

question asks_to_open(const char* path, int flags, const void* caller) noexcept {
  return {
      .path = path, .follow = (flags & O_NOFOLLOW) == 0, .use = file_use::open, .caller = caller};
}

template <class Open>
[[gnu::noinline]] void* open_stream(const char* path, const char* mode, const void* caller,
                                    const Open& open) {
  const answer found({.path = path, .follow = true, .use = file_use::open, .caller = caller});
  if (found.elsewhere()) return open(path);
  const std::string_view text = mode;
  if (writes_attribute(found, text[0] != 'r' || text.find('+') != std::string_view::npos)) {
    errno = EACCES;
    return nullptr;
  }
  if (found.place.found != file_place::state::refused) return open(found.place.path.data());
  const bool closes = text.find('e') != std::string_view::npos;
  const int descriptor = refusing_descriptor(closes ? O_CLOEXEC : 0);
  return descriptor >= 0 ? ::fdopen(descriptor, "r") : nullptr;
}

// Writes the canonical path of a file of soft0 to `resolved`, or to new memory if that is nullptr.
template <class Resolve>
[[gnu::noinline]] char* resolve_path(const char* path, char* resolved, const void* caller,
                                     const Resolve& resolve) {
  const answer found({.path = path, .follow = true, .use = file_use::look, .caller = caller});
  if (found.elsewhere()) return resolve();
  if (resolved == nullptr) return ::strdup(found.file.path.data());
  return static_cast<char*>(
      std::memcpy(resolved, found.file.path.data(), std::strlen(found.file.path.data()) + 1));
}

bool is_other(const char* path) noexcept { return !may_be_kernel_file(path); }

}  // namespace
}  // namespace verbena::forward

using namespace verbena::forward;

// The C++ names differ from those of the C library, whose declarations have attributes that a path
// is never nullptr.
#define FILE_CALL(result, name, parameters)                     \
  extern "C" result file_call_##name parameters __asm__(#name); \
  extern "C" __attribute__((visibility("default"))) result file_call_##name parameters

#define CALLER __builtin_return_address(0)
#define LOOK(follows) {.path = path, .follow = (follows), .use = file_use::look, .caller = CALLER}

#define OPEN(name)                                                                 \
  FILE_CALL(int, name, (const char* path, int flags, ...)) {                       \
    va_list arguments;                                                             \
    va_start(arguments, flags);                                                    \
    const mode_t mode = mode_of(flags, arguments);                                 \
    va_end(arguments);                                                             \
    auto* const next = next_##name.get();                                          \
    if (is_other(path)) return next(path, flags, mode);                            \
    return open_file(asks_to_open(path, flags, CALLER), flags,                     \
                     [&](const char* there) { return next(there, flags, mode); }); \
  }
OPEN(open)
OPEN(open64)

#define OPEN_2(name)                                                         \
  FILE_CALL(int, name, (const char* path, int flags)) {                      \
    auto* const next = next_##name.get();                                    \
    if (is_other(path)) return next(path, flags);                            \
    return open_file(asks_to_open(path, flags, CALLER), flags,               \
                     [&](const char* there) { return next(there, flags); }); \
  }
OPEN_2(__open_2)
OPEN_2(__open64_2)

#define OPENAT(name)                                                                          \
  FILE_CALL(int, name, (int directory, const char* path, int flags, ...)) {                   \
    va_list arguments;                                                                        \
    va_start(arguments, flags);                                                               \
    const mode_t mode = mode_of(flags, arguments);                                            \
    va_end(arguments);                                                                        \
    auto* const next = next_##name.get();                                                     \
    if (is_other(path)) return next(directory, path, flags, mode);                            \
    return open_file(asks_to_open(path, flags, CALLER), flags,                                \
                     [&](const char* there) { return next(directory, there, flags, mode); }); \
  }
OPENAT(openat)
OPENAT(openat64)

#define OPENAT_2(name)                                                                  \
  FILE_CALL(int, name, (int directory, const char* path, int flags)) {                  \
    auto* const next = next_##name.get();                                               \
    if (is_other(path)) return next(directory, path, flags);                            \
    return open_file(asks_to_open(path, flags, CALLER), flags,                          \
                     [&](const char* there) { return next(directory, there, flags); }); \
  }
OPENAT_2(__openat_2)
OPENAT_2(__openat64_2)

#define STAT(name, follows)                                                            \
  FILE_CALL(int, name, (const char* path, void* about)) {                              \
    auto* const next = next_##name.get();                                              \
    if (is_other(path)) return next(path, about);                                      \
    return look(LOOK(follows), [&](const char* there) { return next(there, about); }); \
  }
STAT(stat, true)
STAT(stat64, true)
STAT(lstat, false)
STAT(lstat64, false)

#define XSTAT(name, follows)                                                                    \
  FILE_CALL(int, name, (int version, const char* path, void* about)) {                          \
    auto* const next = next_##name.get();                                                       \
    if (is_other(path)) return next(version, path, about);                                      \
    return look(LOOK(follows), [&](const char* there) { return next(version, there, about); }); \
  }
XSTAT(__xstat, true)
XSTAT(__xstat64, true)
XSTAT(__lxstat, false)
XSTAT(__lxstat64, false)

#define FSTATAT(name)                                                                     \
  FILE_CALL(int, name, (int directory, const char* path, void* about, int flags)) {       \
    auto* const next = next_##name.get();                                                 \
    if (is_other(path)) return next(directory, path, about, flags);                       \
    return look(LOOK((flags & AT_SYMLINK_NOFOLLOW) == 0),                                 \
                [&](const char* there) { return next(directory, there, about, flags); }); \
  }
FSTATAT(fstatat)
FSTATAT(fstatat64)

#define FXSTATAT(name)                                                                             \
  FILE_CALL(int, name, (int version, int directory, const char* path, void* about, int flags)) {   \
    auto* const next = next_##name.get();                                                          \
    if (is_other(path)) return next(version, directory, path, about, flags);                       \
    return look(LOOK((flags & AT_SYMLINK_NOFOLLOW) == 0),                                          \
                [&](const char* there) { return next(version, directory, there, about, flags); }); \
  }
FXSTATAT(__fxstatat)
FXSTATAT(__fxstatat64)

FILE_CALL(int, statx, (int directory, const char* path, int flags, unsigned mask, void* about)) {
  auto* const next = next_statx.get();
  if (is_other(path)) return next(directory, path, flags, mask, about);
  return look(LOOK((flags & AT_SYMLINK_NOFOLLOW) == 0),
              [&](const char* there) { return next(directory, there, flags, mask, about); });
}

#define ACCESS(name)                                                               \
  FILE_CALL(int, name, (const char* path, int mode)) {                             \
    auto* const next = next_##name.get();                                          \
    if (is_other(path)) return next(path, mode);                                   \
    return look(LOOK(true), [&](const char* there) { return next(there, mode); }); \
  }
ACCESS(access)
ACCESS(eaccess)
ACCESS(euidaccess)

FILE_CALL(int, faccessat, (int directory, const char* path, int mode, int flags)) {
  auto* const next = next_faccessat.get();
  if (is_other(path)) return next(directory, path, mode, flags);
  return look(LOOK((flags & AT_SYMLINK_NOFOLLOW) == 0),
              [&](const char* there) { return next(directory, there, mode, flags); });
}

FILE_CALL(ssize_t, readlink, (const char* path, char* text, std::size_t size)) {
  auto* const next = next_readlink.get();
  if (is_other(path)) return next(path, text, size);
  return look(LOOK(false), [&](const char* there) { return next(there, text, size); });
}

FILE_CALL(ssize_t, readlinkat, (int directory, const char* path, char* text, std::size_t size)) {
  auto* const next = next_readlinkat.get();
  if (is_other(path)) return next(directory, path, text, size);
  return look(LOOK(false), [&](const char* there) { return next(directory, there, text, size); });
}

FILE_CALL(ssize_t, __readlink_chk,
          (const char* path, char* text, std::size_t size, std::size_t room)) {
  auto* const next = next___readlink_chk.get();
  if (is_other(path)) return next(path, text, size, room);
  return look(LOOK(false), [&](const char* there) { return next(there, text, size, room); });
}

FILE_CALL(ssize_t, __readlinkat_chk,
          (int directory, const char* path, char* text, std::size_t size, std::size_t room)) {
  auto* const next = next___readlinkat_chk.get();
  if (is_other(path)) return next(directory, path, text, size, room);
  return look(LOOK(false),
              [&](const char* there) { return next(directory, there, text, size, room); });
}

// For ls(1), which reads attributes of security modules.
#define GETXATTR(name, follows)                                                                    \
  FILE_CALL(ssize_t, name, (const char* path, const char* what, void* value, std::size_t size)) {  \
    auto* const next = next_##name.get();                                                          \
    if (is_other(path)) return next(path, what, value, size);                                      \
    return look(LOOK(follows), [&](const char* there) { return next(there, what, value, size); }); \
  }
GETXATTR(getxattr, true)
GETXATTR(lgetxattr, false)

#define LISTXATTR(name, follows)                                                             \
  FILE_CALL(ssize_t, name, (const char* path, char* names, std::size_t size)) {              \
    auto* const next = next_##name.get();                                                    \
    if (is_other(path)) return next(path, names, size);                                      \
    return look(LOOK(follows), [&](const char* there) { return next(there, names, size); }); \
  }
LISTXATTR(listxattr, true)
LISTXATTR(llistxattr, false)

FILE_CALL(int, chdir, (const char* path)) {
  auto* const next = next_chdir.get();
  if (is_other(path)) return next(path);
  return look(asks_to_open(path, 0, CALLER), [&](const char* there) { return next(there); });
}

#define FOPEN(name)                                                                               \
  FILE_CALL(void*, name, (const char* path, const char* mode)) {                                  \
    auto* const next = next_##name.get();                                                         \
    if (is_other(path) || mode == nullptr) return next(path, mode);                               \
    return open_stream(path, mode, CALLER, [&](const char* there) { return next(there, mode); }); \
  }
FOPEN(fopen)
FOPEN(fopen64)

FILE_CALL(void*, opendir, (const char* path)) {
  auto* const next = next_opendir.get();
  if (is_other(path)) return next(path);
  return look(asks_to_open(path, 0, CALLER), [&](const char* there) { return next(there); });
}

#define SCANDIR(name)                                                                    \
  FILE_CALL(int, name, (const char* path, void* names, void* filter, void* compare)) {   \
    auto* const next = next_##name.get();                                                \
    if (is_other(path)) return next(path, names, filter, compare);                       \
    return look(asks_to_open(path, 0, CALLER),                                           \
                [&](const char* there) { return next(there, names, filter, compare); }); \
  }
SCANDIR(scandir)
SCANDIR(scandir64)

FILE_CALL(char*, realpath, (const char* path, char* resolved)) {
  auto* const next = next_realpath.get();
  if (is_other(path)) return next(path, resolved);
  return resolve_path(path, resolved, CALLER, [&] { return next(path, resolved); });
}

// The C library aborts if the buffer is smaller than PATH_MAX.
FILE_CALL(char*, __realpath_chk, (const char* path, char* resolved, std::size_t room)) {
  auto* const next = next___realpath_chk.get();
  if (is_other(path) || room < PATH_MAX) return next(path, resolved, room);
  return resolve_path(path, resolved, CALLER, [&] { return next(path, resolved, room); });
}

FILE_CALL(char*, canonicalize_file_name, (const char* path)) {
  auto* const next = next_canonicalize_file_name.get();
  if (is_other(path)) return next(path);
  return resolve_path(path, nullptr, CALLER, [&] { return next(path); });
}

// Shells end their subshells without exit(3).
#define CALL(name, signature, without)
#define END(name)                               \
  FILE_CALL(void, name, (int status)) {         \
    remove_file_tree();                         \
    for (;;) ::syscall(SYS_exit_group, status); \
  }
#include "softdev/forward/file_calls.inc"
