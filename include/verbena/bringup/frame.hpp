// SPDX-License-Identifier: MIT
// The wire format of the bring-up. All numbers are big-endian.
//
//   greeting   0x56 42 55 50 ("VBUP")   lowest version u16   highest version u16
//   frame      type u8   zero u8   zero u16   payload length u32   payload
//
// stream::connect() sends its greeting first; a listener responds only to a valid greeting.
// stream::adopt() and negotiation send their greetings at once. The version is the highest that
// both sides support. Frames follow in both directions.
//
// To connect queue pairs, each side sends these frames, and waits for the peer's frame of one type
// before it sends the next type:
//
//   version 1   endpoint, ready
//   version 2   offer, verdict, ready; a verdict `again` of either side starts the next round
//   version 3   as version 2; `ready` may carry a message of the program
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "verbena/base/result.hpp"

namespace verbena::inline VERBENA_ABI::bringup {

/// Types of frames.
enum class frame_type : std::uint8_t {
  blob = 1,      ///< bytes of the program
  endpoint = 2,  ///< a queue pair's endpoint
  ready = 3,     ///< the sender can receive; since version 3 with a message of the program
  refusal = 4,   ///< the sender gives up; the payload is the reason in UTF-8
  offer = 5,     ///< `bringup::offer`; since version 2
  verdict = 6,   ///< `bringup::verdict` in one byte; since version 2
};

/// The result of a round at one side.
enum class verdict : std::uint8_t {
  settled = 0,  ///< the sender's queue pair is connected as decided
  again = 1,    ///< the sender's port has changed: both sides make new offers
};

/// Returns `blob`, `endpoint`, `ready`, `refusal`, `offer`, `verdict` or `unknown (9)`.
[[nodiscard]] std::string to_string(frame_type type);

/// One frame. Threads: one thread at a time.
struct frame {
  frame_type type = frame_type::blob;  ///< type of the payload
  std::vector<std::byte> payload;      ///< bytes of the payload
};

/// The protocol versions that one side supports. Threads: immutable value.
struct version_range {
  std::uint16_t lowest = 1;   ///< lowest version
  std::uint16_t highest = 3;  ///< highest version

  friend bool operator==(version_range, version_range) = default;
};

/// The versions that this library supports.
inline constexpr version_range supported_versions{};
/// Bytes of a greeting.
inline constexpr std::size_t greeting_bytes = 8;
/// Bytes of a frame's header.
inline constexpr std::size_t frame_header_bytes = 8;
/// The first version with offers.
inline constexpr std::uint16_t offers_since_version = 2;
/// The first version with messages in `ready`.
inline constexpr std::uint16_t messages_since_version = 3;
/// The largest message in `ready`.
inline constexpr std::size_t max_ready_bytes = 64;
/// The largest payload of an endpoint, an offer or a verdict.
inline constexpr std::size_t max_bringup_bytes = 1024;
/// The largest text of a refusal; longer ones are truncated.
inline constexpr std::size_t max_refusal_bytes = 512;

/// Encodes a greeting.
[[nodiscard]] std::array<std::byte, greeting_bytes> encode_greeting(
    version_range versions) noexcept;

/// Decodes a greeting. Errors (all `protocol`): wrong magic number; lowest above highest.
[[nodiscard]] result<version_range> decode_greeting(
    std::span<const std::byte, greeting_bytes> bytes);

/// Returns the highest common version. Error: `protocol`, with both ranges, if there is none.
[[nodiscard]] result<std::uint16_t> negotiate(version_range ours, version_range theirs);

/// Encodes a frame. Precondition: the payload has at most 4 GiB - 1. Allocates.
[[nodiscard]] std::vector<std::byte> encode_frame(frame_type type,
                                                  std::span<const std::byte> payload);

/// Assembles one frame from bytes in any fragmentation. It requests only the missing bytes, so the
/// caller never reads beyond the frame. It allocates the payload after it has validated the header.
/// Threads: one thread at a time.
class frame_decoder {
 public:
  /// Rejects blobs of more than `max_payload_bytes`; other frames have fixed limits.
  explicit frame_decoder(std::size_t max_payload_bytes) noexcept : limit_(max_payload_bytes) {}

  /// Returns the memory for the next bytes; empty if the frame is complete. Valid until the next
  /// call.
  [[nodiscard]] std::span<std::byte> room() noexcept;
  /// Returns the size of room(): the bytes that may be read without reading past the frame.
  [[nodiscard]] std::size_t missing() const noexcept;
  /// Consumes the first `count` bytes of room(). Precondition: `count` is at most missing().
  /// Errors (all `protocol`): unknown type, reserved bits, payload too long.
  [[nodiscard]] result<void> filled(std::size_t count);
  /// Returns whether bytes of the frame have arrived.
  [[nodiscard]] bool started() const noexcept { return taken_ != 0; }
  /// Returns whether the frame is complete.
  [[nodiscard]] bool complete() const noexcept { return complete_; }
  /// Returns the type of the frame. Precondition: complete().
  [[nodiscard]] frame_type type() const noexcept { return frame_.type; }
  /// Returns the frame and begins the next one. Precondition: complete().
  [[nodiscard]] frame take();

 private:
  result<void> read_header();

  std::size_t limit_;
  std::array<std::byte, frame_header_bytes> header_{};
  std::size_t taken_ = 0;
  bool complete_ = false;
  frame frame_;
};

/// Returns a refusal's text for display: truncated to max_refusal_bytes, with `?` for control
/// characters and for bytes that are not UTF-8.
[[nodiscard]] std::string printable_refusal(std::span<const std::byte> payload);

}  // namespace verbena::inline VERBENA_ABI::bringup
