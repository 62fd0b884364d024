// SPDX-License-Identifier: MIT
#include "verbena/bringup/frame.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

#include "verbena/base/assert.hpp"
#include "verbena/base/bytes.hpp"

namespace verbena::inline VERBENA_ABI::bringup {
namespace {

constexpr std::uint32_t magic = 0x5642'5550;  // "VBUP"

std::string hexadecimal(std::span<const std::byte> bytes) {
  std::string text;
  for (const auto byte : bytes) {
    std::array<char, 4> digits{};
    std::snprintf(digits.data(), digits.size(), "%02x ", std::to_integer<unsigned>(byte));
    text += digits.data();
  }
  if (!text.empty()) text.pop_back();
  return text;
}

std::string to_text(version_range range) {
  if (range.lowest == range.highest) return std::to_string(range.lowest);
  return std::to_string(range.lowest) + " to " + std::to_string(range.highest);
}

// Returns the length in bytes of the first character of `text`; 0 if it is not UTF-8. Source: RFC
// 3629.
std::size_t character_bytes(std::span<const std::byte> text) {
  const auto byte = [&](std::size_t at) { return std::to_integer<unsigned>(text[at]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return 1;
  const std::size_t count = lead < 0xc2   ? 0
                            : lead < 0xe0 ? 2
                            : lead < 0xf0 ? 3
                            : lead < 0xf5 ? 4
                                          : 0;
  if (count == 0 || count > text.size()) return 0;
  for (std::size_t at = 1; at < count; ++at)
    if ((byte(at) & 0xc0U) != 0x80) return 0;
  // Overlong encodings; surrogates and characters beyond U+10FFFF.
  const bool too_small = (lead == 0xe0 && byte(1) < 0xa0) || (lead == 0xf0 && byte(1) < 0x90);
  const bool too_large = (lead == 0xed && byte(1) >= 0xa0) || (lead == 0xf4 && byte(1) >= 0x90);
  return too_small || too_large ? 0 : count;
}

std::size_t limit_of(frame_type type, std::size_t blob_bytes) {
  switch (type) {
    case frame_type::blob:
      return blob_bytes;
    case frame_type::ready:
      return max_ready_bytes;
    case frame_type::refusal:
      return max_refusal_bytes;
    case frame_type::endpoint:
    case frame_type::offer:
    case frame_type::verdict:
      break;
  }
  return max_bringup_bytes;
}

bool is_known(frame_type type) { return type >= frame_type::blob && type <= frame_type::verdict; }

}  // namespace

std::string to_string(frame_type type) {
  switch (type) {
    case frame_type::blob:
      return "blob";
    case frame_type::endpoint:
      return "endpoint";
    case frame_type::ready:
      return "ready";
    case frame_type::refusal:
      return "refusal";
    case frame_type::offer:
      return "offer";
    case frame_type::verdict:
      return "verdict";
  }
  return "unknown (" + std::to_string(static_cast<unsigned>(type)) + ")";
}

std::array<std::byte, greeting_bytes> encode_greeting(version_range versions) noexcept {
  std::array<std::byte, greeting_bytes> bytes{};
  store_network_order(bytes.data(), magic);
  store_network_order(bytes.data() + 4, versions.lowest);
  store_network_order(bytes.data() + 6, versions.highest);
  return bytes;
}

result<version_range> decode_greeting(std::span<const std::byte, greeting_bytes> bytes) {
  byte_reader reader(bytes);
  const auto their_magic = reader.take<std::uint32_t>().value_or(0);
  const auto lowest = reader.take<std::uint16_t>().value_or(0);
  const auto highest = reader.take<std::uint16_t>().value_or(0);
  if (their_magic != magic)
    return error::protocol(
        "decode_greeting", {},
        "the peer does not use Verbena's connection setup protocol (first bytes: " +
            hexadecimal(bytes) + "); check host and port");
  if (lowest > highest)
    return error::protocol("decode_greeting", {},
                           "the peer's greeting has an empty range of versions: " +
                               std::to_string(lowest) + " is above " + std::to_string(highest));
  return version_range{.lowest = lowest, .highest = highest};
}

result<std::uint16_t> negotiate(version_range ours, version_range theirs) {
  const auto best = std::min(ours.highest, theirs.highest);
  if (best >= std::max(ours.lowest, theirs.lowest)) return best;
  return error::protocol("negotiate", {},
                         "the peer supports version " + to_text(theirs) +
                             " of the connection setup protocol, this side version " +
                             to_text(ours) + "; update the older side");
}

std::vector<std::byte> encode_frame(frame_type type, std::span<const std::byte> payload) {
  VERBENA_ASSERT(payload.size() <= std::numeric_limits<std::uint32_t>::max(),
                 "the payload of a bring-up frame exceeds 4 GiB - 1 bytes");
  std::vector<std::byte> bytes(frame_header_bytes + payload.size());
  bytes[0] = static_cast<std::byte>(type);
  store_network_order(bytes.data() + 4, static_cast<std::uint32_t>(payload.size()));
  std::ranges::copy(payload, bytes.begin() + frame_header_bytes);
  return bytes;
}

std::span<std::byte> frame_decoder::room() noexcept {
  if (complete_) return {};
  if (taken_ < header_.size()) return std::span(header_).subspan(taken_);
  return std::span(frame_.payload).subspan(taken_ - header_.size());
}

std::size_t frame_decoder::missing() const noexcept {
  if (complete_) return 0;
  if (taken_ < header_.size()) return header_.size() - taken_;
  return frame_.payload.size() - (taken_ - header_.size());
}

result<void> frame_decoder::filled(std::size_t count) {
  VERBENA_ASSERT(count <= room().size(), "filled() with more bytes than room() has");
  const bool header_was_complete = taken_ >= header_.size();
  taken_ += count;
  if (taken_ < header_.size()) return {};
  if (!header_was_complete) VERBENA_TRY_VOID(read_header());
  complete_ = taken_ == header_.size() + frame_.payload.size();
  return {};
}

result<void> frame_decoder::read_header() {
  byte_reader reader(header_);
  const auto type = static_cast<frame_type>(reader.take<std::uint8_t>().value_or(0));
  const auto zero_byte = reader.take<std::uint8_t>().value_or(1);
  const auto zero_word = reader.take<std::uint16_t>().value_or(1);
  const std::size_t length = reader.take<std::uint32_t>().value_or(0);
  if (!is_known(type) || zero_byte != 0 || zero_word != 0)
    return error::protocol(
        "decode_frame", {},
        "the peer sent an unknown frame (its header is " + hexadecimal(header_) + ")");
  const std::size_t limit = limit_of(type, limit_);
  if (length > limit)
    return error::protocol("decode_frame", {},
                           "the peer announced `" + to_string(type) + "` of " +
                               std::to_string(length) + " bytes; the limit is " +
                               std::to_string(limit) + " bytes");
  frame_.type = type;
  frame_.payload.resize(length);
  return {};
}

frame frame_decoder::take() {
  VERBENA_ASSERT(complete_, "take() of an incomplete frame: check complete() first");
  taken_ = 0;
  complete_ = false;
  return std::exchange(frame_, {});
}

std::string printable_refusal(std::span<const std::byte> payload) {
  std::string text;
  auto rest = payload.first(std::min(payload.size(), max_refusal_bytes));
  while (!rest.empty()) {
    const std::size_t count = character_bytes(rest);
    const auto first = std::to_integer<unsigned>(rest[0]);
    const bool control =
        first < 0x20 || first == 0x7f || (first == 0xc2 && count == 2 && rest[1] < std::byte{0xa0});
    if (count == 0 || control)
      text += '?';
    else
      for (const auto byte : rest.first(count)) text += std::to_integer<char>(byte);
    rest = rest.subspan(std::max<std::size_t>(count, 1));
  }
  return text.empty() ? "without a reason" : text;
}

}  // namespace verbena::inline VERBENA_ABI::bringup
