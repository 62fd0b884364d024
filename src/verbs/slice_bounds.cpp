// SPDX-License-Identifier: MIT
#include "verbena/verbs/detail/slice_bounds.hpp"

#include <array>
#include <string_view>

#include "verbena/base/assert.hpp"

namespace verbena::inline VERBENA_ABI::detail {
namespace {

// Returns the end of a range. If the end exceeds 64 bits, returns it as a sum.
std::string end_of(slice_range part) {
  if (part.length <= std::numeric_limits<std::uint64_t>::max() - part.offset)
    return std::to_string(part.offset + part.length);
  return std::to_string(part.offset) + " + " + std::to_string(part.length);
}

}  // namespace

std::string slice_text(const char* text, slice_range part, std::uint64_t size) {
  const std::array values{std::to_string(part.offset), end_of(part), std::to_string(size)};
  std::string out;
  std::size_t next = 0;
  for (std::string_view rest(text); !rest.empty();) {
    const bool place = rest.starts_with("{}") && next < values.size();
    out += place ? std::string_view(values[next++]) : rest.substr(0, 1);
    rest.remove_prefix(place ? 2 : 1);
  }
  return out;
}

void stop_on_slice(const char* text, slice_range part, std::uint64_t size) {
  stop_on_broken_rule(slice_text(text, part, size).c_str(), __FILE__, __LINE__);
}

error slice_error(const char* call, const char* text, slice_range part, std::uint64_t size) {
  return error::invalid_argument(call, {}, slice_text(text, part, size));
}

}  // namespace verbena::inline VERBENA_ABI::detail
