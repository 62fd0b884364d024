// SPDX-License-Identifier: MIT
// Every function in this file has attributes that disable sanitizers; a lambda or a template would
// lose them.
#include "softdev/core/copy.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <atomic>

#if defined(__x86_64__) || defined(__aarch64__)
#define VERBENA_FAULT_TABLE 1
#else
#define VERBENA_FAULT_TABLE 0
#endif

#define VERBENA_UNINSTRUMENTED \
  no_sanitize("address"), no_sanitize("thread"), no_sanitize("undefined")

namespace verbena::softdev {

#if VERBENA_FAULT_TABLE
/// A range of instructions, and where their function continues after a fault. Each member is a
/// distance from its own address, so that the table needs no relocation.
struct fault_entry {
  std::int32_t begin;
  std::int32_t end;
  std::int32_t continuation;
};
// The linker defines these for the section that the entries are in.
extern "C" {
[[gnu::visibility("hidden")]] extern const fault_entry __start_verbena_faults[];  // NOLINT
[[gnu::visibility("hidden")]] extern const fault_entry __stop_verbena_faults[];   // NOLINT
}
// An entry for the instructions between two local labels of an assembly statement.
#define VERBENA_FAULT_ENTRY(begin, end, continuation)                    \
  ".pushsection verbena_faults,\"a\"\n\t"                                \
  ".balign 4\n\t"                                                        \
  ".long " begin "b - .\n\t.long " end "b - .\n\t.long %l[" continuation \
  "] - .\n\t"                                                            \
  ".popsection\n\t"
#endif

namespace {

// Define a load and a store of each size, which return false after a fault.
#define VERBENA_ACCESS [[gnu::always_inline]] inline __attribute__((VERBENA_UNINSTRUMENTED))
#if VERBENA_FAULT_TABLE
#define ACCESS(bits, load_text, store_text, reg)                                            \
  VERBENA_ACCESS bool load(std::uint##bits##_t& value, const std::byte* from) noexcept {    \
    asm volatile goto("1:\n\t" load_text "\n2:\n\t" VERBENA_FAULT_ENTRY("1", "2", "fault")  \
                      : "=" reg(value)                                                      \
                      : "r"(from)                                                           \
                      : "memory"                                                            \
                      : fault);                                                             \
    return true;                                                                            \
  fault:                                                                                    \
    return false;                                                                           \
  }                                                                                         \
  VERBENA_ACCESS bool store(std::uint##bits##_t value, std::byte* to) noexcept {            \
    asm volatile goto("1:\n\t" store_text "\n2:\n\t" VERBENA_FAULT_ENTRY("1", "2", "fault") \
                      :                                                                     \
                      : reg(value), "r"(to)                                                 \
                      : "memory"                                                            \
                      : fault);                                                             \
    return true;                                                                            \
  fault:                                                                                    \
    return false;                                                                           \
  }
#else
#define ACCESS(bits, load_text, store_text, reg)                                         \
  using u##bits [[gnu::may_alias, gnu::aligned(1)]] = std::uint##bits##_t;               \
  VERBENA_ACCESS bool load(std::uint##bits##_t& value, const std::byte* from) noexcept { \
    value = *reinterpret_cast<const volatile u##bits*>(from);                            \
    return true;                                                                         \
  }                                                                                      \
  VERBENA_ACCESS bool store(std::uint##bits##_t value, std::byte* to) noexcept {         \
    *reinterpret_cast<volatile u##bits*>(to) = value;                                    \
    return true;                                                                         \
  }
#endif
#include "softdev/core/copy_accesses.inc"
#undef ACCESS

#if defined(__x86_64__)
const bool wide_copies = __builtin_cpu_supports("avx2") != 0;

/// Returns whether the processor's string instructions move whole cache lines ("ERMS").
bool has_fast_strings() noexcept {
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  constexpr unsigned enhanced_strings = 1U << 9;  // ERMS, in EBX of leaf 7
  return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 && (ebx & enhanced_strings) != 0;
}
const bool fast_strings = has_fast_strings();
/// From this length on, a string instruction is faster than a loop of vector instructions, because
/// it does not read the cache lines that it overwrites. The C library has thresholds of this order.
constexpr std::size_t min_string_bytes = 2048;

/// Copies a multiple of 8 bytes, at most `bytes`, and adds their number to `done`. After a fault it
/// has copied fewer: the caller's next access shows which side is not accessible. A string
/// instruction stores its words in any order, but before all later stores.
__attribute__((VERBENA_UNINSTRUMENTED)) void copy_string(std::byte* to, const std::byte* from,
                                                         std::size_t bytes,
                                                         std::size_t& done) noexcept {
  std::size_t words = bytes / 8;
  asm volatile goto("1:\n\trep movsq\n2:\n\t" VERBENA_FAULT_ENTRY("1", "2", "fault")
                    : "+D"(to), "+S"(from), "+c"(words)
                    :
                    : "memory"
                    : fault);
fault:
  done += (bytes / 8 - words) * 8;
}

/// Copies a multiple of 128 bytes, at most `bytes`, and adds their number to `done`. It is in
/// assembly, so that it needs no compiler flag and never becomes a call of memcpy.
__attribute__((VERBENA_UNINSTRUMENTED)) copy_fault copy_wide(std::byte* to, const std::byte* from,
                                                             std::size_t bytes,
                                                             std::size_t& done) noexcept {
  copy_fault result = copy_fault::none;
  std::size_t at = 0;
  for (; bytes - at >= 128; at += 128)
    asm volatile goto(
        "1:\n\t"
        "vmovdqu    (%1), %%ymm0\n\t"
        "vmovdqu  32(%1), %%ymm1\n\t"
        "vmovdqu  64(%1), %%ymm2\n\t"
        "vmovdqu  96(%1), %%ymm3\n"
        "2:\n\t"
        "vmovdqu %%ymm0,   (%0)\n\t"
        "vmovdqu %%ymm1, 32(%0)\n\t"
        "vmovdqu %%ymm2, 64(%0)\n\t"
        "vmovdqu %%ymm3, 96(%0)\n"
        "3:\n\t" VERBENA_FAULT_ENTRY("1", "2", "bad_source")
            VERBENA_FAULT_ENTRY("2", "3", "bad_sink")
        :
        : "r"(to + at), "r"(from + at)
        : "memory", "xmm0", "xmm1", "xmm2", "xmm3"
        : bad_source, bad_sink);
end:
  asm volatile("vzeroupper" ::
                   : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9",
                     "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");
  done += at;
  return result;
bad_source:
  result = copy_fault::source;
  goto end;
bad_sink:
  result = copy_fault::sink;
  goto end;
}
#endif

#if defined(__x86_64__)
/// Copies 32 bytes.
VERBENA_ACCESS copy_fault copy_block(std::byte* to, const std::byte* from) noexcept {
  asm volatile goto(
      "1:\n\t"
      "movdqu   (%1), %%xmm0\n\t"
      "movdqu 16(%1), %%xmm1\n"
      "2:\n\t"
      "movdqu %%xmm0,   (%0)\n\t"
      "movdqu %%xmm1, 16(%0)\n"
      "3:\n\t" VERBENA_FAULT_ENTRY("1", "2", "bad_source") VERBENA_FAULT_ENTRY("2", "3", "bad_sink")
      :
      : "r"(to), "r"(from)
      : "memory", "xmm0", "xmm1"
      : bad_source, bad_sink);
  return copy_fault::none;
bad_source:
  return copy_fault::source;
bad_sink:
  return copy_fault::sink;
}
#endif

/// Makes earlier stores visible before later ones.
__attribute__((always_inline, VERBENA_UNINSTRUMENTED)) inline void store_barrier() noexcept {
#if defined(__x86_64__)
  asm volatile("" ::: "memory");
#elif defined(__aarch64__)
  asm volatile("dmb ishst" ::: "memory");
#else
  __atomic_thread_fence(__ATOMIC_RELEASE);
#endif
}

// Copies one value. After a fault, returns it from the enclosing function.
#define VERBENA_MOVE(bits, to, from)                   \
  do {                                                 \
    std::uint##bits##_t value = 0;                     \
    if (!load(value, from)) return copy_fault::source; \
    if (!store(value, to)) return copy_fault::sink;    \
  } while (false)

/// Copies the last bytes, at most eight; the last byte is stored last.
__attribute__((VERBENA_UNINSTRUMENTED)) copy_fault copy_tail(std::byte* to, const std::byte* from,
                                                             std::size_t bytes) noexcept {
  if (bytes == 8) {
    VERBENA_MOVE(64, to, from);
    return copy_fault::none;
  }
  std::size_t at = 0;
  if (bytes >= 4) {
    VERBENA_MOVE(32, to, from);
    at = 4;
    store_barrier();
  }
  if (bytes - at >= 2) {
    VERBENA_MOVE(16, to + at, from + at);
    at += 2;
    store_barrier();
  }
  if (bytes > at) VERBENA_MOVE(8, to + at, from + at);
  return copy_fault::none;
}

}  // namespace

__attribute__((VERBENA_UNINSTRUMENTED)) copy_fault copy_payload(std::byte* to,
                                                                const std::byte* from,
                                                                std::size_t bytes) noexcept {
  const std::size_t head = -reinterpret_cast<std::uintptr_t>(to) % 8;
  if (bytes == 8 && head == 0) {
    VERBENA_MOVE(64, to, from);
    return copy_fault::none;
  }
  std::size_t at = 0;
  if (bytes > head) {
    if ((head & 1U) != 0) {
      VERBENA_MOVE(8, to, from);
      at = 1;
    }
    if ((head & 2U) != 0) {
      VERBENA_MOVE(16, to + at, from + at);
      at += 2;
    }
    if ((head & 4U) != 0) {
      VERBENA_MOVE(32, to + at, from + at);
      at += 4;
    }
#if defined(__x86_64__)
    if (bytes - at >= min_string_bytes && fast_strings)
      copy_string(to + at, from + at, bytes - at - 8, at);
    if (bytes - at > 256 && wide_copies) {
      const copy_fault fault = copy_wide(to + at, from + at, bytes - at - 8, at);
      if (fault != copy_fault::none) return fault;
    }
#endif
#if defined(__x86_64__)
    for (; bytes - at > 40; at += 32) {
      const copy_fault fault = copy_block(to + at, from + at);
      if (fault != copy_fault::none) return fault;
    }
#endif
    for (; bytes - at > 8; at += 8) VERBENA_MOVE(64, to + at, from + at);
    store_barrier();
  }
  return copy_tail(to + at, from + at, bytes - at);
}

#if defined(__x86_64__)
__attribute__((VERBENA_UNINSTRUMENTED)) bool fetch_add_word(std::byte* word, std::uint64_t addend,
                                                            std::uint64_t& original) noexcept {
  std::uint64_t value = addend;
  asm volatile goto("1:\n\tlock xaddq %0, (%1)\n2:\n\t" VERBENA_FAULT_ENTRY("1", "2", "fault")
                    : "+r"(value)
                    : "r"(word)
                    : "memory", "cc"
                    : fault);
  original = value;
  return true;
fault:
  return false;
}

__attribute__((VERBENA_UNINSTRUMENTED)) bool compare_exchange_word(
    std::byte* word, std::uint64_t expected, std::uint64_t desired,
    std::uint64_t& original) noexcept {
  std::uint64_t value = expected;
  asm volatile goto("1:\n\tlock cmpxchgq %2, (%1)\n2:\n\t" VERBENA_FAULT_ENTRY("1", "2", "fault")
                    : "+a"(value)
                    : "r"(word), "r"(desired)
                    : "memory", "cc"
                    : fault);
  original = value;
  return true;
fault:
  return false;
}

__attribute__((VERBENA_UNINSTRUMENTED)) bool touch_to_read(const std::byte* byte) noexcept {
  std::uint8_t unused = 0;
  return load(unused, byte);
}

__attribute__((VERBENA_UNINSTRUMENTED)) bool touch_to_write(std::byte* byte) noexcept {
  asm volatile goto("1:\n\tlock orb $0, (%0)\n2:\n\t" VERBENA_FAULT_ENTRY("1", "2", "fault")
                    :
                    : "r"(byte)
                    : "memory", "cc"
                    : fault);
  return true;
fault:
  return false;
}
#else
// The word is read first: unless it becomes inaccessible after that, the atomic does not raise a
// signal. A word that is read-only is not detected.
__attribute__((VERBENA_UNINSTRUMENTED)) bool fetch_add_word(std::byte* word, std::uint64_t addend,
                                                            std::uint64_t& original) noexcept {
  if (!load(original, word)) return false;
  original = std::atomic_ref(*reinterpret_cast<std::uint64_t*>(word)).fetch_add(addend);
  return true;
}

__attribute__((VERBENA_UNINSTRUMENTED)) bool compare_exchange_word(
    std::byte* word, std::uint64_t expected, std::uint64_t desired,
    std::uint64_t& original) noexcept {
  if (!load(original, word)) return false;
  original = expected;
  std::atomic_ref(*reinterpret_cast<std::uint64_t*>(word))
      .compare_exchange_strong(original, desired);
  return true;
}
#endif

std::uintptr_t continuation_of(std::uintptr_t instruction) noexcept {
#if VERBENA_FAULT_TABLE
  for (const fault_entry* entry = __start_verbena_faults; entry != __stop_verbena_faults; ++entry) {
    const std::uintptr_t begin =
        reinterpret_cast<std::uintptr_t>(&entry->begin) +
        static_cast<std::uintptr_t>(static_cast<std::intptr_t>(entry->begin));
    const std::uintptr_t end = reinterpret_cast<std::uintptr_t>(&entry->end) +
                               static_cast<std::uintptr_t>(static_cast<std::intptr_t>(entry->end));
    if (instruction >= begin && instruction < end)
      return reinterpret_cast<std::uintptr_t>(&entry->continuation) +
             static_cast<std::uintptr_t>(static_cast<std::intptr_t>(entry->continuation));
  }
#else
  static_cast<void>(instruction);
#endif
  return 0;
}

}  // namespace verbena::softdev
