// SPDX-License-Identifier: MIT
// Reads the ELF headers of an executable. The file is not trusted: every offset in it is checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace verbena::tool {

/// The kind of an executable.
enum class elf_kind : std::uint8_t {
  not_elf,
  damaged,            ///< has an ELF magic but invalid headers
  foreign,            ///< for a different processor or word size
  statically_linked,  ///< statically linked: no library can be preloaded
  dynamic,
};

/// The contents of the headers. Threads: immutable value.
struct elf_facts {
  elf_kind kind = elf_kind::not_elf;
  std::string loader;  ///< absolute path of the loader of a dynamic program
};

/// Reads the headers in `image`, the beginning of a file.
[[nodiscard]] elf_facts read_elf(std::span<const std::byte> image);

}  // namespace verbena::tool
