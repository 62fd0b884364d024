// SPDX-License-Identifier: MIT
// Typed views of remote memory: fields and elements as remote regions of exactly their size.
// Requests access them with region().
#pragma once

#include <array>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <type_traits>

#include "verbena/base/assert.hpp"
#include "verbena/verbs/remote_region.hpp"

namespace verbena::inline VERBENA_ABI {

/// A type with equal layout on both sides: trivially copyable, of standard layout, neither const
/// nor volatile nor a reference.
template <class T>
concept remote_layout = std::is_object_v<T> && std::is_trivially_copyable_v<T> &&
                        std::is_standard_layout_v<T> && std::same_as<T, std::remove_cv_t<T>>;

template <remote_layout T>
class remote_view;
template <remote_layout T>
class remote_array;

namespace detail {

template <class T>
struct remote_part {
  using type = remote_view<T>;
};
template <class T, std::size_t Count>
struct remote_part<T[Count]> {
  using type = remote_array<T>;
};
template <class T, std::size_t Count>
struct remote_part<std::array<T, Count>> {
  using type = remote_array<T>;
};

/// A pointer to a member of T or of a base class of T.
template <class Pointer, class T>
concept field_of =
    std::is_member_object_pointer_v<Pointer> && requires(Pointer field, T& of) { of.*field; };

/// Returns the offset of a field in T: the representation of the member pointer, which is -1 if it
/// is null. Source: Itanium C++ ABI, 2.3.1 "Data Member Pointers".
template <class T, class Field, class Class>
[[nodiscard]] std::uint64_t offset_of(Field Class::* field) {
  Field T::* const own = field;
  static_assert(sizeof(own) == sizeof(std::ptrdiff_t));
  VERBENA_ASSERT(own != nullptr, "the member pointer of a field is null");
  return static_cast<std::uint64_t>(std::bit_cast<std::ptrdiff_t>(own));
}

/// Returns whether `bytes` bytes at `offset` are inside `whole`.
[[nodiscard]] constexpr bool has_part(const remote_region& whole, std::uint64_t offset,
                                      std::uint64_t bytes) {
  return offset <= whole.length() && bytes <= whole.length() - offset;
}

}  // namespace detail

/// The view of a field or element of type T: remote_array for arrays, otherwise remote_view.
template <class T>
using remote_part = typename detail::remote_part<T>::type;

/// One T in remote memory. The remote region has exactly sizeof(T) bytes.
/// Threads: immutable value.
template <remote_layout T>
class remote_view {
 public:
  /// The type of the object.
  using value_type = T;
  /// The size of the object.
  static constexpr std::size_t size_bytes = sizeof(T);

  /// Returns the T at `offset` of `whole`, or nullopt if the T is not inside `whole`. Does not
  /// check the alignment, which only atomic operations need.
  [[nodiscard]] static constexpr std::optional<remote_view> of(const remote_region& whole,
                                                               std::uint64_t offset = 0) {
    if (!detail::has_part(whole, offset, size_bytes)) return std::nullopt;
    return remote_view(whole.slice(offset, size_bytes));
  }

  /// Returns the remote region, for requests.
  [[nodiscard]] constexpr const remote_region& region() const noexcept { return region_; }

  /// Returns a field, `view.field(&header::length)`; a remote_array for an array. Precondition:
  /// `member` is not null.
  template <class Member, class Class>
    requires detail::field_of<Member Class::*, T>
  [[nodiscard]] auto field(Member Class::* member) const -> remote_part<Member> {
    return *remote_part<Member>::of(region_.slice(detail::offset_of<T>(member), sizeof(Member)));
  }

  /// Returns whether the remote regions are equal.
  friend constexpr bool operator==(const remote_view&, const remote_view&) noexcept = default;

 private:
  template <remote_layout Element>
  friend class remote_array;
  constexpr explicit remote_view(const remote_region& bytes) noexcept : region_(bytes) {}

  remote_region region_;
};

/// Consecutive T in remote memory. Threads: immutable value.
template <remote_layout T>
class remote_array {
 public:
  /// The type of the elements.
  using value_type = T;

  /// Returns as many T as fit into `whole`.
  [[nodiscard]] static constexpr std::optional<remote_array> of(const remote_region& whole) {
    return of(whole, 0, whole.length() / sizeof(T));
  }
  /// Returns `count` T at `offset` of `whole`, or nullopt if they are not inside `whole`.
  [[nodiscard]] static constexpr std::optional<remote_array> of(const remote_region& whole,
                                                                std::uint64_t offset,
                                                                std::uint64_t count) {
    if (count > std::numeric_limits<std::uint64_t>::max() / sizeof(T)) return std::nullopt;
    if (!detail::has_part(whole, offset, count * sizeof(T))) return std::nullopt;
    return remote_array(whole.slice(offset, count * sizeof(T)));
  }

  /// Returns the remote region, for requests.
  [[nodiscard]] constexpr const remote_region& region() const noexcept { return region_; }
  /// Returns the number of elements.
  [[nodiscard]] constexpr std::uint64_t size() const noexcept {
    return region_.length() / sizeof(T);
  }

  /// Returns one element, or nullopt if `index` is out of range.
  [[nodiscard]] constexpr auto element(std::uint64_t index) const -> std::optional<remote_part<T>> {
    if (index >= size()) return std::nullopt;
    return remote_part<T>::of(region_.slice(index * sizeof(T), sizeof(T)));
  }
  /// Returns `count` elements from `first` on, or nullopt if the range is out of bounds.
  [[nodiscard]] constexpr std::optional<remote_array> elements(std::uint64_t first,
                                                               std::uint64_t count) const {
    if (first > size() || count > size() - first) return std::nullopt;
    return remote_array(region_.slice(first * sizeof(T), count * sizeof(T)));
  }
  /// Returns a field of one element, `table.field(7, &slot::version)`, or nullopt if `index` is out
  /// of range.
  template <class Member, class Class>
    requires detail::field_of<Member Class::*, T>
  [[nodiscard]] auto field(std::uint64_t index, Member Class::* member) const
      -> std::optional<remote_part<Member>> {
    if (index >= size()) return std::nullopt;
    return element(index)->field(member);
  }

  /// Returns whether the remote regions are equal.
  friend constexpr bool operator==(const remote_array&, const remote_array&) noexcept = default;

 private:
  constexpr explicit remote_array(const remote_region& bytes) noexcept : region_(bytes) {}

  remote_region region_;
};

}  // namespace verbena::inline VERBENA_ABI

/// Hashes the remote region.
template <verbena::remote_layout T>
struct std::hash<verbena::remote_view<T>> {
  /// Returns the hash of of.region().
  std::size_t operator()(const verbena::remote_view<T>& of) const noexcept {
    return std::hash<verbena::remote_region>{}(of.region());
  }
};
/// Hashes the remote region.
template <verbena::remote_layout T>
struct std::hash<verbena::remote_array<T>> {
  /// Returns the hash of of.region().
  std::size_t operator()(const verbena::remote_array<T>& of) const noexcept {
    return std::hash<verbena::remote_region>{}(of.region());
  }
};
