// SPDX-License-Identifier: MIT
// UC and UD: arrival, silent drops, and the send queue after local errors.
#include <algorithm>
#include <array>

#include "softdev/core/transport/rules.hpp"
#include "tests/unit/softdev/core/fabric.hpp"

namespace verbena::softdev::testing {
namespace {

constexpr end_options uc{.transport = transport::uc};
constexpr end_options ud{.transport = transport::ud};

datagram_destination to(const queue_pair& target, std::uint32_t qkey = 0x1234) {
  datagram_route route{.source = {}, .destination = {}, .traffic_class = 7, .hop_limit = 9};
  for (gid_bytes* gid : {&route.source, &route.destination}) (*gid)[10] = (*gid)[11] = 0xff;
  route.source[12] = route.destination[12] = 10;
  route.source[15] = 1;
  route.destination[15] = 2;
  return {.address = {route, {}}, .qpn = target.number(), .qkey = qkey, .known = true};
}

class unreliable : public fabric {
 protected:
  unreliable() {
    for (auto [one, other] : {std::pair(&a, &b), std::pair(&c, &d)}) connect_pair(*one, *other);
  }
  completion_status sent(end_point& from) { return only(*from.sent).status; }

  end_point& a = make(uc);
  end_point& b = make(uc);
  end_point& c = make(ud);
  end_point& d = make(ud);
  buffer source{*home, 8192, everything, 1};
  buffer target{*home, 8192, everything, 2};
};

// Byte 20 of the header is also the first one of an IPv4 header.
TEST(datagram_header, ipv6_address_that_resembles_an_ipv4_header_is_read) {
  std::array<std::byte, grh_bytes> header{};
  header[0] = std::byte{0x60};
  header[20] = std::byte{0x45};
  header[39] = std::byte{9};
  const datagram_route route = route_of(header);
  EXPECT_EQ(route.source[12], 0x45);
  EXPECT_EQ(route.source[10], 0);
  EXPECT_EQ(route.destination[15], 9);
}

TEST_F(unreliable, connected_messages_and_writes_arrive) {
  ASSERT_EQ(post_receive(*b.qp, 7, {target.slice(0, 100), target.slice(200, 5000)}), 0);
  const send_request send{
      .wr_id = 1, .opcode = opcode::send_with_imm, .flags = signaled, .immediate = 55};
  ASSERT_EQ(post(*a.qp, send, {source.slice(0, 300), source.slice(1000, 4000)}), 0);
  EXPECT_EQ(sent(a), completion_status::success);
  completion got = only(*b.received);
  EXPECT_EQ(got.wr_id, 7U);
  EXPECT_EQ(got.byte_count, 4300U);
  EXPECT_EQ(got.immediate, 55U);
  EXPECT_EQ(got.flags, completion_with_imm);
  EXPECT_EQ(got.source_qp, a.qp->number());
  EXPECT_TRUE(target.holds(1, 0, 100, 0) && target.holds(1, 200, 200, 100) &&
              target.holds(1, 400, 4000, 1000));
  ASSERT_EQ(post_receive(*b.qp, 8, {}), 0);
  const send_request write{.wr_id = 2,
                           .opcode = opcode::rdma_write_with_imm,
                           .flags = signaled,
                           .remote_address = target.address() + 6000,
                           .remote_key = target.key()};
  ASSERT_EQ(post(*a.qp, write, {source.slice(0, 500)}), 0);
  EXPECT_EQ(sent(a), completion_status::success);
  got = only(*b.received);
  EXPECT_EQ(got.opcode, completion_opcode::receive_rdma_with_imm);
  EXPECT_EQ(got.byte_count, 500U);
  EXPECT_TRUE(target.holds(1, 6000, 500, 0) && target.holds(2, 6500, 100, 6500));
  EXPECT_EQ(events_of(queue_pair_event::communication_established), 0U);
  EXPECT_EQ(b.qp->diagnosis().drops.count(), 0U);
  for (const opcode op : {opcode::rdma_read, opcode::compare_swap, opcode::fetch_add})
    EXPECT_EQ(post(*a.qp, {.opcode = op}, {source.slice(0, 8)}), EINVAL);
}

// parity: semantics-32
TEST_F(unreliable, request_refused_by_the_peer_is_dropped_and_sender_succeeds) {
  const auto try_with = [&](const send_request& request, std::size_t bytes, reason why) {
    const std::uint64_t before = b.qp->diagnosis().drops.count(why);
    EXPECT_EQ(post(*a.qp, request, {source.slice(0, bytes)}), 0);
    EXPECT_EQ(sent(a), completion_status::success);
    EXPECT_EQ(b.qp->diagnosis().drops.count(why), before + 1) << static_cast<int>(why);
  };
  const send_request send{.opcode = opcode::send, .flags = signaled};
  send_request write{.opcode = opcode::rdma_write,
                     .flags = signaled,
                     .remote_address = target.address(),
                     .remote_key = target.key() ^ 0x100};
  try_with(send, 8, reason::receiver_not_ready);
  try_with(write, 8, reason::remote_key_unknown);
  write.remote_key = target.key();
  write.remote_address += 8185;
  try_with(write, 8, reason::remote_range);
  write.opcode = opcode::rdma_write_with_imm;
  write.remote_address = target.address();
  try_with(write, 8, reason::receiver_not_ready);
  ASSERT_EQ(post_receive(*b.qp, 7, {target.slice(0, 100)}), 0);
  try_with(send, 101, reason::receive_too_short);
  // The receive remains for the next message, and both sides still work.
  ASSERT_EQ(post(*a.qp, send, {source.slice(0, 100)}), 0);
  EXPECT_EQ(sent(a), completion_status::success);
  EXPECT_EQ(only(*b.received).wr_id, 7U);
  EXPECT_TRUE(target.holds(1, 0, 100, 0) && target.holds(2, 100, 100, 100));
  queue_pair_attributes none;
  ASSERT_TRUE(b.qp->modify(none, attribute::access_flags));
  write.opcode = opcode::rdma_write;
  try_with(write, 8, reason::qp_access_denied);
  to_error(*b.qp);
  try_with(send, 8, reason::peer_not_ready);
  EXPECT_EQ(a.qp->state(), queue_pair_state::rts);
  EXPECT_TRUE(events.empty());
  char text[1024];
  ASSERT_LT(home->explain(b.qp->number(), 0, 0, text, sizeof text), sizeof text);
  EXPECT_NE(std::string(text).find("2 dropped: queue pair 0x"), std::string::npos) << text;
  EXPECT_NE(std::string(text).find(" had no receive request posted;"), std::string::npos) << text;
  EXPECT_NE(std::string(text).find("; 1 dropped: the message has 101 bytes"), std::string::npos)
      << text;
}

TEST_F(unreliable, request_to_missing_peer_succeeds) {
  end_point& lonely = make(uc);
  connect(*lonely.qp, connection_to(c.qp->number()));
  const send_request send{.opcode = opcode::send, .flags = signaled};
  ASSERT_EQ(post(*lonely.qp, send, {source.slice(0, 8)}), 0);
  EXPECT_EQ(sent(lonely), completion_status::success);
  EXPECT_EQ(c.qp->diagnosis().drops.count(reason::transport_mismatch), 1U);
  datagram_destination where = to(*d.qp);
  where.qpn = unused_number();
  ASSERT_EQ(post_to(*c.qp, send, where, {source.slice(0, 8)}), 0);
  where.qpn = 0x00'4005;  // a number of another process without a path
  ASSERT_EQ(post_to(*c.qp, send, where, {source.slice(0, 8)}), 0);
  EXPECT_EQ(drain(*c.sent).size(), 2U);
  EXPECT_EQ(c.qp->diagnosis().drops.count(reason::peer_unknown), 1U);
  EXPECT_EQ(c.qp->diagnosis().drops.count(reason::peer_unreachable), 1U);
  // A reliable request to an unreliable queue pair is not acknowledged.
  end_point& reliable = make();
  connect(*reliable.qp, connection_to(b.qp->number()));
  ASSERT_EQ(post(*reliable.qp, send, {source.slice(0, 8)}), 0);
  run_for(2'000'000'000);
  EXPECT_EQ(only(*reliable.sent).status, completion_status::retry_exceeded);
}

// parity: semantics-43
TEST_F(unreliable, datagram_is_preceded_by_its_grh) {
  ASSERT_EQ(post_receive(*d.qp, 7, {target.slice(0, 30), target.slice(100, 200)}), 0);
  const send_request send{.opcode = opcode::send_with_imm, .flags = signaled, .immediate = 9};
  ASSERT_EQ(post_to(*c.qp, send, to(*d.qp), {source.slice(5, 101)}), 0);
  EXPECT_EQ(sent(c), completion_status::success);
  const completion got = only(*d.received);
  EXPECT_EQ(got.byte_count, 141U);
  EXPECT_EQ(got.flags, completion_with_imm | completion_with_grh);
  EXPECT_EQ(got.source_qp, c.qp->number());
  EXPECT_EQ(got.immediate, 9U);
  EXPECT_TRUE(target.holds(1, 110, 101, 5) && target.holds(2, 211, 80, 211));
  std::array<std::uint8_t, 40> header;
  for (std::size_t i = 0; i < 40; ++i)
    header[i] = std::to_integer<std::uint8_t>(target.data()[i < 30 ? i : 70 + i]);
  EXPECT_EQ(std::count(header.begin(), header.begin() + 20, 0), 20);
  // 20 IPv4, 8 UDP, 12 + 8 + 4 transport, 104 padded payload, 4 checksum.
  const std::array<std::uint8_t, 10> start = {0x45, 7, 0, 160, 0, 0, 0x40, 0, 9, 17};
  EXPECT_TRUE(std::equal(start.begin(), start.end(), header.begin() + 20));
  const std::array<std::uint8_t, 8> addresses = {10, 0, 0, 1, 10, 0, 0, 2};
  EXPECT_TRUE(std::equal(addresses.begin(), addresses.end(), header.begin() + 32));
  std::uint32_t sum = 0;
  for (std::size_t i = 20; i < 40; i += 2) sum += std::uint32_t{header[i]} << 8U | header[i + 1];
  EXPECT_EQ((sum & 0xffffU) + (sum >> 16U), 0xffffU);
}

// parity: semantics-44
TEST_F(unreliable, datagram_between_ipv6_addresses_has_an_ipv6_grh) {
  datagram_route route{.flow_label = 0xabcde, .traffic_class = 0x12};
  route.source[0] = 0xfe;
  route.destination[15] = 3;
  std::array<std::byte, 40> out;
  datagram_address(route, {}).write(out, 10, false);
  const std::array<std::uint8_t, 9> start = {0x61, 0x2a, 0xbc, 0xde, 0, 44, 17, 64, 0xfe};
  for (std::size_t i = 0; i < start.size(); ++i) EXPECT_EQ(out[i], std::byte{start[i]}) << i;
  EXPECT_EQ(out[39], std::byte{3});
  route.over_udp = false;  // the GRH of InfiniBand
  datagram_address(route, {}).write(out, 10, true);
  EXPECT_EQ(out[5], std::byte{40});
  EXPECT_EQ(out[6], std::byte{0x1b});
  datagram_address(datagram_origin{.lid = 3}).write(out, 10, false);
  EXPECT_EQ(out, (std::array<std::byte, 40>{}));
}

TEST_F(unreliable, route_header_is_read_as_it_was_written) {
  datagram_route ipv4{.traffic_class = 0x12, .hop_limit = 9};
  for (gid_bytes* const gid : {&ipv4.source, &ipv4.destination}) (*gid)[10] = (*gid)[11] = 0xff;
  ipv4.source[12] = 10;
  ipv4.destination[15] = 4;
  datagram_route ipv6{.flow_label = 0xabcde, .traffic_class = 0x34, .hop_limit = 1};
  ipv6.source[0] = 0xfe;
  ipv6.destination[15] = 3;
  datagram_route infiniband = ipv6;
  infiniband.over_udp = false;
  for (const datagram_route& each : {ipv4, ipv6, infiniband}) {
    std::array<std::byte, 40> header;
    datagram_address(each, {}).write(header, 10, true);
    EXPECT_EQ(route_of(header), each);
    EXPECT_EQ(destination_of(header), each.destination);
  }
}

TEST_F(unreliable, address_by_the_wire_has_the_path_mtu_as_limit) {
  datagram_address way;
  EXPECT_EQ(way.path(), path_to_peer::same_host);
  EXPECT_EQ(way.longest_payload(), limits::max_datagram_bytes);
  way.set_wire_mtu(3);
  EXPECT_EQ(way.path(), path_to_peer::wire);
  EXPECT_EQ(way.longest_payload(), 1024U);
}

// parity: semantics-46, semantics-47
TEST_F(unreliable, datagram_without_qkey_receive_or_room_is_dropped) {
  const send_request send{.opcode = opcode::send, .flags = signaled};
  const auto try_with = [&](std::uint32_t qkey, std::size_t bytes, reason why) {
    ASSERT_EQ(post_to(*c.qp, send, to(*d.qp, qkey), {source.slice(0, bytes)}), 0);
    EXPECT_EQ(sent(c), completion_status::success);
    EXPECT_EQ(d.qp->diagnosis().drops.count(why), 1U) << static_cast<int>(why);
  };
  try_with(0x1234, 8, reason::receiver_not_ready);
  ASSERT_EQ(post_receive(*d.qp, 7, {target.slice(0, 50)}), 0);
  try_with(0x1235, 8, reason::qkey_mismatch);
  try_with(0x1234, 11, reason::receive_too_short);
  // The top bit selects the Q_Key of the sender.
  ASSERT_EQ(post_to(*c.qp, send, to(*d.qp, 0x8000'0099), {source.slice(0, 10)}), 0);
  EXPECT_EQ(only(*d.received).byte_count, 50U);
  EXPECT_TRUE(target.holds(1, 40, 10, 0));
  EXPECT_EQ(c.qp->state(), queue_pair_state::rts);
  EXPECT_EQ(d.qp->state(), queue_pair_state::rts);
  EXPECT_EQ(post_to(*c.qp, {.opcode = opcode::rdma_write}, to(*d.qp), {}), EINVAL);
}

datagram_destination to_group(std::uint8_t last, std::uint32_t qkey = 0x1234) {
  datagram_route route{.source = {}, .destination = {}};
  for (gid_bytes* gid : {&route.source, &route.destination}) (*gid)[10] = (*gid)[11] = 0xff;
  route.source[12] = 10;
  route.destination[12] = 239;
  route.destination[15] = last;
  return {.address = {route, {}}, .qpn = multicast_qpn, .qkey = qkey, .known = true};
}

gid_bytes group_number(std::uint8_t last) {
  gid_bytes group{};
  group[10] = group[11] = 0xff;
  group[12] = 239;
  group[15] = last;
  return group;
}

// parity: semantics-51
TEST_F(unreliable, multicast_reaches_every_ready_member_including_the_sender) {
  end_point& e = make(ud);
  connect(*e.qp, connection_to(0));
  const send_request send{.opcode = opcode::send, .flags = signaled};
  using change = multicast_groups::change;
  multicast_groups& groups = home->groups();
  EXPECT_EQ(groups.attach(group_number(1), c.qp->number()), change::group);
  EXPECT_EQ(groups.attach(group_number(1), d.qp->number()), change::member);
  EXPECT_EQ(groups.attach(group_number(1), d.qp->number()), change::none);
  EXPECT_EQ(groups.attach(group_number(2), e.qp->number()), change::group);
  for (end_point* each : {&c, &d, &e})
    ASSERT_EQ(post_receive(*each->qp, 7, {target.slice(each == &d ? 1000 : 0, 200)}), 0);
  ASSERT_EQ(post_to(*c.qp, send, to_group(1), {source.slice(5, 101)}), 0);
  EXPECT_EQ(sent(c), completion_status::success);
  for (end_point* each : {&c, &d}) {
    const completion got = only(*each->received);
    EXPECT_EQ(got.byte_count, 141U);
    EXPECT_EQ(got.flags, completion_with_grh);
    EXPECT_EQ(got.source_qp, c.qp->number());
    EXPECT_TRUE(target.holds(1, each == &d ? 1040 : 40, 101, 5));
  }
  EXPECT_EQ(drain(*e.received).size(), 0U);
  // Sending succeeds without ready members, after a member has left, and to a group without
  // members.
  EXPECT_EQ(groups.detach(group_number(1), c.qp->number()), change::member);
  EXPECT_EQ(groups.detach(group_number(1), c.qp->number()), change::none);
  ASSERT_EQ(post_receive(*c.qp, 7, {target.slice(0, 200)}), 0);
  for (const std::uint8_t number : {1, 3})
    ASSERT_EQ(post_to(*c.qp, send, to_group(number), {source.slice(0, 8)}), 0);
  EXPECT_EQ(drain(*c.sent).size(), 2U);
  EXPECT_EQ(d.qp->diagnosis().drops.count(reason::receiver_not_ready), 1U);
  EXPECT_EQ(drain(*c.received).size(), 0U);
  // Each receiver checks the Q_Key.
  ASSERT_EQ(post_to(*c.qp, send, to_group(1, 0x77), {source.slice(0, 8)}), 0);
  EXPECT_EQ(d.qp->diagnosis().drops.count(reason::qkey_mismatch), 1U);
  EXPECT_EQ(groups.detach(group_number(1), d.qp->number()), change::group);
  EXPECT_TRUE(groups.has(e.qp->number()));
  EXPECT_FALSE(groups.has(d.qp->number()));
}

// parity: semantics-53
TEST_F(unreliable, multicast_groups_are_identified_by_mgid_and_limited) {
  gid_bytes gid{};
  EXPECT_FALSE(is_multicast(gid));
  gid[0] = 0xff;
  EXPECT_TRUE(is_multicast(gid));
  EXPECT_TRUE(is_multicast(group_number(0)));
  gid = group_number(0);
  gid[12] = 240;
  EXPECT_FALSE(is_multicast(gid));
  gid[12] = 239;
  gid[5] = 1;  // not an IPv4 address
  EXPECT_FALSE(is_multicast(gid));
  std::array<std::byte, grh_bytes> header;
  to_group(9).address.write(header, 10, false);
  EXPECT_EQ(destination_of(header), group_number(9));
  datagram_route wide;
  wide.destination[0] = 0xff;
  wide.destination[15] = 6;
  datagram_address(wide, {}).write(header, 10, false);
  EXPECT_EQ(destination_of(header), wide.destination);
  using change = multicast_groups::change;
  multicast_groups& groups = home->groups();
  for (std::uint32_t member = 1; member <= limits::max_group_members; ++member)
    ASSERT_NE(groups.attach(group_number(0), member), change::no_room);
  EXPECT_EQ(groups.attach(group_number(0), 1000), change::no_room);
  for (std::uint32_t number = 1; number < limits::max_groups; ++number)
    ASSERT_EQ(groups.attach(group_number(static_cast<std::uint8_t>(number)), 1), change::group);
  EXPECT_EQ(groups.attach(group_number(200), 1), change::no_room);
}

TEST_F(unreliable, bad_receive_request_fails_only_the_receiver) {
  sge bad = target.slice(0, 100);
  bad.lkey ^= 0x100;
  ASSERT_EQ(post_receive(*d.qp, 7, {bad}), 0);
  const send_request send{.opcode = opcode::send, .flags = signaled};
  ASSERT_EQ(post_to(*c.qp, send, to(*d.qp), {source.slice(0, 10)}), 0);
  EXPECT_EQ(sent(c), completion_status::success);
  EXPECT_EQ(only(*d.received).status, completion_status::local_protection_error);
  EXPECT_EQ(d.qp->state(), queue_pair_state::error);
  EXPECT_EQ(c.qp->state(), queue_pair_state::rts);
}

// IBTA C10-93.1.1: nothing is sent, and the request succeeds.
// parity: semantics-42
TEST_F(unreliable, datagram_beyond_the_mtu_succeeds_and_is_not_sent) {
  ASSERT_EQ(post_receive(*d.qp, 7, {target.slice(0, 5000)}), 0);
  const send_request send{.wr_id = 3, .opcode = opcode::send, .flags = signaled};
  ASSERT_EQ(post_to(*c.qp, send, to(*d.qp), {source.slice(0, 4097)}), 0);
  EXPECT_EQ(sent(c), completion_status::success);
  EXPECT_EQ(c.qp->diagnosis().drops.count(reason::message_too_long), 1U);
  EXPECT_EQ(c.qp->state(), queue_pair_state::rts);
  EXPECT_TRUE(d.received->empty());
  EXPECT_EQ(d.qp->diagnosis().drops.count(), 0U);
  char text[512];
  ASSERT_LT(home->explain(c.qp->number(), 0, 0, text, sizeof text), sizeof text);
  EXPECT_NE(std::string(text).find("the message has 4097 bytes; the maximum is 4096"),
            std::string::npos)
      << text;
  ASSERT_EQ(post_to(*c.qp, send, to(*d.qp), {source.slice(0, 4096)}), 0);
  EXPECT_EQ(sent(c), completion_status::success);
  EXPECT_EQ(only(*d.received).byte_count, 4136U);
}

// parity: semantics-48
TEST_F(unreliable, wrong_keys_are_counted_at_the_port) {
  ASSERT_EQ(post_receive(*d.qp, 7, {target.slice(0, 100)}), 0);
  for (int i = 0; i < 2; ++i)
    ASSERT_EQ(post_to(*c.qp, {.flags = signaled}, to(*d.qp, 0x1235), {source.slice(0, 8)}), 0);
  EXPECT_EQ(home->port().bad_qkeys(), 2U);
  EXPECT_EQ(home->port().bad_pkeys(), 0U);
  home->port().set_pkey(1, 0x8002);
  end_point& other = make(ud);
  auto elsewhere = connection_to(0);
  elsewhere.pkey_index = 1;
  connect(*other.qp, elsewhere);
  ASSERT_EQ(post_to(*other.qp, {.flags = signaled}, to(*d.qp), {source.slice(0, 8)}), 0);
  EXPECT_EQ(home->port().bad_pkeys(), 1U);
  EXPECT_EQ(home->port().bad_qkeys(), 2U);
  EXPECT_TRUE(d.received->empty());
}

// parity: semantics-74
TEST_F(unreliable, local_error_moves_to_sqe_until_recovery) {
  const send_request send{.wr_id = 1, .opcode = opcode::send};
  const auto status_after = [&](end_point& from, auto post_bad) {
    from.qp->sends().open();
    post_bad();
    EXPECT_EQ(from.qp->sends().add({.wr_id = 2, .opcode = opcode::send}, {}), 0);
    if (!rules_of(from.qp->transport()).connected) from.qp->sends().set_destination(to(*d.qp));
    from.qp->sends().submit();
    EXPECT_EQ(from.qp->state(), queue_pair_state::sqe);
    const auto all = drain(*from.sent);
    EXPECT_EQ(all.size(), 2U);
    EXPECT_EQ(all.at(1).status, completion_status::flushed);
    const queue_pair_attributes again{.state = queue_pair_state::rts};
    EXPECT_TRUE(from.qp->modify(again, attribute::state));
    return all.at(0).status;
  };
  sge bad = source.slice(0, 8);
  bad.lkey ^= 0x100;
  const auto add = [&](end_point& from, const sge& data) {
    EXPECT_EQ(from.qp->sends().add(send, {&data, 1}), 0);
  };
  EXPECT_EQ(status_after(a, [&] { add(a, bad); }), completion_status::local_protection_error);
  EXPECT_EQ(status_after(c, [&] { add(c, source.slice(0, 8)); }),
            completion_status::local_qp_operation_error);  // no destination
  // In SQE a queue pair receives, and posted sends are flushed.
  c.qp->sends().open();
  EXPECT_EQ(c.qp->sends().add(send, {}), 0);
  c.qp->sends().submit();
  ASSERT_EQ(c.qp->state(), queue_pair_state::sqe);
  ASSERT_EQ(post_to(*c.qp, send, to(*d.qp), {}), 0);
  EXPECT_EQ(drain(*c.sent).at(1).status, completion_status::flushed);
  ASSERT_EQ(post_receive(*c.qp, 7, {target.slice(0, 4136)}), 0);
  ASSERT_EQ(post_to(*d.qp, {.flags = signaled}, to(*c.qp), {source.slice(0, 4096)}), 0);
  EXPECT_EQ(only(*c.received).byte_count, 4136U);
  EXPECT_TRUE(target.holds(1, 40, 4096, 0));
  EXPECT_TRUE(c.qp->modify({.state = queue_pair_state::rts}, attribute::state));
  ASSERT_EQ(post_to(*c.qp, {.flags = signaled}, to(*d.qp), {}), 0);
  EXPECT_EQ(drain(*d.received).size(), 0U);
  EXPECT_EQ(sent(c), completion_status::success);
}

// parity: semantics-60
TEST_F(unreliable, state_transitions_depend_on_the_transport) {
  struct change {
    queue_pair_state from;
    queue_pair_state to;
    attribute_mask mask;
    bool uc;
    bool ud;
  };
  using s = queue_pair_state;
  const auto state = attribute_mask(attribute::state);
  const auto init = attribute::pkey_index | attribute::port;
  const auto path = attribute::address_vector | attribute::path_mtu | attribute::destination_qpn |
                    attribute::receive_psn;
  const std::array<change, 16> changes = {{
      {s::reset, s::init, state | init | attribute::access_flags, true, false},
      {s::reset, s::init, state | init | attribute::qkey, false, true},
      {s::reset, s::init, state | init, false, false},
      {s::init, s::init, state | init, true, true},
      {s::init, s::rtr, state | path, true, false},
      {s::init, s::rtr, state, false, true},
      {s::init, s::rtr, state | attribute::qkey, false, true},
      {s::rtr, s::rts, state | attribute::send_psn, true, true},
      {s::rtr, s::rts, state | attribute::send_psn | attribute::timeout, false, false},
      {s::rts, s::rts, state | attribute::access_flags, true, false},
      {s::rts, s::rts, state | attribute::qkey, false, true},
      {s::rts, s::sqd, state, true, true},
      {s::sqd, s::sqd, state | attribute::address_vector, true, false},
      {s::sqd, s::sqd, state | attribute::port, false, false},
      {s::sqe, s::rts, state, true, true},
      {s::sqe, s::sqd, state, false, false},
  }};
  for (const change& one : changes) {
    queue_pair_attributes wanted = connection_to(5);
    wanted.state = one.to;
    const auto allowed = [&](transport kind) {
      return check_modification(one.from, wanted, one.mask, kind).has_value();
    };
    EXPECT_EQ(allowed(transport::uc), one.uc) << static_cast<int>(one.from) << one.mask.mask();
    EXPECT_EQ(allowed(transport::ud), one.ud) << static_cast<int>(one.from) << one.mask.mask();
  }
  EXPECT_FALSE(check_modification(s::sqe, {.state = s::rts}, state));
}

}  // namespace
}  // namespace verbena::softdev::testing
