// SPDX-License-Identifier: MIT
#include "tests/unit/softdev/shim/soft_device.hpp"

#include <dlfcn.h>
#include <poll.h>

#include <algorithm>
#include <stdexcept>
#include <thread>

namespace verbena::softdev::testing {

const verbena_soft_functions& table() {
  static const verbena_soft_functions* const loaded = [] {
    void* const library = dlopen(SOFT_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) throw std::runtime_error(dlerror());
    const auto entry =
        reinterpret_cast<verbena_soft_entry_function>(dlsym(library, "verbena_soft_entry"));
    return entry(verbena::soft_abi);
  }();
  return *loaded;
}

void (*find(std::string_view name))() {
  const auto* const end = table().functions + table().count;
  const auto* const found =
      std::find_if(table().functions, end, [&](const auto& entry) { return entry.name == name; });
  return found == end ? nullptr : found->function;
}

bool readable(int fd) {
  pollfd wanted{fd, POLLIN, 0};
  return poll(&wanted, 1, 0) == 1;
}

ibv_port_attr port_of(ibv_context* context) {
  ibv_port_attr port{};
  EXPECT_EQ(verbs_get_ctx(context)->query_port(context, 1, &port, sizeof port), 0);
  return port;
}

std::vector<std::byte> pattern(std::uint32_t seed, std::size_t bytes) {
  std::vector<std::byte> result(bytes);
  std::uint64_t state = (std::uint64_t{seed} << 32U) + 0x9e3779b97f4a7c15U;
  for (std::byte& out : result) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    out = static_cast<std::byte>(state >> 56U);
  }
  return result;
}

buffer::buffer(ibv_pd* pd, std::size_t bytes, std::uint32_t seed, int access)
    : bytes_(pattern(seed, bytes)), mr_(SOFT(ibv_reg_mr)(pd, bytes_.data(), bytes, access)) {
  if (mr_ == nullptr) throw std::runtime_error(std::strerror(errno));
}

buffer::~buffer() { EXPECT_EQ(SOFT(ibv_dereg_mr)(mr_), 0); }

std::uint64_t buffer::word(std::size_t offset) const {
  std::uint64_t value = 0;
  std::memcpy(&value, bytes_.data() + offset, sizeof value);
  return value;
}

void buffer::set_word(std::size_t offset, std::uint64_t value) {
  std::memcpy(bytes_.data() + offset, &value, sizeof value);
}

opened_device::opened_device(int cqe) {
  ibv_device** const list = SOFT(ibv_get_device_list)(nullptr);
  context = SOFT(ibv_open_device)(list[0]);
  SOFT(ibv_free_device_list)(list);
  if (context == nullptr) throw std::runtime_error(std::strerror(errno));
  pd = SOFT(ibv_alloc_pd)(context);
  cq = SOFT(ibv_create_cq)(context, cqe, nullptr, nullptr, 0);
  if (pd == nullptr || cq == nullptr) throw std::runtime_error(std::strerror(errno));
}

opened_device::~opened_device() {
  EXPECT_EQ(SOFT(ibv_destroy_cq)(cq), 0);
  EXPECT_EQ(SOFT(ibv_dealloc_pd)(pd), 0);
  if (context == nullptr) return;
  EXPECT_EQ(SOFT(ibv_close_device)(context), 0);
}

ibv_wc opened_device::wait(ibv_cq* queue) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  ibv_wc completion{};
  while (std::chrono::steady_clock::now() < until) {
    const int count = ibv_poll_cq(queue != nullptr ? queue : cq, 1, &completion);
    if (count < 0) throw std::runtime_error("polling failed");
    if (count == 1) return completion;
    std::this_thread::yield();
  }
  throw std::runtime_error("no completion came");
}

ibv_wc opened_device::wait_for(std::uint64_t wr_id, ibv_cq* queue) {
  const ibv_wc completion = wait(queue);
  EXPECT_EQ(completion.wr_id, wr_id);
  return completion;
}

int mask_for(ibv_qp_type type, int mask) {
  if (type == IBV_QPT_RC) return mask;
  mask &= ~(IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
            IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
  if (type == IBV_QPT_UC) return mask;
  if ((mask & IBV_QP_PORT) != 0) mask |= IBV_QP_QKEY;
  return mask &
         ~(IBV_QP_ACCESS_FLAGS | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN);
}

std::uint64_t operations_of(ibv_qp_type type) {
  std::uint64_t operations = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
  if (type == IBV_QPT_UD) return operations;
  operations |= IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;
  if (type == IBV_QPT_UC) return operations;
  return operations | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
         IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
}

queue_pair_handle::queue_pair_handle(opened_device& device, const requested_queue_pair& wishes) {
  ibv_qp_init_attr_ex attributes{};
  attributes.send_cq = wishes.send_cq != nullptr ? wishes.send_cq : device.cq;
  attributes.recv_cq = wishes.recv_cq != nullptr ? wishes.recv_cq : device.cq;
  attributes.srq = wishes.srq;
  attributes.cap = wishes.cap;
  attributes.qp_type = wishes.type;
  attributes.sq_sig_all = wishes.signal_all;
  attributes.pd = device.pd;
  attributes.comp_mask = IBV_QP_INIT_ATTR_PD;
  if (wishes.extended) {
    attributes.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    attributes.send_ops_flags = operations_of(wishes.type);
  }
  qp_ = verbs_get_ctx(device.context)->create_qp_ex(device.context, &attributes);
  if (qp_ == nullptr) throw std::runtime_error(std::strerror(errno));
}

queue_pair_handle::~queue_pair_handle() { EXPECT_EQ(SOFT(ibv_destroy_qp)(qp_), 0); }

void queue_pair_handle::to_init(const bring_up& how) {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = 1;
  attributes.pkey_index = how.pkey_index;
  attributes.qp_access_flags = how.access;
  attributes.qkey = how.qkey;
  constexpr int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
  ASSERT_EQ(SOFT(ibv_modify_qp)(qp_, &attributes, mask_for(qp_->qp_type, mask)), 0);
}

void queue_pair_handle::to_rtr(std::uint32_t peer, const bring_up& how) {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTR;
  attributes.path_mtu = IBV_MTU_1024;
  attributes.dest_qp_num = peer;
  attributes.rq_psn = 100;
  attributes.max_dest_rd_atomic = 4;
  attributes.min_rnr_timer = how.min_rnr_timer;
  ibv_port_attr port{};
  const auto query_port = verbs_get_ctx(qp_->context)->query_port;
  ASSERT_EQ(query_port(qp_->context, 1, &port, sizeof port), 0);
  attributes.ah_attr.dlid = how.lid != 0 ? how.lid : port.lid;
  attributes.ah_attr.is_global = how.global ? 1 : 0;
  attributes.ah_attr.port_num = 1;
  attributes.ah_attr.grh.sgid_index = 1;
  ASSERT_EQ(SOFT(ibv_query_gid)(qp_->context, 1, 1, &attributes.ah_attr.grh.dgid), 0);
  constexpr int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                       IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  ASSERT_EQ(SOFT(ibv_modify_qp)(qp_, &attributes, mask_for(qp_->qp_type, mask)), 0);
}

void queue_pair_handle::to_rts(const bring_up& how) {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTS;
  attributes.sq_psn = 100;
  attributes.timeout = how.timeout;
  attributes.retry_cnt = how.retry_count;
  attributes.rnr_retry = how.rnr_retry;
  attributes.max_rd_atomic = 4;
  constexpr int mask = IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                       IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
  ASSERT_EQ(SOFT(ibv_modify_qp)(qp_, &attributes, mask_for(qp_->qp_type, mask)), 0);
}

void queue_pair_handle::connect(std::uint32_t peer, const bring_up& how) {
  to_init(how);
  to_rtr(peer, how);
  to_rts(how);
}

int queue_pair_handle::to_state(ibv_qp_state state) {
  ibv_qp_attr attributes{};
  attributes.qp_state = state;
  return SOFT(ibv_modify_qp)(qp_, &attributes, IBV_QP_STATE);
}

ibv_qp_state queue_pair_handle::state() {
  ibv_qp_attr attributes{};
  ibv_qp_init_attr created{};
  EXPECT_EQ(SOFT(ibv_query_qp)(qp_, &attributes, IBV_QP_STATE, &created), 0);
  return attributes.qp_state;
}

int queue_pair_handle::send(ibv_send_wr request) {
  ibv_send_wr* refused = nullptr;
  const int code = ibv_post_send(qp_, &request, &refused);
  EXPECT_EQ(refused, code == 0 ? nullptr : &request);
  return code;
}

int queue_pair_handle::receive(std::uint64_t wr_id, std::vector<ibv_sge> sinks) {
  ibv_recv_wr request{};
  request.wr_id = wr_id;
  request.sg_list = sinks.data();
  request.num_sge = static_cast<int>(sinks.size());
  ibv_recv_wr* refused = nullptr;
  const int code = ibv_post_recv(qp_, &request, &refused);
  EXPECT_EQ(refused, code == 0 ? nullptr : &request);
  return code;
}

void connect(queue_pair_handle& a, queue_pair_handle& b, const bring_up& how) {
  a.connect(b.get()->qp_num, how);
  if (&a != &b) b.connect(a.get()->qp_num, how);
}

int write_within(queue_pair_handle& qp, buffer& memory, std::uint64_t wr_id) {
  ibv_sge data = memory.slice(0, 8);
  ibv_send_wr request{};
  request.wr_id = wr_id;
  request.opcode = IBV_WR_RDMA_WRITE;
  request.send_flags = IBV_SEND_SIGNALED;
  request.sg_list = &data;
  request.num_sge = 1;
  request.wr.rdma.remote_addr = memory.address() + 8;
  request.wr.rdma.rkey = memory.mr().rkey;
  return qp.send(request);
}

}  // namespace verbena::softdev::testing
