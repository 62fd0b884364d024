// SPDX-License-Identifier: MIT
#include "src/verbs/memory_block.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <limits>

#include "src/verbs/diagnosis.hpp"
#include "src/verbs/text.hpp"
#include "verbena/base/log.hpp"

namespace verbena::inline VERBENA_ABI::detail {
namespace {

// Returns the size of the kernel's default huge page; 2 MiB if it is unknown.
std::size_t huge_page_bytes() {
  std::size_t kib = 2048;
  if (std::FILE* file = std::fopen("/proc/meminfo", "re")) {
    char line[128];
    while (std::fgets(line, sizeof line, file) != nullptr)
      if (std::sscanf(line, "Hugepagesize: %zu kB", &kib) == 1) break;
    std::fclose(file);
  }
  return kib * 1024;
}

std::size_t page_bytes(bool huge_pages) {
  return huge_pages ? huge_page_bytes() : static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

std::size_t round_up(std::size_t bytes, std::size_t page) {
  return (bytes + page - 1) / page * page;
}

// The software device uses huge pages of this size, also if the kernel's default differs.
constexpr std::size_t soft_huge_page_bytes = std::size_t{2} << 20U;

struct mapping {
  void* memory = nullptr;
  std::size_t bytes = 0;
  int code = 0;
};

mapping map_anonymous(std::size_t bytes, bool huge_pages) {
  const std::size_t page = page_bytes(huge_pages);
  if (bytes > std::numeric_limits<std::size_t>::max() - page) return {nullptr, 0, ENOMEM};
  const std::size_t rounded = round_up(bytes, page);
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | (huge_pages ? MAP_HUGETLB : 0);
  void* memory = ::mmap(nullptr, rounded, PROT_READ | PROT_WRITE, flags, -1, 0);
  if (memory == MAP_FAILED) return {nullptr, 0, errno};
  return {memory, rounded, 0};
}

}  // namespace

result<std::shared_ptr<const memory_block>> memory_block::try_allocate(const provider& from,
                                                                       std::size_t bytes,
                                                                       bool huge_pages) {
  const bool soft = from.soft_allocate != nullptr && from.soft_free != nullptr;
  mapping made;
  if (soft) {
    errno = 0;
    made.memory = from.soft_allocate(bytes, huge_pages ? 1 : 0);
    made.code = errno;
    made.bytes = round_up(bytes, huge_pages ? soft_huge_page_bytes : page_bytes(false));
  } else {
    made = map_anonymous(bytes, huge_pages);
  }
  if (made.memory == nullptr)
    return error::from_errno(made.code, soft ? "verbena_soft_allocate" : "mmap", byte_text(bytes),
                             explain_allocation(made.code, bytes, huge_pages));
  return std::shared_ptr<const memory_block>(
      new memory_block(made.memory, made.bytes, soft ? &from : nullptr));
}

result<std::shared_ptr<const memory_block>> memory_block::allocate(const provider& from,
                                                                   std::size_t bytes,
                                                                   allocate_options options) {
  if (options.huge_pages == huge_pages::no) return try_allocate(from, bytes, false);
  auto huge = try_allocate(from, bytes, true);
  if (huge || options.huge_pages == huge_pages::required) return huge;
  return try_allocate(from, bytes, false);
}

std::shared_ptr<const memory_block> memory_block::adopt(std::span<std::byte> memory,
                                                        std::shared_ptr<const void> owner) {
  return std::shared_ptr<const memory_block>(new memory_block(memory, std::move(owner)));
}

memory_block::~memory_block() {
  if (owner_ != nullptr) return;
  int code = 0;
  if (soft_ != nullptr) {
    code = soft_->soft_free(memory_);
  } else if (::munmap(memory_, mapped_bytes_) != 0) {
    code = errno;
  }
  if (code != 0)
    log(log_level::error,
        error::from_errno(code, soft_ != nullptr ? "verbena_soft_free" : "munmap",
                          fmt::format("{:#x}", reinterpret_cast<std::uintptr_t>(memory_)),
                          "the memory of a region is kept until the process ends")
            .message());
}

}  // namespace verbena::inline VERBENA_ABI::detail
