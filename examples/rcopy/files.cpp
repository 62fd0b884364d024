// SPDX-License-Identifier: MIT
#include "examples/rcopy/files.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <utility>
#include <vector>

#include "examples/rcopy/protocol.hpp"
#include "verbena/base/random.hpp"

namespace rcopy {
namespace {

using verbena::error;
using verbena::result;
using verbena::unique_fd;

constexpr mode_t new_file_mode = 0666;  // reduced by the umask

std::string remedy_of(int code) {
  switch (code) {
    case ENOENT:
      return "the file or directory does not exist: check the name";
    case ELOOP:
      return "it is a symbolic link, which rcopy does not follow: use the name of its target";
    case ENOTDIR:
      return "it is not a directory";
    case EISDIR:
      return "it is a directory: rename it, or copy under another name";
    case EACCES:
    case EPERM:
      return "the user lacks the permission: check owner and mode";
    case ENOSPC:
      return "the disk is full: free some space and try again";
    case EDQUOT:
      return "the disk quota is used up: free some space and try again";
    case EFBIG:
      return "the file exceeds the size limit of the process (ulimit -f) or of the file system";
    case EROFS:
      return "the file system is mounted read-only";
    case EMFILE:
      return "too many open files: raise the limit (ulimit -n)";
    default:
      return {};
  }
}

error file_error(int code, const char* call, const std::string& path) {
  return error::from_errno(code, call, path, remedy_of(code));
}

std::string new_temporary_name() {
  std::array<char, 40> name{};
  std::snprintf(name.data(), name.size(), "%s%016llx.part", temporary_prefix.data(),
                static_cast<unsigned long long>(verbena::random_u64()));
  return name.data();
}

struct close_listing {
  void operator()(DIR* listing) const noexcept { ::closedir(listing); }
};

/// Returns whether no process holds the lock. The kernel releases the lock when a process ends.
bool is_stale(int directory, const char* name) {
  const unique_fd file(::openat(directory, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  return file && ::flock(file.get(), LOCK_EX | LOCK_NB) == 0;
}

}  // namespace

result<directory> directory::open(const std::string& path) {
  unique_fd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return file_error(errno, "open", path);
  return directory(std::move(fd), path);
}

void directory::remove_stale_temporaries() const {
  unique_fd again(::openat(fd(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!again) return;
  const std::unique_ptr<DIR, close_listing> listing(::fdopendir(again.get()));
  if (!listing) return;
  static_cast<void>(again.release());  // closed by closedir()
  std::vector<std::string> stale;
  while (const dirent* entry = ::readdir(listing.get())) {
    const std::string_view name(entry->d_name);
    if (name.starts_with(temporary_prefix) && is_stale(fd(), entry->d_name))
      stale.emplace_back(name);
  }
  for (const auto& name : stale) ::unlinkat(fd(), name.c_str(), 0);
}

result<outgoing_file> outgoing_file::open(const std::string& path) {
  unique_fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return file_error(errno, "open", path);
  return from(std::move(fd), path);
}

result<outgoing_file> outgoing_file::open_in(const directory& where, const std::string& name) {
  unique_fd fd(::openat(where.fd(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return file_error(errno, "open", name);
  return from(std::move(fd), name);
}

result<outgoing_file> outgoing_file::from(unique_fd fd, std::string path) {
  struct stat status{};
  if (::fstat(fd.get(), &status) != 0) return file_error(errno, "fstat", path);
  if (!S_ISREG(status.st_mode))
    return error::invalid_argument(
        "open", path,
        S_ISDIR(status.st_mode) ? "it is a directory: copy its files individually"
                                : "it is not a regular file: rcopy copies only regular files");
  ::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_SEQUENTIAL);  // advice only
  return outgoing_file(std::move(fd), std::move(path), static_cast<std::uint64_t>(status.st_size));
}

result<void> outgoing_file::read(std::span<std::byte> into) {
  while (!into.empty()) {
    const auto count = ::read(fd_.get(), into.data(), into.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return file_error(errno, "read", path_);
    if (count == 0)
      return error::from_errno(
          EIO, "read", path_,
          "the file became shorter during the copy: copy it while no process changes it");
    into = into.subspan(static_cast<std::size_t>(count));
  }
  return {};
}

result<incoming_file> incoming_file::create(const directory& where, std::string name,
                                            std::uint64_t size) {
  incoming_file made(where, std::move(name));
  struct stat there{};
  if (::fstatat(where.fd(), made.name_.c_str(), &there, AT_SYMLINK_NOFOLLOW) == 0 &&
      S_ISDIR(there.st_mode))
    return made.failed(EISDIR, "create");  // rename(2) would fail only after the whole copy
  VERBENA_TRY_VOID(made.open_temporary());
  VERBENA_TRY_VOID(made.reserve(size));
  return made;
}

incoming_file::incoming_file(incoming_file&& other) noexcept
    : where_(other.where_),
      name_(std::move(other.name_)),
      fd_(std::move(other.fd_)),
      temporary_(std::exchange(other.temporary_, {})),
      written_(other.written_) {}

incoming_file::~incoming_file() {
  if (!temporary_.empty()) ::unlinkat(where_->fd(), temporary_.c_str(), 0);
}

error incoming_file::failed(int code, const char* call) const {
  return file_error(code, call, name_);
}

result<void> incoming_file::open_temporary() {
  fd_.reset(::openat(where_->fd(), ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, new_file_mode));
  if (!fd_ && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL)) {
    // The file system does not support O_TMPFILE. The temporary file has a name. The destructor or,
    // if the process is killed, remove_stale_temporaries() removes it.
    temporary_ = new_temporary_name();
    fd_.reset(::openat(where_->fd(), temporary_.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC,
                       new_file_mode));
    if (!fd_) temporary_.clear();
  }
  if (!fd_) return failed(errno, "create");
  if (::flock(fd_.get(), LOCK_EX | LOCK_NB) != 0) return failed(errno, "flock");
  return {};
}

result<void> incoming_file::reserve(std::uint64_t size) {
  if (size == 0) return {};
  int code = 0;
  do {
    code = ::fallocate(fd_.get(), 0, 0, static_cast<off_t>(size)) == 0 ? 0 : errno;
  } while (code == EINTR);
  // If the file system cannot reserve space, write() reports a full disk.
  if (code != 0 && code != EOPNOTSUPP && code != ENOSYS) return failed(code, "fallocate");
  return {};
}

result<void> incoming_file::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const auto count = ::write(fd_.get(), bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return failed(errno, "write");
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    written_ += static_cast<std::uint64_t>(count);
  }
  return {};
}

result<void> incoming_file::link_temporary() {
  if (!temporary_.empty()) return {};
  auto name = new_temporary_name();
  // open(2) describes the link by /proc. Without /proc, AT_EMPTY_PATH requires CAP_DAC_READ_SEARCH.
  const auto link = "/proc/self/fd/" + std::to_string(fd_.get());
  if (::linkat(AT_FDCWD, link.c_str(), where_->fd(), name.c_str(), AT_SYMLINK_FOLLOW) != 0 &&
      ::linkat(fd_.get(), "", where_->fd(), name.c_str(), AT_EMPTY_PATH) != 0)
    return failed(errno, "linkat");
  temporary_ = std::move(name);
  return {};
}

result<void> incoming_file::store() {
  if (::fsync(fd_.get()) != 0) return failed(errno, "fsync");
  VERBENA_TRY_VOID(link_temporary());
  if (::renameat(where_->fd(), temporary_.c_str(), where_->fd(), name_.c_str()) != 0)
    return failed(errno, "rename");
  temporary_.clear();
  if (::fsync(where_->fd()) != 0) return failed(errno, "fsync");
  return {};
}

}  // namespace rcopy
