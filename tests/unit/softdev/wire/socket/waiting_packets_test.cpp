// SPDX-License-Identifier: MIT
#include "softdev/wire/socket/waiting_packets.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <span>
#include <vector>

#include "softdev/wire/socket/route_table.hpp"

namespace verbena::softdev::wire {
namespace {

packet request_to(std::uint32_t qp_num, std::uint32_t psn) {
  return {.opcode = make_opcode(packet_transport::rc, operation::send_only),
          .destination_qpn = qp_num,
          .psn = psn};
}
packet answer_to(std::uint32_t qp_num, std::uint32_t psn) {
  return {.opcode = make_opcode(packet_transport::rc, operation::acknowledge),
          .destination_qpn = qp_num,
          .psn = psn};
}

/// Returns the PSNs of the packets that are taken while the queue pairs in `locked` are locked.
std::vector<std::uint32_t> retry(waiting_packets& from, const std::set<std::uint32_t>& locked,
                                 int* offers = nullptr) {
  std::vector<std::uint32_t> taken;
  from.retry([&](const packet& what, const wire_route& /*route*/) {
    if (offers != nullptr) ++*offers;
    if (locked.contains(what.destination_qpn)) return false;
    taken.push_back(what.psn);
    return true;
  });
  return taken;
}

TEST(waiting_packets, packets_of_free_queue_pairs_are_taken_in_order_and_others_stay) {
  waiting_packets all;
  for (std::uint32_t psn = 0; psn < 12; ++psn) ASSERT_TRUE(all.keep(request_to(psn % 3, psn), {}));
  int offers = 0;
  EXPECT_EQ(retry(all, {1}, &offers), (std::vector<std::uint32_t>{0, 2, 3, 5, 6, 8, 9, 11}));
  EXPECT_EQ(offers, 9) << "a locked queue pair is tried once";
  EXPECT_TRUE(all.keep(request_to(2, 20), {}));
  EXPECT_EQ(retry(all, {}), (std::vector<std::uint32_t>{1, 4, 7, 10, 20}));
  EXPECT_TRUE(all.empty());
}

TEST(waiting_packets, packet_must_wait_behind_those_for_the_same_lock_only) {
  waiting_packets all;
  ASSERT_TRUE(all.keep(request_to(1, 0), {}));
  EXPECT_TRUE(all.must_wait(request_to(1, 1)));
  EXPECT_FALSE(all.must_wait(answer_to(1, 1)));
  EXPECT_FALSE(all.must_wait(request_to(2, 1)));
}

TEST(waiting_packets, locked_queue_pair_leaves_room_for_others) {
  waiting_packets all;
  constexpr auto most = static_cast<std::uint32_t>(waiting_packets::most_for_one_lock);
  for (std::uint32_t psn = 0; psn < most; ++psn) ASSERT_TRUE(all.keep(request_to(1, psn), {}));
  EXPECT_FALSE(all.keep(request_to(1, most), {}));
  EXPECT_TRUE(all.keep(answer_to(1, 0), {}));
  for (std::uint32_t i = most + 1; i < waiting_packets::capacity; ++i)
    ASSERT_TRUE(all.keep(request_to(i, 0), {}));
  EXPECT_FALSE(all.keep(request_to(7, 0), {}));
}

TEST(waiting_packets, payload_is_copied) {
  waiting_packets all;
  std::vector<std::byte> payload(largest_mtu, std::byte{5});
  packet what = request_to(1, 0);
  what.payload = payload;
  ASSERT_TRUE(all.keep(what, {}));
  payload.assign(largest_mtu, std::byte{6});
  all.retry([](const packet& kept, const wire_route& /*route*/) {
    EXPECT_EQ(kept.payload.size(), largest_mtu);
    EXPECT_EQ(kept.payload.back(), std::byte{5});
    return true;
  });
  payload.emplace_back();
  what.payload = payload;
  EXPECT_FALSE(all.keep(what, {}));
}

// parity: rocev2-85
TEST(route_table, packets_arrive_at_permitted_interfaces_and_at_loopback) {
  route_table routes;
  constexpr wire_route everywhere{};
  constexpr wire_route restricted{.arrival = arrival::permitted_interfaces};
  routes.permit_interfaces({3, 5});
  EXPECT_TRUE(routes.permits(everywhere, 4));
  EXPECT_TRUE(routes.permits(restricted, 5));
  EXPECT_TRUE(routes.permits(restricted, 1));
  EXPECT_FALSE(routes.permits(restricted, 4));
  EXPECT_FALSE(routes.permits(restricted, 0));
}

TEST(route_table, each_connection_has_another_number) {
  route_table routes;
  routes.set(7, {});
  const auto first = routes.find(7);
  routes.set(7, {});
  EXPECT_NE(routes.find(7), first);
}

TEST(route_table, erased_route_is_not_found) {
  route_table routes;
  EXPECT_TRUE(routes.empty());
  routes.set(7, {});
  routes.set(8, {});
  routes.erase(7);
  EXPECT_FALSE(routes.find(7));
  EXPECT_TRUE(routes.find(8));
  EXPECT_FALSE(routes.empty());
  routes.erase(8);
  EXPECT_TRUE(routes.empty());
}

}  // namespace
}  // namespace verbena::softdev::wire
