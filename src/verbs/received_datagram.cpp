// SPDX-License-Identifier: MIT
#include "verbena/verbs/received_datagram.hpp"

#include <string>

namespace verbena::inline VERBENA_ABI {
namespace {

error not_a_datagram(const completion& received, const std::string& why) {
  return error::invalid_argument("received_datagram::of",
                                 "work request " + std::to_string(received.id()), why);
}

}  // namespace

result<received_datagram> received_datagram::of(const completion& received,
                                                std::span<const std::byte> memory) {
  constexpr std::size_t front = global_route_header::encoded_size;
  if (!received.ok()) return not_a_datagram(received, "the request failed, and received nothing");
  if (!received.is_receive()) return not_a_datagram(received, "the request was not a receive");
  const std::size_t bytes = received.byte_length();
  if (bytes < front)
    return not_a_datagram(received, "a datagram has 40 bytes in front, and there are " +
                                        std::to_string(bytes) + " in all");
  if (bytes > memory.size())
    return not_a_datagram(received, "it has " + std::to_string(bytes) +
                                        " bytes with the 40 in front, and the memory has " +
                                        std::to_string(memory.size()));
  return received_datagram(memory.first(bytes), received.has_global_route_header());
}

result<std::optional<global_route_header>> received_datagram::header() const {
  if (!has_header_) return std::optional<global_route_header>();
  auto decoded = global_route_header::decode(bytes_);
  if (!decoded) return std::move(decoded).error();
  return std::optional(*decoded);
}

}  // namespace verbena::inline VERBENA_ABI
