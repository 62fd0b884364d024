// SPDX-License-Identifier: MIT
#include "verbena/channel/continuation.hpp"

#include <string>

#include "verbena/base/bytes.hpp"

namespace verbena::inline VERBENA_ABI {
namespace {

constexpr std::uint8_t has_past = 1;
constexpr std::uint8_t has_count = 2;
constexpr std::size_t zero_bytes = 6;

error malformed_continuation(const std::string& diagnosis) {
  return error::protocol("continuation::decode", {}, diagnosis);
}

}  // namespace

std::array<std::byte, continuation::encoded_size> continuation::encode() const noexcept {
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

result<continuation> continuation::decode(std::span<const std::byte> bytes) {
  if (bytes.size() != encoded_size)
    return malformed_continuation("a continuation has " + std::to_string(encoded_size) +
                                  " bytes, not " + std::to_string(bytes.size()));
  byte_reader in(bytes);
  if (const auto version = *in.take<std::uint8_t>(); version != wire_version)
    return malformed_continuation("version " + std::to_string(version) +
                                  " is not known; the peer runs a newer version of this library, "
                                  "or something else");
  const auto flags = *in.take<std::uint8_t>();
  bool clean = (flags & ~(has_past | has_count)) == 0 && flags != has_count;
  for (std::size_t i = 0; i < zero_bytes; ++i) clean = *in.take<std::uint8_t>() == 0 && clean;
  const auto number = [&] { return *in.take<std::uint64_t>(); };
  continuation out;
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
    return malformed_continuation(
        "its flags and its numbers contradict each other: it is garbage, or of something else");
  return out;
}

}  // namespace verbena::inline VERBENA_ABI
