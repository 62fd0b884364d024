// SPDX-License-Identifier: MIT
#include <sys/mman.h>

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "bench/local/device_modes.hpp"
#include "bench/local/measure.hpp"
#include "verbena/verbena.hpp"

namespace bench {

double registration(const process_pair& pair, const device_settings& of) {
  if (pair.is_child()) return 0;
  const auto context = verbena::open_device("soft0").value();
  const auto pd = context.allocate_pd().value();
  constexpr auto access = verbena::access::local_write | verbena::access::remote_write;
  // Shareable memory is registered when it is allocated; a part of it can be registered again.
  std::optional<verbena::memory_region> allocated;
  std::span<std::byte> memory;
  if (of.memory == memory_kind::shareable) {
    allocated = pd.allocate(of.size, access).value();
    memory = allocated->bytes();
  } else {
    void* const mapped = ::mmap(nullptr, of.size, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED) fail("no memory to register");
    memory = {static_cast<std::byte*>(mapped), of.size};
  }
  constexpr repetitions times{.chunks = 50, .per_chunk = 200};
  std::vector<verbena::memory_region> regions;
  regions.reserve(times.per_chunk);
  return median_ns(times, [&](std::size_t count) {
    for (std::size_t i = 0; i < count; ++i)
      regions.push_back(pd.register_memory(memory, access).value());
    regions.clear();
  });
}

}  // namespace bench
