// SPDX-License-Identifier: MIT
#include "verbena/base/assert.hpp"

#include <atomic>
#include <cstdio>
#include <cstdlib>

namespace verbena::inline VERBENA_ABI {
namespace {

void print_violation(const contract_violation& broken) {
  if (broken.earlier_file == nullptr)
    std::fprintf(stderr, "verbena: usage error: %s (%s:%d)\n", broken.rule, broken.file,
                 broken.line);
  else
    std::fprintf(stderr, "verbena: usage error: %s (%s:%d; the earlier call is at %s:%d)\n",
                 broken.rule, broken.file, broken.line, broken.earlier_file, broken.earlier_line);
}

std::atomic<violation_handler> current_handler{&print_violation};

}  // namespace

violation_handler set_violation_handler(violation_handler handler) noexcept {
  return current_handler.exchange(handler != nullptr ? handler : &print_violation);
}

namespace detail {
void stop_on_violation(const char* rule, const char* file, int line) {
  stop_on_violation({.rule = rule, .file = file, .line = line});
}

void stop_on_violation(const contract_violation& broken) {
  current_handler.load()(broken);
  std::abort();
}
}  // namespace detail

}  // namespace verbena::inline VERBENA_ABI
