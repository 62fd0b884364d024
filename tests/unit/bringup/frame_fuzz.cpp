// SPDX-License-Identifier: MIT
// The bytes of a peer on the stream: greeting and frames in any fragmentation.
#include "verbena/bringup/frame.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tests/fuzz/target.hpp"
#include "verbena/base/bytes.hpp"

namespace verbena::bringup {
namespace {

using fuzz::require;

constexpr std::size_t longest_blob = 2048;

void check_greeting(fuzz::input bytes) {
  if (bytes.size() < greeting_bytes) return;
  const auto first = bytes.first<greeting_bytes>();
  const auto got = decode_greeting(first);
  if (!got) return;
  require(got->lowest <= got->highest);
  require(std::ranges::equal(encode_greeting(*got), first));
  if (const auto version = negotiate(supported_versions, *got))
    require(*version >= supported_versions.lowest && *version <= supported_versions.highest &&
            *version >= got->lowest && *version <= got->highest &&
            negotiate(*got, supported_versions).value() == *version);
}

// Passes bytes to a decoder in parts of at most `fragment`; returns the frames, and ends at the
// first error.
struct decoded_frames {
  std::vector<frame> frames;
  std::size_t consumed = 0;
  bool failed = false;
};
decoded_frames decode_frames(fuzz::input bytes, std::size_t fragment) {
  decoded_frames out;
  frame_decoder decoder(longest_blob);
  while (!out.failed) {
    require(decoder.missing() == decoder.room().size());
    if (decoder.complete()) {
      out.frames.push_back(decoder.take());
      require(out.frames.back().payload.size() <= longest_blob);
      continue;
    }
    const auto room = decoder.room();
    const auto part = bytes.first(std::min({fragment, room.size(), bytes.size()}));
    if (part.empty()) break;
    std::ranges::copy(part, room.begin());
    bytes = bytes.subspan(part.size());
    out.consumed += part.size();
    out.failed = !decoder.filled(part.size());
  }
  return out;
}

void check_refusal(std::span<const std::byte> payload) {
  const std::string text = printable_refusal(payload);
  require(!text.empty() && text.size() <= max_refusal_bytes);
  require(std::ranges::none_of(text, [](unsigned char c) { return c < 0x20 || c == 0x7f; }));
  require(printable_refusal(bytes_of(text)) == text);
}

// The first byte is the size of the fragments.
void run_bringup_stream(fuzz::input input) {
  fuzz::reader from(input);
  const std::size_t fragment = std::max<std::size_t>(1, from.take<std::uint8_t>());
  const auto bytes = from.rest();
  check_greeting(bytes);
  check_refusal(bytes);
  const auto got = decode_frames(bytes, fragment);
  const auto whole = decode_frames(bytes, bytes.size() + 1);
  require(got.failed == whole.failed && got.frames.size() == whole.frames.size());
  std::size_t at = 0;
  for (std::size_t i = 0; i < got.frames.size(); ++i) {
    const frame& each = got.frames[i];
    require(each.type == whole.frames[i].type && each.payload == whole.frames[i].payload);
    require(!to_string(each.type).starts_with("unknown"));
    const auto again = encode_frame(each.type, each.payload);
    require(std::ranges::equal(again, bytes.subspan(at, again.size())));
    at += again.size();
    if (each.type == frame_type::refusal) check_refusal(each.payload);
  }
  require(at <= got.consumed && got.consumed <= bytes.size());
}

void bringup_stream_seeds(fuzz::seed_folder& into) {
  const auto add = [&](const char* name, frame_type type, std::string_view payload) {
    fuzz::writer out;
    out.put(std::uint8_t{3});
    out.put(std::span<const std::byte>(encode_frame(type, bytes_of(payload))));
    out.put(std::span<const std::byte>(encode_frame(frame_type::blob, bytes_of("next"))));
    into.add(name, out.bytes());
  };
  add("blob", frame_type::blob, "");
  add("ready", frame_type::ready, "message");
  add("refusal", frame_type::refusal, "the queue is \xc3\xbc\x01 full \xff");
  add("verdict", frame_type::verdict, std::string_view("\0", 1));
  add("offer", frame_type::offer, std::string(100, '\2'));
  into.add("greeting",
           fuzz::writer().put(std::uint8_t{8}).put(encode_greeting(supported_versions)).bytes());
}

const fuzz::target bringup_streams("bringup_stream", run_bringup_stream, bringup_stream_seeds);

}  // namespace
}  // namespace verbena::bringup
