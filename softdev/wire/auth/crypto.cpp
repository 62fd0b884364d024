// SPDX-License-Identifier: MIT
#include "softdev/wire/auth/crypto.hpp"

#include <cerrno>

// openssl/core.h exists since OpenSSL 3.0.
#if defined(VERBENA_WITH_OPENSSL) && __has_include(<openssl/core.h>)
#include <dlfcn.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#endif

namespace verbena::softdev::wire {

#if defined(VERBENA_WITH_OPENSSL) && __has_include(<openssl/core.h>)
namespace {

constexpr const char* library_name = "libcrypto.so.3";

/// The functions and algorithms of libcrypto that are used. The algorithms belong to a separate
/// library context: OpenSSL does not free it at exit, when threads of the device still run.
struct libcrypto {
  decltype(&::OSSL_LIB_CTX_new) new_context = nullptr;
  decltype(&::EVP_CIPHER_fetch) fetch_cipher = nullptr;
  decltype(&::EVP_CIPHER_CTX_new) new_cipher = nullptr;
  decltype(&::EVP_CIPHER_CTX_free) free_cipher = nullptr;
  decltype(&::EVP_EncryptInit_ex2) begin_cipher = nullptr;
  decltype(&::EVP_EncryptUpdate) update_cipher = nullptr;
  decltype(&::EVP_EncryptFinal_ex) end_cipher = nullptr;
  decltype(&::EVP_CIPHER_CTX_get_params) get_of_cipher = nullptr;
  decltype(&::EVP_MAC_fetch) fetch_mac = nullptr;
  decltype(&::EVP_MAC_CTX_new) new_mac = nullptr;
  decltype(&::EVP_MAC_CTX_free) free_mac = nullptr;
  decltype(&::EVP_MAC_init) begin_mac = nullptr;
  decltype(&::EVP_MAC_update) update_mac = nullptr;
  decltype(&::EVP_MAC_final) end_mac = nullptr;
  EVP_CIPHER* aes_256_gcm = nullptr;
  EVP_MAC* hmac = nullptr;
};

error failure(int code, const char* call, const char* text) {
  return error::from_errno(code, call, library_name, text);
}

template <class Function>
bool find_function(void* library, const char* name, Function& out) noexcept {
  out = reinterpret_cast<Function>(::dlsym(library, name));
  return out != nullptr;
}

result<libcrypto> load() {
  void* const library = ::dlopen(library_name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr)
    return failure(ENOENT, "dlopen",
                   "VERBENA_SOFTDEV_WIRE_KEY_FILE needs libcrypto.so.3 of OpenSSL, which was not "
                   "found; install libssl3 (Debian, Ubuntu) or openssl-libs (Fedora)");
  libcrypto found;
  if (!find_function(library, "OSSL_LIB_CTX_new", found.new_context) ||
      !find_function(library, "EVP_CIPHER_fetch", found.fetch_cipher) ||
      !find_function(library, "EVP_CIPHER_CTX_new", found.new_cipher) ||
      !find_function(library, "EVP_CIPHER_CTX_free", found.free_cipher) ||
      !find_function(library, "EVP_EncryptInit_ex2", found.begin_cipher) ||
      !find_function(library, "EVP_EncryptUpdate", found.update_cipher) ||
      !find_function(library, "EVP_EncryptFinal_ex", found.end_cipher) ||
      !find_function(library, "EVP_CIPHER_CTX_get_params", found.get_of_cipher) ||
      !find_function(library, "EVP_MAC_fetch", found.fetch_mac) ||
      !find_function(library, "EVP_MAC_CTX_new", found.new_mac) ||
      !find_function(library, "EVP_MAC_CTX_free", found.free_mac) ||
      !find_function(library, "EVP_MAC_init", found.begin_mac) ||
      !find_function(library, "EVP_MAC_update", found.update_mac) ||
      !find_function(library, "EVP_MAC_final", found.end_mac))
    return failure(EIO, "dlsym",
                   "the library lacks a function; VERBENA_SOFTDEV_WIRE_KEY_FILE needs "
                   "OpenSSL 3.0 or newer");
  OSSL_LIB_CTX* const context = found.new_context();
  if (context != nullptr) {
    found.aes_256_gcm = found.fetch_cipher(context, "AES-256-GCM", nullptr);
    found.hmac = found.fetch_mac(context, "HMAC", nullptr);
  }
  if (found.aes_256_gcm == nullptr || found.hmac == nullptr)
    return failure(EIO, "EVP_CIPHER_fetch", "the library has no AES-256-GCM or no HMAC");
  return found;
}

const result<libcrypto>& loaded() {
  static const result<libcrypto> once = load();
  return once;
}

const unsigned char* bytes_of(std::span<const std::byte> which) noexcept {
  return reinterpret_cast<const unsigned char*>(which.data());
}

}  // namespace

void hmac_sha256::deleter::operator()(evp_mac_ctx_st* which) const noexcept {
  loaded()->free_mac(which);
}

result<hmac_sha256> hmac_sha256::open() {
  if (!loaded()) return loaded().error();
  EVP_MAC_CTX* const made = loaded()->new_mac(loaded()->hmac);
  if (made == nullptr) return failure(ENOMEM, "EVP_MAC_CTX_new", "");
  return hmac_sha256(made);
}

bool hmac_sha256::compute(std::span<const std::byte> key, std::span<const std::byte> message,
                          mac_key& out) noexcept {
  const libcrypto& by = *loaded();
  char digest[] = "SHA256";
  const std::array<OSSL_PARAM, 2> parameters{
      OSSL_PARAM{"digest", OSSL_PARAM_UTF8_STRING, digest, sizeof digest - 1, 0}, OSSL_PARAM{}};
  std::size_t length = 0;
  return by.begin_mac(context_.get(), bytes_of(key), key.size(), parameters.data()) == 1 &&
         by.update_mac(context_.get(), bytes_of(message), message.size()) == 1 &&
         by.end_mac(context_.get(), reinterpret_cast<unsigned char*>(out.data()), &length,
                    out.size()) == 1 &&
         length == out.size();
}

void gmac::deleter::operator()(evp_cipher_ctx_st* which) const noexcept {
  loaded()->free_cipher(which);
}

result<gmac> gmac::open() {
  if (!loaded()) return loaded().error();
  EVP_CIPHER_CTX* const made = loaded()->new_cipher();
  if (made == nullptr) return failure(ENOMEM, "EVP_CIPHER_CTX_new", "");
  gmac out(made);
  // The cipher stays that of the context; a key replaces another one.
  if (loaded()->begin_cipher(made, loaded()->aes_256_gcm, nullptr, nullptr, nullptr) != 1)
    return failure(EIO, "EVP_EncryptInit_ex2", "");
  return out;
}

bool gmac::set_key(const mac_key& key) noexcept {
  return loaded()->begin_cipher(context_.get(), nullptr, bytes_of(key), nullptr, nullptr) == 1;
}

bool gmac::compute(const mac_nonce& nonce, std::span<const std::byte> head,
                   std::span<const std::byte> body, packet_tag& out) noexcept {
  const libcrypto& by = *loaded();
  EVP_CIPHER_CTX* const context = context_.get();
  packet_tag none;  // for the ciphertext, which is empty
  int length = 0;
  std::array<OSSL_PARAM, 2> wanted{
      OSSL_PARAM{"tag", OSSL_PARAM_OCTET_STRING, out.data(), out.size(), OSSL_PARAM_UNMODIFIED},
      OSSL_PARAM{}};
  const auto cover = [&](std::span<const std::byte> what) {
    return by.update_cipher(context, nullptr, &length, bytes_of(what),
                            static_cast<int>(what.size())) == 1;
  };
  return by.begin_cipher(context, nullptr, nullptr, bytes_of(nonce), nullptr) == 1 && cover(head) &&
         cover(body) &&
         by.end_cipher(context, reinterpret_cast<unsigned char*>(none.data()), &length) == 1 &&
         by.get_of_cipher(context, wanted.data()) == 1;
}

#else
namespace {

error missing() {
  return error::from_errno(
      ENOTSUP, "dlopen", "libcrypto",
      "VERBENA_SOFTDEV_WIRE_KEY_FILE needs a libverbena-soft.so that was built with OpenSSL 3; "
      "install libssl-dev (Debian, Ubuntu) or openssl-devel (Fedora), and build it again");
}

}  // namespace

void hmac_sha256::deleter::operator()(evp_mac_ctx_st* /*which*/) const noexcept {}
result<hmac_sha256> hmac_sha256::open() { return missing(); }
bool hmac_sha256::compute(std::span<const std::byte> /*key*/,
                          std::span<const std::byte> /*message*/, mac_key& /*out*/) noexcept {
  return false;
}
void gmac::deleter::operator()(evp_cipher_ctx_st* /*which*/) const noexcept {}
result<gmac> gmac::open() { return missing(); }
bool gmac::set_key(const mac_key& /*key*/) noexcept { return false; }
bool gmac::compute(const mac_nonce& /*nonce*/, std::span<const std::byte> /*head*/,
                   std::span<const std::byte> /*body*/, packet_tag& /*out*/) noexcept {
  return false;
}
#endif

}  // namespace verbena::softdev::wire
