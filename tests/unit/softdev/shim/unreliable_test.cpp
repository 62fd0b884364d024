// SPDX-License-Identifier: MIT
// UC, UD and address handles through the C interface, in one process and between two.
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>

#include "tests/unit/softdev/shim/soft_device.hpp"
#include "tests/unit/softdev/shim/subprocess.hpp"

namespace verbena::softdev::testing {
namespace {

constexpr std::uint32_t qkey = 0x1111'1111;
constexpr requested_queue_pair ud_classic{.type = IBV_QPT_UD};
constexpr requested_queue_pair ud_extended{.extended = true, .type = IBV_QPT_UD};

ibv_ah_attr own_address(ibv_context* context, std::uint8_t index = 1) {
  ibv_ah_attr attr{};
  attr.is_global = 1;
  attr.port_num = 1;
  attr.grh.sgid_index = index;
  attr.grh.hop_limit = 5;
  attr.grh.traffic_class = 3;
  EXPECT_EQ(SOFT(ibv_query_gid)(context, 1, index, &attr.grh.dgid), 0);
  return attr;
}

struct ah_deleter {
  void operator()(ibv_ah* ah) const { EXPECT_EQ(SOFT(ibv_destroy_ah)(ah), 0); }
};
using address_handle = std::unique_ptr<ibv_ah, ah_deleter>;

address_handle make_handle(ibv_pd* pd, ibv_ah_attr attr) {
  return address_handle(SOFT(ibv_create_ah)(pd, &attr));
}

ibv_send_wr datagram(ibv_sge& data, ibv_ah* to, std::uint32_t qpn, std::uint32_t key = qkey) {
  ibv_send_wr request{};
  request.wr_id = 5;
  request.opcode = IBV_WR_SEND_WITH_IMM;
  request.imm_data = 77;
  request.send_flags = IBV_SEND_SIGNALED;
  request.sg_list = &data;
  request.num_sge = 1;
  request.wr.ud.ah = to;
  request.wr.ud.remote_qpn = qpn;
  request.wr.ud.remote_qkey = key;
  return request;
}

class unreliable : public ::testing::Test {
 protected:
  opened_device device_;
  buffer source_{device_.pd, 8192, 1};
  buffer target_{device_.pd, 8192, 2};
};

TEST_F(unreliable, address_handles_are_checked_and_keep_their_domain) {
  const auto refused_with = [&](auto change) {
    ibv_ah_attr attr = own_address(device_.context);
    change(attr);
    errno = 0;
    EXPECT_EQ(SOFT(ibv_create_ah)(device_.pd, &attr), nullptr);
    return errno;
  };
  EXPECT_EQ(refused_with([](ibv_ah_attr& a) { a.is_global = 0; }), EINVAL);
  EXPECT_EQ(refused_with([](ibv_ah_attr& a) { a.port_num = 2; }), EINVAL);
  EXPECT_EQ(refused_with([](ibv_ah_attr& a) { a.grh.sgid_index = 63; }), EINVAL);
  EXPECT_EQ(refused_with([](ibv_ah_attr& a) { a.grh.dgid.raw[12] ^= 0x55; }), ENETUNREACH);
  const auto handle = make_handle(device_.pd, own_address(device_.context));
  ASSERT_NE(handle, nullptr);
  EXPECT_EQ(handle->pd, device_.pd);
  EXPECT_EQ(handle->context, device_.context);
  EXPECT_EQ(SOFT(ibv_dealloc_pd)(device_.pd), EBUSY);

  ibv_ah_attr attr = own_address(device_.context);
  std::array<std::uint8_t, 6> mac{};
  std::uint16_t vlan = 0;
  const auto resolve = call<decltype(::ibv_resolve_eth_l2_from_gid)>("ibv_resolve_eth_l2_from_gid");
  EXPECT_EQ(resolve(device_.context, &attr, mac.data(), &vlan), 0);
  EXPECT_EQ(mac[0] & 3U, 2U);
  EXPECT_EQ(vlan, 0xffff);
}

// parity: semantics-137
TEST_F(unreliable, queue_pair_supports_only_operations_of_its_transport) {
  for (const ibv_qp_type type : {IBV_QPT_UC, IBV_QPT_UD}) {
    ibv_qp_init_attr_ex wanted{};
    wanted.qp_type = type;
    wanted.send_cq = wanted.recv_cq = device_.cq;
    wanted.pd = device_.pd;
    wanted.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    wanted.send_ops_flags = operations_of(type) | IBV_QP_EX_WITH_RDMA_READ;
    EXPECT_EQ(verbs_get_ctx(device_.context)->create_qp_ex(device_.context, &wanted), nullptr);
    EXPECT_EQ(errno, EOPNOTSUPP);
    queue_pair_handle qp(device_, {.extended = true, .type = type});
    qp.connect(qp.get()->qp_num);
    EXPECT_EQ(qp.get()->qp_type, type);
    ibv_sge data = source_.slice(0, 8);
    ibv_send_wr read{};
    read.opcode = IBV_WR_RDMA_READ;
    read.sg_list = &data;
    read.num_sge = 1;
    EXPECT_EQ(qp.send(read), EINVAL);
    if (type == IBV_QPT_UC) {
      ibv_qp_ex* const ex = qp.extended();
      ibv_wr_start(ex);
      ibv_wr_send(ex);
      ibv_wr_set_ud_addr(ex, nullptr, 1, 1);
      EXPECT_EQ(ibv_wr_complete(ex), EINVAL);
    }
    ibv_qp_attr attributes{};
    ibv_qp_init_attr created{};
    EXPECT_EQ(SOFT(ibv_query_qp)(qp.get(), &attributes, 0, &created), 0);
    EXPECT_EQ(created.qp_type, type);
    EXPECT_EQ(attributes.qp_state, IBV_QPS_RTS);
    EXPECT_EQ(attributes.qkey, type == IBV_QPT_UD ? qkey : 0U);
  }
}

// The reply uses the source address of the completion.
// parity: semantics-45
TEST_F(unreliable, address_handle_from_completion_answers_the_sender) {
  for (const std::uint8_t gid : {0, 1}) {
    queue_pair_handle asking(device_, ud_classic);
    queue_pair_handle answering(device_, ud_extended);
    for (queue_pair_handle* one : {&asking, &answering}) one->connect(0);
    const auto there = make_handle(device_.pd, own_address(device_.context, gid));
    ASSERT_EQ(answering.receive(1, {target_.slice(0, 200)}), 0);
    ibv_sge data = source_.slice(10, 50);
    ASSERT_EQ(asking.send(datagram(data, there.get(), answering.get()->qp_num)), 0);
    // The receive completes first, because both queue pairs belong to one process.
    ibv_wc got = device_.wait_for(1);
    EXPECT_EQ(device_.wait_for(5).status, IBV_WC_SUCCESS);
    EXPECT_EQ(got.byte_len, 90U);
    EXPECT_EQ(got.wc_flags, static_cast<unsigned>(IBV_WC_GRH | IBV_WC_WITH_IMM));
    EXPECT_EQ(got.src_qp, asking.get()->qp_num);
    EXPECT_EQ(got.sl, gid == 0 ? 9U : 10U) << "packet type: IPv6 or IPv4";
    EXPECT_EQ(got.imm_data, 77U);
    EXPECT_EQ(target_.copy(40, 50), source_.copy(10, 50));
    auto* const header = reinterpret_cast<ibv_grh*>(target_.data());

    ibv_ah_attr way_back{};
    ASSERT_EQ(SOFT(ibv_init_ah_from_wc)(device_.context, 1, &got, header, &way_back), 0);
    EXPECT_EQ(way_back.grh.sgid_index, gid);
    EXPECT_EQ(way_back.grh.hop_limit, 5);
    EXPECT_EQ(way_back.grh.traffic_class, 3);
    const address_handle back(SOFT(ibv_create_ah_from_wc)(device_.pd, &got, header, 1));
    ASSERT_NE(back, nullptr);
    ASSERT_EQ(asking.receive(2, {target_.slice(1000, 100)}), 0);
    ibv_qp_ex* const ex = answering.extended();
    ibv_wr_start(ex);
    ex->wr_id = 6;
    ex->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_send(ex);
    ibv_wr_set_ud_addr(ex, back.get(), got.src_qp, qkey);
    ibv_wr_set_sge(ex, source_.mr().lkey, source_.address(), 20);
    ASSERT_EQ(ibv_wr_complete(ex), 0);
    EXPECT_EQ(device_.wait_for(2).byte_len, 60U);
    EXPECT_EQ(device_.wait_for(6).status, IBV_WC_SUCCESS);
    EXPECT_EQ(target_.copy(1040, 20), source_.copy(0, 20));

    header->version_tclass_flow = 0;
    target_.data()[20] = std::byte{0x46};
    EXPECT_EQ(SOFT(ibv_init_ah_from_wc)(device_.context, 1, &got, header, &way_back), -1);
    EXPECT_EQ(errno, EPROTONOSUPPORT);
  }
}

// parity: semantics-49, semantics-50
TEST_F(unreliable, address_handle_of_another_pd_is_refused) {
  queue_pair_handle qp(device_, ud_extended);
  qp.connect(0);
  ibv_sge data = source_.slice(0, 8);
  EXPECT_EQ(qp.send(datagram(data, nullptr, 5)), EINVAL);
  ibv_pd* const other = SOFT(ibv_alloc_pd)(device_.context);
  {
    const auto foreign = make_handle(other, own_address(device_.context));
    EXPECT_EQ(qp.send(datagram(data, foreign.get(), 5)), EINVAL);
    ibv_qp_ex* const ex = qp.extended();
    ibv_wr_start(ex);
    ibv_wr_send(ex);
    ibv_wr_set_ud_addr(ex, foreign.get(), 5, qkey);
    EXPECT_EQ(ibv_wr_complete(ex), EINVAL);
    ibv_wr_start(ex);
    ibv_wr_rdma_write(ex, 1, 1);  // not supported by UD
    EXPECT_EQ(ibv_wr_complete(ex), EINVAL);
  }
  EXPECT_EQ(SOFT(ibv_dealloc_pd)(other), 0);
  // The post copies the address: the handle may be destroyed before the completion is polled.
  auto handle = make_handle(device_.pd, own_address(device_.context));
  ASSERT_EQ(qp.receive(1, {target_.slice(0, 48)}), 0);
  ASSERT_EQ(qp.send(datagram(data, handle.get(), qp.get()->qp_num)), 0);
  handle.reset();
  EXPECT_EQ(device_.wait_for(1).byte_len, 48U);
  EXPECT_EQ(device_.wait_for(5).status, IBV_WC_SUCCESS);
}

TEST_F(unreliable, dropped_datagram_is_explained) {
  queue_pair_handle qp(device_, ud_classic);
  qp.connect(0);
  const auto handle = make_handle(device_.pd, own_address(device_.context));
  ibv_sge data = source_.slice(0, 8);
  ASSERT_EQ(qp.send(datagram(data, handle.get(), qp.get()->qp_num, 0x77)), 0);
  EXPECT_EQ(device_.wait_for(5).status, IBV_WC_SUCCESS);
  char text[512];
  const auto explain =
      reinterpret_cast<verbena_soft_explain_function>(find("verbena_soft_explain"));
  ASSERT_GT(explain(qp.get()->qp_num, 0, 0, text, sizeof text), 0U);
  EXPECT_STREQ(text, "1 dropped: the message has Q_Key 0x77, the queue pair has 0x11111111");
  // A message that is too long is not sent.
  data = source_.slice(0, 4097);
  ASSERT_EQ(qp.send(datagram(data, handle.get(), qp.get()->qp_num)), 0);
  EXPECT_EQ(device_.wait_for(5).status, IBV_WC_SUCCESS);
  ASSERT_GT(explain(qp.get()->qp_num, 0, 0, text, sizeof text), 0U);
  EXPECT_NE(std::string(text).find("1 dropped: the message has 4097 bytes; the maximum is 4096"),
            std::string::npos)
      << text;
  // Invalid local memory moves the sender to SQE.
  data = {source_.address(), 8, source_.mr().lkey ^ 0x7f00U};
  ASSERT_EQ(qp.send(datagram(data, handle.get(), qp.get()->qp_num)), 0);
  EXPECT_EQ(device_.wait_for(5).status, IBV_WC_LOC_PROT_ERR);
  EXPECT_EQ(qp.state(), IBV_QPS_SQE);
  EXPECT_EQ(qp.to_state(IBV_QPS_RTS), 0);
}

// parity: semantics-48
TEST_F(unreliable, wrong_qkeys_are_counted_at_the_port) {
  queue_pair_handle qp(device_, ud_classic);
  qp.connect(0);
  const auto handle = make_handle(device_.pd, own_address(device_.context));
  ibv_sge data = source_.slice(0, 8);
  const std::uint32_t before = port_of(device_.context).qkey_viol_cntr;
  ASSERT_EQ(qp.send(datagram(data, handle.get(), qp.get()->qp_num, 0x77)), 0);
  EXPECT_EQ(device_.wait_for(5).status, IBV_WC_SUCCESS);
  EXPECT_EQ(port_of(device_.context).qkey_viol_cntr, before + 1);
  EXPECT_EQ(port_of(device_.context).bad_pkey_cntr, 0U);
}

const pid_t test_process = getpid();  // before any fork

ibv_gid group_gid(std::uint8_t last) {
  ibv_gid gid{};
  gid.raw[10] = gid.raw[11] = 0xff;
  gid.raw[12] = 239;  // contains the process ID, because other tests run at the same time
  gid.raw[13] = static_cast<std::uint8_t>(test_process >> 8);
  gid.raw[14] = static_cast<std::uint8_t>(test_process);
  gid.raw[15] = last;
  return gid;
}

ibv_ah_attr group_address(ibv_context* context, std::uint8_t last) {
  ibv_ah_attr attr = own_address(context);
  attr.grh.dgid = group_gid(last);
  return attr;
}

// parity: semantics-54
TEST_F(unreliable, destroying_an_attached_queue_pair_is_refused) {
  ibv_device_attr attributes{};
  ASSERT_EQ(SOFT(ibv_query_device)(device_.context, &attributes), 0);
  EXPECT_EQ(attributes.max_mcast_grp, 128);
  EXPECT_EQ(attributes.max_mcast_qp_attach, 64);
  EXPECT_EQ(attributes.max_total_mcast_qp_attach, 128 * 64);
  queue_pair_handle qp(device_, ud_classic);
  qp.connect(0);
  const ibv_gid group = group_gid(77);
  EXPECT_EQ(SOFT(ibv_detach_mcast)(qp.get(), &group, 0), EINVAL);
  EXPECT_EQ(SOFT(ibv_attach_mcast)(qp.get(), &group, 0), 0);
  EXPECT_EQ(SOFT(ibv_attach_mcast)(qp.get(), &group, 0), 0);
  EXPECT_EQ(SOFT(ibv_destroy_qp)(qp.get()), EBUSY);
  const ibv_gid nobody = own_address(device_.context).grh.dgid;
  EXPECT_EQ(SOFT(ibv_attach_mcast)(qp.get(), &nobody, 0), EINVAL);
  queue_pair_handle connected(device_, {});
  EXPECT_EQ(SOFT(ibv_attach_mcast)(connected.get(), &group, 0), EINVAL);
  const auto handle = make_handle(device_.pd, group_address(device_.context, 77));
  ASSERT_TRUE(handle);
  ibv_sge data = source_.slice(0, 10);
  ASSERT_EQ(qp.receive(1, {target_.slice(0, 100)}), 0);
  ASSERT_EQ(qp.send(datagram(data, handle.get(), 0xff'ffff)), 0);
  std::uint32_t got = 0;
  for (int i = 0; i < 2; ++i) {
    const ibv_wc one = device_.wait();
    if (one.wr_id == 1) got = one.byte_len;
  }
  EXPECT_EQ(got, 50U);
  EXPECT_EQ(SOFT(ibv_detach_mcast)(qp.get(), &group, 0), 0);
}

// Two members in other processes: one polls, one waits for an event.
int receive_from_group(stream& parent, bool by_event) {
  opened_device device;
  ibv_comp_channel* const channel = SOFT(ibv_create_comp_channel)(device.context);
  ibv_cq* const queue = SOFT(ibv_create_cq)(device.context, 64, nullptr, channel, 0);
  {
    requested_queue_pair wishes = ud_classic;
    wishes.recv_cq = queue;
    queue_pair_handle qp(device, wishes);
    qp.connect(0);
    buffer memory(device.pd, 8192, 2);
    const ibv_gid group = group_gid(78);
    if (SOFT(ibv_attach_mcast)(qp.get(), &group, 0) != 0) return 1;
    for (int round = 0; round < 20; ++round) {
      if (qp.receive(1, {memory.slice(0, 40 + 4096)}) != 0) return 2;
      if (by_event && ibv_req_notify_cq(queue, 0) != 0) return 3;
      parent.meet();
      ibv_cq* ready = nullptr;
      void* cookie = nullptr;
      if (by_event && SOFT(ibv_get_cq_event)(channel, &ready, &cookie) != 0) return 4;
      if (by_event) SOFT(ibv_ack_cq_events)(queue, 1);
      const ibv_wc got = device.wait_for(1, queue);
      parent.put(got.byte_len);
    }
    if (SOFT(ibv_detach_mcast)(qp.get(), &group, 0) != 0) return 5;
  }
  EXPECT_EQ(SOFT(ibv_destroy_cq)(queue), 0);
  EXPECT_EQ(SOFT(ibv_destroy_comp_channel)(channel), 0);
  return 0;
}

// parity: semantics-52
TEST(unreliable_processes, multicast_reaches_members_in_other_processes) {
  child_process polling([](stream& parent) { return receive_from_group(parent, false); });
  child_process waiting([](stream& parent) { return receive_from_group(parent, true); });
  opened_device device;
  queue_pair_handle qp(device, ud_classic);
  qp.connect(0);
  buffer memory(device.pd, 8192, 1);
  const auto handle = make_handle(device.pd, group_address(device.context, 78));
  ASSERT_TRUE(handle);
  for (std::size_t round = 0; round < 20; ++round) {
    for (child_process* each : {&polling, &waiting}) each->to().meet();
    ibv_sge data = memory.slice(round, round * 200 + 1);
    ASSERT_EQ(qp.send(datagram(data, handle.get(), 0xff'ffff)), 0);
    EXPECT_EQ(device.wait_for(5).status, IBV_WC_SUCCESS);
    for (child_process* each : {&polling, &waiting})
      EXPECT_EQ(each->to().take<std::uint32_t>(), 41 + round * 200);
  }
  EXPECT_EQ(polling.join(), 0);
  EXPECT_EQ(waiting.join(), 0);
}

// Datagrams of all sizes between two processes in both directions, with events on one side;
// datagrams without a receive; and datagrams to a process that has exited.
int echo_datagrams(stream& parent) {
  opened_device device;
  ibv_comp_channel* const channel = SOFT(ibv_create_comp_channel)(device.context);
  ibv_cq* const queue = SOFT(ibv_create_cq)(device.context, 64, nullptr, channel, 0);
  {
    requested_queue_pair wishes = ud_classic;
    wishes.recv_cq = queue;
    queue_pair_handle qp(device, wishes);
    qp.connect(0);
    buffer memory(device.pd, 8192, 2);
    parent.put(qp.get()->qp_num);
    for (int round = 0; round < 20; ++round) {
      if (qp.receive(1, {memory.slice(0, 40 + 4096)}) != 0) return 1;
      if (ibv_req_notify_cq(queue, 0) != 0) return 2;
      parent.meet();
      ibv_cq* ready = nullptr;
      void* cookie = nullptr;
      if (SOFT(ibv_get_cq_event)(channel, &ready, &cookie) != 0) return 3;
      SOFT(ibv_ack_cq_events)(queue, 1);
      ibv_wc got = device.wait_for(1, queue);
      const address_handle back(SOFT(ibv_create_ah_from_wc)(
          device.pd, &got, reinterpret_cast<ibv_grh*>(memory.data()), 1));
      if (back == nullptr) return 4;
      ibv_sge data = memory.slice(40, got.byte_len - 40);
      if (qp.send(datagram(data, back.get(), got.src_qp)) != 0) return 5;
      if (device.wait_for(5).status != IBV_WC_SUCCESS) return 6;
    }
    parent.meet();
  }
  EXPECT_EQ(SOFT(ibv_destroy_cq)(queue), 0);
  EXPECT_EQ(SOFT(ibv_destroy_comp_channel)(channel), 0);
  return 0;
}

TEST(unreliable_processes, processes_exchange_datagrams) {
  child_process child(&echo_datagrams);
  opened_device device;
  queue_pair_handle qp(device, ud_classic);
  qp.connect(0);
  buffer memory(device.pd, 16384, 1);
  const auto handle = make_handle(device.pd, own_address(device.context));
  const auto peer = child.to().take<std::uint32_t>();
  for (std::size_t round = 0; round < 20; ++round) {
    const std::size_t bytes = round == 0 ? 0 : round == 19 ? 4096 : round * 200 + 1;
    ASSERT_EQ(qp.receive(1, {memory.slice(8000, 40 + 4096)}), 0);
    child.to().meet();
    ibv_sge data = memory.slice(round, bytes);
    ASSERT_EQ(qp.send(datagram(data, handle.get(), peer)), 0);
    std::uint32_t got = 0;
    for (int i = 0; i < 2; ++i) {
      const ibv_wc one = device.wait();  // the send may complete before or after the echo arrives
      if (one.wr_id == 1) got = one.byte_len;
    }
    EXPECT_EQ(got, 40 + bytes);
    EXPECT_EQ(memory.copy(8040, bytes), memory.copy(round, bytes));
  }
  // These have no receive. The last ones are sent to a process that has exited.
  ibv_sge data = memory.slice(0, 4096);
  const auto send_some = [&] {
    for (int i = 0; i < 200; ++i) {
      ASSERT_EQ(qp.send(datagram(data, handle.get(), peer)), 0);
      ASSERT_EQ(device.wait_for(5).status, IBV_WC_SUCCESS);
    }
  };
  send_some();
  child.to().meet();
  EXPECT_EQ(child.join(), 0);
  send_some();
}

// UC between two processes: messages and writes of several records arrive in order.
TEST(unreliable_processes, processes_exchange_messages_over_unreliable_connections) {
  struct introduction {
    std::uint32_t qpn;
    std::uint32_t rkey;
    std::uint64_t address;
  };
  constexpr std::size_t bytes = 300'000;
  constexpr requested_queue_pair uc{.type = IBV_QPT_UC};
  child_process child([&](stream& parent) {
    opened_device device;
    queue_pair_handle qp(device, uc);
    buffer memory(device.pd, 2 * bytes, 2);
    parent.put(introduction{qp.get()->qp_num, memory.mr().rkey, memory.address()});
    qp.connect(parent.take<introduction>().qpn);
    if (qp.receive(1, {memory.slice(0, bytes)}) != 0 || qp.receive(2, {}) != 0) return 1;
    parent.meet();
    if (device.wait_for(1).byte_len != bytes) return 2;
    const ibv_wc second = device.wait_for(2);
    if (second.opcode != IBV_WC_RECV_RDMA_WITH_IMM || second.imm_data != 77) return 3;
    const auto sent = pattern(1, bytes);
    if (memory.copy(0, bytes) != sent || memory.copy(bytes, bytes) != sent) return 4;
    parent.meet();
    return 0;
  });
  opened_device device;
  queue_pair_handle qp(device, uc);
  buffer memory(device.pd, bytes, 1);
  const auto peer = child.to().take<introduction>();
  child.to().put(introduction{qp.get()->qp_num, 0, 0});
  qp.connect(peer.qpn);
  child.to().meet();
  ibv_sge data = memory.slice(0, bytes);
  ibv_send_wr request = datagram(data, nullptr, 0);
  request.opcode = IBV_WR_SEND;
  ASSERT_EQ(qp.send(request), 0);
  request.opcode = IBV_WR_RDMA_WRITE;
  request.wr.rdma.remote_addr = peer.address + bytes;
  request.wr.rdma.rkey = peer.rkey;
  ASSERT_EQ(qp.send(request), 0);
  request.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  request.num_sge = 0;
  ASSERT_EQ(qp.send(request), 0);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(device.wait_for(5).status, IBV_WC_SUCCESS);
  child.to().meet();
  EXPECT_EQ(child.join(), 0);
}

}  // namespace
}  // namespace verbena::softdev::testing
