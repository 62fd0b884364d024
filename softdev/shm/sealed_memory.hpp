// SPDX-License-Identifier: MIT
// Sealed memfds and their mappings: creating, validating received memfds, unmapping.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "verbena/base/fd.hpp"
#include "verbena/base/result.hpp"

namespace verbena::softdev {

/// Owns a mapping and unmaps it. Threads: one thread at a time (the bytes may be shared).
class mapping {
 public:
  mapping() noexcept = default;
  mapping(void* base, std::size_t bytes) noexcept
      : base_(static_cast<std::byte*>(base)), size_(bytes) {}
  mapping(mapping&& other) noexcept
      : base_(std::exchange(other.base_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  mapping& operator=(mapping&& other) noexcept;
  ~mapping() { reset(); }

  void reset() noexcept;
  [[nodiscard]] std::byte* data() const noexcept { return base_; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  /// Returns the object at `offset`. mmap zeroes the bytes, and T consists of atomics or bytes.
  template <class T>
  [[nodiscard]] T* at(std::size_t offset) const noexcept {
    return reinterpret_cast<T*>(base_ + offset);
  }

 private:
  std::byte* base_ = nullptr;
  std::size_t size_ = 0;
};

/// A memfd with its writable mapping.
struct sealed_memory {
  unique_fd fd;
  mapping map;
};

/// The processes that may write a sealed memfd. Its creator can, by the mapping made before
/// sealing.
enum class sealed_for : std::uint8_t {
  owner_only,  ///< F_SEAL_FUTURE_WRITE: other processes map it read-only
  everybody,
};

/// Sets the size of a new memfd. If the size exceeds RLIMIT_FSIZE, returns an error with the limit;
/// ftruncate(2) would raise SIGXFSZ.
[[nodiscard]] result<void> set_size(int fd, std::size_t bytes, const char* name);

/// Creates a memfd of `bytes`, maps it shared and seals its size and its seals. Children of fork do
/// not inherit the mapping. `name` is only visible in /proc.
[[nodiscard]] result<sealed_memory> create_sealed(const char* name, std::size_t bytes,
                                                  sealed_for writers);

/// Returns whether `fd` is a memfd of exactly `bytes` whose size is sealed and, for owner_only,
/// which cannot be mapped writable.
[[nodiscard]] bool is_sealed_memory(int fd, std::size_t bytes, sealed_for writers) noexcept;

enum class map_access : std::uint8_t { read_only, read_write };
/// Maps `bytes` of a descriptor shared. Children of fork do not inherit the mapping.
[[nodiscard]] result<mapping> map_shared(int fd, std::size_t bytes, map_access access);

}  // namespace verbena::softdev
