// SPDX-License-Identifier: MIT
#include "verbena/verbs/received_datagram.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>

namespace verbena {
namespace {

constexpr std::size_t front = global_route_header::encoded_size;

ibv_wc received(std::uint32_t bytes, unsigned flags) {
  ibv_wc wc{};
  wc.wr_id = 7;
  wc.status = IBV_WC_SUCCESS;
  wc.opcode = IBV_WC_RECV;
  wc.byte_len = bytes;
  wc.wc_flags = flags;
  return wc;
}

TEST(received_datagram, payload_begins_after_forty_bytes) {
  std::array<std::byte, 128> memory{};
  const global_route_header sent{.version = global_route_header::form::ipv4,
                                 .source = parse_gid("192.0.2.1").value(),
                                 .destination = parse_gid("192.0.2.2").value(),
                                 .payload_length = 24,
                                 .next_header = 17,
                                 .hop_limit = 64};
  std::ranges::copy(sent.encode(), memory.begin());
  const auto datagram = received_datagram::of(received(front + 16, IBV_WC_GRH), memory).value();
  EXPECT_EQ(datagram.payload().data(), memory.data() + front);
  EXPECT_EQ(datagram.payload().size(), 16U);
  const auto header = datagram.header().value();
  ASSERT_TRUE(header.has_value());
  EXPECT_EQ(header->source, sent.source);
  EXPECT_EQ(header->destination, sent.destination);
}

TEST(received_datagram, header_is_nullopt_without_grh) {
  std::array<std::byte, 128> memory{};  // zeros: not a header
  const auto without = received_datagram::of(received(front, 0), memory).value();
  EXPECT_EQ(without.payload().size(), 0U);
  EXPECT_FALSE(without.header().value().has_value());
  const auto with = received_datagram::of(received(front, IBV_WC_GRH), memory).value();
  EXPECT_EQ(with.header().error().kind(), error_kind::protocol);
}

TEST(received_datagram, refuses_other_completions_and_short_memory) {
  std::array<std::byte, 64> memory{};
  const auto why = [&](const ibv_wc& wc) {
    const auto refused = received_datagram::of(wc, memory);
    EXPECT_FALSE(refused);
    return refused ? std::string() : refused.error().message();
  };
  ibv_wc failed = received(64, IBV_WC_GRH);
  failed.status = IBV_WC_LOC_LEN_ERR;
  EXPECT_NE(why(failed).find("work request 7"), std::string::npos) << why(failed);
  EXPECT_NE(why(failed).find("failed"), std::string::npos);
  ibv_wc sent = received(64, 0);
  sent.opcode = IBV_WC_SEND;
  EXPECT_NE(why(sent).find("not a receive"), std::string::npos);
  EXPECT_NE(why(received(39, 0)).find("39 bytes were received"), std::string::npos);
  EXPECT_NE(why(received(65, 0)).find("65 bytes"), std::string::npos);
  EXPECT_TRUE(received_datagram::of(received(64, 0), memory));
}

}  // namespace
}  // namespace verbena
