// SPDX-License-Identifier: MIT
// Address handles and addresses of senders, with a fake provider.
#include "verbena/verbs/address_handle.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "tests/unit/verbs/fake_objects.hpp"
#include "verbena/verbs/completion.hpp"
#include "verbena/verbs/global_route_header.hpp"
#include "verbena/verbs/protection_domain.hpp"

namespace verbena {
namespace {

using testing_support::expect_error;

class address_handles : public ::testing::Test {
 protected:
  // A completed receive; `flags` as in ibv_wc.
  static completion received(unsigned flags) {
    ibv_wc native{};
    native.status = IBV_WC_SUCCESS;
    native.opcode = IBV_WC_RECV;
    native.slid = 0x12;
    native.sl = 3;
    native.dlid_path_bits = 5;
    native.wc_flags = flags;
    return native;
  }

  test::fake_objects fake;
  context device = testing_support::open_soft(fake.get()).value();
  protection_domain pd = device.allocate_pd().value();
  gid_entry own = device.routable_gid(port_number(1)).value();
  gid peer = parse_gid("192.0.2.77").value();
};

// parity: ibverbs-126, ibverbs-127
TEST_F(address_handles, create_passes_every_field_to_the_verb) {
  const address_vector way{.lid = lid(7),
                           .gid = peer,
                           .source_gid_index = gid_index(1),
                           .service_level = 2,
                           .traffic_class = 3,
                           .hop_limit = 4,
                           .flow_label = 5,
                           .source_path_bits = 6,
                           .rate = static_rate::gbps_100};
  const auto made = pd.create_ah(way).value();
  EXPECT_EQ(detail::from_native(fake.address), way);
  EXPECT_EQ(fake.address.port_num, 1) << "the default";
  EXPECT_EQ(made.native()->pd, pd.native());
}

// parity: ibverbs-128, ibverbs-308, rrddmma-78
TEST_F(address_handles, copies_share_native_handle_and_keep_pd) {
  auto first = pd.create_ah({.gid = peer}).value();
  auto second = first;
  EXPECT_EQ(fake.live, 1);
  auto kept = std::move(first).close();
  EXPECT_FALSE(kept);
  EXPECT_FALSE(std::move(pd).close());
  EXPECT_EQ(fake.live, 1);
  {
    const auto gone = std::move(kept).object();
  }
  EXPECT_EQ(fake.live, 1);
  EXPECT_TRUE(std::move(second).close());
  EXPECT_EQ(fake.live, 0);
}

TEST_F(address_handles, a_destination_has_the_layout_of_the_c_request) {
  const auto way = pd.create_ah({.gid = peer}).value();
  const destination to = way.destination(queue_pair_number(0x123456), queue_key(0x80000001));
  ibv_send_wr request{};
  std::memcpy(&request.wr.ud, &to, sizeof to);
  EXPECT_EQ(request.wr.ud.ah, way.native());
  EXPECT_EQ(request.wr.ud.remote_qpn, 0x123456U);
  EXPECT_EQ(request.wr.ud.remote_qkey, 0x80000001U);
}

TEST_F(address_handles, create_error_names_the_fault) {
  expect_error(pd.create_ah({.gid = peer, .service_level = 16}), "4 bits");
  fake.code = EINVAL;
  expect_error(pd.create_ah({.gid = peer, .source_gid_index = gid_index(255)}),
               "GID index 255 is outside the table of port 1");
  expect_error(pd.create_ah({}), "on Ethernet the address needs the GID of the peer");
  expect_error(pd.create_ah({.port = port_number(9)}), "port 9 does not exist");
  fake.code = ENODATA;
  expect_error(pd.create_ah({.gid = peer, .source_gid_index = gid_index(9)}), "index 9");
  fake.code = ETIMEDOUT;
  expect_error(pd.create_ah({.gid = peer}), "the remote GID ::ffff:192.0.2.77 failed");
  fake.code = ENOMEM;
  expect_error(pd.create_ah({.gid = peer}), "the device has no free object of this type");
  EXPECT_EQ(fake.live, 0);
}

// parity: ibverbs-132
TEST_F(address_handles, sender_address_uses_grh_destination) {
  const global_route_header header{.version = global_route_header::form::ipv4,
                                   .source = peer,
                                   .destination = own.gid,
                                   .traffic_class = 9,
                                   .next_header = 17,
                                   .hop_limit = 60};
  const auto way = pd.sender_address(received(IBV_WC_GRH), port_number(1), header).value();
  EXPECT_EQ(way, (address_vector{.lid = lid(0x12),
                                 .gid = peer,
                                 .source_gid_index = own.index,
                                 .service_level = 3,
                                 .traffic_class = 9,
                                 .hop_limit = 60,
                                 .source_path_bits = 5}));
}

// parity: ibverbs-tests-86, ibverbs-135
TEST_F(address_handles, sender_address_without_grh_uses_lid) {
  const auto way = pd.sender_address(received(0), port_number(1)).value();
  EXPECT_EQ(way, (address_vector{.lid = lid(0x12), .service_level = 3, .source_path_bits = 5}));
}

// parity: ibverbs-133, ibverbs-134
TEST_F(address_handles, sender_address_of_failed_completion_fails) {
  const port_number port(1);
  global_route_header header{.source = peer, .destination = own.gid, .next_header = 17};
  expect_error(pd.sender_address(received(IBV_WC_GRH), port), "but no GRH was passed");
  header.destination = parse_gid("192.0.2.78").value();
  expect_error(pd.sender_address(received(IBV_WC_GRH), port, header),
               "the GRH's destination GID ::ffff:192.0.2.78 is not in the GID table of port 1");
  header.destination = own.gid;
  expect_error(pd.sender_address(received(IBV_WC_GRH), port_number(2), header),
               "is not in the GID table of port 2");
  header.next_header = 0x1b;  // RoCE v1; the entry has RoCE v2
  expect_error(pd.sender_address(received(IBV_WC_GRH), port, header),
               "not in the GID table of port 1");
  header.next_header = 6;
  expect_error(pd.sender_address(received(IBV_WC_GRH), port, header),
               "the next header of the GRH is 6");
  header.destination = parse_gid("ff0e::ffff:224.1.2.3").value();
  expect_error(pd.sender_address(received(IBV_WC_GRH), port, header), "the multicast group");
  ibv_wc failed{};
  failed.status = IBV_WC_WR_FLUSH_ERR;
  expect_error(pd.sender_address(completion(failed), port, header), "a failed completion");
}

}  // namespace
}  // namespace verbena
