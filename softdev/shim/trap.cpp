// SPDX-License-Identifier: MIT
#include "softdev/shim/trap.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdio>
#include <cstdlib>

namespace verbena::softdev {
namespace {

using function = void (*)();

// Replaces every function of rdma-core's private tables, and is therefore called with any
// arguments.
[[noreturn, gnu::noinline]] void trap() {
  const char* caller = "a function";
  const char* library = "another library";
  Dl_info info;
  if (dladdr(__builtin_return_address(0), &info) != 0) {
    if (info.dli_sname != nullptr) caller = info.dli_sname;
    if (info.dli_fname != nullptr) library = info.dli_fname;
  }
  std::array<char, 1024> text;
  const int length = std::snprintf(
      text.data(), text.size(),
      "verbena: %s (in %s) passed an object of soft0 to the system's libibverbs; this object "
      "belongs to Verbena's software device: run the program under 'verbena run', link "
      "verbena::ibverbs, or call the verb through the context's own table\n",
      caller, library);
  if (length > 0) {
    const auto bytes = static_cast<std::size_t>(length);
    const ssize_t written =
        write(STDERR_FILENO, text.data(), bytes < text.size() ? bytes : text.size() - 1);
    static_cast<void>(written);
  }
  std::abort();
}

// The private context has about 100 words in rdma-core 44, about 130 in version 65.
constexpr std::size_t trap_words = 1024;

constexpr std::array<function, trap_words> all_traps() {
  std::array<function, trap_words> table{};
  for (auto& entry : table) entry = &trap;
  return table;
}

// Writable: other libraries keep flags and counters in such blocks.
constinit std::array<function, trap_words> traps = all_traps();
constinit std::array<std::byte, 8192> zeros{};

}  // namespace

void* trap_table() noexcept { return traps.data(); }
void* empty_description() noexcept { return zeros.data(); }

}  // namespace verbena::softdev
