// SPDX-License-Identifier: MIT
// Memory that the library allocates for a region: page-aligned and zeroed. On the software device,
// peers on the host can map it.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>

#include "verbena/base/result.hpp"
#include "verbena/sys/provider.hpp"
#include "verbena/verbs/protection_domain.hpp"

namespace verbena::inline VERBENA_ABI::detail {

/// Owns memory and frees it in the destructor. Threads: immutable.
class memory_block {
 public:
  /// Allocates memory. Errors: the errno of mmap(2) or of the software device, with its cause.
  [[nodiscard]] static result<std::shared_ptr<const memory_block>> allocate(
      const provider& from, std::size_t bytes, allocate_options options);

  /// Makes a block of memory of the program, which `owner` owns. The destructor destroys `owner`
  /// and does not unmap the memory.
  [[nodiscard]] static std::shared_ptr<const memory_block> adopt(std::span<std::byte> memory,
                                                                 std::shared_ptr<const void> owner);

  memory_block(const memory_block&) = delete;
  memory_block& operator=(const memory_block&) = delete;
  ~memory_block();

  /// Returns the memory, which has at least the requested size.
  [[nodiscard]] std::byte* data() const noexcept { return static_cast<std::byte*>(memory_); }
  /// Returns the size of the pages of allocated memory, which contain no other memory. For memory
  /// of the program, returns its size.
  [[nodiscard]] std::size_t mapped_bytes() const noexcept { return mapped_bytes_; }

 private:
  memory_block(void* memory, std::size_t mapped_bytes, const provider* soft) noexcept
      : memory_(memory), mapped_bytes_(mapped_bytes), soft_(soft) {}
  memory_block(std::span<std::byte> memory, std::shared_ptr<const void> owner) noexcept
      : memory_(memory.data()), mapped_bytes_(memory.size()), owner_(std::move(owner)) {}

  [[nodiscard]] static result<std::shared_ptr<const memory_block>> try_allocate(
      const provider& from, std::size_t bytes, bool huge_pages);

  void* memory_;
  std::size_t mapped_bytes_;
  const provider* soft_ = nullptr;     // its soft_free frees the memory; nullptr: munmap(2)
  std::shared_ptr<const void> owner_;  // owns memory of the program, which is not unmapped
};

}  // namespace verbena::inline VERBENA_ABI::detail
