// SPDX-License-Identifier: MIT
// What the handles and the buffers of one pool share. Lives until the last of them is gone.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "src/memory/free_list.hpp"
#include "verbena/memory/buffer.hpp"
#include "verbena/memory/buffer_pool.hpp"
#include "verbena/verbs/memory_region.hpp"

namespace verbena::inline VERBENA_ABI::detail {

/// One size of a pool.
struct pool_class {
  std::size_t bytes;   ///< of a buffer
  std::size_t stride;  ///< from one buffer to the next
  std::size_t offset;  ///< of the first one in the region
  std::uint32_t count;
};

/// How memory is cut: the classes, smallest first, and the bytes that they need in all.
struct pool_layout {
  std::vector<pool_class> classes;
  std::size_t bytes = 0;
};

/// Cuts memory into `wanted`. Errors: `invalid_argument`, in words.
[[nodiscard]] result<pool_layout> lay_out(const std::vector<size_class>& wanted);

/// Counts who holds it: a handle counts `one_handle`, a buffer `one_buffer`.
struct pool_home : buffer_home {
  static constexpr std::uint64_t one_buffer = 1;
  static constexpr std::uint64_t one_handle = std::uint64_t{1} << 36U;

  /// Whose buffers are cut from `of`. Held by one handle.
  pool_home(memory_region of, pool_layout cut);
  /// Whose one buffer is all of `of`. Held by that buffer.
  explicit pool_home(memory_region of);

  pool_home(const pool_home&) = delete;
  pool_home& operator=(const pool_home&) = delete;
  ~pool_home() = default;

  void hold(std::uint64_t count) noexcept { holders.fetch_add(count, std::memory_order_relaxed); }
  /// Destroys the home if nobody else holds it.
  void let_go(std::uint64_t count) noexcept;

  memory_region region;
  pool_layout layout;
  std::vector<std::unique_ptr<free_list>> free;  ///< of the class with the same index
  alignas(64) std::atomic<std::uint64_t> holders;
};

}  // namespace verbena::inline VERBENA_ABI::detail
