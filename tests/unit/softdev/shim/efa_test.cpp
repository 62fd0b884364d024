// SPDX-License-Identifier: MIT
// The EFA persona of the device, and the functions of libefa that its library exports. Each test
// runs in a child process, which opens the device with this persona.
#include <dlfcn.h>
#include <infiniband/efadv.h>

#include <cerrno>
#include <cstdlib>
#include <functional>

#include "tests/unit/softdev/shim/soft_device.hpp"
#include "tests/unit/softdev/shim/subprocess.hpp"

namespace verbena::softdev::testing {
namespace {

constexpr std::uint32_t srd_qkey = 0x1111'1111;

int as_efa(const std::function<void()>& test) {
  return in_child([&] {
    setenv("VERBENA_SOFTDEV_PERSONA", "efa", 1);
    test();
    return 0;
  });
}

// Returns an exported function of the device's library.
template <class Function>
Function* exported(const char* name) {
  void* const library = dlopen(SOFT_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  void* const found = library != nullptr ? dlsym(library, name) : nullptr;
  EXPECT_NE(found, nullptr) << name;
  return reinterpret_cast<Function*>(found);
}
// lint: allow(macro): uses the name twice
#define EFA(name) exported<decltype(::name)>(#name)

ibv_qp_init_attr_ex srd_attributes(const opened_device& device) {
  ibv_qp_init_attr_ex wanted{};
  wanted.send_cq = wanted.recv_cq = device.cq;
  wanted.pd = device.pd;
  wanted.cap = {.max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1};
  wanted.qp_type = IBV_QPT_DRIVER;
  wanted.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  wanted.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE |
                          IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ;
  return wanted;
}

ibv_qp* create_srd_qp(ibv_qp_init_attr_ex wanted,
                      std::uint32_t inlen = sizeof(efadv_qp_init_attr)) {
  efadv_qp_init_attr more[2] = {};
  return EFA(efadv_create_qp_ex)(wanted.pd->context, &wanted, more, inlen);
}

void to_rts(ibv_qp* qp) {
  ibv_qp_attr attributes{};
  attributes.port_num = 1;
  attributes.qkey = srd_qkey;
  attributes.qp_state = IBV_QPS_INIT;
  const auto modify = SOFT(ibv_modify_qp);
  ASSERT_EQ(modify(qp, &attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY),
            0);
  attributes.qp_state = IBV_QPS_RTR;
  ASSERT_EQ(modify(qp, &attributes, IBV_QP_STATE), 0);
  EXPECT_EQ(modify(qp, &attributes, IBV_QP_STATE | IBV_QP_AV), EOPNOTSUPP);
  attributes.qp_state = IBV_QPS_RTS;
  ASSERT_EQ(modify(qp, &attributes, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
}

ibv_ah* address_of_this_host(const opened_device& device) {
  ibv_ah_attr attributes{};
  attributes.is_global = 1;
  attributes.port_num = 1;
  EXPECT_EQ(SOFT(ibv_query_gid)(device.context, 1, 0, &attributes.grh.dgid), 0);
  return SOFT(ibv_create_ah)(device.pd, &attributes);
}

// Writes the first 64 bytes of `memory` to the next 64 bytes, with immediate data. Returns 0 or the
// errno.
int write_to_itself(ibv_qp* of, ibv_ah* ah, buffer& memory, unsigned flags) {
  ibv_qp_ex* const qp = SOFT(ibv_qp_to_qp_ex)(of);
  ibv_wr_start(qp);
  qp->wr_id = 9;
  qp->wr_flags = flags;
  ibv_wr_rdma_write_imm(qp, memory.mr().rkey, memory.address() + 64, 5);
  ibv_wr_set_ud_addr(qp, ah, of->qp_num, srd_qkey);
  ibv_wr_set_sge(qp, memory.mr().lkey, memory.address(), 64);
  return ibv_wr_complete(qp);
}

TEST(efa, efa_persona_offers_only_ud_and_srd_queue_pairs) {
  EXPECT_EQ(
      as_efa([] {
        opened_device device;
        ibv_device_attr attributes{};
        ASSERT_EQ(SOFT(ibv_query_device)(device.context, &attributes), 0);
        EXPECT_TRUE(attributes.vendor_id == 0x1d0f && attributes.vendor_part_id == 0xefa1);
        EXPECT_TRUE(attributes.max_srq == 0 && attributes.atomic_cap == IBV_ATOMIC_NONE);
        EXPECT_TRUE(attributes.max_qp_rd_atom == 0 && attributes.max_qp_init_rd_atom == 0 &&
                    attributes.max_res_rd_atom == 0);
        EXPECT_EQ(device.context->device->node_type, IBV_NODE_UNSPECIFIED);
        EXPECT_EQ(device.context->device->transport_type, IBV_TRANSPORT_UNSPECIFIED);
        ibv_port_attr port{};
        ASSERT_EQ(verbs_get_ctx(device.context)->query_port(device.context, 1, &port, sizeof port),
                  0);
        EXPECT_TRUE(port.gid_tbl_len == 1 && port.pkey_tbl_len == 1 && port.lid == 0);
        EXPECT_EQ(port.link_layer, IBV_LINK_LAYER_UNSPECIFIED);
        ibv_gid gid{};
        EXPECT_EQ(SOFT(ibv_query_gid)(device.context, 1, 1, &gid), -1);
        for (const ibv_qp_type type : {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_DRIVER}) {
          ibv_qp_init_attr wanted{};
          wanted.send_cq = wanted.recv_cq = device.cq;
          wanted.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1};
          wanted.qp_type = type;
          EXPECT_EQ(SOFT(ibv_create_qp)(device.pd, &wanted), nullptr);
          EXPECT_EQ(errno, EOPNOTSUPP);
        }
        ibv_srq_init_attr shared{};
        shared.attr = {.max_wr = 1, .max_sge = 1};
        EXPECT_EQ(SOFT(ibv_create_srq)(device.pd, &shared), nullptr);
        EXPECT_EQ(errno, EOPNOTSUPP);
        std::vector<std::byte> memory(64);
        EXPECT_EQ(SOFT(ibv_reg_mr)(device.pd, memory.data(), memory.size(),
                                   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC),
                  nullptr);
        EXPECT_EQ(errno, EOPNOTSUPP);
      }),
      0);
}

TEST(efa, efadv_functions_respect_sizes_and_refuse_unknown_flags) {
  EXPECT_EQ(as_efa([] {
              opened_device device;
              efadv_device_attr attributes{};
              const auto query = EFA(efadv_query_device);
              EXPECT_EQ(query(device.context, &attributes, 8), EINVAL);
              ASSERT_EQ(
                  query(device.context, &attributes, offsetof(efadv_device_attr, device_caps)), 0);
              EXPECT_TRUE(attributes.max_sq_wr > 0 && attributes.device_caps == 0);
              ASSERT_EQ(query(device.context, &attributes, sizeof attributes), 0);
              EXPECT_EQ(attributes.device_caps, 0xfU);
              ibv_qp_init_attr_ex wanted = srd_attributes(device);
              for (const std::uint32_t size : {8U, 32U}) {
                ibv_qp* const qp = create_srd_qp(wanted, size);
                EXPECT_EQ(qp != nullptr, size == 32);
                if (qp != nullptr) {
                  EXPECT_EQ(SOFT(ibv_destroy_qp)(qp), 0);
                }
              }
              const auto refused = [&](const ibv_qp_init_attr_ex& given) {
                EXPECT_EQ(create_srd_qp(given), nullptr);
                return errno;
              };
              ibv_qp_init_attr_ex other = wanted;
              other.send_ops_flags |= IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
              EXPECT_EQ(refused(other), EOPNOTSUPP);
              other = wanted;
              other.qp_type = IBV_QPT_UD;
              EXPECT_EQ(refused(other), EINVAL);
              other = wanted;
              other.cap.max_send_sge = 3;
              EXPECT_EQ(refused(other), EINVAL);
              other = wanted;
              other.comp_mask |= IBV_QP_INIT_ATTR_CREATE_FLAGS;
              EXPECT_EQ(refused(other), EOPNOTSUPP);
              ibv_cq_init_attr_ex queue{.cqe = 4, .wc_flags = IBV_WC_STANDARD_FLAGS};
              efadv_cq_init_attr more{.wc_flags = 2};
              EXPECT_EQ(EFA(efadv_create_cq)(device.context, &queue, &more, sizeof more), nullptr);
              EXPECT_EQ(errno, EOPNOTSUPP);
              struct {
                std::uint64_t comp_mask = 0;
                std::uint32_t max_recv_sge = 3;
              } depth;
              const auto most =
                  exported<int(ibv_context*, void*, std::uint32_t)>("efadv_get_max_rq_depth");
              EXPECT_EQ(most(device.context, &depth, sizeof depth),
                        static_cast<int>(attributes.max_rq_wr));
              depth.max_recv_sge = 99;
              EXPECT_EQ(most(device.context, &depth, sizeof depth), -EINVAL);
            }),
            0);
  EXPECT_EQ(in_child([] {
              opened_device device;
              efadv_device_attr attributes{};
              EXPECT_EQ(EFA(efadv_query_device)(device.context, &attributes, sizeof attributes),
                        EOPNOTSUPP);
              EXPECT_EQ(create_srd_qp(srd_attributes(device)), nullptr);
              EXPECT_EQ(errno, EOPNOTSUPP);
              return 0;
            }),
            0);
}

TEST(efa, srd_requests_arrive_and_report_unknown_sender) {
  EXPECT_EQ(
      as_efa([] {
        opened_device device;
        ibv_cq_init_attr_ex queue{.cqe = 16, .wc_flags = IBV_WC_STANDARD_FLAGS};
        efadv_cq_init_attr more{.wc_flags = EFADV_WC_EX_WITH_SGID};
        ibv_cq_ex* const cq = EFA(efadv_create_cq)(device.context, &queue, &more, sizeof more);
        ASSERT_NE(cq, nullptr);
        opened_device other;  // without an address handle of the sender
        ibv_qp_init_attr_ex wanted = srd_attributes(other);
        wanted.comp_mask = IBV_QP_INIT_ATTR_PD;
        ibv_qp* const receiver = create_srd_qp(wanted);
        wanted = srd_attributes(device);
        wanted.send_cq = wanted.recv_cq = reinterpret_cast<ibv_cq*>(cq);
        ibv_qp* const sender = create_srd_qp(wanted);
        ASSERT_TRUE(receiver != nullptr && sender != nullptr);
        to_rts(receiver);
        to_rts(sender);
        buffer from(device.pd, 128, 1, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
        ibv_ah* const ah = address_of_this_host(device);
        ASSERT_NE(ah, nullptr);
        efadv_ah_attr number{};
        EXPECT_EQ(EFA(efadv_query_ah)(ah, &number, sizeof number), 0);
        EXPECT_EQ(number.ahn, 1);
        const auto write = [&](unsigned flags) { return write_to_itself(sender, ah, from, flags); };
        ibv_recv_wr receive{};
        ibv_recv_wr* bad = nullptr;
        ASSERT_EQ(ibv_post_recv(sender, &receive, &bad), 0);
        EXPECT_EQ(write(0), EINVAL);  // writes without a completion are not supported
        EXPECT_EQ(write(IBV_SEND_SIGNALED | IBV_SEND_FENCE), EINVAL);
        ASSERT_EQ(write(IBV_SEND_SIGNALED), 0);
        ibv_poll_cq_attr poll{};
        ASSERT_EQ(ibv_start_poll(cq, &poll), 0);
        ibv_gid sgid{};
        EXPECT_EQ(ibv_wc_read_opcode(cq), IBV_WC_RECV_RDMA_WITH_IMM);
        EXPECT_EQ(ibv_wc_read_slid(cq), 1U);
        EXPECT_EQ(efadv_wc_read_sgid(EFA(efadv_cq_from_ibv_cq_ex)(cq), &sgid), -ENOENT);
        ASSERT_EQ(ibv_next_poll(cq), 0);
        EXPECT_EQ(ibv_wc_read_opcode(cq), IBV_WC_RDMA_WRITE);
        ibv_end_poll(cq);
        EXPECT_EQ(from.copy(0, 64), from.copy(64, 64));
        // The classic interface supports sends, each with its own address.
        ibv_sge data = from.slice(0, 64);
        ibv_send_wr request{.wr_id = 3,
                            .sg_list = &data,
                            .num_sge = 1,
                            .opcode = IBV_WR_RDMA_WRITE,
                            .send_flags = IBV_SEND_SIGNALED};
        ibv_send_wr* refused = nullptr;
        EXPECT_EQ(ibv_post_send(sender, &request, &refused), EINVAL);
        request.opcode = IBV_WR_SEND;
        request.wr.ud = {.ah = ah, .remote_qpn = receiver->qp_num, .remote_qkey = srd_qkey};
        buffer to(other.pd, 64, 2, IBV_ACCESS_LOCAL_WRITE);
        ibv_sge sink = to.slice(0, 64);
        receive.sg_list = &sink;
        receive.num_sge = 1;
        ASSERT_EQ(ibv_post_recv(receiver, &receive, &bad), 0);
        ASSERT_EQ(ibv_post_send(sender, &request, &refused), 0);
        const ibv_wc got = other.wait();
        EXPECT_TRUE(got.byte_len == 64 && got.src_qp == sender->qp_num && got.slid == 0xffff);
        EXPECT_EQ(to.copy(0, 64), from.copy(0, 64));
        for (ibv_qp* qp : {sender, receiver}) EXPECT_EQ(SOFT(ibv_destroy_qp)(qp), 0);
        EXPECT_EQ(SOFT(ibv_destroy_ah)(ah), 0);
        EXPECT_EQ(SOFT(ibv_destroy_cq)(reinterpret_cast<ibv_cq*>(cq)), 0);
      }),
      0);
}

}  // namespace
}  // namespace verbena::softdev::testing
