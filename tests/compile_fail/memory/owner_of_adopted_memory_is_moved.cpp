// SPDX-License-Identifier: MIT
// A copy of a container owns other memory than the registered one: the container is moved.
// expect-gcc: cannot convert
// expect-clang: no viable conversion
#include <vector>

#include "verbena/memory/buffer.hpp"

verbena::buffer use(verbena::memory_region& region, std::vector<std::byte>& storage) {
  const std::span<std::byte> memory(storage);
#ifdef VERBENA_BAD
  return verbena::buffer::adopt(std::move(region), memory, storage);
#else
  return verbena::buffer::adopt(std::move(region), memory, std::move(storage));
#endif
}
