// SPDX-License-Identifier: MIT
// The codec of messages between connection managers, against messages of the kernel.
#include "softdev/cm/mad.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "tests/unit/softdev/cm/golden_mads.hpp"

namespace verbena::softdev::cm {
namespace {

constexpr std::size_t header = 24;

class golden : public ::testing::TestWithParam<golden_mad> {};

// parity: rocev2-90
TEST_P(golden, message_of_the_kernel_is_decoded) {
  const golden_mad& wanted = GetParam();
  const auto parsed = parse_mad(bytes_of(wanted));
  ASSERT_TRUE(parsed.has_value());
  EXPECT_EQ(static_cast<std::uint16_t>(parsed->kind), wanted.kind);
  EXPECT_EQ(parsed->transaction, wanted.transaction);
  EXPECT_EQ(parsed->sender_id, wanted.sender);
  EXPECT_EQ(parsed->receiver_id, wanted.receiver);
  const frame& content = parsed->content;
  EXPECT_EQ(content.from.queue_pair, wanted.queue_pair);
  EXPECT_EQ(content.from.starting_psn, wanted.psn);
  EXPECT_EQ(content.from.queue_key, wanted.queue_key);
  EXPECT_EQ(content.from.path_mtu, wanted.mtu);
  EXPECT_EQ(content.from.responder_resources, wanted.responder_resources);
  EXPECT_EQ(content.from.initiator_depth, wanted.initiator_depth);
  EXPECT_EQ(content.reason, wanted.reason);
  EXPECT_EQ(content.destination.port, wanted.port);
  EXPECT_EQ(content.source.port, wanted.source_port);
  EXPECT_EQ(content.data.bytes[0], wanted.data);
  const bool is_request =
      parsed->kind == mad_kind::request || parsed->kind == mad_kind::sidr_request;
  EXPECT_EQ(content.source.family, is_request ? address_family::ipv4 : address_family::none);
  const auto receiver = receiver_of(bytes_of(wanted));
  EXPECT_EQ(receiver.has_value(), !is_request);
  if (receiver) {
    EXPECT_EQ(*receiver, wanted.receiver);
  }
}

// parity: rocev2-90
TEST_P(golden, message_of_the_kernel_is_encoded_with_the_same_bytes) {
  auto wanted = bytes_of(GetParam());
  const auto parsed = parse_mad(wanted);
  ASSERT_TRUE(parsed.has_value());
  std::array<std::byte, mad_bytes> made{};
  made.fill(std::byte{0xee});
  write_mad(*parsed, made);
  // Bytes that are a choice of the sender.
  const auto choose = [&](std::size_t at, std::size_t count) {
    std::copy_n(made.begin() + static_cast<std::ptrdiff_t>(header + at), count,
                wanted.begin() + static_cast<std::ptrdiff_t>(header + at));
  };
  if (parsed->kind == mad_kind::request) {
    choose(88, 4);  // flow label, rate
    choose(95, 1);  // time-out of acknowledgements
  }
  if (parsed->kind == mad_kind::reply) choose(26, 1);       // delay of acknowledgements
  if (parsed->kind == mad_kind::sidr_reply) choose(12, 8);  // the service, which the request names
  EXPECT_EQ(made, wanted);
}

INSTANTIATE_TEST_SUITE_P(kernel, golden, ::testing::ValuesIn(golden_mads), [](const auto& each) {
  return std::string(each.param.origin) + "_" + std::to_string(each.param.kind) + "_" +
         std::to_string(each.index);
});

std::array<std::byte, mad_bytes> a_request() {
  mad what{.kind = mad_kind::request, .transaction = 5, .sender_id = 7, .guid = 9};
  what.content.kind = frame_kind::request;
  what.content.from = {.queue_pair = 17, .path_mtu = 3};
  what.content.source = {.family = address_family::ipv4, .bytes = {10, 0, 0, 1}, .port = 1000};
  what.content.destination = {.family = address_family::ipv4, .bytes = {10, 0, 0, 2}, .port = 80};
  std::array<std::byte, mad_bytes> bytes{};
  write_mad(what, bytes);
  return bytes;
}

// A peer that takes these values for its queue pair would otherwise send slowly, or too often.
TEST(cm_mad, request_has_a_packet_rate_and_a_timeout_of_acknowledgments) {
  const auto bytes = a_request();
  const auto at = [&](std::size_t place) {
    return std::to_integer<unsigned>(bytes.at(header + place));
  };
  EXPECT_EQ(at(91), 3U) << "10 Gb/s";
  EXPECT_EQ(at(95), 16U << 3U) << "4.096 us * 2^16";
}

// parity: rocev2-98
TEST(cm_mad, message_with_another_header_is_refused) {
  const auto sound = a_request();
  ASSERT_TRUE(parse_mad(sound).has_value());
  for (const std::size_t at : {0U, 1U, 2U, 3U, 16U, 17U}) {
    auto bytes = sound;
    bytes[at] ^= std::byte{0x40};
    EXPECT_FALSE(parse_mad(bytes).has_value()) << at;
    EXPECT_FALSE(receiver_of(bytes).has_value()) << at;
  }
}

// parity: rocev2-101
TEST(cm_mad, request_that_cannot_be_accepted_has_the_reason) {
  const auto rejection_reason_with = [](std::size_t at, unsigned value) {
    auto bytes = a_request();
    bytes[header + at] = static_cast<std::byte>(value);
    return parse_mad(bytes).value().rejection_reason;
  };
  EXPECT_EQ(rejection_reason_with(43, 20U << 3U | 1U << 1U), reject_reason::other_transport);  // UC
  EXPECT_EQ(rejection_reason_with(51, 1), reject_reason::other_transport);  // XRC
  EXPECT_EQ(rejection_reason_with(50, 0x00), reject_reason::path_mtu);      // none
  EXPECT_EQ(rejection_reason_with(50, 0x60), reject_reason::path_mtu);      // of 8192 bytes
  EXPECT_EQ(rejection_reason_with(50, 0x57), 0U);
}

TEST(cm_mad, request_for_a_service_without_a_port_has_no_addresses) {
  for (const auto& [at, value] :
       {std::pair{8, 1}, std::pair{13, 7}, std::pair{140, 1}, std::pair{141, 0x50}}) {
    auto bytes = a_request();
    bytes[header + static_cast<std::size_t>(at)] = static_cast<std::byte>(value);
    const auto parsed = parse_mad(bytes);
    ASSERT_TRUE(parsed.has_value()) << at;
    EXPECT_EQ(parsed->content.source.family, address_family::none) << at;
  }
}

TEST(cm_mad, addresses_of_ipv6_are_kept) {
  mad what{.kind = mad_kind::sidr_request, .sender_id = 7};
  what.content.kind = frame_kind::sidr_request;
  what.content.space = port_space::udp;
  what.content.source = {.family = address_family::ipv6, .bytes = {0xfd, 1}, .port = 1000};
  what.content.destination = {.family = address_family::ipv6, .bytes = {0xfd, 2}, .port = 80};
  std::array<std::byte, mad_bytes> bytes{};
  write_mad(what, bytes);
  const auto parsed = parse_mad(bytes);
  ASSERT_TRUE(parsed.has_value());
  EXPECT_EQ(parsed->content.source, what.content.source);
  EXPECT_EQ(parsed->content.destination, what.content.destination);
  EXPECT_EQ(parsed->content.space, port_space::udp);
}

}  // namespace
}  // namespace verbena::softdev::cm
