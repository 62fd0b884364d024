// SPDX-License-Identifier: MIT
#pragma once

#include <concepts>
#include <cstddef>
#include <type_traits>
#include <utility>

#include "verbena/base/config.hpp"

namespace verbena::inline VERBENA_ABI {

namespace detail {

/// A type whose copies share one object, such as std::shared_ptr.
template <class Object>
concept counts_its_users = requires(const Object& object) { object.use_count(); };

}  // namespace detail

/// Owns an object that owns memory of the program. For parameters. Move-only.
///
/// The object has any movable type, such as `std::shared_ptr<void>(address, deleter)`,
/// `std::unique_ptr`, `std::vector` or a class of the program. Its destructor releases the memory.
/// Moving the object must not move the memory: a `std::array` and a short `std::string` do not
/// satisfy that. Pass the object with std::move(), since a copy would own other memory; only a
/// `std::shared_ptr`, or another type with `use_count()`, may be passed as an lvalue.
/// Threads: one thread at a time; the object may be destroyed on any thread.
class [[nodiscard]] memory_owner {
 public:
  /// Owns no object.
  memory_owner(std::nullptr_t) noexcept {}  // NOLINT(google-explicit-constructor): see below
  /// Moves `object`, or copies one that counts its users. The destructor destroys it. A null smart
  /// pointer makes an owner without an object. Allocates.
  template <class Object>
    requires(!std::same_as<std::remove_cvref_t<Object>, memory_owner> &&
             !std::is_pointer_v<std::decay_t<Object>> &&
             (!std::is_lvalue_reference_v<Object> ||
              detail::counts_its_users<std::remove_cvref_t<Object>>) &&
             std::constructible_from<std::remove_cvref_t<Object>, Object>)
  // NOLINTNEXTLINE(google-explicit-constructor): a parameter type converts implicitly
  memory_owner(Object&& object) {
    using kept = std::remove_cvref_t<Object>;
    if constexpr (requires { object == nullptr; })
      if (object == nullptr) return;
    // NOLINTBEGIN(cppcoreguidelines-owning-memory): this class is the owner
    object_ = new kept(std::forward<Object>(object));
    destroy_ = [](void* owned) noexcept { delete static_cast<kept*>(owned); };
    // NOLINTEND(cppcoreguidelines-owning-memory)
  }
  /// Takes the object of `other`, which then owns no object.
  memory_owner(memory_owner&& other) noexcept
      : object_(std::exchange(other.object_, nullptr)), destroy_(other.destroy_) {}
  memory_owner& operator=(memory_owner&&) = delete;
  memory_owner(const memory_owner&) = delete;
  memory_owner& operator=(const memory_owner&) = delete;
  ~memory_owner() {
    if (object_ != nullptr) destroy_(object_);
  }

  /// Returns whether there is an object.
  explicit operator bool() const noexcept { return object_ != nullptr; }

 private:
  void* object_ = nullptr;
  void (*destroy_)(void*) noexcept = nullptr;
};

}  // namespace verbena::inline VERBENA_ABI
