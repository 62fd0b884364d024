// SPDX-License-Identifier: MIT
#include "verbena/verbs/detail/memory_users.hpp"

#include "verbena/base/assert.hpp"

namespace verbena::inline VERBENA_ABI::detail {

constinit thread_local memory_user* innermost_user = nullptr;

memory_user::memory_user(search find) noexcept : find_(find), outer_(innermost_user) {
  innermost_user = this;
}

memory_user::~memory_user() { innermost_user = outer_; }

void stop_if_in_use(const registered_range& memory) {
  for (const memory_user* each = innermost_user; each != nullptr; each = each->outer_)
    if (const std::source_location* const posted = each->find_(*each, memory); posted != nullptr)
      stop_on_violation(
          "memory was released while an operation of a scope used it: declare the memory before "
          "the scope, or wait for the operation first",
          posted->file_name(), static_cast<int>(posted->line()));
}

}  // namespace verbena::inline VERBENA_ABI::detail
