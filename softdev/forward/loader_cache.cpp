// SPDX-License-Identifier: MIT
// The format is glibc's: a header, fixed-size entries, a table of strings; offsets are relative to
// the header. A header of an older format may precede it.
#include "softdev/forward/loader_cache.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace verbena::forward {
namespace {

constexpr std::string_view magic = "glibc-ld.so.cache1.1";
constexpr std::size_t largest_file = std::size_t{64} << 20;

struct header {
  char magic[20];
  std::uint32_t count;
  std::uint32_t string_bytes;
  std::uint32_t unused[5];
};

struct entry {
  std::int32_t flags;
  std::uint32_t key;    ///< offset of the name
  std::uint32_t value;  ///< offset of the path
  std::uint32_t os_version;
  std::uint64_t hardware;
};

// Returns the bytes of a file, which the caller frees; nullptr if the file cannot be read.
char* read_file(const char* path, std::size_t& size) noexcept {
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return nullptr;
  struct stat about;
  char* bytes = nullptr;
  size = 0;
  if (fstat(fd, &about) == 0 && about.st_size > 0 &&
      static_cast<std::size_t>(about.st_size) <= largest_file) {
    const auto wanted = static_cast<std::size_t>(about.st_size);
    bytes = static_cast<char*>(std::malloc(wanted));
    while (bytes != nullptr && size < wanted) {
      const ssize_t got = read(fd, bytes + size, wanted - size);
      if (got <= 0) break;
      size += static_cast<std::size_t>(got);
    }
  }
  close(fd);
  return bytes;
}

// Returns the text at `offset`; empty if the text does not end inside the cache.
std::string_view text_at(std::string_view cache, std::uint32_t offset) noexcept {
  if (offset >= cache.size()) return {};
  const std::string_view rest(cache.data() + offset, cache.size() - offset);
  const auto end = rest.find('\0');
  return end == std::string_view::npos ? std::string_view() : std::string_view(rest.data(), end);
}

}  // namespace

void* visit_cache(std::string_view file, std::string_view soname,
                  void* (*visit)(const char* path)) noexcept {
  const auto start = file.find(magic);
  header head;
  if (start == std::string_view::npos || file.size() - start < sizeof head) return nullptr;
  const std::string_view cache(file.data() + start, file.size() - start);
  std::memcpy(&head, cache.data(), sizeof head);
  const std::size_t most = (cache.size() - sizeof head) / sizeof(entry);
  for (std::size_t i = 0; i < head.count && i < most; ++i) {
    entry one;
    std::memcpy(&one, cache.data() + sizeof head + i * sizeof one, sizeof one);
    const std::string_view path = text_at(cache, one.value);
    if (path.empty() || text_at(cache, one.key) != soname) continue;
    // text_at() has found the zero byte behind the path. dlopen(3) refuses a library of another
    // architecture.
    if (void* const found = visit(path.data())) return found;
  }
  return nullptr;
}

void* visit_loader_cache(std::string_view soname, void* (*visit)(const char* path)) noexcept {
  std::size_t size = 0;
  char* const bytes = read_file("/etc/ld.so.cache", size);
  if (bytes == nullptr) return nullptr;
  void* const found = visit_cache({bytes, size}, soname, visit);
  std::free(bytes);
  return found;
}

}  // namespace verbena::forward
