// SPDX-License-Identifier: MIT
// Two functions of OpenSSL's libcrypto. The first call of `open` loads the library with local
// scope, so that it does not affect an OpenSSL of the program, of any version.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>

#include "softdev/wire/auth/trailer.hpp"
#include "verbena/base/result.hpp"

extern "C" {
struct evp_cipher_ctx_st;
struct evp_mac_ctx_st;
}

namespace verbena::softdev::wire {

using mac_key = std::array<std::byte, 32>;
using mac_nonce = std::array<std::byte, 12>;

/// HMAC-SHA-256. Threads: one thread at a time. libcrypto allocates in both functions.
class hmac_sha256 {
 public:
  /// Errors: ENOENT if libcrypto was not found; ENOTSUP if the device was built without OpenSSL;
  /// EIO if libcrypto lacks a function or an algorithm.
  [[nodiscard]] static result<hmac_sha256> open();
  /// Returns false if libcrypto failed.
  [[nodiscard]] bool compute(std::span<const std::byte> key, std::span<const std::byte> message,
                             mac_key& out) noexcept;

 private:
  struct deleter {
    void operator()(evp_mac_ctx_st* which) const noexcept;
  };
  explicit hmac_sha256(evp_mac_ctx_st* context) noexcept : context_(context) {}

  std::unique_ptr<evp_mac_ctx_st, deleter> context_;
};

/// GMAC with AES-256 (NIST SP 800-38D): the tag of AES-GCM without a plaintext. A nonce must not be
/// used for two messages with one key. Threads: one thread at a time. Allocates in `open` only.
class gmac {
 public:
  /// Errors: those of hmac_sha256::open.
  [[nodiscard]] static result<gmac> open();
  /// Sets the key. Returns false if libcrypto failed.
  [[nodiscard]] bool set_key(const mac_key& key) noexcept;
  /// Computes the tag of `head` and `body` as one message. Returns false if libcrypto failed.
  /// Precondition: a key is set.
  [[nodiscard]] bool compute(const mac_nonce& nonce, std::span<const std::byte> head,
                             std::span<const std::byte> body, packet_tag& out) noexcept;

 private:
  struct deleter {
    void operator()(evp_cipher_ctx_st* which) const noexcept;
  };
  explicit gmac(evp_cipher_ctx_st* context) noexcept : context_(context) {}

  std::unique_ptr<evp_cipher_ctx_st, deleter> context_;
};

/// Compares in a time that does not depend on the content.
[[nodiscard]] inline bool are_equal(const packet_tag& a, const packet_tag& b) noexcept {
  std::byte difference{0};
  for (std::size_t i = 0; i < a.size(); ++i) difference |= a[i] ^ b[i];
  return difference == std::byte{0};
}

}  // namespace verbena::softdev::wire
