// SPDX-License-Identifier: MIT
// The InfiniBand persona of the device: LIDs, P_Keys, GIDs of a subnet. Each test runs in a child
// process, which opens the device with this persona.
#include <endian.h>

#include <cstdlib>
#include <functional>
#include <string>

#include "tests/unit/softdev/shim/soft_device.hpp"
#include "tests/unit/softdev/shim/subprocess.hpp"

extern "C" int ibv_query_gid_type(ibv_context* context, std::uint8_t port_num, unsigned index,
                                  int* type);

namespace verbena::softdev::testing {
namespace {

constexpr bring_up by_lid{.timeout = 1, .retry_count = 1, .global = false};

int as_infiniband(const std::function<void()>& test) {
  return in_child([&] {
    setenv("VERBENA_SOFTDEV_PERSONA", "infiniband", 1);
    test();
    return 0;
  });
}

int inject_event(ibv_context* context, const std::string& command) {
  const auto function =
      reinterpret_cast<verbena_soft_inject_event_function>(find("verbena_soft_inject_event"));
  return function(context, command.c_str());
}

std::string explained(const ibv_wc& failed) {
  const auto explain =
      reinterpret_cast<verbena_soft_explain_function>(find("verbena_soft_explain"));
  char text[300] = "";
  explain(failed.qp_num, failed.wr_id, failed.vendor_err, text, sizeof text);
  return text;
}

struct target {
  std::uint64_t address = 0;
  std::uint32_t rkey = 0;
};

// Writes eight bytes and waits for the completion.
ibv_wc write(opened_device& device, queue_pair_handle& qp, ibv_sge data, const target& to) {
  ibv_send_wr request{};
  request.wr_id = 5;
  request.opcode = IBV_WR_RDMA_WRITE;
  request.send_flags = IBV_SEND_SIGNALED;
  request.sg_list = &data;
  request.num_sge = 1;
  request.wr.rdma.remote_addr = to.address;
  request.wr.rdma.rkey = to.rkey;
  EXPECT_EQ(qp.send(request), 0);
  return device.wait_for(5);
}

// Two queue pairs of one process with memory to write to.
class both_ends {
 public:
  both_ends(const bring_up& one, const bring_up& other) {
    a.connect(b.get()->qp_num, one);
    b.connect(a.get()->qp_num, other);
  }
  ibv_wc write() {
    return testing::write(device, a, memory.slice(0, 8), {memory.address() + 8, memory.mr().rkey});
  }
  opened_device device;
  queue_pair_handle a{device};
  queue_pair_handle b{device};
  buffer memory{device.pd, 16, 1};
};

void infiniband_persona_has_lid_sm_and_guid() {
  opened_device device;
  const ibv_port_attr port = port_of(device.context);
  EXPECT_EQ(port.link_layer, IBV_LINK_LAYER_INFINIBAND);
  EXPECT_GE(port.lid, 1);
  EXPECT_LE(port.lid, 0xbfff);
  EXPECT_NE(port.sm_lid, 0);
  EXPECT_NE(port.sm_lid, port.lid);
  EXPECT_EQ(port.pkey_tbl_len, 8);
  EXPECT_EQ(port.port_cap_flags & IBV_PORT_IP_BASED_GIDS, 0U);
  ibv_device_attr attributes{};
  ASSERT_EQ(SOFT(ibv_query_device)(device.context, &attributes), 0);
  EXPECT_EQ(attributes.max_pkeys, 8);

  std::array<ibv_gid_entry, 64> entries{};
  const ssize_t count = SOFT(_ibv_query_gid_table)(device.context, entries.data(), entries.size(),
                                                   0, sizeof(ibv_gid_entry));
  ASSERT_EQ(count, 2);
  EXPECT_EQ(std::memcmp(&entries[0].gid.global.interface_id, &attributes.node_guid, 8), 0);
  for (std::uint32_t i = 0; i < 2; ++i) {
    EXPECT_EQ(be64toh(entries[i].gid.global.subnet_prefix), 0xfe80'0000'0000'0000U);
    EXPECT_EQ(entries[i].gid_type, static_cast<std::uint32_t>(IBV_GID_TYPE_IB));
    EXPECT_EQ(entries[i].ndev_ifindex, 0U);
    int type = -1;
    EXPECT_EQ(SOFT(ibv_query_gid_type)(device.context, 1, i, &type), 0);
    EXPECT_EQ(type, 0);
  }

  const std::uint16_t keys[] = {0xffff, 0x8001, 0x8002, 0x0002, 0, 0, 0, 0};
  for (int i = 0; i < 8; ++i) {
    __be16 key = 0x1111;
    EXPECT_EQ(SOFT(ibv_query_pkey)(device.context, 1, i, &key), 0);
    EXPECT_EQ(be16toh(key), keys[i]) << i;
    if (keys[i] != 0) {
      EXPECT_EQ(SOFT(ibv_get_pkey_index)(device.context, 1, key), i);
    }
  }
  __be16 none = 0;
  EXPECT_EQ(SOFT(ibv_query_pkey)(device.context, 1, 8, &none), -1);
  EXPECT_EQ(SOFT(ibv_get_pkey_index)(device.context, 1, 0), -1);
  EXPECT_EQ(SOFT(ibv_get_pkey_index)(device.context, 1, htobe16(0x8003)), -1);
}
TEST(infiniband, infiniband_persona_has_lid_sm_and_guid) {
  EXPECT_EQ(as_infiniband(&infiniband_persona_has_lid_sm_and_guid), 0);
}

void queue_pairs_are_addressed_by_lid() {
  both_ends plain(by_lid, by_lid);
  EXPECT_EQ(plain.write().status, IBV_WC_SUCCESS);
  both_ends with_header({}, by_lid);
  EXPECT_EQ(with_header.write().status, IBV_WC_SUCCESS);

  const std::uint16_t lid = port_of(plain.device.context).lid;
  bring_up lid_offset = by_lid;
  lid_offset.lid = static_cast<std::uint16_t>(lid + 1);
  both_ends lost(lid_offset, by_lid);
  const ibv_wc failed = lost.write();
  EXPECT_EQ(failed.status, IBV_WC_RETRY_EXC_ERR);
  EXPECT_NE(explained(failed).find("addressed to LID " + std::to_string(lid + 1)),
            std::string::npos)
      << explained(failed);

  queue_pair_handle unconnected(plain.device);
  unconnected.to_init();
  ibv_qp_attr nowhere{};
  nowhere.qp_state = IBV_QPS_RTR;
  nowhere.path_mtu = IBV_MTU_1024;
  nowhere.ah_attr.port_num = 1;
  const int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  EXPECT_EQ(SOFT(ibv_modify_qp)(unconnected.get(), &nowhere, mask), EINVAL);
  nowhere.ah_attr.dlid = lid;
  nowhere.ah_attr.is_global = 1;
  nowhere.ah_attr.grh.sgid_index = 2;
  EXPECT_EQ(SOFT(ibv_modify_qp)(unconnected.get(), &nowhere, mask), EINVAL);
}
TEST(infiniband, queue_pairs_are_addressed_by_lid) {
  EXPECT_EQ(as_infiniband(&queue_pairs_are_addressed_by_lid), 0);
}

void queue_pairs_of_different_partitions_do_not_communicate() {
  const struct {
    std::uint16_t one;
    std::uint16_t other;
    ibv_wc_status status;
  } rows[] = {{0, 0, IBV_WC_SUCCESS},       {1, 1, IBV_WC_SUCCESS},
              {2, 3, IBV_WC_SUCCESS},       {3, 2, IBV_WC_SUCCESS},
              {3, 3, IBV_WC_RETRY_EXC_ERR}, {0, 1, IBV_WC_RETRY_EXC_ERR},
              {1, 3, IBV_WC_RETRY_EXC_ERR}};
  for (const auto& [one, other, status] : rows) {
    bring_up here = by_lid;
    here.pkey_index = one;
    bring_up there = by_lid;
    there.pkey_index = other;
    both_ends ends(here, there);
    const ibv_wc done = ends.write();
    EXPECT_EQ(done.status, status) << one << ' ' << other;
    if (status != IBV_WC_SUCCESS) {
      EXPECT_NE(explained(done).find("P_Key"), std::string::npos) << explained(done);
    }
  }
  opened_device device;
  queue_pair_handle qp(device);
  ibv_qp_attr to_init{};
  to_init.qp_state = IBV_QPS_INIT;
  to_init.port_num = 1;
  for (const std::uint16_t index : {4, 7, 8, 0xffff}) {
    to_init.pkey_index = index;
    EXPECT_EQ(
        SOFT(ibv_modify_qp)(qp.get(), &to_init,
                            IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
        EINVAL)
        << index;
  }
}
// parity: semantics-41
TEST(infiniband, queue_pairs_of_different_partitions_do_not_communicate) {
  EXPECT_EQ(as_infiniband(&queue_pairs_of_different_partitions_do_not_communicate), 0);
}

void subnet_manager_changes_take_effect() {
  both_ends ends(by_lid, by_lid);
  ibv_context* const context = ends.device.context;
  const ibv_port_attr before = port_of(context);
  ASSERT_EQ(inject_event(context, "sm-change"), 0);
  EXPECT_NE(port_of(context).sm_lid, before.sm_lid);
  ASSERT_EQ(inject_event(context, "port 1 down"), 0);
  EXPECT_EQ(port_of(context).phys_state, 2);
  ASSERT_EQ(inject_event(context, "port 1 up"), 0);

  for (const char* nonsense : {"pkey-change 0", "pkey-change 8 1", "pkey-change 0 65536",
                               "pkey-change 0 1 2", "pkey-change x 1"})
    EXPECT_EQ(inject_event(context, nonsense), EINVAL) << nonsense;
  ASSERT_EQ(inject_event(context, "pkey-change 0 0x8005"), 0);
  EXPECT_EQ(SOFT(ibv_get_pkey_index)(context, 1, htobe16(0x8005)), 0);
  EXPECT_EQ(ends.write().status, IBV_WC_SUCCESS);  // both have the new P_Key
  ASSERT_EQ(inject_event(context, "pkey-change"), 0);
  EXPECT_EQ(SOFT(ibv_get_pkey_index)(context, 1, htobe16(0x8005)), -1);

  const std::uint16_t moved = before.lid == 77 ? 78 : 77;
  ASSERT_EQ(inject_event(context, "lid-change " + std::to_string(moved)), 0);
  EXPECT_EQ(port_of(context).lid, moved);
  EXPECT_EQ(ends.write().status, IBV_WC_RETRY_EXC_ERR);
  both_ends anew(by_lid, by_lid);
  EXPECT_EQ(anew.write().status, IBV_WC_SUCCESS);
}
TEST(infiniband, subnet_manager_changes_take_effect) {
  EXPECT_EQ(as_infiniband(&subnet_manager_changes_take_effect), 0);
}

// Datagrams to a queue pair of the same process, with different addresses.
struct datagram_address {
  bool global = false;
  std::uint16_t lid_offset = 0;  // added to the LID
  std::uint16_t pkey_index = 0;
};
class datagram_addresses {
 public:
  datagram_addresses() {
    receiver.connect(0, by_lid);
    EXPECT_NE(sent, nullptr);
  }
  datagram_addresses(const datagram_addresses&) = delete;
  datagram_addresses& operator=(const datagram_addresses&) = delete;
  ~datagram_addresses() { EXPECT_EQ(SOFT(ibv_destroy_cq)(sent), 0); }

  void send(const datagram_address& way) {
    queue_pair_handle sender(device, {.send_cq = sent, .type = IBV_QPT_UD});
    bring_up here = by_lid;
    here.pkey_index = way.pkey_index;
    sender.connect(0, here);
    ibv_ah_attr address{};
    address.port_num = 1;
    address.sl = 3;
    address.dlid = static_cast<std::uint16_t>(port_of(device.context).lid + way.lid_offset);
    address.is_global = way.global ? 1 : 0;
    EXPECT_EQ(SOFT(ibv_query_gid)(device.context, 1, 0, &address.grh.dgid), 0);
    ibv_ah* const handle = SOFT(ibv_create_ah)(device.pd, &address);
    ASSERT_NE(handle, nullptr);
    ibv_sge data = memory.slice(0, 8);
    ibv_send_wr request{};
    request.wr_id = 5;
    request.opcode = IBV_WR_SEND;
    request.send_flags = IBV_SEND_SIGNALED;
    request.sg_list = &data;
    request.num_sge = 1;
    request.wr.ud.ah = handle;
    request.wr.ud.remote_qpn = receiver.get()->qp_num;
    request.wr.ud.remote_qkey = by_lid.qkey;
    EXPECT_EQ(sender.send(request), 0);
    EXPECT_EQ(device.wait_for(5, sent).status, IBV_WC_SUCCESS);
    EXPECT_EQ(SOFT(ibv_destroy_ah)(handle), 0);
  }

  opened_device device;
  ibv_cq* sent = SOFT(ibv_create_cq)(device.context, 16, nullptr, nullptr, 0);
  queue_pair_handle receiver{device, {.type = IBV_QPT_UD}};
  buffer memory{device.pd, 128, 3};
};

void datagrams_go_by_lid(bool global) {
  datagram_addresses ends;
  ibv_context* const context = ends.device.context;
  const std::uint16_t lid = port_of(context).lid;
  ASSERT_EQ(ends.receiver.receive(9, {ends.memory.slice(64, 48)}), 0);
  // A dropped datagram leaves the receive request for the next one.
  ends.send({.global = global, .lid_offset = 1});
  ends.send({.global = global, .pkey_index = 1});
  const auto to_lid_0 = static_cast<std::uint16_t>(-lid);
  if (global) {
    ends.send({.global = true, .lid_offset = to_lid_0});
  } else {
    ibv_ah_attr nowhere{};
    nowhere.port_num = 1;
    EXPECT_EQ(SOFT(ibv_create_ah)(ends.device.pd, &nowhere), nullptr);
    EXPECT_EQ(errno, EINVAL);
  }
  ibv_wc done{};
  EXPECT_EQ(ibv_poll_cq(ends.device.cq, 1, &done), 0);
  ends.send({.global = global});
  done = ends.device.wait_for(9);
  EXPECT_EQ(done.status, IBV_WC_SUCCESS);
  EXPECT_EQ(done.byte_len, 48U);
  EXPECT_EQ((done.wc_flags & IBV_WC_GRH) != 0, global);
  EXPECT_EQ(done.slid, lid);
  EXPECT_EQ(done.sl, 3);
  EXPECT_EQ(done.dlid_path_bits, 0);
  EXPECT_EQ(ends.memory.copy(104, 8), ends.memory.copy(0, 8));

  auto* const header = reinterpret_cast<ibv_grh*>(ends.memory.data() + 64);
  ibv_ah_attr back{};
  ASSERT_EQ(SOFT(ibv_init_ah_from_wc)(context, 1, &done, header, &back), 0);
  EXPECT_EQ(back.dlid, lid);
  EXPECT_EQ(back.sl, 3);
  EXPECT_EQ(back.is_global, global ? 1 : 0);
  ibv_ah* const reply = SOFT(ibv_create_ah_from_wc)(ends.device.pd, &done, header, 1);
  ASSERT_NE(reply, nullptr);
  EXPECT_EQ(SOFT(ibv_destroy_ah)(reply), 0);
}
TEST(infiniband, datagrams_are_routed_by_lid_with_and_without_grh) {
  for (const bool global : {false, true})
    EXPECT_EQ(as_infiniband([&] { datagrams_go_by_lid(global); }), 0) << global;
}

// One of two processes: connects, sends the address of its memory, and waits for a message.
struct lid_introduction {
  std::uint32_t qp_num = 0;
  std::uint16_t lid = 0;
  target memory;
};
class lid_side {
 public:
  lid_side(stream& other, bring_up how) {
    other.put(lid_introduction{
        qp.get()->qp_num, port_of(device.context).lid, {memory.address() + 8, memory.mr().rkey}});
    peer = other.take<lid_introduction>();
    how.lid = peer.lid;
    qp.connect(peer.qp_num, how);
    other.meet();
  }
  ibv_wc write() { return testing::write(device, qp, memory.slice(0, 8), peer.memory); }

  opened_device device;
  queue_pair_handle qp{device};
  buffer memory{device.pd, 16, 1};
  lid_introduction peer;
};

int peer_process(stream& other, const char* persona, const bring_up& how) {
  setenv("VERBENA_SOFTDEV_PERSONA", persona, 1);
  lid_side it(other, how);
  other.meet();
  if (other.take<char>() == 'd') {
    EXPECT_EQ(inject_event(it.device.context, "port 1 down"), 0);
  }
  other.meet();
  other.meet();
  return 0;
}

void processes_reach_each_other_by_lid(const char* route) {
  setenv("VERBENA_SOFTDEV_ROUTE", route, 1);
  child_process child([](stream& to) { return peer_process(to, "infiniband", by_lid); });
  lid_side here(child.to(), by_lid);
  EXPECT_EQ(here.write().status, IBV_WC_SUCCESS);
  EXPECT_EQ(here.write().status, IBV_WC_SUCCESS);
  child.to().meet();
  child.to().put('d');
  child.to().meet();
  const ibv_wc failed = here.write();
  EXPECT_EQ(failed.status, IBV_WC_RETRY_EXC_ERR) << explained(failed);
  EXPECT_NE(explained(failed).find("is down"), std::string::npos) << explained(failed);
  child.to().meet();
  EXPECT_EQ(child.join(), 0);
}
TEST(infiniband, processes_communicate_by_lid_until_the_port_goes_down) {
  for (const char* route : {"auto", "ring"})
    EXPECT_EQ(as_infiniband([&] { processes_reach_each_other_by_lid(route); }), 0) << route;
}

// The other process is in another partition or has another persona.
void nobody_answers(const char* persona, std::uint16_t pkey_index, const char* reason) {
  child_process child([&](stream& to) {
    bring_up how;
    how.pkey_index = pkey_index;
    return peer_process(to, persona, how);
  });
  bring_up here = by_lid;
  here.lid = 1;
  lid_side it(child.to(), here);
  const ibv_wc failed = it.write();
  EXPECT_EQ(failed.status, IBV_WC_RETRY_EXC_ERR);
  EXPECT_NE(explained(failed).find(reason), std::string::npos) << explained(failed);
  child.to().meet();
  child.to().put('-');
  child.to().meet();
  child.to().meet();
  EXPECT_EQ(child.join(), 0);
}
TEST(infiniband, process_of_another_partition_or_persona_does_not_answer) {
  EXPECT_EQ(as_infiniband([] { nobody_answers("infiniband", 2, "P_Key 0xffff here, 0x8002"); }), 0);
  EXPECT_EQ(as_infiniband([] { nobody_answers("roce", 0, "RoCE"); }), 0);
}

}  // namespace
}  // namespace verbena::softdev::testing
