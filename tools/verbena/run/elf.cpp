// SPDX-License-Identifier: MIT
#include "tools/verbena/run/elf.hpp"

#include <elf.h>
#include <link.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <type_traits>

namespace verbena::tool {
namespace {

#if defined(__x86_64__)
constexpr auto our_machine = EM_X86_64;
#elif defined(__aarch64__)
constexpr auto our_machine = EM_AARCH64;
#elif defined(__powerpc64__)
constexpr auto our_machine = EM_PPC64;
#elif defined(__riscv)
constexpr auto our_machine = EM_RISCV;
#elif defined(__s390x__)
constexpr auto our_machine = EM_S390;
#else
#error "the ELF machine of this processor is not listed above"
#endif
constexpr auto our_class = sizeof(void*) == 8 ? ELFCLASS64 : ELFCLASS32;

constexpr std::size_t most_headers = 1024;  // typical programs have about a dozen
constexpr std::size_t longest_path = 4096;

template <class T>
std::optional<T> read_at(std::span<const std::byte> image, std::uint64_t offset) {
  static_assert(std::is_trivially_copyable_v<T>);
  if (offset > image.size() || image.size() - offset < sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, image.data() + offset, sizeof value);
  return value;
}

// Returns the path in a PT_INTERP segment. The segment must contain the terminating zero byte.
std::optional<std::string> read_path(std::span<const std::byte> image, std::uint64_t offset,
                                     std::uint64_t size) {
  if (offset > image.size() || size > image.size() - offset || size > longest_path)
    return std::nullopt;
  const auto bytes = image.subspan(offset, size);
  const auto end = std::find(bytes.begin(), bytes.end(), std::byte{0});
  if (end == bytes.end() || end == bytes.begin()) return std::nullopt;
  std::string path;
  std::transform(bytes.begin(), end, std::back_inserter(path),
                 [](std::byte letter) { return static_cast<char>(letter); });
  return path;
}

}  // namespace

elf_facts read_elf(std::span<const std::byte> image) {
  const auto identity = read_at<std::array<unsigned char, EI_NIDENT>>(image, 0);
  if (!identity || std::memcmp(identity->data(), ELFMAG, SELFMAG) != 0) return {};
  if ((*identity)[EI_CLASS] != our_class) return {.kind = elf_kind::foreign, .loader = {}};
  const auto header = read_at<ElfW(Ehdr)>(image, 0);
  if (!header) return {.kind = elf_kind::damaged, .loader = {}};
  if (header->e_machine != our_machine) return {.kind = elf_kind::foreign, .loader = {}};
  if ((header->e_type != ET_EXEC && header->e_type != ET_DYN) || header->e_phnum > most_headers ||
      header->e_phentsize != sizeof(ElfW(Phdr)))
    return {.kind = elf_kind::damaged, .loader = {}};
  for (std::uint64_t i = 0; i < header->e_phnum; ++i) {
    const auto part = read_at<ElfW(Phdr)>(image, header->e_phoff + i * sizeof(ElfW(Phdr)));
    if (!part) return {.kind = elf_kind::damaged, .loader = {}};
    if (part->p_type != PT_INTERP) continue;
    auto loader = read_path(image, part->p_offset, part->p_filesz);
    if (!loader) return {.kind = elf_kind::damaged, .loader = {}};
    return {.kind = elf_kind::dynamic, .loader = *std::move(loader)};
  }
  return {.kind = elf_kind::statically_linked, .loader = {}};
}

}  // namespace verbena::tool
