// SPDX-License-Identifier: MIT
// Folding by carry-less multiplication: Gopal et al., "Fast CRC Computation for Generic Polynomials
// Using PCLMULQDQ Instruction", Intel 2009. Polynomials are reflected: the lowest bit is the
// highest power of x.
#include "softdev/wire/crc32.hpp"

#include <array>
#include <bit>
#include <cstring>
#include <utility>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace verbena::softdev::wire {
namespace {

constexpr std::uint32_t polynomial = 0xedb88320;

/// Returns x * value mod P.
constexpr std::uint32_t times_x(std::uint32_t value) noexcept {
  return (value >> 1U) ^ ((value & 1U) != 0 ? polynomial : 0);
}
/// Returns value / x mod P: the inverse of times_x.
constexpr std::uint32_t divided_by_x(std::uint32_t value) noexcept {
  return (value >> 31U) != 0 ? ((value ^ polynomial) << 1U | 1U) : value << 1U;
}
/// Returns a * b mod P.
constexpr std::uint32_t product(std::uint32_t a, std::uint32_t b) noexcept {
  std::uint32_t sum = 0;
  for (std::uint32_t bit = 1U << 31U; bit != 0; bit >>= 1U) {
    if ((a & bit) != 0) sum ^= b;
    b = times_x(b);
  }
  return sum;
}
constexpr std::uint32_t one = 1U << 31U;  ///< x^0

constexpr std::size_t slices = 8;
using table_of_slices = std::array<std::array<std::uint32_t, 256>, slices>;

constexpr table_of_slices make_tables() noexcept {
  table_of_slices made{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t state = byte;
    for (int bit = 0; bit < 8; ++bit) state = times_x(state);
    made[0][byte] = state;
  }
  for (std::size_t slice = 1; slice < slices; ++slice)
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t before = made[slice - 1][byte];
      made[slice][byte] = (before >> 8U) ^ made[0][before & 0xffU];
    }
  return made;
}
constexpr table_of_slices tables = make_tables();

template <std::size_t... I>
std::uint32_t of_word(std::uint64_t word, std::index_sequence<I...> /*slices*/) noexcept {
  return (tables[slices - 1 - I][word >> (8 * I) & 0xffU] ^ ...);
}

std::uint32_t by_table(std::uint32_t state, const std::byte* at, std::size_t bytes) noexcept {
  if constexpr (std::endian::native == std::endian::little) {
    for (; bytes >= slices; at += slices, bytes -= slices) {
      std::uint64_t word;
      std::memcpy(&word, at, sizeof word);
      state = of_word(word ^ state, std::make_index_sequence<slices>());
    }
  }
  for (; bytes > 0; ++at, --bytes)
    state = (state >> 8U) ^ tables[0][(state ^ std::to_integer<std::uint32_t>(*at)) & 0xffU];
  return state;
}

/// 1 / x^(8 * 2^i) mod P.
constexpr std::array<std::uint32_t, 17> make_inverses() noexcept {
  std::array<std::uint32_t, 17> made{};
  made[0] = one;
  for (int bit = 0; bit < 8; ++bit) made[0] = divided_by_x(made[0]);
  for (std::size_t i = 1; i < made.size(); ++i) made[i] = product(made[i - 1], made[i - 1]);
  return made;
}
constexpr auto inverses = make_inverses();

#if defined(__x86_64__)

/// Returns x^power mod P as a factor of a carry-less product of reflected polynomials.
constexpr std::uint64_t factor(unsigned power) noexcept {
  std::uint32_t value = one;
  for (unsigned i = 0; i < power; ++i) value = times_x(value);
  return std::uint64_t{value} << 1U;
}
/// The factors that move the first and the second half of 16 bytes forward by a number of bytes.
struct fold_factors {
  std::uint64_t first;
  std::uint64_t second;
};
constexpr fold_factors factors_for(unsigned bytes) noexcept {
  return {factor(8 * bytes + 32), factor(8 * bytes - 32)};
}

// Functions with a target attribute are compiled for processors with these instructions.

[[gnu::target("pclmul,sse4.1")]] inline __m128i load16(const std::byte* at) noexcept {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
}
template <unsigned Bytes>
[[gnu::target("pclmul,sse4.1")]] inline __m128i fold16(__m128i value, __m128i with) noexcept {
  constexpr fold_factors by = factors_for(Bytes);
  const __m128i factors =
      _mm_set_epi64x(static_cast<long long>(by.second), static_cast<long long>(by.first));
  return _mm_xor_si128(_mm_xor_si128(_mm_clmulepi64_si128(value, factors, 0x00),
                                     _mm_clmulepi64_si128(value, factors, 0x11)),
                       with);
}

/// Folds the remaining bytes into `value`. Returns the CRC state.
[[gnu::target("pclmul,sse4.1")]] std::uint32_t finish(__m128i value, const std::byte* at,
                                                      std::size_t bytes) noexcept {
  for (; bytes >= 16; at += 16, bytes -= 16) value = fold16<16>(value, load16(at));
  std::array<std::byte, 16> folded;
  _mm_storeu_si128(reinterpret_cast<__m128i*>(folded.data()), value);
  return by_table(by_table(0, folded.data(), folded.size()), at, bytes);
}

[[gnu::target("pclmul,sse4.1")]] std::uint32_t by_pclmul(std::uint32_t state, const std::byte* at,
                                                         std::size_t bytes) noexcept {
  if (bytes < 64) return by_table(state, at, bytes);
  __m128i a = _mm_xor_si128(load16(at), _mm_cvtsi32_si128(static_cast<int>(state)));
  __m128i b = load16(at + 16);
  __m128i c = load16(at + 32);
  __m128i d = load16(at + 48);
  at += 64;
  bytes -= 64;
  for (; bytes >= 64; at += 64, bytes -= 64) {
    a = fold16<64>(a, load16(at));
    b = fold16<64>(b, load16(at + 16));
    c = fold16<64>(c, load16(at + 32));
    d = fold16<64>(d, load16(at + 48));
  }
  return finish(fold16<16>(fold16<16>(fold16<16>(a, b), c), d), at, bytes);
}

[[gnu::target("avx512f,avx512dq,vpclmulqdq,pclmul,sse4.1")]] inline __m512i load64(
    const std::byte* at) noexcept {
  return _mm512_loadu_si512(at);
}
template <unsigned Bytes>
[[gnu::target("avx512f,avx512dq,vpclmulqdq,pclmul,sse4.1")]] inline __m512i fold64(
    __m512i value, __m512i with) noexcept {
  constexpr fold_factors by = factors_for(Bytes);
  const auto first = static_cast<long long>(by.first);
  const auto second = static_cast<long long>(by.second);
  const __m512i factors =
      _mm512_set_epi64(second, first, second, first, second, first, second, first);
  constexpr int exclusive_or_of_three = 0x96;
  return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(value, factors, 0x00),
                                   _mm512_clmulepi64_epi128(value, factors, 0x11), with,
                                   exclusive_or_of_three);
}

[[gnu::target("avx512f,avx512dq,vpclmulqdq,pclmul,sse4.1")]] std::uint32_t by_vpclmul(
    std::uint32_t state, const std::byte* at, std::size_t bytes) noexcept {
  if (bytes < 256) return by_pclmul(state, at, bytes);
  __m512i a = _mm512_xor_si512(load64(at),
                               _mm512_zextsi128_si512(_mm_cvtsi32_si128(static_cast<int>(state))));
  __m512i b = load64(at + 64);
  __m512i c = load64(at + 128);
  __m512i d = load64(at + 192);
  at += 256;
  bytes -= 256;
  for (; bytes >= 256; at += 256, bytes -= 256) {
    a = fold64<256>(a, load64(at));
    b = fold64<256>(b, load64(at + 64));
    c = fold64<256>(c, load64(at + 128));
    d = fold64<256>(d, load64(at + 192));
  }
  a = fold64<64>(fold64<64>(fold64<64>(a, b), c), d);
  for (; bytes >= 64; at += 64, bytes -= 64) a = fold64<64>(a, load64(at));
  alignas(64) std::array<std::byte, 64> folded;
  _mm512_store_si512(folded.data(), a);
  __m128i sum = load16(folded.data());
  for (std::size_t i = 16; i < folded.size(); i += 16)
    sum = fold16<16>(sum, load16(folded.data() + i));
  return finish(sum, at, bytes);
}

crc32_method best_method() noexcept {
  if (is_available(crc32_method::vpclmul)) return crc32_method::vpclmul;
  return is_available(crc32_method::pclmul) ? crc32_method::pclmul : crc32_method::table;
}

#endif

}  // namespace

#if defined(__x86_64__)

bool is_available(crc32_method method) noexcept {
  const bool narrow =
      __builtin_cpu_supports("pclmul") != 0 && __builtin_cpu_supports("sse4.1") != 0;
  if (method == crc32_method::pclmul) return narrow;
  if (method == crc32_method::table) return true;
  return narrow && __builtin_cpu_supports("avx512f") != 0 &&
         __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("vpclmulqdq") != 0;
}

std::uint32_t crc32_update(crc32_method method, std::uint32_t state,
                           std::span<const std::byte> bytes) noexcept {
  if (method == crc32_method::vpclmul) return by_vpclmul(state, bytes.data(), bytes.size());
  if (method == crc32_method::pclmul) return by_pclmul(state, bytes.data(), bytes.size());
  return by_table(state, bytes.data(), bytes.size());
}

std::uint32_t crc32_update(std::uint32_t state, std::span<const std::byte> bytes) noexcept {
  static const crc32_method method = best_method();
  return crc32_update(method, state, bytes);
}

#else

bool is_available(crc32_method method) noexcept { return method == crc32_method::table; }

std::uint32_t crc32_update(crc32_method /*method*/, std::uint32_t state,
                           std::span<const std::byte> bytes) noexcept {
  return by_table(state, bytes.data(), bytes.size());
}

std::uint32_t crc32_update(std::uint32_t state, std::span<const std::byte> bytes) noexcept {
  return by_table(state, bytes.data(), bytes.size());
}

#endif

std::uint32_t crc32_before_zeros(std::uint32_t state, std::size_t count) noexcept {
  for (std::size_t i = 0; i < inverses.size(); ++i)
    if ((count >> i & 1U) != 0) state = product(inverses[i], state);
  return state;
}

}  // namespace verbena::softdev::wire
