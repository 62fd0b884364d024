// SPDX-License-Identifier: MIT
// Immutable text that is copied without an allocation: the words of an error.
#pragma once

#include <concepts>
#include <cstddef>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "verbena/base/config.hpp"

namespace verbena::inline VERBENA_ABI {

class shared_text;

namespace detail {
/// A text and the number of its owners.
struct counted_text;
void hold(counted_text& text) noexcept;
void release(counted_text& text) noexcept;
}  // namespace detail

/// Refers to text from which a shared_text can be made. For parameters only.
///
/// An array of const char is treated as a string literal and never copied: it must exist until the
/// program ends. Other text is copied when the shared_text is made.
/// Threads: immutable value; borrows the text.
class text_argument {
 public:
  constexpr text_argument() noexcept = default;
  /// Refers to a string literal.
  template <std::size_t Size>
  // NOLINTNEXTLINE(google-explicit-constructor,*-avoid-c-arrays): a literal is an argument
  constexpr text_argument(const char (&literal)[Size]) noexcept
      : view_(literal, Size - 1), is_literal_(true) {}
  /// Refers to the text in an array, which ends with a zero.
  template <std::size_t Size>
  // NOLINTNEXTLINE(google-explicit-constructor,*-avoid-c-arrays): a text is an argument
  constexpr text_argument(char (&text)[Size]) noexcept : view_(text) {}
  /// Refers to `text`, which must outlive the call.
  template <std::convertible_to<std::string_view> Text>
    requires(!std::is_array_v<Text> && !std::same_as<Text, shared_text>)
  // NOLINTNEXTLINE(google-explicit-constructor): any string is an argument
  constexpr text_argument(const Text& text) noexcept : view_(text) {}
  /// Refers to `text`, which is shared instead of copied.
  // NOLINTNEXTLINE(google-explicit-constructor): a shared text is an argument
  inline text_argument(const shared_text& text) noexcept;

  /// Returns the text.
  [[nodiscard]] constexpr std::string_view view() const noexcept { return view_; }

 private:
  friend class shared_text;
  std::string_view view_;
  const shared_text* shared_ = nullptr;
  bool is_literal_ = false;
};

/// Holds an immutable text: a reference to a string literal, or a text that all copies share.
///
/// Copying never allocates. Threads: immutable value; copies may be used by several threads.
class shared_text {
 public:
  shared_text() noexcept = default;
  /// Refers to a literal, shares a shared_text, or copies other text. Only copying allocates.
  explicit shared_text(text_argument text);
  /// Shares the text of `other`.
  shared_text(const shared_text& other) noexcept : view_(other.view_), owned_(other.owned_) {
    if (owned_ != nullptr) detail::hold(*owned_);
  }
  /// Takes the text of `other`, which is empty afterwards.
  shared_text(shared_text&& other) noexcept : view_(other.view_), owned_(other.owned_) {
    other.view_ = {};
    other.owned_ = nullptr;
  }
  /// Shares the text of `other`.
  shared_text& operator=(const shared_text& other) noexcept { return *this = shared_text(other); }
  /// Takes the text of `other`, which is empty afterwards.
  shared_text& operator=(shared_text&& other) noexcept {
    shared_text taken(std::move(other));
    std::swap(view_, taken.view_);
    std::swap(owned_, taken.owned_);
    return *this;
  }
  ~shared_text() {
    if (owned_ != nullptr) detail::release(*owned_);
  }

  /// Returns the text; valid while this object or a copy of it exists.
  [[nodiscard]] std::string_view view() const noexcept { return view_; }
  /// Returns view().
  // NOLINTNEXTLINE(google-explicit-constructor): it is a string
  operator std::string_view() const noexcept { return view(); }
  /// Returns a copy of the text. Allocates.
  [[nodiscard]] std::string string() const { return std::string(view()); }
  /// Returns whether the text is empty.
  [[nodiscard]] bool empty() const noexcept { return view().empty(); }
  /// Returns whether the texts are equal.
  friend bool operator==(const shared_text& a, std::string_view b) noexcept {
    return a.view() == b;
  }

 private:
  std::string_view view_;
  detail::counted_text* owned_ = nullptr;  // the text of view_, unless it is a literal or empty
};

text_argument::text_argument(const shared_text& text) noexcept
    : view_(text.view()), shared_(&text) {}

}  // namespace verbena::inline VERBENA_ABI
