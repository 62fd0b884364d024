// SPDX-License-Identifier: MIT
// The XXH3 checksum of a file, computed chunk by chunk.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "examples/rcopy/protocol.hpp"

namespace rcopy {

/// Computes XXH3 with 128 bits, which detects errors, not deliberate changes. Threads: one thread
/// at a time.
class running_checksum {
 public:
  running_checksum();
  ~running_checksum();
  running_checksum(const running_checksum&) = delete;
  running_checksum& operator=(const running_checksum&) = delete;

  void add(std::span<const std::byte> bytes) noexcept;
  /// Returns the checksum of all added bytes in canonical byte order, as printed by `xxhsum -H2`.
  [[nodiscard]] checksum value() const noexcept;

 private:
  struct state;
  std::unique_ptr<state> state_;
};

[[nodiscard]] std::string to_hexadecimal(const checksum& sum);

}  // namespace rcopy
