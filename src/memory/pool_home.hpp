// SPDX-License-Identifier: MIT
// The state that the handles and buffers of one pool share. Is destroyed with the last of them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "src/memory/free_list.hpp"
#include "verbena/memory/buffer.hpp"
#include "verbena/memory/buffer_pool.hpp"
#include "verbena/memory/memory_owner.hpp"
#include "verbena/verbs/memory_region.hpp"

namespace verbena::inline VERBENA_ABI::detail {

/// One size class of a pool.
struct pool_class {
  std::size_t bytes;   ///< of one buffer
  std::size_t stride;  ///< from one buffer to the next
  std::size_t offset;  ///< of the first one in the region
  std::uint32_t count;
};

/// The layout of the memory of a pool: the classes, smallest first, and their total size.
struct pool_layout {
  std::vector<pool_class> classes;
  std::size_t bytes = 0;
};

/// Lays out the classes `wanted`. Errors: `invalid_argument`.
[[nodiscard]] result<pool_layout> lay_out(const std::vector<size_class>& wanted);

/// Counts its users: a pool handle counts `one_handle`, a buffer `one_buffer`.
struct pool_home : buffer_home {
  static constexpr std::uint64_t one_buffer = 1;
  static constexpr std::uint64_t one_handle = std::uint64_t{1} << 36U;

  /// The home of buffers that are parts of `of`. Held by one pool handle.
  pool_home(memory_region of, pool_layout cut);
  /// The home of one buffer that is all of `of`. Held by that buffer. `owner` keeps memory of the
  /// program; empty for memory of the library.
  pool_home(memory_region of, memory_owner owner);
  /// The home of `views` buffers with the memory of another buffer, which `owner` keeps.
  pool_home(const buffer_home& of, memory_owner owner, std::uint32_t views);

  pool_home(const pool_home&) = delete;
  pool_home& operator=(const pool_home&) = delete;
  /// Deregisters, then destroys the owner of memory of the program; leaks it if deregistration is
  /// refused.
  ~pool_home();

  void hold(std::uint64_t count) noexcept { holders.fetch_add(count, std::memory_order_relaxed); }
  /// Destroys the home if it has no other user.
  void let_go(std::uint64_t count) noexcept;

  std::optional<memory_region> region;  ///< nullopt for views
  memory_owner owner;                   ///< of memory of the program, or of views; otherwise empty
  pool_layout layout;
  std::vector<std::unique_ptr<free_list>> free;  ///< of the class with the same index
  alignas(64) std::atomic<std::uint64_t> holders;
};

}  // namespace verbena::inline VERBENA_ABI::detail
