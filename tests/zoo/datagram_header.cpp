// SPDX-License-Identifier: MIT
// The global routing header: 40 bytes in front of every datagram.
#include <array>
#include <cstring>
#include <string>
#include <utility>

#include "tests/zoo/c_verbs.hpp"
#include "tests/zoo/crates.hpp"
#include "tests/zoo/datagrams.hpp"
#include "tests/zoo/entry.hpp"
#include "tests/zoo/pair.hpp"

namespace verbena::zoo {
namespace header_entries {
namespace {

constexpr std::size_t front = global_route_header::encoded_size;
constexpr std::size_t message_at = 4096;
const std::string payload_text(64, 'a');

/// Sends the first `length` bytes of payload_text.
void send_datagram(datagrams& with, std::size_t length = payload_text.size()) {
  put(with.at(message_at, length), payload_text.substr(0, length));
  with.send(9, with.memory.slice(message_at, length), with.address_handle_of_self());
  take_successful(with.sends, 1);
}
/// Posts a receive of `room` bytes, sends a datagram to it and returns the completion.
completion receive_datagram(datagrams& with, std::size_t room,
                            std::size_t length = payload_text.size()) {
  with.receive(1, 0, room);
  send_datagram(with, length);
  const auto taken = take(with.receives, 1);
  require(taken.size() == 1, "the receive did not complete");
  return taken[0];
}

// The receive is as long as the short message and has no room for the header.
void receive_shorter_than_grh() {
  datagrams with;
  with.receive(1, 0, 8);
  send_datagram(with, 8);
  const auto taken = take(with.receives, 1, short_deadline());
  if (taken.empty() || !taken[0].ok()) harmed("the message is dropped");
}
void receive_with_room_for_grh() {
  datagrams with;
  require(receive_datagram(with, front + 8, 8).ok(), "the receive failed");
}

// The program reads the message at the start of the receive buffer.
void read_message_at_offset_0() {
  datagrams with;
  require(receive_datagram(with, front + payload_text.size()).ok(), "the receive failed");
  const auto read = text_at(with.at(0, payload_text.size()), payload_text.size());
  if (read != payload_text)
    harmed("the program read the 40 bytes of the header and 24 bytes of the message");
}
// The program uses byte_len as the length of the message.
void read_message_with_byte_len() {
  datagrams with;
  put(with.at(front + 16, 64), std::string(64, 's'));  // the previous content
  const auto done = receive_datagram(with, 1024, 16);
  require(done.ok(), "the receive failed");
  const auto read = text_at(with.at(front, done.byte_length()), done.byte_length());
  if (read != payload_text.substr(0, 16))
    harmed("the message has " + std::to_string(read.size() - 16) +
           " bytes of old content: " + read.substr(16));
}
void read_by_the_library(std::size_t length) {
  datagrams with;
  const auto done = receive_datagram(with, 1024, length);
  const auto datagram = received_datagram::of(done, with.at(0, 1024)).value();
  const auto payload = datagram.payload();
  require(text_at(payload, payload.size()) == payload_text.substr(0, length),
          "the message has other bytes");
}
void payload_starts_after_grh() {
  read_by_the_library(payload_text.size());
  verified("payload() starts after the header");
}
void payload_length_excludes_grh() {
  read_by_the_library(16);
  verified("payload() has the length of the message");
}

// Over IPv4 the header is in the last 20 of the 40 bytes. The first 20 are undefined.
void read_ipv4_grh_as_ipv6() {
  datagrams with;
  require(with.own.gid.is_ipv4_mapped(), "the device has no IPv4 address");
  std::memset(with.at(0, front).data(), 0x6a, front);
  require(receive_datagram(with, 1024).ok(), "the receive failed");
  const auto* const header = reinterpret_cast<const ibv_grh*>(with.at(0, front).data());
  std::array<std::uint8_t, 16> source{};
  std::memcpy(source.data(), header->sgid.raw, source.size());
  if (gid(source) != with.own.gid)
    harmed("the sender's GID is read as " + to_string(gid(source)) + ", not " +
           to_string(with.own.gid));
}
void read_grh_by_the_library() {
  datagrams with;
  std::memset(with.at(0, front).data(), 0x6a, front);
  const auto done = receive_datagram(with, 1024);
  const auto header = received_datagram::of(done, with.at(0, 1024)).value().header().value();
  require(header.has_value() && header->source == with.own.gid, "the sender differs");
  const auto back = with.pd.sender_address(done, port_number(1), header).value();
  require(back.gid == with.own.gid, "the return address differs");
  verified("header() detected the header format");
}

constexpr crate not_for_datagrams = {answer::absent, "it supports only reliable connections"};
constexpr crate offset_is_documented = {answer::no,
                                        "the documentation states that the message starts at byte "
                                        "40 and the length includes the header"};
constexpr crate size_is_a_constant = {answer::no, "GRH_SIZE is a constant that the caller adds"};

constexpr std::array entries = {
    entry{.name = "datagram_receive_without_room_for_grh",
          .kind = "UD's 40 bytes",
          .mistake = "receives of short datagrams are shorter than the 40 bytes of the GRH",
          .seen = "ibv_post_recv(3): the first 40 bytes of the buffer are for the GRH",
          .does = harm::hang,
          .caught_by = level::stop,
          .words = "a receive of a datagram queue pair has fewer than the 40 bytes of the GRH",
          .ibverbs = offset_is_documented,
          .ibverbs_rs = not_for_datagrams,
          .rrddmma = size_is_a_constant,
          .harmful = &receive_shorter_than_grh,
          .caught = &receive_shorter_than_grh,
          .twin = &receive_with_room_for_grh},
    entry{.name = "datagram_read_without_skipping_grh",
          .kind = "UD's 40 bytes",
          .mistake = "the message is read at offset 0 of the receive, not at 40",
          .seen = "rdma-core PR #462: ud_pingpong validated its buffer from byte 0",
          .does = harm::wrong_data,
          .caught_by = level::unwritable,
          .words = "payload.. starts after the header",
          .ibverbs = offset_is_documented,
          .ibverbs_rs = not_for_datagrams,
          .rrddmma = size_is_a_constant,
          .harmful = &read_message_at_offset_0,
          .caught = &payload_starts_after_grh,
          .twin = &payload_starts_after_grh},
    entry{.name = "datagram_length_includes_grh",
          .kind = "UD's 40 bytes",
          .mistake = "byte_len is used as the length of the message: 40 bytes too many",
          .seen = "rust-ibverbs documents that byte_len includes the 40 bytes",
          .does = harm::wrong_data,
          .caught_by = level::unwritable,
          .words = "payload.. has the length of the message",
          .ibverbs = offset_is_documented,
          .ibverbs_rs = not_for_datagrams,
          .rrddmma = size_is_a_constant,
          .harmful = &read_message_with_byte_len,
          .caught = &payload_length_excludes_grh,
          .twin = &payload_length_excludes_grh},
    entry{.name = "ipv4_grh_read_as_ipv6",
          .kind = "UD's 40 bytes",
          .mistake =
              "the 40 bytes are read as an IPv6 header; they contain an IPv4 header at byte 20",
          .seen = "UCX PR #6317, rpingmesh #5: GRH has unknown IP version 0",
          .does = harm::wrong_data,
          .caught_by = level::unwritable,
          .words = "header.. detected the header format",
          .ibverbs = unknown,
          .ibverbs_rs = not_for_datagrams,
          .rrddmma = unknown,
          .harmful = &read_ipv4_grh_as_ipv6,
          .caught = &read_grh_by_the_library,
          .twin = &read_grh_by_the_library},
};

}  // namespace
}  // namespace header_entries

std::span<const entry> datagram_header() { return header_entries::entries; }

}  // namespace verbena::zoo
