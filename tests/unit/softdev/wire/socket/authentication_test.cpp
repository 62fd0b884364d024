// SPDX-License-Identifier: MIT
// The trailer of packets: its format, its tag, and the checks of a receiver.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "softdev/wire/auth/packet_signer.hpp"
#include "softdev/wire/auth/packet_verifier.hpp"
#include "softdev/wire/auth/sequence_window.hpp"
#include "softdev/wire/auth/trailer.hpp"
#include "softdev/wire/auth/wire_key.hpp"
#include "softdev/wire/socket/udp_socket.hpp"

namespace verbena::softdev::wire {
namespace {

using octets = std::vector<std::byte>;

octets from_hex(std::string_view text) {
  octets out;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2)
    out.push_back(static_cast<std::byte>(std::stoul(std::string(text.substr(i, 2)), nullptr, 16)));
  return out;
}

/// Returns a datagram with room for a trailer. The packet is the one of golden_tags.py.
octets datagram_of(std::size_t packet_bytes) {
  octets out(packet_bytes + trailer_bytes);
  for (std::size_t i = 0; i < packet_bytes; ++i) out[i] = static_cast<std::byte>(i * 7 + 3);
  return out;
}

wire_key key_of(std::string_view secret) {
  return wire_key::derive(std::as_bytes(std::span(secret))).value();
}

struct golden_tag {
  std::string_view secret;
  const char* source;
  const char* destination;
  std::uint16_t source_port;
  std::uint16_t destination_port;
  std::uint64_t sender;
  std::uint64_t sequence;
  std::size_t packet_bytes;
  std::string_view trailer;
};
constexpr golden_tag golden_tags[] = {
#include "tests/unit/softdev/wire/golden_tags.inc"
};

TEST(wire_authentication, trailer_is_that_of_another_implementation) {
  for (const golden_tag& each : golden_tags) {
    SCOPED_TRACE(each.trailer);
    const auto key = wire_key::derive(from_hex(each.secret));
    ASSERT_TRUE(key) << key.error().message();
    auto derivation = hmac_sha256::open().value();
    auto by = gmac::open().value();
    mac_key own;
    ASSERT_TRUE(key->derive_sender(derivation, each.sender, own));
    ASSERT_TRUE(by.set_key(own));
    octets datagram = datagram_of(each.packet_bytes);
    packet_trailer made{.sender = each.sender, .sequence = each.sequence};
    write_trailer(made, datagram);
    const network_header around{.source = *from_text(each.source),
                                .destination = *from_text(each.destination),
                                .source_port = each.source_port,
                                .destination_port = each.destination_port};
    ASSERT_TRUE(compute_tag(by, around, datagram, made.tag));
    write_trailer(made, datagram);
    const octets found(datagram.end() - trailer_bytes, datagram.end());
    EXPECT_EQ(found, from_hex(each.trailer));
    EXPECT_EQ(read_trailer(datagram), made);
    const auto receiver = packet_verifier::open(*key).value();
    EXPECT_EQ(receiver->admit(around, datagram), authenticity::genuine);
  }
}

TEST(wire_authentication, trailer_needs_a_packet_in_front_and_the_marker) {
  octets datagram = datagram_of(16);
  EXPECT_FALSE(has_trailer(datagram));
  write_trailer({.sender = 1, .sequence = 2}, datagram);
  EXPECT_TRUE(has_trailer(datagram));
  EXPECT_EQ(without_trailer(datagram).size(), 16U);
  EXPECT_FALSE(has_trailer(std::span(datagram).subspan(1)));
  EXPECT_FALSE(has_trailer({}));
  EXPECT_EQ(without_trailer(std::span(datagram).subspan(1)).size(), datagram.size() - 1);
  datagram[16] ^= std::byte{1};
  EXPECT_FALSE(has_trailer(datagram));
}

TEST(sequence_window, number_is_accepted_once_in_any_order) {
  sequence_window window;
  EXPECT_FALSE(window.accept(0));
  for (const std::uint64_t each : {5, 3, 4, 1, 64, 63, 65, 2000, 1999, 64 + 17}) {
    EXPECT_TRUE(window.accept(each)) << each;
    EXPECT_FALSE(window.accept(each)) << each;
  }
}

TEST(sequence_window, number_behind_the_reach_is_refused) {
  constexpr std::uint64_t high = 1'000'000;
  sequence_window window;
  ASSERT_TRUE(window.accept(high));
  EXPECT_FALSE(window.accept(high - sequence_window::reach - 1));
  EXPECT_TRUE(window.accept(high - sequence_window::reach));
  EXPECT_FALSE(window.accept(high - sequence_window::reach));
  EXPECT_TRUE(window.accept(~std::uint64_t{0}));
  EXPECT_FALSE(window.accept(~std::uint64_t{0}));
  EXPECT_FALSE(window.accept(high));
}

TEST(sequence_window, agrees_with_a_set_of_all_numbers) {
  sequence_window window;
  std::vector<bool> seen(60'000);
  std::uint64_t highest = 0;
  std::uint64_t state = 7;
  for (int i = 0; i < 40'000; ++i) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    const std::uint64_t drawn = state >> 33U;
    const std::uint64_t back = drawn / 2 % 2500;
    if (drawn % 2 != 0 && back >= highest) continue;
    const std::uint64_t number = drawn % 2 == 0 ? highest + back / 400 : highest - back;
    if (number >= seen.size() || number == 0) continue;
    const bool known = seen[number];
    const bool old = number < highest && highest - number > sequence_window::reach;
    ASSERT_EQ(window.accept(number), !known && !old) << number << " after " << highest;
    if (!old) seen[number] = true;
    highest = std::max(highest, number);
  }
  EXPECT_GT(highest, 10'000U);
}

class wire_verifier : public ::testing::Test {
 protected:
  octets sign(packet_signer& by, std::size_t packet_bytes = 64) {
    octets out = datagram_of(packet_bytes);
    EXPECT_TRUE(by.sign(around, out));
    return out;
  }
  authenticity admit(const octets& datagram) { return receiver->admit(around, datagram); }

  const wire_key key = key_of("a secret of the two hosts");
  const network_header around{.source = *from_text("10.9.0.1"),
                              .destination = *from_text("10.9.0.2"),
                              .source_port = 50'000};
  packet_signer sender = packet_signer::open(key).value();
  std::unique_ptr<packet_verifier> receiver = packet_verifier::open(key).value();
};

TEST_F(wire_verifier, packet_is_admitted_once) {
  const octets first = sign(sender);
  const octets second = sign(sender);
  EXPECT_NE(first, second);
  EXPECT_EQ(admit(second), authenticity::genuine);
  EXPECT_EQ(admit(first), authenticity::genuine);
  EXPECT_EQ(admit(first), authenticity::replayed);
  EXPECT_EQ(admit(second), authenticity::replayed);
  EXPECT_EQ(receiver->senders(), 1U);
}

TEST_F(wire_verifier, examined_packet_can_be_admitted_later) {
  const octets datagram = sign(sender);
  EXPECT_EQ(receiver->examine(around, datagram), authenticity::genuine);
  EXPECT_EQ(receiver->examine(around, datagram), authenticity::genuine);
  EXPECT_EQ(receiver->senders(), 0U);
  EXPECT_EQ(admit(datagram), authenticity::genuine);
}

TEST_F(wire_verifier, packet_with_any_wrong_bit_is_refused) {
  const octets right = sign(sender, 20);
  for (std::size_t bit = 0; bit < right.size() * 8; ++bit) {
    octets wrong = right;
    wrong[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
    const bool in_marker = bit / 8 >= 20 && bit / 8 < 24;
    EXPECT_EQ(admit(wrong), in_marker ? authenticity::missing : authenticity::failed) << bit;
    EXPECT_EQ(receiver->examine(around, wrong),
              in_marker ? authenticity::missing : authenticity::failed);
  }
  EXPECT_EQ(receiver->senders(), 0U);
  EXPECT_EQ(admit(right), authenticity::genuine);
}

TEST_F(wire_verifier, truncated_packet_is_refused) {
  const octets right = sign(sender);
  for (std::size_t length = 0; length < right.size(); ++length) {
    EXPECT_EQ(receiver->admit(around, std::span(right).first(length)), authenticity::missing);
    const authenticity cut = receiver->admit(around, std::span(right).last(length));
    EXPECT_EQ(cut, length < 16 + trailer_bytes ? authenticity::missing : authenticity::failed);
  }
}

TEST_F(wire_verifier, packet_with_other_addresses_or_ports_is_refused) {
  const octets datagram = sign(sender);
  network_header reflected = around;
  std::swap(reflected.source, reflected.destination);
  EXPECT_EQ(receiver->admit(reflected, datagram), authenticity::failed);
  network_header spoofed = around;
  spoofed.source = *from_text("10.9.0.3");
  EXPECT_EQ(receiver->admit(spoofed, datagram), authenticity::failed);
  network_header from_another_port = around;
  ++from_another_port.source_port;
  EXPECT_EQ(receiver->admit(from_another_port, datagram), authenticity::failed);
  network_header to_another_port = around;
  ++to_another_port.destination_port;
  EXPECT_EQ(receiver->admit(to_another_port, datagram), authenticity::failed);
  EXPECT_EQ(admit(datagram), authenticity::genuine);
}

TEST_F(wire_verifier, packet_of_another_key_is_refused) {
  auto other = packet_signer::open(key_of("a secret of other hosts")).value();
  EXPECT_EQ(admit(sign(other)), authenticity::failed);
  EXPECT_EQ(receiver->senders(), 0U);
  EXPECT_NE(key.fingerprint(), key_of("a secret of other hosts").fingerprint());
  EXPECT_EQ(key.fingerprint(), key_of("a secret of the two hosts").fingerprint());
}

TEST_F(wire_verifier, forged_packets_occupy_no_memory_and_do_not_evict_senders) {
  ASSERT_EQ(admit(sign(sender)), authenticity::genuine);
  octets forged = sign(sender);
  for (std::uint64_t i = 0; i < 2 * packet_verifier::most_senders; ++i) {
    write_trailer({.sender = i, .sequence = i}, forged);
    ASSERT_EQ(admit(forged), authenticity::failed);
  }
  EXPECT_EQ(receiver->senders(), 1U);
  EXPECT_EQ(admit(sign(sender)), authenticity::genuine);
}

TEST_F(wire_verifier, sender_with_the_oldest_packet_is_forgotten) {
  auto older = packet_signer::open(key).value();
  const octets from_older = sign(older);
  ASSERT_EQ(admit(from_older), authenticity::genuine);
  const octets from_sender = sign(sender);
  ASSERT_EQ(admit(from_sender), authenticity::genuine);
  ASSERT_EQ(admit(from_older), authenticity::replayed);  // does not count as a recent packet
  for (std::size_t i = 0; i < packet_verifier::most_senders - 1; ++i) {
    auto another = packet_signer::open(key).value();
    ASSERT_EQ(admit(sign(another)), authenticity::genuine);
  }
  EXPECT_EQ(receiver->senders(), packet_verifier::most_senders);
  EXPECT_EQ(admit(from_sender), authenticity::replayed);
  EXPECT_EQ(admit(from_older), authenticity::genuine);  // the window of an evicted sender is lost
}

TEST_F(wire_verifier, packet_without_a_tag_is_reported_if_libcrypto_fails) {
  packet_signer without_key(gmac::open().value(), 7);
  octets datagram = datagram_of(64);
  EXPECT_FALSE(without_key.sign(around, datagram));
}

TEST_F(wire_verifier, senders_have_different_numbers) {
  EXPECT_NE(packet_signer::open(key)->sender(), sender.sender());
}

}  // namespace
}  // namespace verbena::softdev::wire
