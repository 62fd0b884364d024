// SPDX-License-Identifier: MIT
#include "softdev/wire/auth/wire_key.hpp"

#include <cerrno>
#include <cstring>
#include <string_view>

namespace verbena::softdev::wire {
namespace {

constexpr std::string_view salt = "verbena soft0 wire 1";
constexpr std::string_view sender_label = "sender";
constexpr std::string_view fingerprint_label = "fingerprint";

/// HKDF-Expand of one block: the label, a number and the counter of blocks.
bool expand(hmac_sha256& by, const mac_key& root, std::string_view label, std::uint64_t number,
            mac_key& out) noexcept {
  std::array<std::byte, 32> info;
  byte_sink to(info);
  to.put_bytes(std::as_bytes(std::span(label)));
  to.put(number);
  to.put(std::uint8_t{1});
  return by.compute(root, std::span(info).first(label.size() + sizeof number + 1), out);
}

}  // namespace

result<wire_key> wire_key::derive(std::span<const std::byte> secret) {
  VERBENA_TRY(hmac_sha256 by, hmac_sha256::open());
  wire_key made;
  mac_key print;
  if (!by.compute(std::as_bytes(std::span(salt)), secret, made.root_) ||
      !expand(by, made.root_, fingerprint_label, 0, print))
    return error::from_errno(EIO, "EVP_MAC_final", "libcrypto.so.3");
  std::memcpy(&made.fingerprint_, print.data(), sizeof made.fingerprint_);
  made.fingerprint_ |= 1;
  return made;
}

bool wire_key::derive_sender(hmac_sha256& by, std::uint64_t sender, mac_key& out) const noexcept {
  return expand(by, root_, sender_label, sender, out);
}

bool compute_tag(gmac& by, const network_header& around, std::span<const std::byte> datagram,
                 packet_tag& out) noexcept {
  // The length is a multiple of 16 bytes, the block of the MAC.
  std::array<std::byte, 48> head;
  byte_sink to(head);
  to.put_bytes(around.source);
  to.put_bytes(around.destination);
  to.put(around.source_port);
  to.put(around.destination_port);
  to.put_zeros(12);
  // The sequence number, with zeros in front.
  mac_nonce nonce{};
  constexpr std::size_t number_bytes = sizeof(std::uint64_t);
  std::memcpy(nonce.data() + nonce.size() - number_bytes,
              datagram.last(tag_bytes + number_bytes).data(), number_bytes);
  return by.compute(nonce, head, datagram.first(datagram.size() - tag_bytes), out);
}

}  // namespace verbena::softdev::wire
