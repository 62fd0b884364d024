// SPDX-License-Identifier: MIT
#include "verbena/verbs/detail/open_alone.hpp"

#include <algorithm>
#include <vector>

namespace verbena::inline VERBENA_ABI::detail {
namespace {

std::vector<const void*>& open_here() {
  thread_local std::vector<const void*> open;
  return open;
}

}  // namespace

bool is_open_here(const void* object) noexcept {
  const auto& open = open_here();
  return std::ranges::find(open, object) != open.end();
}

bool open_alone(const void* object) {
  if (is_open_here(object)) return false;
  open_here().push_back(object);
  return true;
}

void forget_open(const void* object) noexcept { std::erase(open_here(), object); }

}  // namespace verbena::inline VERBENA_ABI::detail
