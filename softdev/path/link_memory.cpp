// SPDX-License-Identifier: MIT
#include "softdev/path/link_memory.hpp"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <string_view>

namespace verbena::softdev {

namespace {
int seals_for(sealed_for writers) noexcept {
  constexpr int size_seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
#ifndef F_SEAL_FUTURE_WRITE
  constexpr int F_SEAL_FUTURE_WRITE = 0x0010;  // Linux 5.1, missing in older C libraries
#endif
  return writers == sealed_for::owner_only ? size_seals | F_SEAL_FUTURE_WRITE : size_seals;
}
}  // namespace

mapping& mapping::operator=(mapping&& other) noexcept {
  if (this != &other) {
    reset();
    base_ = std::exchange(other.base_, nullptr);
    size_ = std::exchange(other.size_, 0);
  }
  return *this;
}

void mapping::reset() noexcept {
  if (base_ != nullptr) ::munmap(base_, size_);
  base_ = nullptr;
  size_ = 0;
}

result<mapping> map_shared(int fd, std::size_t bytes, map_access access) {
  const int protection = access == map_access::read_write ? PROT_READ | PROT_WRITE : PROT_READ;
  void* base = ::mmap(nullptr, bytes, protection, MAP_SHARED, fd, 0);
  if (base == MAP_FAILED) return error::from_errno(errno, "mmap", "shared segment");
  mapping map(base, bytes);
  if (::madvise(base, bytes, MADV_DONTFORK) != 0) {
    return error::from_errno(errno, "madvise", "shared segment");
  }
  return map;
}

result<sealed_memory> create_sealed(const char* name, std::size_t bytes, sealed_for writers) {
  unique_fd fd(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return error::from_errno(errno, "memfd_create", name);
  if (::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) {
    return error::from_errno(errno, "ftruncate", name);
  }
  VERBENA_TRY(mapping map, map_shared(fd.get(), bytes, map_access::read_write));
  if (::fcntl(fd.get(), F_ADD_SEALS, seals_for(writers)) != 0) {
    return error::from_errno(errno, "fcntl(F_ADD_SEALS)", name,
                             "shared segments need Linux 5.1 or newer");
  }
  return sealed_memory{std::move(fd), std::move(map)};
}

bool is_sealed_memory(int fd, std::size_t bytes, sealed_for writers) noexcept {
  const int wanted = seals_for(writers);
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & wanted) != wanted) return false;
  struct stat info{};
  return ::fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_size >= 0 &&
         static_cast<std::size_t>(info.st_size) == bytes;
}

bool is_eventfd(int fd) noexcept {
  std::array<char, 48> path{};
  std::array<char, 32> target{};
  std::snprintf(path.data(), path.size(), "/proc/self/fd/%d", fd);
  const ssize_t length = ::readlink(path.data(), target.data(), target.size());
  if (length >= 0) {
    const std::string_view name(target.data(), static_cast<std::size_t>(length));
    if (name != "anon_inode:[eventfd]") return false;
  } else {
    // Without /proc: at least an anonymous inode, which is neither a file, a socket nor a device.
    struct stat info{};
    if (::fstat(fd, &info) != 0 || (info.st_mode & S_IFMT) != 0) return false;
  }
  const int flags = ::fcntl(fd, F_GETFL);
  return flags >= 0 && (flags & O_NONBLOCK) != 0;
}

result<unique_fd> create_eventfd() {
  unique_fd fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!fd) return error::from_errno(errno, "eventfd");
  return fd;
}

void signal_eventfd(int fd) noexcept {
  const std::uint64_t one = 1;
  // EAGAIN means that the count is at its maximum: the sleeper is awake in any case.
  while (::write(fd, &one, sizeof one) < 0 && errno == EINTR) {
  }
}

void drain_eventfd(int fd) noexcept {
  std::uint64_t count = 0;
  while (::read(fd, &count, sizeof count) < 0 && errno == EINTR) {
  }
}

}  // namespace verbena::softdev
