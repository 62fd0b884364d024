// SPDX-License-Identifier: MIT
#include "verbena/verbs/endpoint.hpp"

#include <algorithm>
#include <utility>

#include "src/verbs/hash.hpp"
#include "src/verbs/text.hpp"
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
  out.put(read_depth);
  out.put(queue_pair.value());
  out.put(first_psn.value());
  out.put(lid.value());
  const auto sent_gid = gid.value_or(verbena::gid());
  for (const auto byte : sent_gid.bytes()) out.put(byte);
  return bytes;
}

result<endpoint> endpoint::decode(std::span<const std::byte> bytes) {
  if (bytes.size() != encoded_size)
    return malformed("an endpoint has " + std::to_string(encoded_size) + " bytes, not " +
                     std::to_string(bytes.size()));
  byte_reader in(bytes);
  if (const auto version = *in.take<std::uint8_t>(); version != wire_version)
    return malformed("version " + std::to_string(version) +
                     " is unknown; the peer runs a newer "
                     "version of this library, or something else");
  const auto flags = *in.take<std::uint8_t>();
  if ((flags & ~gid_is_there) != 0)
    return malformed("flags " + detail::hexadecimal(flags) + " contain unknown flags");
  const auto encoded_mtu = *in.take<std::uint8_t>();
  if (byte_count(static_cast<verbena::mtu>(encoded_mtu)) == 0)
    return malformed("MTU code " + std::to_string(encoded_mtu) + " does not exist");
  const auto depth = *in.take<std::uint8_t>();
  const auto number = *in.take<std::uint32_t>();
  const auto psn = *in.take<std::uint32_t>();
  if (number > queue_pair_number::max || psn > packet_sequence_number::max)
    return malformed("queue pair number " + detail::hexadecimal(number) + " or sequence number " +
                     detail::hexadecimal(psn) + " has more than 24 bits");
  const verbena::lid local_id(*in.take<std::uint16_t>());
  std::array<std::uint8_t, 16> address{};
  for (auto& byte : address) byte = *in.take<std::uint8_t>();
  const bool has_gid = (flags & gid_is_there) != 0;
  if (!has_gid && address != std::array<std::uint8_t, 16>{})
    return malformed("the GID is set, and the flags do not announce it");
  return endpoint{.queue_pair = queue_pair_number(number),
                  .first_psn = packet_sequence_number(psn),
                  .lid = local_id,
                  .gid = has_gid ? std::optional(verbena::gid(address)) : std::nullopt,
                  .mtu = static_cast<verbena::mtu>(encoded_mtu),
                  .read_depth = depth};
}

std::string to_string(const endpoint& of) {
  std::string text = "queue pair " + detail::hexadecimal(of.queue_pair.value()) + ", psn " +
                     detail::hexadecimal(of.first_psn.value());
  if (of.lid != lid()) text += ", lid " + detail::hexadecimal(of.lid.value());
  if (of.gid) text += ", gid " + to_string(*of.gid);
  return text + ", mtu " + std::to_string(byte_count(of.mtu)) + ", read depth " +
         std::to_string(of.read_depth);
}

}  // namespace verbena::inline VERBENA_ABI

std::size_t std::hash<verbena::endpoint>::operator()(const verbena::endpoint& of) const noexcept {
  return verbena::detail::hash_of(of.encode());
}
