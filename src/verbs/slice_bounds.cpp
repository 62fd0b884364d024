// SPDX-License-Identifier: MIT
#include "verbena/verbs/detail/slice_bounds.hpp"

#include <fmt/format.h>

#include <array>
#include <string>
#include <string_view>

#include "verbena/base/assert.hpp"

namespace verbena::inline VERBENA_ABI::detail {
namespace {

// Returns the end of a range. If the end exceeds 64 bits, returns it as a sum.
std::string end_of(slice_range part) {
  if (part.length <= std::numeric_limits<std::uint64_t>::max() - part.offset)
    return std::to_string(part.offset + part.length);
  return fmt::format("{} + {}", part.offset, part.length);
}

}  // namespace

std::string slice_text(const char* text, slice_range part, std::uint64_t size) {
  return fmt::format(fmt::runtime(text), part.offset, end_of(part), size);
}

void stop_on_slice(const char* text, slice_range part, std::uint64_t size) {
  // A handler may throw the violation, whose rule is then read after this function has ended.
  thread_local std::string rule;
  rule = slice_text(text, part, size);
  stop_on_violation(rule.c_str(), __FILE__, __LINE__);
}

error slice_error(const char* call, const char* text, slice_range part, std::uint64_t size) {
  return error::invalid_argument(call, {}, slice_text(text, part, size));
}

}  // namespace verbena::inline VERBENA_ABI::detail
