// SPDX-License-Identifier: MIT
#include "verbena/cm/local_buffer.hpp"

namespace verbena::inline VERBENA_ABI::cm {

result<released_memory> local_buffer::release() && {
  const bool of_the_library = region_.owns_memory();
  auto closed = std::move(region_).close();
  if (!closed) {
    auto why = closed.error();
    region_ = std::move(closed).object();
    return why;
  }
  return released_memory{
      .bytes = of_the_library ? std::span<std::byte>() : std::exchange(bytes_, {}),
      .storage = std::move(storage_)};
}

}  // namespace verbena::inline VERBENA_ABI::cm
