// SPDX-License-Identifier: MIT
// Every function here carries the attributes that keep sanitizers out; a lambda or a template
// would lose them.
#include "softdev/core/copy.hpp"

#include <cstdint>

namespace verbena::softdev {
namespace {

using u16 [[gnu::may_alias, gnu::aligned(1)]] = std::uint16_t;
using u32 [[gnu::may_alias, gnu::aligned(1)]] = std::uint32_t;
using u64 [[gnu::may_alias, gnu::aligned(1)]] = std::uint64_t;

#if defined(__x86_64__)
const bool wide_copies = __builtin_cpu_supports("avx2") != 0;

/// Copies a multiple of 128 bytes, not more than `bytes`, and returns how many. In assembly, so
/// that it needs no compiler flag and never becomes a call of memcpy.
__attribute__((no_sanitize("address"), no_sanitize("thread"), no_sanitize("undefined"))) std::size_t
copy_wide(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
  std::size_t done = 0;
  for (; bytes - done >= 128; done += 128)
    asm volatile(
        "vmovdqu    (%1), %%ymm0\n\t"
        "vmovdqu  32(%1), %%ymm1\n\t"
        "vmovdqu  64(%1), %%ymm2\n\t"
        "vmovdqu  96(%1), %%ymm3\n\t"
        "vmovdqu %%ymm0,   (%0)\n\t"
        "vmovdqu %%ymm1, 32(%0)\n\t"
        "vmovdqu %%ymm2, 64(%0)\n\t"
        "vmovdqu %%ymm3, 96(%0)\n\t"
        :
        : "r"(to + done), "r"(from + done)
        : "memory", "xmm0", "xmm1", "xmm2", "xmm3");
  asm volatile("vzeroupper" ::
                   : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9",
                     "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");
  return done;
}
#endif

/// Stores before it become visible before stores after it.
__attribute__((always_inline, no_sanitize("address"), no_sanitize("thread"),
               no_sanitize("undefined"))) inline void
store_barrier() noexcept {
#if defined(__x86_64__)
  asm volatile("" ::: "memory");
#elif defined(__aarch64__)
  asm volatile("dmb ishst" ::: "memory");
#else
  __atomic_thread_fence(__ATOMIC_RELEASE);
#endif
}

/// Copies the last up to eight bytes, the very last ones last.
__attribute__((no_sanitize("address"), no_sanitize("thread"), no_sanitize("undefined"))) void
copy_tail(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
  if (bytes == 8) {
    *reinterpret_cast<volatile u64*>(to) = *reinterpret_cast<const volatile u64*>(from);
    return;
  }
  std::size_t at = 0;
  if (bytes >= 4) {
    *reinterpret_cast<volatile u32*>(to) = *reinterpret_cast<const volatile u32*>(from);
    at = 4;
    store_barrier();
  }
  if (bytes - at >= 2) {
    *reinterpret_cast<volatile u16*>(to + at) = *reinterpret_cast<const volatile u16*>(from + at);
    at += 2;
    store_barrier();
  }
  if (bytes > at) {
    const volatile std::byte* source = from + at;
    volatile std::byte* sink = to + at;
    *sink = *source;
  }
}

}  // namespace

__attribute__((no_sanitize("address"), no_sanitize("thread"), no_sanitize("undefined"))) void
copy_payload(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
  std::size_t at = 0;
  const std::size_t head = (8 - reinterpret_cast<std::uintptr_t>(to) % 8) % 8;
  if (bytes > head) {
    if ((head & 1U) != 0) {
      const volatile std::byte* source = from;
      volatile std::byte* sink = to;
      *sink = *source;
      at = 1;
    }
    if ((head & 2U) != 0) {
      *reinterpret_cast<volatile u16*>(to + at) = *reinterpret_cast<const volatile u16*>(from + at);
      at += 2;
    }
    if ((head & 4U) != 0) {
      *reinterpret_cast<volatile u32*>(to + at) = *reinterpret_cast<const volatile u32*>(from + at);
      at += 4;
    }
#if defined(__x86_64__)
    if (bytes - at > 256 && wide_copies) at += copy_wide(to + at, from + at, bytes - at - 8);
#endif
    for (; bytes - at > 8; at += 8)
      *reinterpret_cast<volatile u64*>(to + at) = *reinterpret_cast<const volatile u64*>(from + at);
    store_barrier();
  }
  copy_tail(to + at, from + at, bytes - at);
}

}  // namespace verbena::softdev
