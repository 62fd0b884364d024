// SPDX-License-Identifier: MIT
#include "verbena/base/assert.hpp"

#include <atomic>
#include <cstdio>
#include <cstdlib>

namespace verbena::inline VERBENA_ABI {
namespace {

void print_broken_rule(const broken_rule& broken) {
  std::fprintf(stderr, "verbena: rule broken: %s (%s:%d)\n", broken.rule, broken.file, broken.line);
}

std::atomic<broken_rule_handler> current_handler{&print_broken_rule};

}  // namespace

broken_rule_handler set_broken_rule_handler(broken_rule_handler handler) noexcept {
  return current_handler.exchange(handler != nullptr ? handler : &print_broken_rule);
}

namespace detail {
void stop_on_broken_rule(const char* rule, const char* file, int line) {
  current_handler.load()({rule, file, line});
  std::abort();
}
}  // namespace detail

}  // namespace verbena::inline VERBENA_ABI
