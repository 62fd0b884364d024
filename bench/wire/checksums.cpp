// SPDX-License-Identifier: MIT
#include <isa-l/crc.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <span>

#include "bench/local/measure.hpp"
#include "bench/wire/wire_modes.hpp"
#include "softdev/wire/crc32.hpp"

namespace bench {
namespace {

constexpr std::size_t size = 4096;
constexpr repetitions times{.chunks = 100, .per_chunk = 20'000};

std::uint32_t by_isal(std::span<const std::byte> bytes) {
  return ::crc32_gzip_refl(0, reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
}

std::uint32_t by_soft0(std::span<const std::byte> bytes) {
  return ~verbena::softdev::wire::crc32_update(0xffff'ffff, bytes);
}

// Calls `checksum` for a packet that the compiler knows nothing of.
template <class Checksum>
double time_of(Checksum&& checksum) {
  alignas(64) static std::array<std::byte, size> bytes{};
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 7 + i / 256);
  if (by_soft0(bytes) != by_isal(bytes)) fail("the checksum differs from that of ISA-L");
  std::uint32_t sum = 0;
  const double ns = median_ns(times, [&](std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      asm volatile("" : : "r"(bytes.data()) : "memory");
      sum ^= checksum(bytes);
    }
  });
  asm volatile("" : : "r"(sum));
  return ns;
}

}  // namespace

double icrc_time() {
  return time_of([](std::span<const std::byte> bytes) { return by_soft0(bytes); });
}

double isal_time() {
  alignas(64) static std::array<std::byte, size> copy;
  return time_of([](std::span<const std::byte> bytes) {
    std::memcpy(copy.data(), bytes.data(), size);
    asm volatile("" : : "r"(copy.data()) : "memory");
    return by_isal(copy);
  });
}

}  // namespace bench
