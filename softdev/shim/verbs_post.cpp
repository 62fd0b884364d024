// SPDX-License-Identifier: MIT
// Posting: the classic interface.
#include <infiniband/verbs.h>

#include <cerrno>

#include "softdev/core/queue_pair_block.hpp"
#include "softdev/core/transport/rules.hpp"
#include "softdev/shim/efa.hpp"
#include "softdev/shim/operations.hpp"
#include "softdev/shim/translate.hpp"

namespace verbena::softdev {
namespace {

int add(qp_object& object, const ibv_send_wr& from) noexcept {
  queue_pair& qp = *object.core;
  send_request request;
  sge_list data;
  if (const int refused = to_request(from, request)) return refused;
  if (const int refused = to_list(from.sg_list, from.num_sge, data)) return refused;
  const int refused = qp.sends().add(request, data);
  if (refused != 0 || rules_of(qp.transport()).connected) return refused;
  const auto& to = from.wr.ud;
  const int lost = set_destination(object, {to.ah, to.remote_qpn, to.remote_qkey});
  if (lost != 0) qp.sends().take_back();
  return lost;
}

}  // namespace

int set_destination(qp_object& qp, const destination_handle& to) noexcept {
  if (to.ah == nullptr || to.ah->pd != qp.qp_base.pd) return EINVAL;
  qp.core->sends().set_destination({.address = object_of(to.ah).address,
                                    .qpn = to.qpn & 0xff'ffffU,
                                    .qkey = to.qkey,
                                    .known = true});
  return 0;
}

namespace {

template <int (*Check)(const qp_object&, const ibv_send_wr&)>
int post(ibv_qp* qp, ibv_send_wr* request, ibv_send_wr** bad_request) {
  qp_object& object = object_of(qp);
  queue_pair_block::prefetch_sends(object.core);
  if (!object.context_of->host->usable()) {
    *bad_request = request;
    return ENODEV;
  }
  queue_pair& core = *object.core;
  int refused = 0;
  core.sends().open();
  for (; request != nullptr; request = request->next) {
    if constexpr (Check != nullptr) refused = Check(object, *request);
    if (refused == 0) refused = add(object, *request);
    if (refused != 0) {
      *bad_request = request;
      break;
    }
  }
  core.sends().submit();
  return refused;
}

}  // namespace

int post_send(ibv_qp* qp, ibv_send_wr* request, ibv_send_wr** bad_request) {
  return post<nullptr>(qp, request, bad_request);
}

int post_send_to_efa(ibv_qp* qp, ibv_send_wr* request, ibv_send_wr** bad_request) {
  return post<&check_efa_request>(qp, request, bad_request);
}

int post_receive(ibv_qp* qp, ibv_recv_wr* request, ibv_recv_wr** bad_request) {
  qp_object& object = object_of(qp);
  if (!object.context_of->host->usable()) {
    *bad_request = request;
    return ENODEV;
  }
  queue_pair& core = *object.core;
  int refused = 0;
  core.receives().open();
  for (; request != nullptr; request = request->next) {
    sge_list sinks;
    refused = to_list(request->sg_list, request->num_sge, sinks);
    if (refused == 0) refused = core.receives().add(request->wr_id, sinks);
    if (refused != 0) {
      *bad_request = request;
      break;
    }
  }
  core.receives().close();
  return refused;
}

}  // namespace verbena::softdev
