// SPDX-License-Identifier: MIT
// The sinks of a scoped operation.
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "verbena/channel/sink.hpp"

namespace verbena::inline VERBENA_ABI::detail {

/// Holds no sink, one sink, or a list of sinks. Threads: one thread at a time. A std::variant does
/// the same; this class compiles faster.
class held_sinks {
 public:
  // NOLINTBEGIN(cppcoreguidelines-pro-type-member-init,hicpp-member-init): kind_ names the member
  held_sinks() noexcept : kind_(kind::none) {}
  explicit held_sinks(sink&& one) noexcept : one_(std::move(one)), kind_(kind::one) {}
  explicit held_sinks(std::vector<sink>&& list) noexcept
      : list_(std::move(list)), kind_(kind::list) {}
  // NOLINTEND(cppcoreguidelines-pro-type-member-init,hicpp-member-init)
  held_sinks(const held_sinks&) = delete;
  held_sinks& operator=(const held_sinks&) = delete;
  held_sinks& operator=(held_sinks&& other) noexcept;
  ~held_sinks() {
    if (kind_ == kind::list) [[unlikely]]
      std::destroy_at(&list_);
  }

  /// Returns the sink, or nullptr if the operation does not hold exactly one.
  [[nodiscard]] sink* one() noexcept { return kind_ == kind::one ? &one_ : nullptr; }
  /// Returns the list, or nullptr if the operation holds no list.
  [[nodiscard]] std::vector<sink>* list() noexcept {
    return kind_ == kind::list ? &list_ : nullptr;
  }

 private:
  enum class kind : std::uint8_t { none, one, list };
  static_assert(std::is_trivially_destructible_v<sink>);

  union {
    sink one_;
    std::vector<sink> list_;
  };
  kind kind_;
};

}  // namespace verbena::inline VERBENA_ABI::detail
