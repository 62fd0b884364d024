// SPDX-License-Identifier: MIT
// Layout: DIRECTORY/sys/class/infiniband/soft0 and so on, so that the relative links of the kernel
// are valid. A file is replaced by rename(2): readers see the old or the new content. The process
// holds a lock of the directory. Processes that were killed or replaced by execve(2) leave
// directories without a lock, which the next process removes.
#include "softdev/forward/file_tree.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <tuple>

#include "softdev/forward/engine.hpp"
#include "softdev/forward/message.hpp"

namespace verbena::forward {
namespace {

constexpr std::string_view prefix = "verbena-files-";
constexpr int lowest_descriptor = 256;  // leaves the low numbers to the program
constexpr int most_attempts = 16;

// The private directory. Guarded by `mutex`, except in remove_file_tree().
struct tree {
  std::array<char, 256> path = {};  ///< empty: no directory
  int directory = -1;               ///< holds the lock
  dev_t device = 0;                 ///< these two identify the directory
  ino_t inode = 0;
  pid_t owner = 0;

  // Returns whether the descriptor is still that of the directory. Programs that become daemons
  // close all descriptors, and may use the number for another file.
  [[nodiscard]] bool holds() const noexcept {
    struct stat about = {};
    return directory >= 0 && ::fstat(directory, &about) == 0 && about.st_dev == device &&
           about.st_ino == inode;
  }
};

constinit tree own;
pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
constinit pid_t process = 0;  ///< differs from getpid() in a child of vfork
[[gnu::tls_model("initial-exec")]] constinit thread_local bool busy = false;

using listing_buffer = std::array<char, 4096>;

// Calls `visit(name)` for each entry of a directory except `.` and `..`. Async-signal-safe.
template <class Visit>
void for_each_entry(int directory, const Visit& visit) noexcept {
  struct entry {  // linux_dirent64
    std::uint64_t inode;
    std::int64_t offset;
    unsigned short size;
    unsigned char type;
    char name[1];
  };
  alignas(std::uint64_t) listing_buffer buffer;
  while (true) {
    const long count = ::syscall(SYS_getdents64, directory, buffer.data(), buffer.size());
    if (count <= 0) return;
    for (long at = 0; at < count;) {
      const auto* const each =
          reinterpret_cast<const entry*>(&buffer[static_cast<std::size_t>(at)]);
      const char* const name = &buffer[static_cast<std::size_t>(at) + offsetof(entry, name)];
      at += each->size;
      if (std::strcmp(name, ".") != 0 && std::strcmp(name, "..") != 0) visit(name);
    }
  }
}

int open_directory(int above, const char* path) noexcept {
  return static_cast<int>(::syscall(SYS_openat, above, path,
                                    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
}

// Removes the content of a directory, down to `depth` levels below it, in one pass.
// Async-signal-safe.
void empty_directory(int directory, int depth) noexcept {
  for_each_entry(directory, [&](const char* name) {
    if (::unlinkat(directory, name, 0) == 0 || depth == 0) return;
    const int below = open_directory(directory, name);
    if (below < 0) return;
    empty_directory(below, depth - 1);
    ::close(below);
    ::unlinkat(directory, name, AT_REMOVEDIR);
  });
}

constexpr int deepest = 12;

// Removes the directory at `path`. A listing can skip entries while others are removed, so this is
// repeated.
void remove_directory(const char* path, int directory) noexcept {
  struct stat about = {};
  if (::fstat(directory, &about) != 0 || about.st_uid != ::geteuid()) return;
  for (int i = 0; i < most_attempts; ++i) {
    ::lseek(directory, 0, SEEK_SET);
    empty_directory(directory, deepest);
    if (::unlinkat(AT_FDCWD, path, AT_REMOVEDIR) == 0 || errno == ENOENT) return;
  }
}

const char* temporary_folder() noexcept {
  const char* const named = secure_getenv("TMPDIR");
  return named != nullptr && named[0] == '/' && std::strlen(named) < 128 ? named : "/tmp";
}

// Removes directories that no process holds.
void remove_abandoned(const char* folder) noexcept {
  const int all = open_directory(AT_FDCWD, folder);
  if (all < 0) return;
  for_each_entry(all, [&](const char* name) {
    if (!std::string_view(name).starts_with(prefix)) return;
    const int abandoned = open_directory(all, name);
    if (abandoned < 0) return;
    struct stat about = {};
    std::array<char, 512> path;
    const int length = std::snprintf(path.data(), path.size(), "%s/%s", folder, name);
    if (length > 0 && static_cast<std::size_t>(length) < path.size() &&
        ::fstat(abandoned, &about) == 0 && about.st_uid == ::geteuid() &&
        ::flock(abandoned, LOCK_EX | LOCK_NB) == 0)
      remove_directory(path.data(), abandoned);
    ::close(abandoned);
  });
  ::close(all);
}

// Locks the directory of `made`. Fails if another process has removed it.
bool lock_directory(tree& made) noexcept {
  const int opened = open_directory(AT_FDCWD, made.path.data());
  if (opened < 0) return false;
  made.directory = ::fcntl(opened, F_DUPFD_CLOEXEC, lowest_descriptor);
  if (made.directory < 0) made.directory = ::fcntl(opened, F_DUPFD_CLOEXEC, 3);
  ::close(opened);
  struct stat held = {};
  struct stat named = {};
  if (made.directory >= 0 && ::flock(made.directory, LOCK_EX | LOCK_NB) == 0 &&
      ::fstat(made.directory, &held) == 0 && ::lstat(made.path.data(), &named) == 0 &&
      held.st_ino == named.st_ino && ::fchmod(made.directory, 0755) == 0) {
    made.device = held.st_dev;
    made.inode = held.st_ino;
    return true;
  }
  if (made.directory >= 0) ::close(made.directory);
  return false;
}

bool make_tree() noexcept {
  if (own.path[0] != '\0' && own.holds()) return true;
  const char* const folder = temporary_folder();
  remove_abandoned(folder);
  for (int i = 0; i < most_attempts; ++i) {
    tree made;
    std::snprintf(made.path.data(), made.path.size(), "%s/%.*sXXXXXX", folder,
                  static_cast<int>(prefix.size()), prefix.data());
    if (::mkdtemp(made.path.data()) == nullptr) break;
    if (!lock_directory(made)) continue;
    made.owner = ::getpid();
    own = made;
    return true;
  }
  warn_once(warning::no_files,
            "the files of soft0 in /sys/class/infiniband are not shown, because no directory "
            "can be made in TMPDIR or /tmp: ",
            strerrorname_np(errno));
  return false;
}

using tree_path = decltype(file_place::path);

// Sets `out` to the path of a file in the private directory.
void locate(const char* path, tree_path& out) noexcept {
  std::snprintf(out.data(), out.size(), "%s%s", own.path.data(), path);
}

void make_directory(const char* path) noexcept {
  if (::mkdir(path, 0755) == 0) ::chmod(path, 0755);  // independent of the umask
}

void make_directories_above(tree_path& path) noexcept {
  for (char* slash = path.data() + std::strlen(own.path.data());
       (slash = std::strchr(slash + 1, '/')) != nullptr;) {
    *slash = '\0';
    make_directory(path.data());
    *slash = '/';
  }
}

bool has_text(const char* path, const file_text& text) noexcept {
  const auto file =
      static_cast<int>(::syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  if (file < 0) return false;
  std::array<char, std::tuple_size_v<decltype(file_text::bytes)> + 1> present;
  const ssize_t count = ::read(file, present.data(), present.size());
  ::close(file);
  return count == static_cast<ssize_t>(text.length) &&
         std::memcmp(present.data(), text.bytes.data(), text.length) == 0;
}

void write_attribute(const char* path, const file_text& text) noexcept {
  if (has_text(path, text)) return;
  tree_path fresh;
  locate("/.new", fresh);
  const auto file = static_cast<int>(::syscall(SYS_openat, AT_FDCWD, fresh.data(),
                                               O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0444));
  if (file < 0) return;
  const bool written =
      ::write(file, text.bytes.data(), text.length) == static_cast<ssize_t>(text.length) &&
      ::fchmod(file, 0444) == 0;
  ::close(file);
  if (written) ::rename(fresh.data(), path);
}

bool exists(const char* path) noexcept {
  struct stat about = {};
  return ::syscall(SYS_newfstatat, AT_FDCWD, path, &about, AT_SYMLINK_NOFOLLOW) == 0;
}

// Lists the kernel's adapters in a directory that they share with soft0.
void link_others(const char* shared, const char* path) noexcept {
  if (wanted_listing() == listing::only) return;
  const int real = open_directory(AT_FDCWD, shared);
  if (real < 0) return;
  for_each_entry(real, [&](const char* name) {
    tree_path from;
    tree_path to;
    const int one = std::snprintf(from.data(), from.size(), "%s/%s", shared, name);
    const int other = std::snprintf(to.data(), to.size(), "%s/%s", path, name);
    const auto fits = [](int length) {
      return length > 0 && static_cast<std::size_t>(length) < tree_path().size();
    };
    if (fits(one) && fits(other)) static_cast<void>(::symlink(from.data(), to.data()));
  });
  ::close(real);
}

// Makes one file in an existing directory. Returns whether the file exists, and whether it can be
// read.
file_text::state make_file(const device_view& from, const kernel_file& file) noexcept {
  tree_path path;
  locate(file.path.data(), path);
  file_text text;
  std::array<char, kernel_file::longest> target;
  auto result = file_text::state::readable;
  switch (file.kind()) {
    case file_kind::shared:
    case file_kind::directory:
      make_directory(path.data());
      break;
    case file_kind::common:
      if (exists(file.path.data())) break;  // link_others() has linked the kernel's
      [[fallthrough]];
    case file_kind::attribute:
      result = file.read(from, text);
      if (result == file_text::state::refused) text.length = 0;
      if (result != file_text::state::missing) write_attribute(path.data(), text);
      break;
    case file_kind::link:
    case file_kind::node:
      file.target(target);
      static_cast<void>(::symlink(target.data(), path.data()));
      break;
  }
  return result;
}

void make_all_files(const device_view& from) noexcept {
  struct job {
    const device_view& from;
  } all{from};
  for_each_kernel_file(
      from,
      [](void* data, const kernel_file& file) {
        tree_path path;
        locate(file.path.data(), path);
        if (file.is_directory()) make_directories_above(path);
        make_file(static_cast<job*>(data)->from, file);
        if (file.kind() == file_kind::shared) link_others(file.path.data(), path.data());
      },
      &all);
}

bool is_the_kernels(const kernel_file& wanted, file_use use) noexcept {
  const bool both = wanted.kind() == file_kind::common ||
                    (wanted.kind() == file_kind::shared && use == file_use::look);
  return both && exists(wanted.path.data());
}

void place_in_tree(const kernel_file& wanted, file_use use, file_place& place) noexcept {
  const device_view soft;
  if (!soft || !make_tree()) return;
  if (use == file_use::open && wanted.is_directory()) make_all_files(soft);
  tree_path path;
  locate(wanted.path.data(), path);
  make_directories_above(path);
  const auto result = make_file(soft, wanted);
  if (result == file_text::state::missing) return;
  place.found = file_place::state::here;
  if (use == file_use::open && result == file_text::state::refused)
    place.found = file_place::state::refused;
  if (wanted.kind() == file_kind::node) {
    // The device node itself, not the link to it.
    std::array<char, kernel_file::longest> target;
    wanted.target(target);
    std::snprintf(place.path.data(), place.path.size(), "%s", target.data());
    return;
  }
  place.path = path;
}

// A signal handler may fork while its thread has the mutex.
void before_fork() noexcept {
  if (!busy) pthread_mutex_lock(&mutex);
}
void after_fork_in_parent() noexcept {
  if (!busy) pthread_mutex_unlock(&mutex);
}
void after_fork_in_child() noexcept {
  if (own.holds()) ::close(own.directory);
  own = {};
  process = ::getpid();
  if (!busy) pthread_mutex_unlock(&mutex);
}

__attribute__((constructor)) void prepare() noexcept {
  process = ::getpid();
  pthread_atfork(&before_fork, &after_fork_in_parent, &after_fork_in_child);
}

__attribute__((destructor)) void finish() noexcept { remove_file_tree(); }

}  // namespace

file_search::file_search() noexcept : searches_(!busy && process == ::getpid()) {
  if (!searches_) return;
  busy = true;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancellation_);
}

file_search::~file_search() {
  if (!searches_) return;
  pthread_setcancelstate(cancellation_, nullptr);
  busy = false;
}

void place_file(const kernel_file& wanted, file_use use, file_place& place) noexcept {
  place.found = file_place::state::elsewhere;
  place.kind = wanted.kind();
  if (is_the_kernels(wanted, use)) return;
  pthread_mutex_lock(&mutex);
  place_in_tree(wanted, use, place);
  pthread_mutex_unlock(&mutex);
}

void remove_file_tree() noexcept {
  if (own.path[0] == '\0' || own.owner != ::getpid()) return;
  const int saved = errno;
  if (own.holds()) {
    remove_directory(own.path.data(), own.directory);
    ::close(own.directory);
  }
  own = {};
  errno = saved;
}

}  // namespace verbena::forward
