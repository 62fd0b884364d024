// SPDX-License-Identifier: MIT
#include "verbena/verbs/detail/exclusive_use.hpp"

#ifdef VERBENA_CHECKED

#include <algorithm>
#include <vector>

#include "verbena/base/assert.hpp"

namespace verbena::inline VERBENA_ABI::detail {
namespace {

struct open_object {
  const void* object;
  call_site where;
};

std::vector<open_object>& open_here() {
  thread_local std::vector<open_object> open;
  return open;
}

const open_object* find(const void* object) noexcept {
  auto& open = open_here();
  const auto found = std::ranges::find(open, object, &open_object::object);
  return found == open.end() ? nullptr : &*found;
}

[[noreturn]] void stop(const char* rule, call_site where, call_site earlier) {
  stop_on_violation({.rule = rule,
                     .file = where.file(),
                     .line = where.line(),
                     .earlier_file = earlier.file(),
                     .earlier_line = earlier.line()});
}

}  // namespace

void begin_exclusive(const void* object, const char* rule, call_site where) {
  check_not_open(object, rule, where);
  open_here().push_back({object, where});
}

void check_not_open(const void* object, const char* rule, call_site where) {
  if (const open_object* const earlier = find(object)) stop(rule, where, earlier->where);
}

void end_exclusive(const void* object) noexcept {
  std::erase_if(open_here(), [=](const open_object& open) { return open.object == object; });
}

void check_valid(bool valid, call_site earlier, const char* rule, call_site where) {
  if (!valid) stop(rule, where, earlier);
}

}  // namespace verbena::inline VERBENA_ABI::detail

#endif
