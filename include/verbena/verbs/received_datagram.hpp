// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "verbena/base/result.hpp"
#include "verbena/verbs/completion.hpp"
#include "verbena/verbs/global_route_header.hpp"

namespace verbena::inline VERBENA_ABI {

/// A received datagram: 40 bytes for the GRH, then the payload. The 40 bytes are present even if
/// the datagram has no GRH, and byte_length() of the completion includes them. Source:
/// ibv_post_recv(3). Threads: immutable value; borrows the memory.
class received_datagram {
 public:
  /// Finds the datagram of completion `received` in `memory`, the memory of a receive with one
  /// slice.
  ///
  /// Errors: `invalid_argument` for a failed completion, a completion that is not of a receive, a
  /// length of less than 40 bytes, and memory that is shorter than the datagram.
  [[nodiscard]] static result<received_datagram> of(const completion& received,
                                                    std::span<const std::byte> memory);

  /// Returns the payload.
  [[nodiscard]] std::span<const std::byte> payload() const noexcept {
    return bytes_.subspan(global_route_header::encoded_size);
  }
  /// Returns the GRH, or `nullopt` if the datagram has no GRH, as within a subnet of InfiniBand.
  ///
  /// Errors: those of global_route_header::decode().
  [[nodiscard]] result<std::optional<global_route_header>> header() const;

 private:
  received_datagram(std::span<const std::byte> bytes, bool has_header) noexcept
      : bytes_(bytes), has_header_(has_header) {}

  std::span<const std::byte> bytes_;
  bool has_header_;
};

}  // namespace verbena::inline VERBENA_ABI
