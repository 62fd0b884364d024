// SPDX-License-Identifier: MIT
// The 40 bytes in front of every datagram.
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
const std::string letter(64, 'a');

/// Puts the letter where it is sent from, and sends it.
void send_letter(datagrams& with, std::size_t length = letter.size()) {
  put(with.at(message_at, length), letter.substr(0, length));
  with.send(9, with.memory.slice(message_at, length), with.way());
  take_good(with.sends, 1);
}
/// A receive of `room` bytes and a letter for it.
completion receive_letter(datagrams& with, std::size_t room, std::size_t length = letter.size()) {
  with.receive(1, 0, room);
  send_letter(with, length);
  const auto taken = take(with.receives, 1);
  require(taken.size() == 1, "the receive does not end");
  return taken[0];
}

// The receive is as long as the message, which is short: there is not even room for the header.
void room_for_less_than_the_header() {
  datagrams with;
  with.receive(1, 0, 8);
  send_letter(with, 8);
  const auto taken = take(with.receives, 1, briefly());
  if (taken.empty() || !taken[0].ok()) harmed("the message is dropped");
}
void room_for_the_header() {
  datagrams with;
  require(receive_letter(with, front + 8, 8).ok(), "the receive failed");
}

// The program looks for the message where its memory begins.
void message_at_the_beginning() {
  datagrams with;
  require(receive_letter(with, front + letter.size()).ok(), "the receive failed");
  const auto read = text_at(with.at(0, letter.size()), letter.size());
  if (read != letter) harmed("what was read ends with the first 24 bytes of the message");
}
// The program takes the length of the completion for that of the message.
void length_with_the_header() {
  datagrams with;
  put(with.at(front + 16, 64), std::string(64, 's'));  // what was there before
  const auto done = receive_letter(with, 1024, 16);
  require(done.ok(), "the receive failed");
  const auto read = text_at(with.at(front, done.byte_length()), done.byte_length());
  if (read != letter.substr(0, 16))
    harmed("the message has " + std::to_string(read.size() - 16) +
           " bytes too many: " + read.substr(16));
}
void read_by_the_library(std::size_t length) {
  datagrams with;
  const auto done = receive_letter(with, 1024, length);
  const auto datagram = received_datagram::of(done, with.at(0, 1024)).value();
  const auto payload = datagram.payload();
  require(text_at(payload, payload.size()) == letter.substr(0, length), "another message");
}
void payload_begins_behind_the_header() {
  read_by_the_library(letter.size());
  held("payload() begins behind the header");
}
void payload_has_the_length_of_the_message() {
  read_by_the_library(16);
  held("payload() is as long as the message");
}

// Over IPv4 the header stands in the last 20 of the 40 bytes; the first 20 are anything.
void header_read_as_ipv6() {
  datagrams with;
  require(with.own.gid.is_ipv4_mapped(), "the device has no IPv4 address");
  std::memset(with.at(0, front).data(), 0x6a, front);
  require(receive_letter(with, 1024).ok(), "the receive failed");
  const auto* const header = reinterpret_cast<const ibv_grh*>(with.at(0, front).data());
  std::array<std::uint8_t, 16> source{};
  std::memcpy(source.data(), header->sgid.raw, source.size());
  if (gid(source) != with.own.gid)
    harmed("the sender is taken for " + to_string(gid(source)) + ", not " +
           to_string(with.own.gid));
}
void header_read_by_the_library() {
  datagrams with;
  std::memset(with.at(0, front).data(), 0x6a, front);
  const auto done = receive_letter(with, 1024);
  const auto header = received_datagram::of(done, with.at(0, 1024)).value().header().value();
  require(header.has_value() && header->source == with.own.gid, "another sender");
  const auto back = with.pd.sender_address(done, port_number(1), header).value();
  require(back.gid == with.own.gid, "another way back");
  held("header() has found the form out");
}

constexpr crate not_for_datagrams = {answer::absent, "it has reliable connections alone"};
constexpr crate offset_is_documented = {
    answer::no, "that the message begins at byte 40, and that the length counts it, is documented"};
constexpr crate size_is_a_constant = {answer::no, "GRH_SIZE is a constant that the caller adds"};

constexpr std::array entries = {
    entry{.name = "receive_without_room_for_the_header",
          .kind = "UD's 40 bytes",
          .mistake = "receives of short datagrams are shorter than the 40 bytes in front",
          .seen = "ibv_post_recv(3): the first 40 bytes of the buffer are for the GRH",
          .does = harm::hang,
          .caught_by = level::stop,
          .words = "a receive of a datagram queue pair has fewer than the 40 bytes of the GRH",
          .ibverbs = offset_is_documented,
          .ibverbs_rs = not_for_datagrams,
          .rrddmma = size_is_a_constant,
          .harmful = &room_for_less_than_the_header,
          .caught = &room_for_less_than_the_header,
          .twin = &room_for_the_header},
    entry{.name = "datagram_read_from_the_beginning",
          .kind = "UD's 40 bytes",
          .mistake = "the message is read at offset 0 of the receive, not at 40",
          .seen = "rdma-core PR #462: ud_pingpong validated its buffer from byte 0",
          .does = harm::wrong_data,
          .caught_by = level::unwritable,
          .words = "payload.. begins behind the header",
          .ibverbs = offset_is_documented,
          .ibverbs_rs = not_for_datagrams,
          .rrddmma = size_is_a_constant,
          .harmful = &message_at_the_beginning,
          .caught = &payload_begins_behind_the_header,
          .twin = &payload_begins_behind_the_header},
    entry{.name = "length_of_a_datagram_counts_the_header",
          .kind = "UD's 40 bytes",
          .mistake = "byte_len bytes are taken for the message: 40 too many",
          .seen = "rust-ibverbs has to document of its receives that byte_len counts the 40 bytes",
          .does = harm::wrong_data,
          .caught_by = level::unwritable,
          .words = "payload.. is as long as the message",
          .ibverbs = offset_is_documented,
          .ibverbs_rs = not_for_datagrams,
          .rrddmma = size_is_a_constant,
          .harmful = &length_with_the_header,
          .caught = &payload_has_the_length_of_the_message,
          .twin = &payload_has_the_length_of_the_message},
    entry{.name = "header_read_in_the_other_form",
          .kind = "UD's 40 bytes",
          .mistake = "the 40 bytes are read as an IPv6 header, and are 20 of IPv4 at byte 20",
          .seen = "UCX PR #6317, rpingmesh #5: GRH has unknown IP version 0",
          .does = harm::wrong_data,
          .caught_by = level::unwritable,
          .words = "header.. has found the form out",
          .ibverbs = unknown,
          .ibverbs_rs = not_for_datagrams,
          .rrddmma = unknown,
          .harmful = &header_read_as_ipv6,
          .caught = &header_read_by_the_library,
          .twin = &header_read_by_the_library},
};

}  // namespace
}  // namespace header_entries

std::span<const entry> datagram_header() { return header_entries::entries; }

}  // namespace verbena::zoo
