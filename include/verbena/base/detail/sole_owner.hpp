// SPDX-License-Identifier: MIT
#pragma once

#include <utility>

#include "verbena/base/config.hpp"

namespace verbena::inline VERBENA_ABI::detail {

/// Owns an object of a type that only sources define: `void destroy(Object&) noexcept` ends it.
/// Headers do not use std::unique_ptr for it, because its header is slow to compile.
/// Threads: one thread at a time.
template <class Object>
class sole_owner {
 public:
  sole_owner() noexcept = default;
  explicit sole_owner(Object* object) noexcept : object_(object) {}
  sole_owner(sole_owner&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  sole_owner& operator=(sole_owner&& other) noexcept {
    const sole_owner replaced(std::exchange(object_, std::exchange(other.object_, nullptr)));
    return *this;
  }
  sole_owner(const sole_owner&) = delete;
  sole_owner& operator=(const sole_owner&) = delete;
  ~sole_owner() {
    if (object_ != nullptr) destroy(*object_);
  }

  /// Returns the object; nullptr if there is none: it was default-constructed or moved
  /// from.
  [[nodiscard]] Object* get() const noexcept { return object_; }
  [[nodiscard]] Object& operator*() const noexcept { return *object_; }
  [[nodiscard]] Object* operator->() const noexcept { return object_; }

 private:
  Object* object_ = nullptr;
};

}  // namespace verbena::inline VERBENA_ABI::detail
