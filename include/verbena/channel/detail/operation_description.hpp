// SPDX-License-Identifier: MIT
// The description of an operation to post: its kind, memory, remote region and options.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "verbena/channel/detail/operation_kind.hpp"
#include "verbena/channel/sink.hpp"
#include "verbena/channel/source.hpp"
#include "verbena/verbs/remote_region.hpp"
#include "verbena/verbs/work_request.hpp"

namespace verbena::inline VERBENA_ABI {

/// Options of a message or write.
struct operation_options {
  /// Immediate data. A write with immediate data consumes a receive of the peer. iWARP does not
  /// support immediate data.
  std::optional<std::uint32_t> immediate = {};
  bool fenced = false;     ///< starts after all earlier reads and atomics have completed
  bool solicited = false;  ///< wakes a peer that is armed for solicited completions
};

namespace detail {

/// One slice of registered memory, as a source or sink names it. Threads: immutable value.
class memory_piece {
 public:
  explicit memory_piece(const source& of) noexcept : slice_(of.slice()), domain_(of.domain()) {}
  explicit memory_piece(const sink& of) : slice_(of.slice()), domain_(of.domain()) {}
  memory_piece(const local_slice& slice, const ibv_pd* domain) noexcept
      : slice_(slice), domain_(domain) {}

  [[nodiscard]] const local_slice& slice() const noexcept { return slice_; }
  [[nodiscard]] std::size_t length() const noexcept { return slice_.length(); }
  [[nodiscard]] const ibv_pd* domain() const noexcept { return domain_; }

 private:
  local_slice slice_;
  const ibv_pd* domain_;
};

/// An operation to post. `piece`, `out` or `in` names its memory.
struct operation_description {
  operation_kind kind;
  const memory_piece* piece = nullptr;
  outgoing out = {};
  std::span<const sink> in = {};
  remote_region remote = {};
  std::uint64_t expected_or_addend = 0;
  std::uint64_t desired = 0;
  operation_options options = {};

  /// Describes an atomic comparison. The previous value goes to `before`.
  [[nodiscard]] static operation_description comparison(const remote_region& target,
                                                        compare_and_swap_operands operands,
                                                        std::span<const sink> before = {}) {
    return {.kind = operation_kind::compare_and_swap,
            .in = before,
            .remote = target,
            .expected_or_addend = operands.expected,
            .desired = operands.desired};
  }
  /// Describes an atomic addition. The previous value goes to `before`.
  [[nodiscard]] static operation_description addition(const remote_region& target,
                                                      std::uint64_t addend,
                                                      std::span<const sink> before = {}) {
    return {.kind = operation_kind::fetch_and_add,
            .in = before,
            .remote = target,
            .expected_or_addend = addend};
  }
};

}  // namespace detail
}  // namespace verbena::inline VERBENA_ABI
