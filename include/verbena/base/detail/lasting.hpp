// SPDX-License-Identifier: MIT
// Parameters of operations that refer to the elements of a list. An operation may use the elements
// after the expression that creates the operation, so temporary lists do not compile.
#pragma once

#include <ranges>
#include <type_traits>
#include <utility>

#include "verbena/base/config.hpp"

namespace verbena::inline VERBENA_ABI::detail {

/// A list that is destroyed at the end of the expression, for example an rvalue std::vector.
template <class List>
concept temporary_list =
    std::ranges::range<std::remove_cvref_t<List>> && !std::is_lvalue_reference_v<List> &&
    !std::ranges::borrowed_range<std::remove_cvref_t<List>>;

/// A parameter of an operation that refers to a list. Threads: immutable value.
template <class View>
class lasting {
 public:
  template <class List>
    requires(std::is_convertible_v<List &&, View> && !temporary_list<List>)
  // NOLINTNEXTLINE(google-explicit-constructor,*-forwarding-reference-overload): a parameter type
  lasting(List&& list) noexcept : view_(std::forward<List>(list)) {}
  template <temporary_list List>
    requires std::is_convertible_v<const List&, View>
  // NOLINTNEXTLINE(google-explicit-constructor,*-forwarding-reference-overload): a parameter type
  lasting(List&& list) = delete;

  [[nodiscard]] const View& get() const noexcept { return view_; }

 private:
  View view_;
};

}  // namespace verbena::inline VERBENA_ABI::detail
