// SPDX-License-Identifier: MIT
// Memory of a peer with a type: its fields and elements as regions of exactly their size. Nothing
// here reads or writes it; requests do, with region().
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

/// A type whose bytes mean the same to a peer that was compiled with the same declaration:
/// trivially copyable, of standard layout, neither const nor volatile nor a reference.
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

/// A pointer to a member of T, or of a class that T is derived from.
template <class Pointer, class T>
concept field_of =
    std::is_member_object_pointer_v<Pointer> && requires(Pointer field, T& of) { of.*field; };

/// Where a field lies in T. The C++ ABI of g++ and clang says that the pointer is that number, and
/// -1 if it is null. Source: Itanium C++ ABI, 2.3.1 "Data Member Pointers".
template <class T, class Field, class Class>
[[nodiscard]] std::uint64_t offset_of(Field Class::* field) {
  Field T::* const own = field;
  static_assert(sizeof(own) == sizeof(std::ptrdiff_t));
  VERBENA_ASSERT(own != nullptr, "a pointer to a member that names a field is not null");
  return static_cast<std::uint64_t>(std::bit_cast<std::ptrdiff_t>(own));
}

/// The part of `bytes` bytes at `offset`, if it lies inside.
[[nodiscard]] constexpr std::optional<remote_region> part_of(const remote_region& whole,
                                                             std::uint64_t offset,
                                                             std::uint64_t bytes) {
  if (offset > whole.length() || bytes > whole.length() - offset) return std::nullopt;
  return whole.slice(offset, bytes);
}

}  // namespace detail

/// How a field or element of type T is seen: an array as remote_array, all else as remote_view.
template <class T>
using remote_part = typename detail::remote_part<T>::type;

/// One T in memory of a peer. Its region is sizeof(T) bytes long, never more.
/// Threads: immutable value.
template <remote_layout T>
class remote_view {
 public:
  /// What is there.
  using value_type = T;
  /// Bytes of it.
  static constexpr std::size_t size_bytes = sizeof(T);

  /// The T that begins `offset` bytes into `whole`; nothing if it does not lie inside. Whether the
  /// address is aligned is not looked at: only atomics need it.
  [[nodiscard]] static constexpr std::optional<remote_view> of(const remote_region& whole,
                                                               std::uint64_t offset = 0) {
    const auto part = detail::part_of(whole, offset, size_bytes);
    if (!part) return std::nullopt;
    return remote_view(*part);
  }

  /// The bytes, for requests.
  [[nodiscard]] constexpr const remote_region& region() const noexcept { return region_; }

  /// A field, `view.field(&header::length)`; one that is an array is a remote_array. It lies
  /// inside, since the whole does. Precondition: `member` is not null.
  template <class Member, class Class>
    requires detail::field_of<Member Class::*, T>
  [[nodiscard]] auto field(Member Class::* member) const -> remote_part<Member> {
    return *remote_part<Member>::of(region_.slice(detail::offset_of<T>(member), sizeof(Member)));
  }

 private:
  template <remote_layout Element>
  friend class remote_array;
  constexpr explicit remote_view(const remote_region& bytes) noexcept : region_(bytes) {}

  remote_region region_;
};

/// Several T, one after the other, in memory of a peer. Threads: immutable value.
template <remote_layout T>
class remote_array {
 public:
  /// What an element is.
  using value_type = T;

  /// As many T as fit into `whole`; its region leaves out what remains.
  [[nodiscard]] static constexpr std::optional<remote_array> of(const remote_region& whole) {
    return of(whole, 0, whole.length() / sizeof(T));
  }
  /// The `count` T that begin `offset` bytes into `whole`; nothing if they do not lie inside.
  [[nodiscard]] static constexpr std::optional<remote_array> of(const remote_region& whole,
                                                                std::uint64_t offset,
                                                                std::uint64_t count) {
    if (count > std::numeric_limits<std::uint64_t>::max() / sizeof(T)) return std::nullopt;
    const auto part = detail::part_of(whole, offset, count * sizeof(T));
    if (!part) return std::nullopt;
    return remote_array(*part);
  }

  /// The bytes, for requests.
  [[nodiscard]] constexpr const remote_region& region() const noexcept { return region_; }
  /// How many elements there are.
  [[nodiscard]] constexpr std::uint64_t size() const noexcept {
    return region_.length() / sizeof(T);
  }

  /// One element; nothing if there is none of that index.
  [[nodiscard]] constexpr auto element(std::uint64_t index) const -> std::optional<remote_part<T>> {
    if (index >= size()) return std::nullopt;
    return remote_part<T>::of(region_.slice(index * sizeof(T), sizeof(T)));
  }
  /// The `count` elements from `first` on; nothing if some are not there.
  [[nodiscard]] constexpr std::optional<remote_array> elements(std::uint64_t first,
                                                               std::uint64_t count) const {
    if (first > size() || count > size() - first) return std::nullopt;
    return remote_array(region_.slice(first * sizeof(T), count * sizeof(T)));
  }
  /// A field of one element, `table.field(7, &slot::version)`; nothing if there is no such element.
  template <class Member, class Class>
    requires detail::field_of<Member Class::*, T>
  [[nodiscard]] auto field(std::uint64_t index, Member Class::* member) const
      -> std::optional<remote_part<Member>> {
    if (index >= size()) return std::nullopt;
    return element(index)->field(member);
  }

 private:
  constexpr explicit remote_array(const remote_region& bytes) noexcept : region_(bytes) {}

  remote_region region_;
};

}  // namespace verbena::inline VERBENA_ABI
