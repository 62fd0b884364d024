// SPDX-License-Identifier: MIT
#include "verbena/base/bytes.hpp"

namespace verbena::inline VERBENA_ABI {

std::optional<std::span<const std::byte>> byte_reader::take_bytes(std::size_t count) noexcept {
  if (rest_.size() < count) return std::nullopt;
  const auto taken = rest_.first(count);
  rest_ = rest_.subspan(count);
  return taken;
}

}  // namespace verbena::inline VERBENA_ABI
