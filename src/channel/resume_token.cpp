// SPDX-License-Identifier: MIT
#include "verbena/channel/resume_token.hpp"

#include <string>

#include "src/base/hash.hpp"
#include "verbena/base/bytes.hpp"

namespace verbena::inline VERBENA_ABI {
namespace {

constexpr std::uint8_t has_past = 1;
constexpr std::uint8_t has_count = 2;
constexpr std::size_t zero_bytes = 6;

error malformed(const std::string& diagnosis) {
  return error::protocol("resume_token::decode", {}, diagnosis);
}

}  // namespace

std::array<std::byte, resume_token::encoded_size> resume_token::encode() const noexcept {
  std::array<std::byte, encoded_size> bytes{};
  bytes[0] = std::byte{wire_version};
  if (before) bytes[1] |= std::byte{has_past};
  if (before && before->received) bytes[1] |= std::byte{has_count};
  std::byte* out = bytes.data() + 2 + zero_bytes;
  const auto put = [&](std::uint64_t value) {
    store_network_order(out, value);
    out += sizeof value;
  };
  put(self.channel);
  put(self.connection);
  if (!before) return bytes;
  put(before->connection);
  put(before->peer.channel);
  put(before->peer.connection);
  put(before->received.value_or(0));
  return bytes;
}

result<resume_token> resume_token::decode(std::span<const std::byte> bytes) {
  if (bytes.size() != encoded_size)
    return malformed("a resume token has " + std::to_string(encoded_size) + " bytes, not " +
                     std::to_string(bytes.size()));
  byte_reader in(bytes);
  if (const auto version = *in.take<std::uint8_t>(); version != wire_version)
    return malformed("version " + std::to_string(version) +
                     " is unknown: the peer runs a newer version of this library, "
                     "or another program");
  const auto flags = *in.take<std::uint8_t>();
  bool clean = (flags & ~(has_past | has_count)) == 0 && flags != has_count;
  for (std::size_t i = 0; i < zero_bytes; ++i) clean = *in.take<std::uint8_t>() == 0 && clean;
  const auto number = [&] { return *in.take<std::uint64_t>(); };
  resume_token out;
  out.self.channel = number();
  out.self.connection = number();
  past before;
  before.connection = number();
  before.peer.channel = number();
  before.peer.connection = number();
  const std::uint64_t received = number();
  clean = clean && ((flags & has_count) != 0 || received == 0);
  if ((flags & has_count) != 0) before.received = received;
  if ((flags & has_past) != 0) {
    clean = clean && before.connection != 0 && before.peer.channel != 0 &&
            before.peer.connection != 0 && before.connection < out.self.connection;
    out.before = before;
  } else {
    clean = clean && before == past{};
  }
  if (!clean || out.self.channel == 0 || out.self.connection == 0)
    return malformed(
        "flags and numbers of the resume token contradict each other: the bytes are damaged or not "
        "a "
        "resume token");
  return out;
}

}  // namespace verbena::inline VERBENA_ABI

std::size_t std::hash<verbena::connection_identity>::operator()(
    const verbena::connection_identity& of) const noexcept {
  return verbena::detail::hash_members(of.channel, of.connection);
}

std::size_t std::hash<verbena::resume_token>::operator()(
    const verbena::resume_token& of) const noexcept {
  return verbena::detail::hash_of(of.encode());
}
