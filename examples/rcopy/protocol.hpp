// SPDX-License-Identifier: MIT
// What client and server say to each other over the bring-up stream, apart from the data. Each is
// one blob; integers are big-endian.
//
//   client  request    what, which file, over what, how much at once
//   server  reply      how much at once it agrees to, and the file's size; or it refuses in words
//   both    bring-up   queue pairs and the receiver's buffer (rdma)
//   server  place      its port in the connection manager, and a token for the client (cm)
//   both    nothing    their queue pairs are connected (cm)
//   sender  data       chunks by RDMA write (rdma, cm), or plainly behind the frames (tcp)
//   sender  summary    size and checksum of what it read
//   receiver  stored   the file is complete under its name; or it refuses in words
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "examples/rcopy/options.hpp"
#include "verbena/base/result.hpp"

namespace rcopy {

inline constexpr std::uint16_t protocol_version = 2;
/// The largest file: what a signed 64-bit file offset reaches.
inline constexpr std::uint64_t largest_file = INT64_MAX;

enum class operation : std::uint8_t { put = 1, get = 2 };

/// How data crosses: chunks of one size (the last may be shorter), so many at once.
struct flow {
  std::uint32_t chunk_bytes = 0;
  std::uint16_t window = 0;

  [[nodiscard]] std::size_t buffer_bytes() const noexcept {
    return std::size_t{chunk_bytes} * window;
  }
};

struct request {
  operation what = operation::put;
  transport over = transport::rdma;
  rcopy::flow flow;
  std::uint64_t file_bytes = 0;  ///< 0 for get
  std::string name;
};

struct reply {
  rcopy::flow flow;
  std::uint64_t file_bytes = 0;
};

using checksum = std::array<std::byte, 16>;

struct summary {
  std::uint64_t file_bytes = 0;
  checksum sum{};
};

[[nodiscard]] std::vector<std::byte> encode(const request& what);
[[nodiscard]] std::vector<std::byte> encode(const reply& what);
[[nodiscard]] std::vector<std::byte> encode(const summary& what);

/// Errors of all three: `protocol`, in words that can be sent to the peer.
[[nodiscard]] verbena::result<request> decode_request(std::span<const std::byte> bytes);
[[nodiscard]] verbena::result<reply> decode_reply(std::span<const std::byte> bytes);
[[nodiscard]] verbena::result<summary> decode_summary(std::span<const std::byte> bytes);

/// Refuses names that are no plain file name: empty, longer than 255 bytes, `.`, `..`, with `/` or
/// control characters, or beginning as our temporary files do.
[[nodiscard]] verbena::result<void> check_name(std::string_view name);

/// How temporary files begin; no other file of that name is read or written.
inline constexpr std::string_view temporary_prefix = ".rcopy-";

}  // namespace rcopy
