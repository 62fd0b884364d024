// SPDX-License-Identifier: MIT
// Memory of a test, whose pages the test remaps or discards.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <span>

namespace verbena::test {

inline constexpr std::size_t page = 4096;

/// Returns whether userfaultfd(2) is available to this process.
inline bool userfaultfd_is_available() {
  static const bool available = [] {
    constexpr int user_mode_only = 1;
    const auto fd = static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC | user_mode_only));
    if (fd >= 0) close(fd);
    return fd >= 0;
  }();
  return available;
}

/// Pages of the program.
class pages {
 public:
  explicit pages(std::size_t count, int kind = MAP_PRIVATE | MAP_ANONYMOUS, int fd = -1)
      : bytes_(count * page),
        at_(static_cast<std::byte*>(mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, kind, fd, 0))) {
    EXPECT_NE(at_, MAP_FAILED);
  }
  pages(const pages&) = delete;
  pages& operator=(const pages&) = delete;
  ~pages() {
    if (at_ != nullptr) munmap(at_, bytes_);
  }
  [[nodiscard]] std::span<std::byte> all() const { return {at_, bytes_}; }
  [[nodiscard]] std::byte* at(std::size_t index) const { return at_ + index * page; }
  /// Replaces a page in one step, so that no other thread gets the addresses.
  void replace(std::size_t index) const {
    ASSERT_EQ(mmap(at(index), page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
                   -1, 0),
              at(index));
    at(index)[0] = std::byte{1};
  }
  /// Unmaps a page and reserves its addresses.
  void withdraw(std::size_t index) const {
    ASSERT_EQ(mmap(at(index), page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
              at(index));
  }
  /// Moves all pages to `to`; no other function can be called afterwards. Other threads can map
  /// memory at the former addresses, so the destructor does not unmap them.
  void move_to(std::byte* to) {
    ASSERT_EQ(mremap(at_, bytes_, bytes_, MREMAP_MAYMOVE | MREMAP_FIXED, to), to);
    at_ = nullptr;
  }
  void discard(std::size_t index) const { ASSERT_EQ(madvise(at(index), page, MADV_DONTNEED), 0); }

 private:
  std::size_t bytes_;
  std::byte* at_;
};

}  // namespace verbena::test
