// SPDX-License-Identifier: MIT
#include "verbena/base/random.hpp"

#include <sys/random.h>

#include <cerrno>

#include "verbena/base/assert.hpp"

namespace verbena::inline VERBENA_ABI {
namespace {

template <class T>
T random_value() {
  T value{};
  fill_random(std::as_writable_bytes(std::span(&value, 1)));
  return value;
}

}  // namespace

void fill_random(std::span<std::byte> out) {
  while (!out.empty()) {
    const auto got = ::getrandom(out.data(), out.size(), 0);
    VERBENA_ASSERT(got > 0 || errno == EINTR,
                   "getrandom(2) failed: the kernel provides no random numbers");
    if (got > 0) out = out.subspan(static_cast<std::size_t>(got));
  }
}

std::uint32_t random_u32() { return random_value<std::uint32_t>(); }
std::uint64_t random_u64() { return random_value<std::uint64_t>(); }

}  // namespace verbena::inline VERBENA_ABI
