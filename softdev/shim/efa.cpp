// SPDX-License-Identifier: MIT
#include "softdev/shim/efa.hpp"
#include "softdev/shim/not_supported.hpp"

#include <cerrno>

#include "verbena/base/log.hpp"

namespace verbena::softdev {
namespace {

int check_sizes(const ibv_qp_cap& cap) noexcept {
  const bool fits = cap.max_send_wr <= efa_identity::max_send_wr &&
                    cap.max_recv_wr <= efa_identity::max_receive_wr &&
                    cap.max_send_sge <= efa_identity::max_send_sge &&
                    cap.max_recv_sge <= efa_identity::max_receive_sge &&
                    cap.max_inline_data <= efa_identity::max_inline_bytes;
  return fits ? 0 : EINVAL;
}

}  // namespace

int check_efa(const queue_pair_creation& what) noexcept {
  const ibv_qp_init_attr& wanted = what.wanted;
  if (wanted.qp_type != IBV_QPT_UD && !what.scalable) {
    log(log_level::debug,
        "soft0: an EFA device supports only UD and, through efadv_create_qp_ex, SRD queue pairs");
    return refuse(refusals::transport_of_efa);
  }
  if ((what.operations & ~supported_send_operations(wanted.qp_type)) != 0)
    return refuse(refusals::operations_of_qp);
  if (wanted.send_cq == nullptr || wanted.recv_cq == nullptr || wanted.srq != nullptr)
    return EINVAL;
  if (wanted.send_cq->context != what.pd->context || wanted.recv_cq->context != what.pd->context)
    return EINVAL;
  return check_sizes(wanted.cap);
}

int check_efa_attributes(const ibv_qp_attr& wanted, int mask) noexcept {
  constexpr int known = IBV_QP_STATE | IBV_QP_CUR_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY |
                        IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY | IBV_QP_SQ_PSN |
                        IBV_QP_RNR_RETRY;
  if ((mask & ~known) != 0) return refuse(refusals::attributes_of_efa);
  if ((mask & IBV_QP_PORT) != 0 && wanted.port_num != 1) return refuse(refusals::attributes_of_efa);
  return (mask & IBV_QP_PKEY_INDEX) != 0 && wanted.pkey_index != 0
             ? refuse(refusals::attributes_of_efa)
             : 0;
}

int check_efa_request(const qp_object& qp, unsigned flags) noexcept {
  const queue_pair_state state = qp.core->state();
  if (state != queue_pair_state::rts && state != queue_pair_state::sqd) return EINVAL;
  if ((flags & IBV_SEND_SIGNALED) == 0 && qp.created.sq_sig_all == 0) return EINVAL;
  return (flags & ~unsigned{IBV_SEND_SIGNALED | IBV_SEND_INLINE}) != 0 ? EINVAL : 0;
}

int check_efa_request(const qp_object& qp, const ibv_send_wr& request) noexcept {
  if (request.opcode != IBV_WR_SEND && request.opcode != IBV_WR_SEND_WITH_IMM) return EINVAL;
  return check_efa_request(qp, request.send_flags);
}

}  // namespace verbena::softdev
