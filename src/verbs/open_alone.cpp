// SPDX-License-Identifier: MIT
#include "verbena/verbs/detail/open_alone.hpp"

#ifdef VERBENA_CHECKED

#include <algorithm>
#include <vector>

#include "verbena/base/assert.hpp"

namespace verbena::inline VERBENA_ABI::detail {
namespace {

struct open_object {
  const void* object;
  call_site where;
  std::uint64_t step;
};

std::vector<open_object>& open_here() {
  thread_local std::vector<open_object> open;
  return open;
}

open_object* find(const void* object) noexcept {
  auto& open = open_here();
  const auto found = std::ranges::find(open, object, &open_object::object);
  return found == open.end() ? nullptr : &*found;
}

[[noreturn]] void stop(const char* rule, call_site where, const open_object& earlier) {
  stop_on_broken_rule({.rule = rule,
                       .file = where.file(),
                       .line = where.line(),
                       .earlier_file = earlier.where.file(),
                       .earlier_line = earlier.where.line()});
}

}  // namespace

void open_alone(const void* object, const char* rule, call_site where) {
  check_not_open(object, rule, where);
  open_here().push_back({object, where, 1});
}

void check_not_open(const void* object, const char* rule, call_site where) {
  if (const open_object* const earlier = find(object)) stop(rule, where, *earlier);
}

void end_alone(const void* object) noexcept {
  std::erase_if(open_here(), [=](const open_object& open) { return open.object == object; });
}

void next_step(const void* object) noexcept {
  if (open_object* const open = find(object)) ++open->step;
}

std::uint64_t current_step(const void* object) noexcept {
  const open_object* const open = find(object);
  return open != nullptr ? open->step : 0;
}

void check_step(const void* object, std::uint64_t step, const char* rule, call_site where) {
  const open_object* const open = find(object);
  if (open == nullptr) stop_on_broken_rule(rule, where.file(), where.line());
  if (open->step != step) stop(rule, where, *open);
}

}  // namespace verbena::inline VERBENA_ABI::detail

#endif
