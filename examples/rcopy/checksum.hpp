// SPDX-License-Identifier: MIT
// XXH3 of a file while it passes.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "examples/rcopy/protocol.hpp"

namespace rcopy {

/// XXH3, 128 bits: finds every accident, not a forger. Threads: one thread at a time.
class running_checksum {
 public:
  running_checksum();
  ~running_checksum();
  running_checksum(const running_checksum&) = delete;
  running_checksum& operator=(const running_checksum&) = delete;

  void add(std::span<const std::byte> bytes) noexcept;
  /// Of all that was added, in the canonical order of bytes (as `xxhsum -H2` prints it).
  [[nodiscard]] checksum value() const noexcept;

 private:
  struct state;
  std::unique_ptr<state> state_;
};

[[nodiscard]] std::string to_hexadecimal(const checksum& sum);

}  // namespace rcopy
