// SPDX-License-Identifier: MIT
// The bytes that cross the wire during bring-up. All numbers are big-endian.
//
//   greeting   0x56 42 55 50 ("VBUP")   lowest version u16   highest version u16
//   frame      type u8   zero u8   zero u16   payload length u32   payload
//
// The client greets first; the server answers only a valid greeting, with its own. The version
// spoken is the highest that both know. Frames follow in both directions.
//
// To connect queue pairs, each side sends one frame after the other, and waits for the peer's frame
// of the same type in between:
//
//   version 1   endpoint, ready
//   version 2   offer, verdict, ready; after a verdict `again` of either side: from the beginning
//   version 3   the same; `ready` may have bytes of the application
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "verbena/base/result.hpp"

namespace verbena::inline VERBENA_ABI::bringup {

/// What a frame carries.
enum class frame_type : std::uint8_t {
  blob = 1,      ///< bytes of the application
  endpoint = 2,  ///< a queue pair's endpoint
  ready = 3,     ///< the sender can receive; since version 3 with a message of the application
  refusal = 4,   ///< the sender gives up; the payload is the reason in UTF-8
  offer = 5,     ///< what a side can do and wants: `bringup::offer`; since version 2
  verdict = 6,   ///< whether what was decided works for the sender: one byte; since version 2
};

/// What a verdict says.
enum class verdict : std::uint8_t {
  settled = 0,  ///< the sender's queue pair is connected as decided
  again = 1,    ///< the sender's port has changed meanwhile: both offer anew
};

/// `blob`, `endpoint`, `ready`, `refusal`, `offer`, `verdict` or `unknown (9)`.
[[nodiscard]] std::string to_string(frame_type type);

/// One frame. Threads: one thread at a time.
struct frame {
  frame_type type = frame_type::blob;  ///< what the payload is
  std::vector<std::byte> payload;      ///< its bytes
};

/// The versions of this protocol that one side speaks.
struct version_range {
  std::uint16_t lowest = 1;   ///< the first version that it speaks
  std::uint16_t highest = 3;  ///< the last one

  friend bool operator==(version_range, version_range) = default;
};

/// What this library speaks.
inline constexpr version_range spoken_versions{};
/// Bytes of a greeting.
inline constexpr std::size_t greeting_bytes = 8;
/// Bytes in front of a frame's payload.
inline constexpr std::size_t frame_header_bytes = 8;
/// The version from which on sides make offers.
inline constexpr std::uint16_t offers_since_version = 2;
/// The version from which on `ready` may have bytes.
inline constexpr std::uint16_t messages_since_version = 3;
/// Those at most.
inline constexpr std::size_t max_ready_bytes = 64;
/// What an endpoint, an offer or a verdict has at most.
inline constexpr std::size_t max_bringup_bytes = 1024;
/// What a refusal's text is cut to.
inline constexpr std::size_t max_refusal_bytes = 512;

/// A greeting as bytes.
[[nodiscard]] std::array<std::byte, greeting_bytes> encode_greeting(
    version_range versions) noexcept;

/// The peer's versions. Errors (all `protocol`): another magic number; lowest above highest.
[[nodiscard]] result<version_range> decode_greeting(
    std::span<const std::byte, greeting_bytes> bytes);

/// The highest version of both. Error: `protocol`, naming both ranges, when there is none.
[[nodiscard]] result<std::uint16_t> negotiate(version_range ours, version_range theirs);

/// A whole frame as bytes. Precondition: the payload has at most 4 GiB - 1. Allocates.
[[nodiscard]] std::vector<std::byte> encode_frame(frame_type type,
                                                  std::span<const std::byte> payload);

/// Puts one frame together from bytes that arrive in any pieces. It asks for exactly the bytes that
/// are missing, so nothing behind the frame is taken off the socket, and allocates the payload only
/// after the header was found valid. Threads: one thread at a time.
class frame_decoder {
 public:
  /// Refuses blobs above `max_payload_bytes`; the frames of bring-up itself have limits of their
  /// own.
  explicit frame_decoder(std::size_t max_payload_bytes) noexcept : limit_(max_payload_bytes) {}

  /// Where the next bytes go; empty when the frame is complete. Valid until the next call.
  [[nodiscard]] std::span<std::byte> room() noexcept;
  /// Tells that the first `count` bytes of room() were filled. Precondition: count fits.
  /// Errors (all `protocol`): unknown type, reserved bits, payload too long.
  [[nodiscard]] result<void> filled(std::size_t count);
  /// Whether any byte of the frame was taken.
  [[nodiscard]] bool started() const noexcept { return taken_ != 0; }
  /// Whether the frame can be taken.
  [[nodiscard]] bool complete() const noexcept { return complete_; }
  /// The type of the frame. Precondition: complete().
  [[nodiscard]] frame_type type() const noexcept { return frame_.type; }
  /// The frame; the decoder begins the next one. Precondition: complete().
  [[nodiscard]] frame take();

 private:
  result<void> read_header();

  std::size_t limit_;
  std::array<std::byte, frame_header_bytes> header_{};
  std::size_t taken_ = 0;
  bool complete_ = false;
  frame frame_;
};

/// A refusal's text as it may be shown: cut to max_refusal_bytes, control characters and what is
/// no UTF-8 as `?`.
[[nodiscard]] std::string printable_refusal(std::span<const std::byte> payload);

}  // namespace verbena::inline VERBENA_ABI::bringup
