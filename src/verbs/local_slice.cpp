// SPDX-License-Identifier: MIT
#include "verbena/verbs/local_slice.hpp"

#include <string>

#include "src/base/hash.hpp"

namespace verbena::inline VERBENA_ABI {
namespace detail {

result<local_slice> try_local_slice(const sliced_memory& of, slice_range part,
                                    const char* outside) {
  constexpr const char* call = "try_slice";
  if (!is_inside(part, of.length)) return slice_error(call, outside, part, of.length);
  if (part.length == 0)
    return slice_error(call, "slice [{}, {}) is empty; a slice has at least one byte", part,
                       of.length);
  if (part.length > local_slice::max_length)
    return slice_error(call, "slice [{}, {}) is longer than 4 GiB - 1 byte", part, of.length);
  return local_slice(of.address + part.offset, part.length, of.key);
}

}  // namespace detail

result<local_slice> local_slice::try_slice(std::size_t offset, std::size_t part_length) const {
  return detail::try_local_slice({.address = address(), .length = length(), .key = key()},
                                 {offset, part_length}, outside);
}

}  // namespace verbena::inline VERBENA_ABI

std::size_t std::hash<verbena::local_slice>::operator()(
    const verbena::local_slice& of) const noexcept {
  return verbena::detail::hash_members(of.address(), of.length(), of.key());
}
