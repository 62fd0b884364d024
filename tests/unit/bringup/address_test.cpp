// SPDX-License-Identifier: MIT
#include "verbena/bringup/address.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <string_view>

#include "tests/unit/base/map_keys.hpp"

namespace {

using verbena::bringup::address;
using verbena::bringup::parse_address;

TEST(address, all_forms_are_parsed) {
  const auto same = [](std::string_view text, const std::string& host, std::uint16_t port) {
    EXPECT_EQ(parse_address(text, 7).value(), (address{.host = host, .port = port})) << text;
  };
  same("storage1", "storage1", 7);
  same("storage1:80", "storage1", 80);
  same("127.0.0.1", "127.0.0.1", 7);
  same("127.0.0.1:65535", "127.0.0.1", 65535);
  same("127.0.0.1:0", "127.0.0.1", 0);
  same("::1", "::1", 7);
  same("[::1]", "::1", 7);
  same("[fe80::1%eth0]:9", "fe80::1%eth0", 9);
}

TEST(address, is_a_key_that_differs_by_host_and_port) {
  verbena::test::expect_different_keys<address>(
      {{}, {.host = "a"}, {.host = "b"}, {.port = 1}, {.host = "a", .port = 1}});
}

TEST(address, invalid_text_returns_an_error_with_valid_forms) {
  for (const std::string text : {"", ":80", "[]:80", "[::1", "[::1]x", "[::1]80", "host:", "host:x",
                                 "host:65536", "host:-1", "host: 1", "host:1 ", "host name", "a/b",
                                 "[a]b]:1", "ho\nst", "host:99999999999999999999"}) {
    const auto parsed = parse_address(text, 7);
    ASSERT_FALSE(parsed) << text;
    EXPECT_EQ(parsed.error().kind(), verbena::error_kind::invalid_argument) << text;
    EXPECT_FALSE(parsed.error().diagnosis().empty()) << text;
  }
  EXPECT_FALSE(parse_address(std::string(254, 'a')));
  EXPECT_TRUE(parse_address(std::string(253, 'a')));
}

TEST(address, to_string_returns_the_parsed_text) {
  for (const std::string text : {"host:1", "127.0.0.1:80", "[::1]:80"})
    EXPECT_EQ(to_string(parse_address(text).value()), text);
}

TEST(address, random_text_is_rejected_or_round_trips) {
  std::mt19937 random(20261121);
  constexpr std::string_view letters = "::::[]a1.09%/ \0\n";
  int addresses = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string text(random() % 10, ':');
    for (auto& letter : text) letter = letters[random() % (letters.size() + 1)];
    const auto parsed = parse_address(text, 7);
    if (!parsed) continue;
    ++addresses;
    EXPECT_EQ(parse_address(to_string(*parsed)).value(), *parsed) << text;
  }
  EXPECT_GT(addresses, 1000);
}

}  // namespace
