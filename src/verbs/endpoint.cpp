// SPDX-License-Identifier: MIT
#include "verbena/verbs/endpoint.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "src/base/hash.hpp"
#include "verbena/base/bytes.hpp"

namespace verbena::inline VERBENA_ABI {
namespace {

constexpr std::uint8_t gid_is_there = 1;

// Writes values in network byte order one after another. Precondition: the buffer is large enough.
class writer {
 public:
  explicit writer(std::byte* out) noexcept : out_(out) {}
  template <class T>
  void put(T value) noexcept {
    store_network_order(out_, value);
    out_ += sizeof value;
  }

 private:
  std::byte* out_;
};

error malformed(const std::string& diagnosis) {
  return error::protocol("endpoint::decode", "", diagnosis);
}

}  // namespace

std::array<std::byte, endpoint::encoded_size> endpoint::encode() const noexcept {
  std::array<std::byte, encoded_size> bytes{};
  writer out(bytes.data());
  out.put(wire_version);
  out.put(gid ? gid_is_there : std::uint8_t{0});
  out.put(static_cast<std::uint8_t>(mtu));
  out.put(responder_resources);
  out.put(queue_pair.value());
  out.put(first_psn.value());
  out.put(lid.value());
  const auto sent_gid = gid.value_or(verbena::gid());
  for (const auto byte : sent_gid.bytes()) out.put(byte);
  return bytes;
}

result<endpoint> endpoint::decode(std::span<const std::byte> bytes) {
  if (bytes.size() != encoded_size)
    return malformed(
        fmt::format("an endpoint has {} bytes, not {}", std::size_t{encoded_size}, bytes.size()));
  byte_reader in(bytes);
  if (const auto version = *in.take<std::uint8_t>(); version != wire_version)
    return malformed(
        fmt::format("version {} is unknown; the peer runs a newer version of this "
                    "library, or another program",
                    version));
  const auto flags = *in.take<std::uint8_t>();
  if ((flags & ~gid_is_there) != 0)
    return malformed(fmt::format("flags {:#x} contain unknown flags", flags));
  const auto encoded_mtu = *in.take<std::uint8_t>();
  if (byte_count(static_cast<verbena::mtu>(encoded_mtu)) == 0)
    return malformed(fmt::format("MTU code {} does not exist", encoded_mtu));
  const auto depth = *in.take<std::uint8_t>();
  const auto number = *in.take<std::uint32_t>();
  const auto psn = *in.take<std::uint32_t>();
  if (number > queue_pair_number::max || psn > packet_sequence_number::max)
    return malformed(fmt::format(
        "queue pair number {:#x} or sequence number {:#x} has more than 24 bits", number, psn));
  const verbena::lid local_id(*in.take<std::uint16_t>());
  std::array<std::uint8_t, 16> address{};
  for (auto& byte : address) byte = *in.take<std::uint8_t>();
  const bool has_gid = (flags & gid_is_there) != 0;
  if (!has_gid && address != std::array<std::uint8_t, 16>{})
    return malformed("the GID is not zero, but its flag is not set");
  return endpoint{.queue_pair = queue_pair_number(number),
                  .first_psn = packet_sequence_number(psn),
                  .lid = local_id,
                  .gid = has_gid ? std::optional(verbena::gid(address)) : std::nullopt,
                  .mtu = static_cast<verbena::mtu>(encoded_mtu),
                  .responder_resources = depth};
}

std::string to_string(const endpoint& of) {
  std::string text =
      fmt::format("queue pair {:#x}, psn {:#x}", of.queue_pair.value(), of.first_psn.value());
  if (of.lid != lid()) text += fmt::format(", lid {:#x}", of.lid.value());
  if (of.gid) text += fmt::format(", gid {}", to_string(*of.gid));
  return text + fmt::format(", mtu {}, read depth {}", byte_count(of.mtu), of.responder_resources);
}

}  // namespace verbena::inline VERBENA_ABI

std::size_t std::hash<verbena::endpoint>::operator()(const verbena::endpoint& of) const noexcept {
  return verbena::detail::hash_of(of.encode());
}
