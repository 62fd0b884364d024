// SPDX-License-Identifier: MIT
#include "examples/rcopy/checksum.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstring>

namespace rcopy {

struct running_checksum::state {
  XXH3_state_t hash;
};

running_checksum::running_checksum() : state_(std::make_unique<state>()) {
  XXH3_128bits_reset(&state_->hash);
}
running_checksum::~running_checksum() = default;

void running_checksum::add(std::span<const std::byte> bytes) noexcept {
  XXH3_128bits_update(&state_->hash, bytes.data(), bytes.size());
}

checksum running_checksum::value() const noexcept {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(&state_->hash));
  checksum sum;
  static_assert(sizeof canonical == sizeof sum);
  std::memcpy(sum.data(), &canonical, sizeof sum);
  return sum;
}

std::string to_hexadecimal(const checksum& sum) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  for (const auto byte : sum) {
    text += digits[std::to_integer<unsigned>(byte) >> 4U];
    text += digits[std::to_integer<unsigned>(byte) & 15U];
  }
  return text;
}

}  // namespace rcopy
