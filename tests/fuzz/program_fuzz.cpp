// SPDX-License-Identifier: MIT
// What `verbena run` reads of a program: its ELF headers, and the loader's list of its libraries.
// Each input is passed to both parsers.
#include <elf.h>
#include <link.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "tests/fuzz/target.hpp"
#include "tools/verbena/run/elf.hpp"
#include "tools/verbena/run/loader.hpp"

namespace verbena::tool {
namespace {

using fuzz::require;

void check_elf(fuzz::input image) {
  const elf_facts got = read_elf(image);
  require((got.kind == elf_kind::dynamic) == !got.loader.empty());
  require(got.loader.size() < image.size() + 1 && got.loader.find('\0') == std::string::npos);
  if (got.kind != elf_kind::not_elf) require(image.size() >= EI_NIDENT);
}

void check_list(const std::string& text) {
  const loaded_libraries got = read_loader_list(text);
  std::size_t bytes = 0;
  for (const auto& each : got.paths) {
    require(each.starts_with('/') && each.find('\n') == std::string::npos);
    bytes += each.size();
  }
  require(bytes <= text.size());
  require(got.on_libibverbs != dependence::not_known);
  if (got.on_libibverbs != dependence::not_linked)
    require(text.find("libibverbs.so.1 ") != std::string::npos);
}

void run_program_file(fuzz::input bytes) {
  check_elf(bytes);
  check_list(fuzz::text_of(bytes));
}

void program_seeds(fuzz::seed_folder& into) {
  ElfW(Ehdr) header{};
  header.e_ident[EI_MAG0] = ELFMAG0;
  header.e_ident[EI_MAG1] = ELFMAG1;
  header.e_ident[EI_MAG2] = ELFMAG2;
  header.e_ident[EI_MAG3] = ELFMAG3;
  header.e_ident[EI_CLASS] = sizeof(void*) == 8 ? ELFCLASS64 : ELFCLASS32;
  header.e_type = ET_DYN;
  header.e_machine = EM_X86_64;
  header.e_phoff = sizeof header;
  header.e_phentsize = sizeof(ElfW(Phdr));
  header.e_phnum = 2;
  ElfW(Phdr) load{};
  load.p_type = PT_LOAD;
  ElfW(Phdr) interpreter{};
  const std::string_view loader("/lib64/ld-linux-x86-64.so.2\0", 28);
  interpreter.p_type = PT_INTERP;
  interpreter.p_offset = sizeof header + 2 * sizeof load;
  interpreter.p_filesz = loader.size();
  fuzz::writer file;
  file.put(header).put(load).put(interpreter).put(std::as_bytes(std::span(loader)));
  into.add("dynamic", file.bytes());
  header.e_phnum = 1;
  into.add("static", fuzz::writer().put(header).put(load).bytes());
  into.add("list",
           "\tlinux-vdso.so.1 (0x00007ffd)\n\tlibibverbs.so.1 => /lib/libibverbs.so.1 (0x7f)\n"
           "\tlibc.so.6 => /lib/libc.so.6 (0x7f)\n\t/lib64/ld-linux-x86-64.so.2 (0x7f)\n");
  into.add("missing", "\tlibibverbs.so.1 => not found\n");
  into.add("statically_linked", "\tstatically linked\n");
}

const fuzz::target programs("program", run_program_file, program_seeds);

}  // namespace
}  // namespace verbena::tool
