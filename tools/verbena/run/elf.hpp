// SPDX-License-Identifier: MIT
// The little that must be known of an executable before it is started. The file may be anything:
// every offset in it is checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace verbena::tool {

/// What an executable is.
enum class elf_kind : std::uint8_t {
  not_elf,
  damaged,       ///< begins like ELF and makes no sense
  foreign,       ///< for another processor or word size
  static_alone,  ///< without a loader: nothing can be put before its libraries
  dynamic,
};

/// What the headers say. Threads: immutable value.
struct elf_facts {
  elf_kind kind = elf_kind::not_elf;
  std::string loader;  ///< of a dynamic program: the absolute path of its loader
};

/// Reads the headers in `image`, the beginning of a file or all of it.
[[nodiscard]] elf_facts read_elf(std::span<const std::byte> image);

}  // namespace verbena::tool
