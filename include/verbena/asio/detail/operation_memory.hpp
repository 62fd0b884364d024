// SPDX-License-Identifier: MIT
// A memory cache for operations whose handlers have no allocator, and for the handlers of the loop.
// Freed blocks are kept and reused.
#pragma once

#include <array>
#include <cstddef>
#include <new>
#include <utility>

#include "verbena/base/config.hpp"

namespace verbena::inline VERBENA_ABI::asio::detail {

/// Threads: one thread at a time.
class operation_memory {
 public:
  operation_memory() noexcept = default;
  operation_memory(const operation_memory&) = delete;
  operation_memory& operator=(const operation_memory&) = delete;
  ~operation_memory() {
    for (block* each : free_)
      while (each != nullptr) ::operator delete(std::exchange(each, each->next));
  }

  [[nodiscard]] void* take(std::size_t bytes) {
    const std::size_t place = place_of(bytes);
    if (place >= free_.size()) return ::operator new(bytes);
    block* const first = free_[place];
    if (first == nullptr) return ::operator new((place + 1) * granule);
    free_[place] = first->next;
    return first;
  }
  void give(void* memory, std::size_t bytes) noexcept {
    const std::size_t place = place_of(bytes);
    if (place >= free_.size()) return ::operator delete(memory);
    free_[place] = ::new (memory) block{free_[place]};
  }

 private:
  struct block {
    block* next;
  };
  static constexpr std::size_t granule = 64;
  [[nodiscard]] static constexpr std::size_t place_of(std::size_t bytes) noexcept {
    return (bytes - 1) / granule;
  }

  std::array<block*, 16> free_{};
};

/// The allocator of the handlers of the loop, which own the loop and so its memory: Asio frees the
/// memory of a handler before it destroys the handler. Without an operation_memory, behaves like
/// std::allocator.
/// Threads: one thread at a time; thread-safe without an operation_memory.
template <class T>
class engine_allocator {
 public:
  using value_type = T;

  explicit engine_allocator(operation_memory* of) noexcept : of_(of) {}
  template <class Other>
  // NOLINTNEXTLINE(google-explicit-constructor): allocators convert implicitly
  engine_allocator(const engine_allocator<Other>& other) noexcept : of_(other.memory()) {}

  [[nodiscard]] T* allocate(std::size_t count) {
    const std::size_t bytes = count * sizeof(T);
    return static_cast<T*>(of_ != nullptr ? of_->take(bytes) : ::operator new(bytes));
  }
  void deallocate(T* memory, std::size_t count) noexcept {
    if (of_ != nullptr) return of_->give(memory, count * sizeof(T));
    ::operator delete(memory);
  }
  [[nodiscard]] operation_memory* memory() const noexcept { return of_; }
  template <class Other>
  bool operator==(const engine_allocator<Other>& other) const noexcept {
    return of_ == other.memory();
  }

 private:
  operation_memory* of_;
};

}  // namespace verbena::inline VERBENA_ABI::asio::detail
