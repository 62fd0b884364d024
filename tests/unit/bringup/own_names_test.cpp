// SPDX-License-Identifier: MIT
#include "src/bringup/own_names.hpp"

#include <gtest/gtest.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>

#include <array>
#include <memory>
#include <string>

namespace {

using namespace verbena;
using bringup::detail::usual_text;

// getnameinfo(3) is also the source of the names of sockets, with which these are compared.
TEST(own_names, have_each_address_with_its_scope) {
  ifaddrs* first = nullptr;
  ASSERT_EQ(::getifaddrs(&first), 0);
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(first, &::freeifaddrs);
  const auto names = bringup::detail::own_names().value();
  for (const ifaddrs* each = first; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr || each->ifa_addr->sa_family != AF_INET6) continue;
    std::array<char, NI_MAXHOST> host{};
    ASSERT_EQ(::getnameinfo(each->ifa_addr, sizeof(sockaddr_in6), host.data(), host.size(), nullptr,
                            0, NI_NUMERICHOST),
              0);
    const std::string text = host.data();
    EXPECT_TRUE(names.contains(text)) << text;
    EXPECT_TRUE(names.contains(text.substr(0, text.find('%')))) << text;
  }
}

TEST(usual_text, of_an_address_with_a_scope_has_the_name_of_the_interface) {
  const unsigned loopback = ::if_nametoindex("lo");
  ASSERT_NE(loopback, 0U);
  EXPECT_EQ(usual_text("FE80:0::1%lo"), "fe80::1%lo");
  EXPECT_EQ(usual_text("fe80::1%" + std::to_string(loopback)), "fe80::1%lo");
  EXPECT_EQ(usual_text("fe80::1%4294967295"), "fe80::1%4294967295");
  EXPECT_EQ(usual_text("2001:DB8:0:0::1"), "2001:db8::1");
  for (const char* const other : {"node-a", "192.0.2.1", "node%1", ""})
    EXPECT_EQ(usual_text(other), other);
}

}  // namespace
