// SPDX-License-Identifier: MIT
#include "softdev/shim/translate.hpp"

#include <cerrno>

namespace verbena::softdev {
namespace {

template <class Ours, class Theirs>
constexpr bool same(Ours ours, Theirs theirs) {
  return static_cast<std::uint32_t>(ours) == static_cast<std::uint32_t>(theirs);
}

static_assert(same(opcode::rdma_write, IBV_WR_RDMA_WRITE));
static_assert(same(opcode::rdma_write_with_imm, IBV_WR_RDMA_WRITE_WITH_IMM));
static_assert(same(opcode::send, IBV_WR_SEND));
static_assert(same(opcode::send_with_imm, IBV_WR_SEND_WITH_IMM));
static_assert(same(opcode::rdma_read, IBV_WR_RDMA_READ));
static_assert(same(opcode::compare_swap, IBV_WR_ATOMIC_CMP_AND_SWP));
static_assert(same(opcode::fetch_add, IBV_WR_ATOMIC_FETCH_AND_ADD));

static_assert(same(transport::rc, IBV_QPT_RC));
static_assert(same(transport::uc, IBV_QPT_UC));
static_assert(same(transport::ud, IBV_QPT_UD));

static_assert(same(send_flag::fence, IBV_SEND_FENCE));
static_assert(same(send_flag::signaled, IBV_SEND_SIGNALED));
static_assert(same(send_flag::solicited, IBV_SEND_SOLICITED));
static_assert(same(send_flag::inline_data, IBV_SEND_INLINE));

static_assert(same(completion_status::success, IBV_WC_SUCCESS));
static_assert(same(completion_status::local_length_error, IBV_WC_LOC_LEN_ERR));
static_assert(same(completion_status::local_qp_operation_error, IBV_WC_LOC_QP_OP_ERR));
static_assert(same(completion_status::local_protection_error, IBV_WC_LOC_PROT_ERR));
static_assert(same(completion_status::flushed, IBV_WC_WR_FLUSH_ERR));
static_assert(same(completion_status::bad_response_error, IBV_WC_BAD_RESP_ERR));
static_assert(same(completion_status::local_access_error, IBV_WC_LOC_ACCESS_ERR));
static_assert(same(completion_status::remote_invalid_request, IBV_WC_REM_INV_REQ_ERR));
static_assert(same(completion_status::remote_access_error, IBV_WC_REM_ACCESS_ERR));
static_assert(same(completion_status::remote_operation_error, IBV_WC_REM_OP_ERR));
static_assert(same(completion_status::retry_exceeded, IBV_WC_RETRY_EXC_ERR));
static_assert(same(completion_status::rnr_retry_exceeded, IBV_WC_RNR_RETRY_EXC_ERR));
static_assert(same(completion_status::remote_invalid_read_request, IBV_WC_REM_INV_RD_REQ_ERR));
static_assert(same(completion_status::response_timeout, IBV_WC_RESP_TIMEOUT_ERR));
static_assert(same(completion_status::fatal_error, IBV_WC_FATAL_ERR));

static_assert(same(completion_opcode::send, IBV_WC_SEND));
static_assert(same(completion_opcode::rdma_write, IBV_WC_RDMA_WRITE));
static_assert(same(completion_opcode::rdma_read, IBV_WC_RDMA_READ));
static_assert(same(completion_opcode::compare_swap, IBV_WC_COMP_SWAP));
static_assert(same(completion_opcode::fetch_add, IBV_WC_FETCH_ADD));
static_assert(same(completion_opcode::receive, IBV_WC_RECV));
static_assert(same(completion_opcode::receive_rdma_with_imm, IBV_WC_RECV_RDMA_WITH_IMM));
static_assert(same(completion_with_grh, IBV_WC_GRH));
static_assert(same(completion_with_imm, IBV_WC_WITH_IMM));
static_assert(grh_bytes == sizeof(ibv_grh));

static_assert(same(access::local_write, IBV_ACCESS_LOCAL_WRITE));
static_assert(same(access::remote_write, IBV_ACCESS_REMOTE_WRITE));
static_assert(same(access::remote_read, IBV_ACCESS_REMOTE_READ));
static_assert(same(access::remote_atomic, IBV_ACCESS_REMOTE_ATOMIC));
static_assert(same(access::zero_based, IBV_ACCESS_ZERO_BASED));
static_assert(same(access::on_demand, IBV_ACCESS_ON_DEMAND));

static_assert(same(queue_pair_state::reset, IBV_QPS_RESET));
static_assert(same(queue_pair_state::init, IBV_QPS_INIT));
static_assert(same(queue_pair_state::rtr, IBV_QPS_RTR));
static_assert(same(queue_pair_state::rts, IBV_QPS_RTS));
static_assert(same(queue_pair_state::sqd, IBV_QPS_SQD));
static_assert(same(queue_pair_state::sqe, IBV_QPS_SQE));
static_assert(same(queue_pair_state::error, IBV_QPS_ERR));

static_assert(same(attribute::state, IBV_QP_STATE));
static_assert(same(attribute::current_state, IBV_QP_CUR_STATE));
static_assert(same(attribute::sqd_notify, IBV_QP_EN_SQD_ASYNC_NOTIFY));
static_assert(same(attribute::access_flags, IBV_QP_ACCESS_FLAGS));
static_assert(same(attribute::pkey_index, IBV_QP_PKEY_INDEX));
static_assert(same(attribute::port, IBV_QP_PORT));
static_assert(same(attribute::qkey, IBV_QP_QKEY));
static_assert(same(attribute::address_vector, IBV_QP_AV));
static_assert(same(attribute::path_mtu, IBV_QP_PATH_MTU));
static_assert(same(attribute::timeout, IBV_QP_TIMEOUT));
static_assert(same(attribute::retry_count, IBV_QP_RETRY_CNT));
static_assert(same(attribute::rnr_retry, IBV_QP_RNR_RETRY));
static_assert(same(attribute::receive_psn, IBV_QP_RQ_PSN));
static_assert(same(attribute::max_rd_atomic, IBV_QP_MAX_QP_RD_ATOMIC));
static_assert(same(attribute::alternate_path, IBV_QP_ALT_PATH));
static_assert(same(attribute::min_rnr_timer, IBV_QP_MIN_RNR_TIMER));
static_assert(same(attribute::send_psn, IBV_QP_SQ_PSN));
static_assert(same(attribute::max_dest_rd_atomic, IBV_QP_MAX_DEST_RD_ATOMIC));
static_assert(same(attribute::path_migration_state, IBV_QP_PATH_MIG_STATE));
static_assert(same(attribute::capabilities, IBV_QP_CAP));
static_assert(same(attribute::destination_qpn, IBV_QP_DEST_QPN));

constexpr unsigned known_send_flags =
    IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_INLINE;

}  // namespace

int to_request(const ibv_send_wr& from, send_request& to) noexcept {
  if ((from.send_flags & ~known_send_flags) != 0) return EINVAL;
  to.wr_id = from.wr_id;
  to.opcode = static_cast<opcode>(from.opcode);
  to.flags = send_flags::from_mask(static_cast<std::uint8_t>(from.send_flags));
  switch (from.opcode) {
    case IBV_WR_SEND_WITH_IMM:
      to.immediate = from.imm_data;
      return 0;
    case IBV_WR_SEND:
      return 0;
    case IBV_WR_RDMA_WRITE_WITH_IMM:
      to.immediate = from.imm_data;
      [[fallthrough]];
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_READ:
      to.remote_address = from.wr.rdma.remote_addr;
      to.remote_key = from.wr.rdma.rkey;
      return 0;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
      to.remote_address = from.wr.atomic.remote_addr;
      to.remote_key = from.wr.atomic.rkey;
      to.compare_or_add = from.wr.atomic.compare_add;
      to.swap = from.wr.atomic.swap;
      return 0;
    default:
      return EINVAL;
  }
}

queue_pair_attributes to_attributes(const ibv_qp_attr& from, int mask) noexcept {
  queue_pair_attributes to;
  const auto has = [mask](int bit) { return (mask & bit) != 0; };
  // The caller has initialised only the fields that the mask names.
  if (has(IBV_QP_STATE)) to.state = static_cast<queue_pair_state>(from.qp_state);
  if (has(IBV_QP_CUR_STATE)) to.current_state = static_cast<queue_pair_state>(from.cur_qp_state);
  if (has(IBV_QP_EN_SQD_ASYNC_NOTIFY)) to.sqd_notify = from.en_sqd_async_notify != 0;
  if (has(IBV_QP_ACCESS_FLAGS)) to.rights = access_flags::from_mask(from.qp_access_flags);
  if (has(IBV_QP_PKEY_INDEX)) to.pkey_index = from.pkey_index;
  if (has(IBV_QP_PORT)) to.port = from.port_num;
  if (has(IBV_QP_PATH_MTU)) to.path_mtu = static_cast<std::uint8_t>(from.path_mtu);
  if (has(IBV_QP_TIMEOUT)) to.timeout = from.timeout;
  if (has(IBV_QP_RETRY_CNT)) to.retry_count = from.retry_cnt;
  if (has(IBV_QP_RNR_RETRY)) to.rnr_retry = from.rnr_retry;
  if (has(IBV_QP_MIN_RNR_TIMER)) to.min_rnr_timer = from.min_rnr_timer;
  if (has(IBV_QP_MAX_QP_RD_ATOMIC)) to.max_rd_atomic = from.max_rd_atomic;
  if (has(IBV_QP_MAX_DEST_RD_ATOMIC)) to.max_dest_rd_atomic = from.max_dest_rd_atomic;
  if (has(IBV_QP_RQ_PSN)) to.receive_psn = from.rq_psn;
  if (has(IBV_QP_SQ_PSN)) to.send_psn = from.sq_psn;
  if (has(IBV_QP_QKEY)) to.qkey = from.qkey;
  if (has(IBV_QP_DEST_QPN)) to.destination_qpn = from.dest_qp_num;
  return to;
}

void to_qp_attr(const queue_pair_attributes& from, ibv_qp_attr& to) noexcept {
  to.qp_state = static_cast<ibv_qp_state>(from.state);
  to.cur_qp_state = to.qp_state;
  to.path_mtu = static_cast<ibv_mtu>(from.path_mtu);
  to.path_mig_state = IBV_MIG_MIGRATED;
  to.qkey = from.qkey;
  to.rq_psn = from.receive_psn;
  to.sq_psn = from.send_psn;
  to.dest_qp_num = from.destination_qpn;
  to.qp_access_flags = from.rights.mask();
  to.pkey_index = from.pkey_index;
  to.en_sqd_async_notify = from.sqd_notify ? 1 : 0;
  to.sq_draining = from.draining ? 1 : 0;
  to.max_rd_atomic = from.max_rd_atomic;
  to.max_dest_rd_atomic = from.max_dest_rd_atomic;
  to.min_rnr_timer = from.min_rnr_timer;
  to.port_num = from.port;
  to.timeout = from.timeout;
  to.retry_cnt = from.retry_count;
  to.rnr_retry = from.rnr_retry;
}

}  // namespace verbena::softdev
