// SPDX-License-Identifier: MIT
// Missing and superfluous byte swaps.
#include <arpa/inet.h>
#include <endian.h>

#include <array>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "tests/zoo/c_verbs.hpp"
#include "tests/zoo/crates.hpp"
#include "tests/zoo/datagrams.hpp"
#include "tests/zoo/entry.hpp"
#include "tests/zoo/pair.hpp"

namespace verbena::zoo {
namespace byte_order_entries {
namespace {

std::string shown(std::uint64_t number) {
  std::array<char, 32> room{};
  std::snprintf(room.data(), room.size(), "0x%llx", static_cast<unsigned long long>(number));
  return room.data();
}

constexpr std::uint32_t sent_number = 0x01020304;

// The sender stores immediate data in host order; the receiver expects network order.
void immediate_in_host_order() {
  pair with;
  require(c_receive(with.b->queue.native(), 1, with.memory.slice(4096, 64)) == 0,
          "the post failed");
  const int posted = c_send(with.a->queue.native(), 2, with.memory.slice(0, 8), IBV_SEND_SIGNALED,
                            [](ibv_send_wr& request) {
                              request.opcode = IBV_WR_SEND_WITH_IMM;
                              request.imm_data = sent_number;
                            });
  require(posted == 0, "the post failed");
  const auto received = c_take_successful(with.b->receives.native(), 1);
  if (const auto number = ntohl(received[0].imm_data); number != sent_number)
    harmed("0x1020304 arrived as " + shown(number));
}
void immediate_data_of_the_library() {
  pair with;
  with.b->queue.post_receive({.id = 1}, with.memory.slice(4096, 64)).value();
  auto batch = with.a->queue.start_send();
  batch.send_with_immediate({.id = 2, .signaled = true}, sent_number, with.memory.slice(0, 8));
  batch.submit().value();
  const auto received = take_successful(with.b->receives, 1);
  require(received[0].immediate() == sent_number, "the immediate data differ");
  require(received[0].native().imm_data == htonl(sent_number),
          "the immediate data are not in network order");
  verified("0x1020304 arrived, and imm_data is in network order");
}

// The 64-bit address is converted by htonl and ntohl, which take 32 bits.
void address_truncated_by_htonl() {
  pair with;
  put(with.at(0, 8), "8 bytes!");
  const auto target = with.memory.remote().slice(4096, 8);
  const std::uint64_t sent = htonl(static_cast<std::uint32_t>(target.address()));
  const std::uint64_t received = ntohl(static_cast<std::uint32_t>(sent));
  const int posted = c_send(with.a->queue.native(), 1, with.memory.slice(0, 8), IBV_SEND_SIGNALED,
                            [&](ibv_send_wr& request) {
                              request.opcode = IBV_WR_RDMA_WRITE;
                              request.wr.rdma.remote_addr = received;
                              request.wr.rdma.rkey = target.key().value();
                            });
  require(posted == 0, "the post failed");
  require(c_take(with.a->sends.native(), 1).size() == 1, "the write did not complete");
  if (text_at(with.at(4096, 8), 8) != "8 bytes!")
    harmed("the write went to " + shown(received) + ", not to " + shown(target.address()));
}
void remote_region_encoded_and_decoded() {
  pair with;
  put(with.at(0, 8), "8 bytes!");
  const auto sent = with.memory.remote().slice(4096, 8).encode();
  const auto target = remote_region::decode(sent).value();
  auto batch = with.a->queue.start_send();
  batch.write({.id = 1, .signaled = true}, with.memory.slice(0, 8), target);
  batch.submit().value();
  take_successful(with.a->sends, 1);
  require(text_at(with.at(4096, 8), 8) == "8 bytes!", "the bytes did not arrive");
  verified("encode() and decode() define the format of address and key");
}

// ibv_get_device_guid returns network order; the program uses the value as a number.
void guid_in_network_order() {
  const auto device = open_device("soft0").value();
  const std::uint64_t raw = c_of(device).get_device_guid(device.native()->device);
  const std::uint64_t vendor = raw >> 40;
  std::array<std::uint8_t, 8> bytes{};
  std::memcpy(bytes.data(), &raw, sizeof raw);
  const std::uint64_t expected = std::uint64_t{bytes[0]} << 16 | bytes[1] << 8 | bytes[2];
  if (vendor != expected)
    harmed("the OUI is read as " + shown(vendor) + ", not " + shown(expected));
}
void guid_in_host_order() {
  const auto device = open_device("soft0").value();
  const guid id = device.query().value().node_guid();
  const std::uint64_t raw = c_of(device).get_device_guid(device.native()->device);
  require(id == guid::from_network_order(raw) && id.number() == be64toh(raw), "the GUID differs");
  require(id.oui() == be64toh(raw) >> 40, "the OUI differs");
  verified("a guid stores bytes, and number() returns host order");
}

// The GID of the peer is built from subnet prefix and interface ID in host order.
void gid_from_host_order_numbers() {
  datagrams with;
  const auto peer = with.own.gid;
  ibv_ah_attr attributes{};
  attributes.is_global = 1;
  attributes.port_num = 1;
  attributes.grh.sgid_index = with.own.index.value();
  attributes.grh.hop_limit = 64;
  attributes.grh.dgid.global.subnet_prefix = peer.subnet_prefix();  // without htobe64
  attributes.grh.dgid.global.interface_id = peer.interface_id();
  ibv_ah* const wrong = c_of(with.device).create_ah(with.pd.native(), &attributes);
  const auto address_handle_of_self = with.address_handle_of_self();
  with.receive(1, 0, 128);
  with.receive(2, 128, 128);
  put(with.at(4096, 5), "first");
  put(with.at(4160, 5), "later");
  if (wrong != nullptr)
    require(with.c_send(3, with.memory.slice(4096, 5), wrong) == 0, "the post failed");
  with.send(4, with.memory.slice(4160, 5), address_handle_of_self);
  require(take(with.sends, wrong != nullptr ? 2 : 1).size() == (wrong != nullptr ? 2U : 1U),
          "the send did not complete");
  take_successful(with.receives, 1);
  const auto got = text_at(with.at(40, 5), 5);
  if (got != "first") harmed("the datagram was lost; the next one arrived instead: " + got);
}
void gid_from_bytes() {
  datagrams with;
  const gid peer(with.own.gid.bytes());
  const auto address_handle_of_self =
      with.pd.create_ah({.gid = peer, .source_gid_index = with.own.index}).value();
  with.receive(1, 0, 128);
  put(with.at(4096, 5), "first");
  with.send(3, with.memory.slice(4096, 5), address_handle_of_self);
  take_successful(with.receives, 1);
  require(text_at(with.at(40, 5), 5) == "first", "the datagram has other bytes");
}

// One side sends its queue pair number in network order; the peer does not swap it back.
std::uint32_t swapped(const endpoint& of) { return htonl(of.queue_pair.value()); }
// A number whose lowest byte is 0 would still have 24 bits after the swap.
prepared_queue_pair<rc> create_qp_with_detectable_number(const pair& with) {
  while (true) {
    auto made = with.pd.create_qp<rc>(with.a->sends, with.a->sends).value();
    if ((made.endpoint().queue_pair.value() & 0xff) != 0) return made;
  }
}
void connect_with_swapped_qp_number() {
  pair with;
  auto mine = create_qp_with_detectable_number(with);
  auto theirs = create_qp_with_detectable_number(with);
  auto to_mine = mine.endpoint();
  const auto to_theirs = theirs.endpoint();
  auto peer = std::move(theirs).handshake(to_mine).value();
  mine.modify(mine.init_attributes()).value();
  ibv_qp_attr attributes = mine.rtr_attributes(to_theirs).value().native();
  attributes.dest_qp_num = swapped(to_theirs);
  constexpr int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                       IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  const int ready = c_of(with.device).modify_qp(mine.native(), &attributes, mask);
  static_cast<void>(mine.modify(mine.rts_attributes(to_theirs)));
  auto queue = std::move(mine).into_queue_pair();
  peer.post_receive({.id = 1}, with.memory.slice(4096, 8)).value();
  put(with.at(0, 8), "8 bytes!");
  static_cast<void>(c_send(queue.native(), 2, with.memory.slice(0, 8)));
  for (const auto& done : c_take(with.a->sends.native(), 1, short_deadline()))
    require(done.status != IBV_WC_SUCCESS, "the message was sent");
  if (text_at(with.at(4096, 8), 8) != "8 bytes!")
    harmed("the message never arrives (ibv_modify_qp returned " + std::to_string(ready) + ")");
}
void handshake_with_swapped_qp_number() {
  pair with;
  auto theirs = create_qp_with_detectable_number(with);
  auto mine = create_qp_with_detectable_number(with);
  endpoint remote = theirs.endpoint();
  remote.queue_pair = queue_pair_number(swapped(remote));
  static_cast<void>(std::move(mine).handshake(remote));
}
void handshake_with_encoded_endpoint() {
  pair with;
  auto mine = create_qp_with_detectable_number(with);
  auto theirs = create_qp_with_detectable_number(with);
  const auto to_mine = endpoint::decode(mine.endpoint().encode()).value();
  const auto to_theirs = endpoint::decode(theirs.endpoint().encode()).value();
  auto peer = std::move(theirs).handshake(to_mine).value();
  auto queue = std::move(mine).handshake(to_theirs).value();
  peer.post_receive({.id = 1}, with.memory.slice(4096, 8)).value();
  send(queue, {.id = 2, .signaled = true}, with.memory.slice(0, 8)).value();
  take_successful(with.a->sends, 2);
}

constexpr std::array entries = {
    entry{.name = "immediate_data_in_host_order",
          .kind = "byte order",
          .mistake = "imm_data is set without htonl",
          .seen = "rdmapp qp.cc:308 and 470; in a provider: rdma-core PR #146",
          .does = harm::wrong_data,
          .caught_by = level::unwritable,
          .words = "0x1020304 arrived",
          .ibverbs = {answer::yes, "immediate data are in host order on both sides"},
          .ibverbs_rs = {answer::yes, "immediate_data() is in host order"},
          .rrddmma = {answer::no, "the number is passed without conversion"},
          .harmful = &immediate_in_host_order,
          .caught = &immediate_data_of_the_library,
          .twin = &immediate_data_of_the_library},
    entry{.name = "remote_address_truncated_by_htonl",
          .kind = "byte order",
          .mistake = "a 64-bit remote address is converted by htonl and ntohl",
          .seen = "linzino7/RDMA-example-application PR #6, w180112/RDMA-example #3",
          .does = harm::wrong_data,
          .caught_by = level::unwritable,
          .words = "encode.. and decode.. define the format",
          .ibverbs = unknown,
          .ibverbs_rs = {answer::yes, "a remote region is exchanged by serde"},
          .rrddmma = {answer::yes, "a remote region is exchanged by serde"},
          .harmful = &address_truncated_by_htonl,
          .caught = &remote_region_encoded_and_decoded,
          .twin = &remote_region_encoded_and_decoded},
    entry{.name = "guid_used_in_network_order",
          .kind = "byte order",
          .mistake = "the __be64 of ibv_get_device_guid is used without be64toh",
          .seen = "rdma-core PR #97; ibverbs-rs device/guid.rs:27-33, rust-ibverbs lib.rs:656-664",
          .does = harm::wrong_data,
          .caught_by = level::unwritable,
          .words = "a guid stores bytes",
          .ibverbs = {answer::no, "it swaps twice: the bytes are reversed"},
          .ibverbs_rs = {answer::no, "it swaps twice: the bytes are reversed"},
          .rrddmma = unknown,
          .harmful = &guid_in_network_order,
          .caught = &guid_in_host_order,
          .twin = &guid_in_host_order},
    entry{.name = "gid_built_from_host_order_numbers",
          .kind = "byte order",
          .mistake = "subnet_prefix and interface_id of a GID are set without htobe64",
          .seen = "verbs.h: both are __be64; ibv_query_gid(3)",
          .does = harm::wrong_data,
          .caught_by = level::compiler,
          .words = "base/gid_is_not_two_numbers",
          .ibverbs = unknown,
          .ibverbs_rs = {answer::absent, "it has no GIDs"},
          .rrddmma = {answer::yes, "a GID is created from an IPv6 address or 16 bytes"},
          .harmful = &gid_from_host_order_numbers,
          .caught = nullptr,
          .twin = &gid_from_bytes},
    entry{.name = "qp_number_swapped_by_one_side",
          .kind = "byte order",
          .mistake =
              "one side sends its queue pair number in network order, the peer does not convert it",
          .seen = "Eyescale/Collage #15: the handshake's numbers are not byte-swapped",
          .does = harm::wrong_data,
          .caught_by = level::stop,
          .words = "a queue pair number or packet sequence number exceeds 24 bits",
          .ibverbs = {answer::no, "numbers of more than 24 bits are accepted"},
          .ibverbs_rs = {answer::yes, "an endpoint is exchanged by serde"},
          .rrddmma = {answer::yes, "an endpoint is exchanged by serde"},
          .harmful = &connect_with_swapped_qp_number,
          .caught = &handshake_with_swapped_qp_number,
          .twin = &handshake_with_encoded_endpoint},
};

}  // namespace
}  // namespace byte_order_entries

std::span<const entry> byte_order() { return byte_order_entries::entries; }

}  // namespace verbena::zoo
