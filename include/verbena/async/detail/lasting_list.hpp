// SPDX-License-Identifier: MIT
// Parameters of operations that refer to the elements of a list. An operation may use them after
// the expression that creates it, so a temporary list is refused.
#pragma once

#include <ranges>
#include <span>
#include <type_traits>
#include <utility>

#include "verbena/base/config.hpp"
#include "verbena/channel/sink.hpp"
#include "verbena/channel/source.hpp"

namespace verbena::inline VERBENA_ABI::async::detail {

/// A list that is destroyed at the end of the expression, such as an rvalue std::vector.
template <class List>
concept temporary_list =
    std::ranges::range<std::remove_cvref_t<List>> && !std::is_lvalue_reference_v<List> &&
    !std::ranges::borrowed_range<std::remove_cvref_t<List>>;

/// Sinks of an operation. Threads: immutable value.
class lasting_sinks {
 public:
  template <class List>
    requires(std::is_convertible_v<List &&, std::span<const sink>> && !temporary_list<List>)
  // NOLINTNEXTLINE(google-explicit-constructor,*-forwarding-reference-overload): a parameter type
  lasting_sinks(List&& list) noexcept : list_(std::forward<List>(list)) {}
  template <temporary_list List>
    requires std::is_convertible_v<const List&, std::span<const sink>>
  // NOLINTNEXTLINE(google-explicit-constructor,*-forwarding-reference-overload): a parameter type
  lasting_sinks(List&& list) = delete;

  [[nodiscard]] std::span<const sink> get() const noexcept { return list_; }

 private:
  std::span<const sink> list_;
};

/// Sources or inline data of an operation. Threads: immutable value.
class lasting_outgoing {
 public:
  template <class Data>
    requires(std::is_convertible_v<Data &&, outgoing> && !temporary_list<Data>)
  // NOLINTNEXTLINE(google-explicit-constructor,*-forwarding-reference-overload): a parameter type
  lasting_outgoing(Data&& data) noexcept : data_(std::forward<Data>(data)) {}
  template <temporary_list List>
    requires std::is_convertible_v<const List&, outgoing>
  // NOLINTNEXTLINE(google-explicit-constructor,*-forwarding-reference-overload): a parameter type
  lasting_outgoing(List&& list) = delete;

  [[nodiscard]] const outgoing& get() const noexcept { return data_; }

 private:
  outgoing data_;
};

}  // namespace verbena::inline VERBENA_ABI::async::detail
