// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <memory>

namespace verbena::test {

/// Counts the blocks that exist.
template <class T>
struct counting_allocator {
  using value_type = T;
  struct counters {
    int made = 0;
    int live = 0;
  };
  explicit counting_allocator(counters& of) noexcept : count(&of) {}
  template <class Other>
  // NOLINTNEXTLINE(google-explicit-constructor): allocators convert implicitly
  counting_allocator(const counting_allocator<Other>& other) noexcept
      : count(reinterpret_cast<counters*>(other.count)) {}
  [[nodiscard]] T* allocate(std::size_t many) {
    ++count->made;
    ++count->live;
    return std::allocator<T>().allocate(many);
  }
  void deallocate(T* memory, std::size_t many) noexcept {
    --count->live;
    std::allocator<T>().deallocate(memory, many);
  }
  template <class Other>
  bool operator==(const counting_allocator<Other>& other) const noexcept {
    return static_cast<const void*>(count) == other.count;
  }
  counters* count;
};

}  // namespace verbena::test
