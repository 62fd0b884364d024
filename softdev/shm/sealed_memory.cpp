// SPDX-License-Identifier: MIT
#include "softdev/shm/sealed_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>

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

result<void> set_size(int fd, std::size_t bytes, const char* name) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
      bytes > limit.rlim_cur)
    return error::from_errno(EFBIG, "ftruncate", name,
                             "shared memory of " + std::to_string(bytes) +
                                 " bytes exceeds RLIMIT_FSIZE (" + std::to_string(limit.rlim_cur) +
                                 " bytes); raise it with \"ulimit -f unlimited\"");
  if (::ftruncate(fd, static_cast<off_t>(bytes)) != 0)
    return error::from_errno(errno, "ftruncate", name);
  return {};
}

result<sealed_memory> create_sealed(const char* name, std::size_t bytes, sealed_for writers) {
  unique_fd fd(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return error::from_errno(errno, "memfd_create", name);
  VERBENA_TRY_VOID(set_size(fd.get(), bytes, name));
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

}  // namespace verbena::softdev
