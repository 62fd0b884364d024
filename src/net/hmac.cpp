// SPDX-License-Identifier: MIT
#include "src/net/hmac.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "verbena/base/bytes.hpp"

namespace verbena::inline VERBENA_ABI::net::detail {
namespace {

constexpr std::size_t block_bytes = 64;

// The first 32 bits of the fractional parts of the square roots of the first 8 primes, and of the
// cube roots of the first 64 primes.
constexpr std::array<std::uint32_t, 8> first_state{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                                   0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
constexpr std::array<std::uint32_t, 64> round_constants{
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

void mix(std::array<std::uint32_t, 8>& state, std::span<const std::byte, block_bytes> block) {
  std::array<std::uint32_t, 64> words{};
  byte_reader reader(block);
  for (std::size_t i = 0; i < 16; ++i) words[i] = reader.take<std::uint32_t>().value_or(0);
  for (std::size_t i = 16; i < words.size(); ++i) {
    const std::uint32_t a = words[i - 15];
    const std::uint32_t b = words[i - 2];
    words[i] = words[i - 16] + (std::rotr(a, 7) ^ std::rotr(a, 18) ^ (a >> 3U)) + words[i - 7] +
               (std::rotr(b, 17) ^ std::rotr(b, 19) ^ (b >> 10U));
  }
  auto [a, b, c, d, e, f, g, h] = state;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::uint32_t one = h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) +
                              ((e & f) ^ (~e & g)) + round_constants[i] + words[i];
    const std::uint32_t two =
        (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    h = g;
    g = f;
    f = e;
    e = d + one;
    d = c;
    c = b;
    b = a;
    a = one + two;
  }
  const std::array<std::uint32_t, 8> added{a, b, c, d, e, f, g, h};
  for (std::size_t i = 0; i < state.size(); ++i) state[i] += added[i];
}

}  // namespace

digest sha256(std::span<const std::byte> message) {
  std::vector<std::byte> padded(message.begin(), message.end());
  padded.push_back(std::byte{0x80});
  while (padded.size() % block_bytes != block_bytes - sizeof(std::uint64_t))
    padded.push_back(std::byte{0});
  padded.resize(padded.size() + sizeof(std::uint64_t));
  store_network_order(padded.data() + padded.size() - sizeof(std::uint64_t),
                      std::uint64_t{message.size()} * 8);
  auto state = first_state;
  for (std::size_t at = 0; at < padded.size(); at += block_bytes)
    mix(state, std::span(padded).subspan(at).first<block_bytes>());
  digest out{};
  for (std::size_t i = 0; i < state.size(); ++i)
    store_network_order(out.data() + i * sizeof(std::uint32_t), state[i]);
  return out;
}

digest hmac_sha256(std::span<const std::byte> key, std::span<const std::byte> message) {
  std::array<std::byte, block_bytes> block{};
  if (key.size() > block_bytes) {
    std::ranges::copy(sha256(key), block.begin());
  } else {
    std::ranges::copy(key, block.begin());
  }
  const auto hash = [&](std::byte pad, std::span<const std::byte> of) {
    std::vector<std::byte> text;
    text.reserve(block_bytes + of.size());
    for (const std::byte each : block) text.push_back(each ^ pad);
    text.insert(text.end(), of.begin(), of.end());
    return sha256(text);
  };
  return hash(std::byte{0x5c}, hash(std::byte{0x36}, message));
}

bool are_equal(const digest& a, const digest& b) noexcept {
  std::byte difference{0};
  for (std::size_t i = 0; i < a.size(); ++i) difference |= a[i] ^ b[i];
  return difference == std::byte{0};
}

}  // namespace verbena::inline VERBENA_ABI::net::detail
