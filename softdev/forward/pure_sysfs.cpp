// SPDX-License-Identifier: MIT
// Functions that read attributes below /sys, for tools from before rdma-core made them private.
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdio>

extern "C" {

const char* ibv_get_sysfs_path(void);
int ibv_read_sysfs_file(const char* directory, const char* file, char* buffer, std::size_t size);

__attribute__((visibility("default"))) const char* ibv_get_sysfs_path() { return "/sys"; }

// Reads a file as a text without a newline at its end. Returns the length, or -1 if the text does
// not fit or cannot be read.
__attribute__((visibility("default"))) int ibv_read_sysfs_file(const char* directory,
                                                               const char* file, char* buffer,
                                                               std::size_t size) {
  std::array<char, 4096> path;
  const int length = std::snprintf(path.data(), path.size(), "%s/%s", directory, file);
  if (length < 0 || static_cast<std::size_t>(length) >= path.size()) {
    errno = ENAMETOOLONG;
    return -1;
  }
  const int fd = open(path.data(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  ssize_t count = read(fd, buffer, size);
  const int failed = errno;
  close(fd);
  errno = failed;
  if (count <= 0) return -1;
  if (buffer[count - 1] == '\n')
    buffer[--count] = '\0';
  else if (static_cast<std::size_t>(count) < size)
    buffer[count] = '\0';
  else
    return -1;  // there may be more
  return static_cast<int>(count);
}

}  // extern "C"
