// SPDX-License-Identifier: MIT
// Operations that combine the elements of several ranks, for group::reduce() and all_reduce().
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <type_traits>

#include "verbena/base/config.hpp"
#include "verbena/base/function_ref.hpp"

namespace verbena::inline VERBENA_ABI::net {

/// The maximum size of an element of a reduction, in bytes.
inline constexpr std::size_t max_element_bytes = 4096;

/// Reduction operation: the smaller operand. Threads: immutable value.
struct minimum {
  /// Returns the smaller of two elements.
  template <class T>
  [[nodiscard]] constexpr T operator()(const T& a, const T& b) const {
    return std::min(a, b);
  }
};

/// Reduction operation: the larger operand. Threads: immutable value.
struct maximum {
  /// Returns the larger of two elements.
  template <class T>
  [[nodiscard]] constexpr T operator()(const T& a, const T& b) const {
    return std::max(a, b);
  }
};

/// An operation that combines elements of type T: a function object such as `std::plus<>`,
/// `std::bit_or<>`, minimum or maximum. The operation must be associative and commutative, except
/// for rounding. An element has at most max_element_bytes bytes and an alignment of at most 64
/// bytes.
template <class Operation, class T>
concept reduces =
    std::is_trivially_copyable_v<T> && sizeof(T) <= max_element_bytes && alignof(T) <= 64 &&
    std::is_invocable_r_v<T, const Operation&, const T&, const T&>;

namespace detail {

/// The type of elements, which members compare. `other` is equal to each type.
enum class element_kind : std::uint8_t {
  other = 0,
  signed_integer = 1,
  unsigned_integer = 2,
  floating_point = 3,
};
/// The operator of a reduction, which members compare. `other` is equal to each operator.
enum class operator_kind : std::uint8_t {
  other = 0,
  plus = 1,
  multiplies = 2,
  minimum = 3,
  maximum = 4,
  bit_and = 5,
  bit_or = 6,
  bit_xor = 7,
};

/// Returns the kind of an element type. The signedness of char and wchar_t depends on the host.
template <class T>
[[nodiscard]] consteval element_kind kind_of_element() {
  if (std::is_same_v<T, char> || std::is_same_v<T, wchar_t>) return element_kind::other;
  if (std::is_floating_point_v<T>) return element_kind::floating_point;
  if (!std::is_integral_v<T>) return element_kind::other;
  return std::is_signed_v<T> ? element_kind::signed_integer : element_kind::unsigned_integer;
}

/// The kind of an operator type; `other` unless it is specialized.
template <class Operation>
inline constexpr operator_kind kind_of_operator = operator_kind::other;
template <class T>
inline constexpr operator_kind kind_of_operator<std::plus<T>> = operator_kind::plus;
template <class T>
inline constexpr operator_kind kind_of_operator<std::multiplies<T>> = operator_kind::multiplies;
template <class T>
inline constexpr operator_kind kind_of_operator<std::bit_and<T>> = operator_kind::bit_and;
template <class T>
inline constexpr operator_kind kind_of_operator<std::bit_or<T>> = operator_kind::bit_or;
template <class T>
inline constexpr operator_kind kind_of_operator<std::bit_xor<T>> = operator_kind::bit_xor;
template <>
inline constexpr operator_kind kind_of_operator<minimum> = operator_kind::minimum;
template <>
inline constexpr operator_kind kind_of_operator<maximum> = operator_kind::maximum;

/// Combines arrays of elements. Refers to the operation. Threads: immutable value.
struct combination {
  std::size_t element_bytes;
  std::size_t alignment;
  element_kind element;
  operator_kind operation;
  /// Combines `count` elements of both arrays into the first array. If `is_second`, the elements of
  /// the first array are the second operands.
  function_ref<void(std::byte* into, const std::byte* from, std::size_t count, bool is_second)> run;
};

/// Combines arrays of T. Refers to the operation. Threads: immutable value.
template <class T, class Operation>
class combiner {
 public:
  explicit combiner(const Operation& with) noexcept : with_(&with) {}

  void operator()(std::byte* into, const std::byte* from, std::size_t count, bool is_second) const {
    auto* const mine = reinterpret_cast<T*>(into);
    const auto* const theirs = reinterpret_cast<const T*>(from);
    if (is_second) {
      for (std::size_t each = 0; each < count; ++each)
        mine[each] = static_cast<T>((*with_)(theirs[each], mine[each]));
    } else {
      for (std::size_t each = 0; each < count; ++each)
        mine[each] = static_cast<T>((*with_)(mine[each], theirs[each]));
    }
  }
  /// Returns a combination that refers to this object.
  [[nodiscard]] detail::combination combination() const noexcept {
    return {.element_bytes = sizeof(T),
            .alignment = alignof(T),
            .element = kind_of_element<T>(),
            .operation = kind_of_operator<Operation>,
            .run = *this};
  }

 private:
  const Operation* with_;
};

}  // namespace detail

}  // namespace verbena::inline VERBENA_ABI::net
