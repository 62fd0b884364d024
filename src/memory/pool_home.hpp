// SPDX-License-Identifier: MIT
// The state that the handles and buffers of one pool share. The last of them destroys it.
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
  std::size_t bytes;   ///< size of one buffer
  std::size_t stride;  ///< from one buffer to the next
  std::size_t offset;  ///< offset of the first buffer in the region
  std::uint32_t count;
};

/// The layout of the memory of a pool: the classes, smallest first, and their total size.
struct pool_layout {
  std::vector<pool_class> classes;
  std::size_t bytes = 0;
};

/// Lays out the classes `wanted`. Errors: `invalid_argument`.
[[nodiscard]] result<pool_layout> lay_out(const std::vector<size_class>& wanted);

/// The shared state of a pool, with a count of its users: a pool handle adds `one_handle`, a buffer
/// adds `one_buffer`.
struct pool_home : buffer_home {
  static constexpr std::uint64_t one_buffer = 1;
  static constexpr std::uint64_t one_handle = std::uint64_t{1} << 36U;

  /// Makes the home of buffers that are parts of `of`. One pool handle holds it.
  pool_home(memory_region of, pool_layout cut);
  /// Makes the home of one buffer that is all of `of`. The buffer holds it. `owner` owns memory of
  /// the program; it is empty for memory of the library.
  pool_home(memory_region of, memory_owner owner);
  /// Makes the home of `views` buffers with the memory of another buffer, which `owner` owns.
  pool_home(const buffer_home& of, memory_owner owner, std::uint32_t views);

  pool_home(const pool_home&) = delete;
  pool_home& operator=(const pool_home&) = delete;
  /// Deregisters the region, then destroys `owner`. If deregistration fails, leaks `owner`.
  ~pool_home();

  void hold(std::uint64_t count) noexcept { holders.fetch_add(count, std::memory_order_relaxed); }
  /// Destroys the home if it has no other user.
  void let_go(std::uint64_t count) noexcept;

  std::optional<memory_region> region;  ///< nullopt for views
  memory_owner owner;                   ///< of memory of the program, or of views; otherwise empty
  pool_layout layout;
  std::vector<std::unique_ptr<free_list>> free;  ///< free buffers of the class with the same index
  alignas(64) std::atomic<std::uint64_t> holders;
};

}  // namespace verbena::inline VERBENA_ABI::detail
