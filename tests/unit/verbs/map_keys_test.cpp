// SPDX-License-Identifier: MIT
// Values of this module as keys of hash maps.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "tests/unit/base/map_keys.hpp"
#include "verbena/verbs/access.hpp"
#include "verbena/verbs/address_handle.hpp"
#include "verbena/verbs/address_vector.hpp"
#include "verbena/verbs/endpoint.hpp"
#include "verbena/verbs/local_slice.hpp"
#include "verbena/verbs/remote_region.hpp"
#include "verbena/verbs/route.hpp"

namespace verbena {
namespace {

using test::expect_different_keys;

const gid some_gid = parse_gid("192.0.2.1").value();

TEST(map_keys, memory_differs_by_each_member) {
  expect_different_keys<local_slice>({{1, 2, local_key(3)},
                                      {2, 2, local_key(3)},
                                      {1, 3, local_key(3)},
                                      {1, 2, local_key(2)},
                                      {2, 1, local_key(3)}});
  const auto region = [](std::uint64_t address, std::uint64_t length, std::uint32_t key) {
    return remote_region({.address = address, .length = length, .key = remote_key(key)});
  };
  expect_different_keys<remote_region>(
      {{}, region(1, 2, 3), region(2, 2, 3), region(1, 3, 3), region(1, 2, 2), region(2, 1, 3)});
  expect_different_keys<access_flags>(
      {{}, access::local_write, access::remote_read, access::local_write | access::remote_read});
}

TEST(map_keys, routes_differ_by_each_member) {
  expect_different_keys<route>({{},
                                {.port = port_number(2)},
                                {.gid_index = gid_index(0)},
                                {.gid_index = gid_index(2)},
                                {.path_mtu = mtu::bytes_1024},
                                {.service_level = 1},
                                {.traffic_class = 1},
                                {.hop_limit = 1},
                                {.pkey_index = 1}});
  expect_different_keys<datagram_route>({{},
                                         {.port = port_number(2)},
                                         {.gid_index = gid_index(0)},
                                         {.gid_index = gid_index(2)},
                                         {.pkey_index = 1}});
}

TEST(map_keys, addresses_differ_by_each_member) {
  expect_different_keys<address_vector>({{},
                                         {.lid = lid(1)},
                                         {.gid = gid()},
                                         {.gid = some_gid},
                                         {.source_gid_index = gid_index(1)},
                                         {.port = port_number(2)},
                                         {.service_level = 1},
                                         {.traffic_class = 1},
                                         {.hop_limit = 1},
                                         {.flow_label = 1},
                                         {.source_path_bits = 1},
                                         {.rate = static_rate::gbps_100}});
  ibv_ah ways[2] = {};
  expect_different_keys<destination>({{&ways[0], queue_pair_number(1), queue_key(2)},
                                      {&ways[1], queue_pair_number(1), queue_key(2)},
                                      {&ways[0], queue_pair_number(2), queue_key(2)},
                                      {&ways[0], queue_pair_number(1), queue_key(1)},
                                      {&ways[0], queue_pair_number(2), queue_key(1)}});
  expect_different_keys<endpoint>({{},
                                   {.queue_pair = queue_pair_number(1)},
                                   {.first_psn = packet_sequence_number(1)},
                                   {.lid = lid(1)},
                                   {.gid = gid()},
                                   {.gid = some_gid},
                                   {.mtu = mtu::bytes_4096},
                                   {.responder_resources = 1}});
}

}  // namespace
}  // namespace verbena
