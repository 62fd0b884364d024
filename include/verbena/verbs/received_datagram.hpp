// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "verbena/base/result.hpp"
#include "verbena/verbs/completion.hpp"
#include "verbena/verbs/global_route_header.hpp"

namespace verbena::inline VERBENA_ABI {

/// A datagram in the memory of a receive: the payload begins behind 40 bytes, which the adapter
/// keeps free for a header also where there is none, and the length of the completion counts these
/// 40. Threads: immutable value; borrows the memory.
class received_datagram {
 public:
  /// What `received` says of `memory`, which is all that the receive named: the bytes, one piece.
  ///
  /// Errors: `invalid_argument` for a request that failed, for one that was no receive, and for
  /// memory that is shorter than the datagram.
  [[nodiscard]] static result<received_datagram> of(const completion& received,
                                                    std::span<const std::byte> memory);

  /// The message.
  [[nodiscard]] std::span<const std::byte> payload() const noexcept {
    return bytes_.subspan(global_route_header::encoded_size);
  }
  /// Who sent it, to whom; nothing where the adapter put no header, as it may on InfiniBand.
  /// Errors: those of global_route_header::decode().
  [[nodiscard]] result<std::optional<global_route_header>> header() const;

 private:
  received_datagram(std::span<const std::byte> bytes, bool has_header) noexcept
      : bytes_(bytes), has_header_(has_header) {}

  std::span<const std::byte> bytes_;
  bool has_header_;
};

}  // namespace verbena::inline VERBENA_ABI
