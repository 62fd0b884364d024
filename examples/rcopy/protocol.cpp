// SPDX-License-Identifier: MIT
#include "examples/rcopy/protocol.hpp"

#include <algorithm>
#include <chrono>
#include <optional>

#include "verbena/base/bytes.hpp"

namespace rcopy {
namespace {

using verbena::byte_reader;
using verbena::error;
using verbena::result;

constexpr std::uint32_t request_magic = 0x7263'7071;  // "rcpq"
constexpr std::uint32_t reply_magic = 0x7263'7072;    // "rcpr"
constexpr std::uint32_t summary_magic = 0x7263'7073;  // "rcps"
constexpr std::uint32_t stored_magic = 0x7263'7074;   // "rcpt"
constexpr std::size_t longest_name = 255;
constexpr std::uint64_t largest_time = INT64_MAX;  // in microseconds

template <std::unsigned_integral T>
void append(std::vector<std::byte>& out, T value) {
  out.resize(out.size() + sizeof value);
  verbena::store_network_order(out.data() + out.size() - sizeof value, value);
}

void append_times(std::vector<std::byte>& out, const time_shares& what) {
  for (const auto stage : what.stages()) append(out, static_cast<std::uint64_t>(stage.count()));
}

/// Returns nullopt if the bytes end too early.
std::optional<time_shares> take_times(byte_reader& reader) {
  time_shares made;
  for (auto* const stage : {&made.file, &made.checksum, &made.transport, &made.waiting}) {
    const auto value = reader.take<std::uint64_t>();
    if (!value || *value > largest_time) return std::nullopt;
    *stage = std::chrono::microseconds(*value);
  }
  return made;
}

error malformed(std::string_view what) {
  return error::protocol("decode", {}, std::string("the peer sent ").append(what));
}

bool usable(flow flow) {
  return flow.chunk_bytes >= smallest_chunk && flow.chunk_bytes <= largest_chunk &&
         flow.window >= 1 && flow.window <= largest_window && flow.buffer_bytes() <= largest_buffer;
}

result<void> check_version(byte_reader& reader, std::uint32_t magic) {
  const auto their_magic = reader.take<std::uint32_t>();
  const auto version = reader.take<std::uint16_t>();
  if (!their_magic || !version || *their_magic != magic)
    return malformed("a message that is not from rcopy: check host and port");
  if (*version != protocol_version)
    return malformed("version " + std::to_string(*version) +
                     " of rcopy's protocol, but this side uses version " +
                     std::to_string(protocol_version) + ": update the older program");
  return {};
}

}  // namespace

std::vector<std::byte> encode(const request& what) {
  std::vector<std::byte> out;
  append(out, request_magic);
  append(out, protocol_version);
  append(out, static_cast<std::uint8_t>(what.what));
  append(out, static_cast<std::uint8_t>(what.over));
  append(out, what.flow.chunk_bytes);
  append(out, what.flow.window);
  append(out, what.file_bytes);
  std::ranges::copy(verbena::bytes_of(what.name), std::back_inserter(out));
  return out;
}

result<request> decode_request(std::span<const std::byte> bytes) {
  byte_reader reader(bytes);
  VERBENA_TRY_VOID(check_version(reader, request_magic));
  const auto what = reader.take<std::uint8_t>();
  const auto over = reader.take<std::uint8_t>();
  const auto chunk_bytes = reader.take<std::uint32_t>();
  const auto window = reader.take<std::uint16_t>();
  const auto file_bytes = reader.take<std::uint64_t>();
  if (!what || !over || !chunk_bytes || !window || !file_bytes)
    return malformed("a request that is too short");
  if (*what < 1 || *what > 2 || *over < 1 || *over > 3)
    return malformed("a request with an unknown operation or transport");
  request made{.what = static_cast<operation>(*what),
               .over = static_cast<transport>(*over),
               .flow = {.chunk_bytes = *chunk_bytes, .window = *window},
               .file_bytes = *file_bytes,
               .name = {}};
  if (!usable(made.flow)) return malformed("a chunk size or window beyond the limits");
  if (made.file_bytes > largest_file) return malformed("a file size beyond the limits");
  for (const auto byte : reader.rest()) made.name += std::to_integer<char>(byte);
  VERBENA_TRY_VOID(check_name(made.name));
  return made;
}

std::vector<std::byte> encode(const reply& what) {
  std::vector<std::byte> out;
  append(out, reply_magic);
  append(out, protocol_version);
  append(out, what.flow.chunk_bytes);
  append(out, what.flow.window);
  append(out, what.file_bytes);
  return out;
}

result<reply> decode_reply(std::span<const std::byte> bytes) {
  byte_reader reader(bytes);
  VERBENA_TRY_VOID(check_version(reader, reply_magic));
  const auto chunk_bytes = reader.take<std::uint32_t>();
  const auto window = reader.take<std::uint16_t>();
  const auto file_bytes = reader.take<std::uint64_t>();
  if (!chunk_bytes || !window || !file_bytes || !reader.rest().empty())
    return malformed("a reply of the wrong length");
  const reply made{.flow = {.chunk_bytes = *chunk_bytes, .window = *window},
                   .file_bytes = *file_bytes};
  if (!usable(made.flow) || made.file_bytes > largest_file)
    return malformed("a chunk size, window or file size beyond the limits");
  return made;
}

std::vector<std::byte> encode(const summary& what) {
  std::vector<std::byte> out;
  append(out, summary_magic);
  append(out, protocol_version);
  append(out, what.file_bytes);
  std::ranges::copy(what.sum, std::back_inserter(out));
  append_times(out, what.time);
  return out;
}

result<summary> decode_summary(std::span<const std::byte> bytes) {
  byte_reader reader(bytes);
  VERBENA_TRY_VOID(check_version(reader, summary_magic));
  const auto file_bytes = reader.take<std::uint64_t>();
  const auto sum = reader.take_bytes(std::tuple_size_v<checksum>);
  const auto time = take_times(reader);
  if (!file_bytes || !sum || !time || !reader.rest().empty())
    return malformed("a summary of the wrong length");
  summary made{.file_bytes = *file_bytes, .sum = {}, .time = *time};
  std::ranges::copy(*sum, made.sum.begin());
  return made;
}

std::vector<std::byte> encode(const rendezvous& what) {
  std::vector<std::byte> out;
  append(out, what.port);
  std::ranges::copy(what.shown, std::back_inserter(out));
  return out;
}

result<rendezvous> decode_rendezvous(std::span<const std::byte> bytes) {
  byte_reader reader(bytes);
  const auto port = reader.take<std::uint16_t>();
  const auto shown = reader.take_bytes(std::tuple_size_v<token>);
  if (!port || !shown || !reader.rest().empty()) return malformed("no valid port and token");
  rendezvous made{.port = *port};
  std::ranges::copy(*shown, made.shown.begin());
  return made;
}

std::vector<std::byte> encode(const time_shares& what) {
  std::vector<std::byte> out;
  append(out, stored_magic);
  append(out, protocol_version);
  append_times(out, what);
  return out;
}

result<time_shares> decode_stored(std::span<const std::byte> bytes) {
  byte_reader reader(bytes);
  VERBENA_TRY_VOID(check_version(reader, stored_magic));
  const auto time = take_times(reader);
  if (!time || !reader.rest().empty()) return malformed("a last message of the wrong length");
  return *time;
}

result<void> check_name(std::string_view name) {
  const auto refuse = [](std::string_view why) {
    return error::invalid_argument(
        "check_name", {},
        std::string("the file name ").append(why) + ": use a plain name without directories");
  };
  if (name.empty()) return refuse("is empty");
  if (name.size() > longest_name) return refuse("is longer than 255 bytes");
  if (name == "." || name == "..") return refuse("is a directory");
  if (name.find('/') != std::string_view::npos) return refuse("contains a `/`");
  if (std::ranges::any_of(name, [](unsigned char c) { return c < 0x20 || c == 0x7f; }))
    return refuse("contains control characters");
  if (name.starts_with(temporary_prefix))
    return refuse("begins with .rcopy-, the prefix of temporary files");
  return {};
}

}  // namespace rcopy
