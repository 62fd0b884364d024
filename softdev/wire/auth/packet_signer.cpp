// SPDX-License-Identifier: MIT
#include "softdev/wire/auth/packet_signer.hpp"

#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace verbena::softdev::wire {

result<packet_signer> packet_signer::open(const wire_key& key) {
  std::uint64_t sender = 0;
  if (::getrandom(&sender, sizeof sender, 0) != sizeof sender)
    return error::from_errno(errno, "getrandom", "soft0");
  VERBENA_TRY(hmac_sha256 derivation, hmac_sha256::open());
  VERBENA_TRY(gmac by, gmac::open());
  mac_key own;
  if (!key.derive_sender(derivation, sender, own) || !by.set_key(own))
    return error::from_errno(EIO, "EVP_EncryptInit_ex2", "libcrypto.so.3");
  ::explicit_bzero(own.data(), own.size());
  return packet_signer(std::move(by), sender);
}

bool packet_signer::sign(const network_header& around, std::span<std::byte> datagram) noexcept {
  packet_trailer made{.sender = sender_, .sequence = ++sequence_};
  write_trailer(made, datagram);
  if (!compute_tag(by_, around, datagram, made.tag)) return false;
  std::ranges::copy(made.tag, datagram.last<tag_bytes>().begin());
  return true;
}

}  // namespace verbena::softdev::wire
