// SPDX-License-Identifier: MIT
// Memory that the library allocates for a region: page-aligned, zeroed, and on the software device
// such that peers on the host can map it.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>

#include "verbena/base/result.hpp"
#include "verbena/sys/provider.hpp"
#include "verbena/verbs/protection_domain.hpp"

namespace verbena::inline VERBENA_ABI::detail {

/// Owns memory; frees it in the destructor, after everything that keeps it. Threads: immutable.
class memory_block {
 public:
  /// Errors: the errno of mmap(2) or of the software device, with an explanation.
  [[nodiscard]] static result<std::shared_ptr<const memory_block>> allocate(
      const provider& from, std::size_t bytes, allocate_options options);

  /// A block of memory of the program, which `owner` keeps. Destroys `owner` instead of unmapping.
  [[nodiscard]] static std::shared_ptr<const memory_block> adopt(std::span<std::byte> memory,
                                                                 std::shared_ptr<const void> owner);

  memory_block(const memory_block&) = delete;
  memory_block& operator=(const memory_block&) = delete;
  ~memory_block();

  /// At least the bytes that were asked for.
  [[nodiscard]] std::byte* data() const noexcept { return static_cast<std::byte*>(memory_); }
  /// Bytes of the pages that it consists of; no other memory is on them.
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
  const provider* soft_ = nullptr;     // whose soft_free gives it back; nullptr: munmap(2)
  std::shared_ptr<const void> owner_;  // of memory of the program, which is not unmapped here
};

}  // namespace verbena::inline VERBENA_ABI::detail
