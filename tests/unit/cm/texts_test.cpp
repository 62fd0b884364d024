// SPDX-License-Identifier: MIT
// Tests without a device: addresses, limits, and names of events and rejections.
#include <gtest/gtest.h>
#include <infiniband/ib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "tests/unit/base/map_keys.hpp"
#include "verbena/base/bytes.hpp"
#include "verbena/cm/event.hpp"
#include "verbena/cm/port_space.hpp"
#include "verbena/cm/socket_address.hpp"
#include "verbena/sys/provider.hpp"

namespace verbena {
namespace {

using cm::event_kind;
using cm::port_space;
using cm::socket_address;

TEST(cm_address, numeric_address_round_trips) {
  const auto ipv4 = socket_address::parse("192.0.2.1", 7471).value();
  EXPECT_EQ(to_string(ipv4), "192.0.2.1:7471");
  EXPECT_EQ(ipv4.host(), "192.0.2.1");
  EXPECT_EQ(ipv4.family(), AF_INET);
  const auto ipv6 = socket_address::parse("2001:db8::1", 80).value();
  EXPECT_EQ(to_string(ipv6), "[2001:db8::1]:80");
  EXPECT_EQ(to_string(ipv6.with_port(81)), "[2001:db8::1]:81");
  EXPECT_EQ(ipv4.with_port(1), socket_address::parse("192.0.2.1", 1).value());
  EXPECT_NE(ipv4, ipv6);
  for (const char* const wrong : {"", "host", "192.0.2", "192.0.2.1:80", "[::1]", "::1%lo"})
    EXPECT_FALSE(socket_address::parse(wrong)) << wrong;
}

TEST(cm_address, numeric_address_with_zero_byte_is_refused) {
  using namespace std::string_view_literals;
  EXPECT_FALSE(socket_address::parse("192.0.2.1\0.9"sv, 7471));
  EXPECT_FALSE(socket_address::parse("::1\0x"sv, 7471));
}

TEST(cm_address, wildcard_address_is_recognised) {
  EXPECT_TRUE(socket_address::any_ipv4().is_any());
  EXPECT_TRUE(socket_address::any_ipv6(7).is_any());
  EXPECT_EQ(socket_address::any_ipv6(7).port(), 7);
  EXPECT_FALSE(socket_address::parse("127.0.0.1").value().is_any());
  EXPECT_FALSE(socket_address::parse("::1").value().is_any());
}

TEST(cm_address, native_address_is_copied) {
  const auto ipv6 = socket_address::parse("2001:db8::1", 80).value();
  EXPECT_EQ(socket_address::from_native(*ipv6.native()).value(), ipv6);
  sockaddr local{};
  local.sa_family = AF_UNIX;
  EXPECT_EQ(socket_address::from_native(local).error().kind(), error_kind::not_supported);

  sockaddr_ib infiniband{};
  infiniband.sib_family = AF_IB;
  infiniband.sib_addr.ib_u.uib_addr8[15] = 9;
  infiniband.sib_sid = network_order(std::uint64_t{0x0106'1234});
  sockaddr_storage storage{};
  std::memcpy(&storage, &infiniband, sizeof infiniband);
  const void* const place = &storage;
  const auto address = socket_address::from_native(*static_cast<const sockaddr*>(place)).value();
  EXPECT_EQ(address.port(), 0x1234);
  EXPECT_EQ(address.with_port(1).port(), 1);
  EXPECT_EQ(address.host(), "::9");
  EXPECT_FALSE(address.is_any());
}

TEST(cm_address, address_is_a_key_that_differs_by_family_address_and_port) {
  const auto ipv4 = socket_address::parse("192.0.2.1", 1).value();
  const auto ipv6 = socket_address::parse("2001:db8::1", 1).value();
  test::expect_different_keys<socket_address>({ipv4, ipv4.with_port(2), ipv6, ipv6.with_port(2),
                                               socket_address::parse("192.0.2.2", 1).value(),
                                               socket_address::parse("2001:db8::2", 1).value(),
                                               socket_address::any_ipv4(1),
                                               socket_address::any_ipv6(1)});
  // The C API does not define the padding of an IPv4 address.
  sockaddr_in padded{};
  std::memcpy(&padded, ipv4.native(), sizeof padded);
  std::memset(padded.sin_zero, 0x5a, sizeof padded.sin_zero);
  sockaddr_storage storage{};
  std::memcpy(&storage, &padded, sizeof padded);
  const void* const place = &storage;
  const auto copied = socket_address::from_native(*static_cast<const sockaddr*>(place)).value();
  EXPECT_EQ(copied, ipv4);
  EXPECT_EQ(std::hash<socket_address>{}(copied), std::hash<socket_address>{}(ipv4));
}

// parity: ibverbs-281, ibverbs-300
TEST(cm_port_space, private_data_limit_depends_on_space_and_message) {
  using cm::message;
  EXPECT_EQ(private_data_limit(port_space::tcp, message::request), 56U);
  EXPECT_EQ(private_data_limit(port_space::ib, message::request), 92U);
  EXPECT_EQ(private_data_limit(port_space::udp, message::request), 180U);
  EXPECT_EQ(private_data_limit(port_space::ipoib, message::request), 180U);
  EXPECT_EQ(private_data_limit(port_space::tcp, message::reply), 196U);
  EXPECT_EQ(private_data_limit(port_space::ib, message::reply), 196U);
  EXPECT_EQ(private_data_limit(port_space::udp, message::reply), 136U);
  EXPECT_EQ(private_data_limit(port_space::ipoib, message::reply), 136U);
  EXPECT_EQ(private_data_limit(port_space::tcp, message::reject), 148U);
  EXPECT_EQ(private_data_limit(port_space::udp, message::reject), 136U);
  EXPECT_EQ(to_string(port_space::tcp), "TCP");
  EXPECT_EQ(to_string(port_space::ib), "IB");
  EXPECT_EQ(to_string(static_cast<port_space>(7)), "unknown (7)");
}

// parity: ibverbs-300
TEST(cm_event_kind, names_match_rdma_cma_h) {
  std::string names;
  for (std::uint32_t i = 0; i < 20; ++i) names += to_string(static_cast<event_kind>(i)) + " ";
  EXPECT_EQ(names,
            "ADDR_RESOLVED ADDR_ERROR ROUTE_RESOLVED ROUTE_ERROR CONNECT_REQUEST CONNECT_RESPONSE "
            "CONNECT_ERROR UNREACHABLE REJECTED ESTABLISHED DISCONNECTED DEVICE_REMOVAL "
            "MULTICAST_JOIN MULTICAST_ERROR ADDR_CHANGE TIMEWAIT_EXIT ADDRINFO_RESOLVED "
            "ADDRINFO_ERROR USER INTERNAL ");
  EXPECT_EQ(to_string(event_kind::rejected), "REJECTED");
  EXPECT_EQ(to_string(static_cast<event_kind>(77)), "unknown (77)");
}

// parity: ibverbs-278
TEST(cm_event_kind, failures_are_classified) {
  constexpr std::array failures = {event_kind::address_error,   event_kind::route_error,
                                   event_kind::connect_error,   event_kind::unreachable,
                                   event_kind::rejected,        event_kind::device_removal,
                                   event_kind::multicast_error, event_kind::address_info_error};
  for (std::uint32_t i = 0; i < 25; ++i) {
    const auto kind = static_cast<event_kind>(i);
    EXPECT_EQ(is_failure(kind), std::ranges::count(failures, kind) == 1) << to_string(kind);
  }
}

// parity: ibverbs-284
TEST(cm_rejection, status_is_described) {
  EXPECT_EQ(cm::describe_rejection(28), "28, the peer's program rejected the request");
  EXPECT_NE(cm::describe_rejection(8).find("no program listens"), std::string::npos);
  EXPECT_NE(cm::describe_rejection(10).find("restarted"), std::string::npos);
  EXPECT_NE(cm::describe_rejection(-ECONNREFUSED).find("rejected the request"), std::string::npos);
  EXPECT_NE(cm::describe_rejection(-EIO).find("Input/output error"), std::string::npos);
  EXPECT_NE(cm::describe_rejection(99).find("an unknown reason"), std::string::npos);
  EXPECT_TRUE(cm::rejection{.status = 28}.is_consumer_reject());
  EXPECT_TRUE(cm::rejection{.status = -ECONNREFUSED}.is_consumer_reject());
  EXPECT_FALSE(cm::rejection{.status = 8}.is_consumer_reject());
}

}  // namespace
}  // namespace verbena
