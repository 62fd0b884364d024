// SPDX-License-Identifier: MIT
#include "verbena/verbs/received_datagram.hpp"

#include <fmt/format.h>

#include <string>

namespace verbena::inline VERBENA_ABI {
namespace {

error not_a_datagram(const completion& received, const std::string& why) {
  return error::invalid_argument("received_datagram::of",
                                 fmt::format("work request {}", received.id()), why);
}

}  // namespace

result<received_datagram> received_datagram::of(const completion& received,
                                                std::span<const std::byte> memory) {
  constexpr std::size_t front = global_route_header::encoded_size;
  if (!received.ok()) return not_a_datagram(received, "the receive failed");
  if (!received.is_receive()) return not_a_datagram(received, "the request was not a receive");
  const std::size_t bytes = received.byte_length();
  if (bytes < front)
    return not_a_datagram(
        received,
        fmt::format("{} bytes were received; a datagram begins with 40 bytes for the GRH", bytes));
  if (bytes > memory.size())
    return not_a_datagram(
        received,
        fmt::format("the datagram of {} bytes (40 of them for the GRH) exceeds the memory "
                    "of {} bytes",
                    bytes, memory.size()));
  return received_datagram(memory.first(bytes), received.has_global_route_header());
}

result<std::optional<global_route_header>> received_datagram::header() const {
  if (!has_header_) return std::optional<global_route_header>();
  auto decoded = global_route_header::decode(bytes_);
  if (!decoded) return std::move(decoded).error();
  return std::optional(*decoded);
}

}  // namespace verbena::inline VERBENA_ABI
