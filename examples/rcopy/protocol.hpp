// SPDX-License-Identifier: MIT
// The messages on the bring-up stream. Each message is one blob; integers are big-endian.
//
//   client    request     operation, file name, transport, chunk size and window
//   server    reply       accepted chunk size and window, size of the file; or a refusal
//   both      bring-up    endpoints, and the receiver's ring (rdma)
//   server    rendezvous  port in the connection manager, and a token for the client (cm)
//   both      ready       an empty blob: the queue pair of this side is connected (cm)
//   sender    data        chunks by RDMA WRITE (rdma, cm), or as bytes of the socket (tcp)
//   sender    summary     size and checksum of the sent bytes, and what took the sender's time
//   receiver  stored      the file is on disk, and what took the receiver's time; or a refusal
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "examples/rcopy/options.hpp"
#include "examples/rcopy/time_shares.hpp"
#include "verbena/base/result.hpp"

namespace rcopy {

inline constexpr std::uint16_t protocol_version = 3;
/// The largest size of a file: the maximum of a signed 64-bit file offset.
inline constexpr std::uint64_t largest_file = INT64_MAX;

enum class operation : std::uint8_t { put = 1, get = 2 };

/// Chunk size and window. The last chunk of a file may be shorter.
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

/// The beginning of the refusal of a server that serves as many clients as it can: the client can
/// repeat its request.
inline constexpr std::string_view busy_reason = "the server is already serving ";

struct reply {
  rcopy::flow flow;
  std::uint64_t file_bytes = 0;
};

using checksum = std::array<std::byte, 16>;

struct summary {
  std::uint64_t file_bytes = 0;
  checksum sum{};
  time_shares time;  ///< of the sender
};

/// The first bytes of the private data of the client's connection request.
using token = std::array<std::byte, 16>;

/// Where the server waits for the client in the connection manager.
struct rendezvous {
  std::uint16_t port = 0;
  token shown{};  ///< by the client
};

[[nodiscard]] std::vector<std::byte> encode(const request& what);
[[nodiscard]] std::vector<std::byte> encode(const reply& what);
[[nodiscard]] std::vector<std::byte> encode(const summary& what);
[[nodiscard]] std::vector<std::byte> encode(const rendezvous& what);
[[nodiscard]] std::vector<std::byte> encode(const time_shares& what);

/// Error of the five functions: `protocol`, with a text that may be sent to the peer.
[[nodiscard]] verbena::result<request> decode_request(std::span<const std::byte> bytes);
[[nodiscard]] verbena::result<reply> decode_reply(std::span<const std::byte> bytes);
[[nodiscard]] verbena::result<rendezvous> decode_rendezvous(std::span<const std::byte> bytes);
[[nodiscard]] verbena::result<summary> decode_summary(std::span<const std::byte> bytes);
[[nodiscard]] verbena::result<time_shares> decode_stored(std::span<const std::byte> bytes);

/// Checks that the name is a plain file name. Invalid are: an empty name, a name of more than 255
/// bytes, `.`, `..`, and names with `/`, control characters or the prefix of temporary files.
[[nodiscard]] verbena::result<void> check_name(std::string_view name);

/// Prefix of the names of temporary files. rcopy copies no file with this prefix.
inline constexpr std::string_view temporary_prefix = ".rcopy-";

}  // namespace rcopy
