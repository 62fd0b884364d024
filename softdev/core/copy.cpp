// SPDX-License-Identifier: MIT
#include "softdev/core/copy.hpp"

#include <cstdint>

namespace verbena::softdev {
namespace {

// Volatile keeps each access whole and keeps the compiler from making a memcpy of the loops.
using u16 [[gnu::may_alias, gnu::aligned(1)]] = std::uint16_t;
using u32 [[gnu::may_alias, gnu::aligned(1)]] = std::uint32_t;
using u64 [[gnu::may_alias, gnu::aligned(1)]] = std::uint64_t;

#if defined(__x86_64__)
using wide [[gnu::may_alias, gnu::vector_size(32), gnu::aligned(1)]] = long long;

[[gnu::target("avx2"), gnu::no_sanitize("address"), gnu::no_sanitize("thread"),
  gnu::no_sanitize("undefined")]]
std::size_t copy_wide(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
  std::size_t done = 0;
  for (; bytes - done >= 128; done += 128) {
    const auto* source = reinterpret_cast<const wide*>(from + done);
    auto* sink = reinterpret_cast<wide*>(to + done);
    const wide a = source[0];
    const wide b = source[1];
    const wide c = source[2];
    const wide d = source[3];
    sink[0] = a;
    sink[1] = b;
    sink[2] = c;
    sink[3] = d;
    asm volatile("" ::: "memory");
  }
  return done;
}
const bool wide_copies = __builtin_cpu_supports("avx2") != 0;
#endif

[[gnu::no_sanitize("address"), gnu::no_sanitize("thread"), gnu::no_sanitize("undefined")]]
inline void store_barrier() noexcept {
#if defined(__x86_64__)
  asm volatile("" ::: "memory");  // stores become visible in program order
#elif defined(__aarch64__)
  asm volatile("dmb ishst" ::: "memory");
#else
  __atomic_thread_fence(__ATOMIC_RELEASE);
#endif
}

template <class Word>
[[gnu::no_sanitize("address"), gnu::no_sanitize("thread"), gnu::no_sanitize("undefined")]]
inline void store(std::byte* to, const std::byte* from) noexcept {
  *reinterpret_cast<volatile Word*>(to) = *reinterpret_cast<const volatile Word*>(from);
}

}  // namespace

[[gnu::no_sanitize("address"), gnu::no_sanitize("thread"), gnu::no_sanitize("undefined")]]
void copy_payload(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
  const auto step = [&](std::size_t count) __attribute__((
                        no_sanitize("address"), no_sanitize("thread"), no_sanitize("undefined"))) {
    to += count;
    from += count;
    bytes -= count;
  };
  const auto misaligned =
      [&](std::size_t mask)
          __attribute__((no_sanitize("address"), no_sanitize("thread"), no_sanitize("undefined"))) {
            return (reinterpret_cast<std::uintptr_t>(to) & mask) != 0;
          };
  if (bytes >= 1 && misaligned(1)) store<volatile std::uint8_t>(to, from), step(1);
  if (bytes >= 2 && misaligned(2)) store<u16>(to, from), step(2);
  if (bytes >= 4 && misaligned(4)) store<u32>(to, from), step(4);
#if defined(__x86_64__)
  if (bytes > 256 && wide_copies) step(copy_wide(to, from, bytes - 8));
#endif
  for (; bytes > 8; step(8)) store<u64>(to, from);
  store_barrier();
  if (bytes == 8) {
    store<u64>(to, from);
    return;
  }
  if (bytes >= 4) store<u32>(to, from), step(4);
  store_barrier();
  if (bytes >= 2) store<u16>(to, from), step(2);
  store_barrier();
  if (bytes >= 1) store<volatile std::uint8_t>(to, from);
}

}  // namespace verbena::softdev
