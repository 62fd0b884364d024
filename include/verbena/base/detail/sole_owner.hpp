// SPDX-License-Identifier: MIT
#pragma once

#include "verbena/base/config.hpp"

namespace verbena::inline VERBENA_ABI::detail {

/// Owns an object of a type that only source files define. `void destroy(Object&) noexcept`
/// destroys the object. Headers do not use std::unique_ptr, because its header is slow to compile.
/// Threads: one thread at a time.
template <class Object>
class sole_owner {
 public:
  sole_owner() noexcept = default;
  explicit sole_owner(Object* object) noexcept : object_(object) {}
  sole_owner(sole_owner&& other) noexcept : object_(other.take()) {}
  sole_owner& operator=(sole_owner&& other) noexcept {
    Object* const taken = other.take();
    const sole_owner replaced(object_);
    object_ = taken;
    return *this;
  }
  sole_owner(const sole_owner&) = delete;
  sole_owner& operator=(const sole_owner&) = delete;
  ~sole_owner() {
    if (object_ != nullptr) destroy(*object_);
  }

  /// Returns the object, or nullptr if the owner was default-constructed or moved from.
  [[nodiscard]] Object* get() const noexcept { return object_; }
  [[nodiscard]] Object& operator*() const noexcept { return *object_; }
  [[nodiscard]] Object* operator->() const noexcept { return object_; }

 private:
  // Not std::exchange, which is slow to compile for each type.
  [[nodiscard]] Object* take() noexcept {
    Object* const taken = object_;
    object_ = nullptr;
    return taken;
  }

  Object* object_ = nullptr;
};

}  // namespace verbena::inline VERBENA_ABI::detail
