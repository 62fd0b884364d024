// SPDX-License-Identifier: MIT
#include "tests/unit/softdev/survival/scenario.hpp"

#include <sched.h>
#include <time.h>

#include <cerrno>

#include "tests/unit/softdev/shim/soft_device.hpp"

namespace verbena::softdev::testing {
namespace {

constexpr std::size_t scenario_bytes = 32'768;
alignas(4096) std::array<std::byte, scenario_bytes> scenario_memory;

class scenario {
 public:
  scenario(meeting_place* place, std::atomic<const char*>& step) : place_(place), step_(step) {}

  scenario_result run() {
    if (create() && connect() && transfer()) step_ = nullptr;
    destroy();
    return result_;
  }

 private:
  bool failed(const char* step, int code) {
    step_ = step;
    result_ = code != 0 ? scenario_result::failed : scenario_result::failed_silently;
    return false;
  }
  bool late(const char* step) {
    step_ = step;
    result_ = scenario_result::hung;
    return false;
  }
  static std::int64_t now() {
    timespec time{};
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec;
  }

  bool create() {
    errno = 0;
    const auto device = reinterpret_cast<ibv_device* (*)()>(find("verbena_soft_device"));
    context_ = SOFT(ibv_open_device)(device());
    if (context_ == nullptr) return failed("open", errno);
    pd_ = SOFT(ibv_alloc_pd)(context_);
    if (pd_ == nullptr) return failed("pd", errno);
    channel_ = SOFT(ibv_create_comp_channel)(context_);
    if (channel_ == nullptr) return failed("channel", errno);
    cq_ = SOFT(ibv_create_cq)(context_, 64, nullptr, channel_, 0);
    if (cq_ == nullptr) return failed("cq", errno);
    ibv_srq_init_attr shared{};
    shared.attr.max_wr = 64;
    shared.attr.max_sge = 2;
    srq_ = SOFT(ibv_create_srq)(pd_, &shared);
    if (srq_ == nullptr) return failed("srq", errno);
    ibv_qp_init_attr wanted{};
    wanted.send_cq = wanted.recv_cq = cq_;
    wanted.qp_type = IBV_QPT_RC;
    wanted.cap = {32, 32, 4, 4, 128};
    qp_ = SOFT(ibv_create_qp)(pd_, &wanted);
    if (qp_ == nullptr) return failed("qp", errno);
    mr_ = SOFT(ibv_reg_mr)(pd_, scenario_memory.data(), scenario_memory.size(), buffer::all_access);
    if (mr_ == nullptr) return failed("mr", errno);
    const auto allocate =
        reinterpret_cast<void* (*)(std::size_t, int)>(find("verbena_soft_allocate"));
    shareable_ = allocate(scenario_bytes, 0);
    if (shareable_ == nullptr) return failed("allocate", errno);
    shared_mr_ = SOFT(ibv_reg_mr)(pd_, shareable_, scenario_bytes, buffer::all_access);
    return shared_mr_ != nullptr || failed("shared mr", errno);
  }

  bool connect() {
    std::uint32_t peer = qp_->qp_num;
    if (place_ != nullptr) {
      place_->own_qpn = qp_->qp_num;
      const std::uint32_t asked = ++place_->asked;
      const std::int64_t until = now() + 10;
      while (place_->answered != asked) {
        if (now() > until) return late("peer");
        sched_yield();
      }
      peer = place_->peer_qpn;
    }
    ibv_qp_attr init{};
    init.qp_state = IBV_QPS_INIT;
    init.port_num = 1;
    init.qp_access_flags = buffer::all_access;
    if (const int code = SOFT(ibv_modify_qp)(
            qp_, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
      return failed("init", code);
    ibv_qp_attr ready{};
    ready.qp_state = IBV_QPS_RTR;
    ready.path_mtu = IBV_MTU_1024;
    ready.dest_qp_num = peer;
    ready.rq_psn = 100;
    ready.max_dest_rd_atomic = 1;
    ready.min_rnr_timer = 1;
    ready.ah_attr.is_global = 1;
    ready.ah_attr.port_num = 1;
    ready.ah_attr.grh.sgid_index = 1;
    if (SOFT(ibv_query_gid)(context_, 1, 1, &ready.ah_attr.grh.dgid) != 0)
      return failed("gid", errno);
    if (const int code = SOFT(ibv_modify_qp)(qp_, &ready,
                                             IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
                                                 IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                                 IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))
      return failed("rtr", code);
    ibv_qp_attr sending{};
    sending.qp_state = IBV_QPS_RTS;
    sending.sq_psn = 100;
    sending.timeout = 12;
    sending.retry_cnt = 3;
    sending.rnr_retry = 7;
    sending.max_rd_atomic = 1;
    if (const int code =
            SOFT(ibv_modify_qp)(qp_, &sending,
                                IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                    IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC))
      return failed("rts", code);
    return true;
  }

  bool transfer() {
    return transfer(IBV_WR_RDMA_WRITE, 64) && transfer(IBV_WR_SEND, 8000) &&
           transfer(IBV_WR_RDMA_READ, 64) && transfer(IBV_WR_ATOMIC_FETCH_AND_ADD, 8) &&
           transfer(IBV_WR_SEND, 64);
  }
  bool transfer(ibv_wr_opcode opcode, std::uint32_t bytes) {
    ibv_sge data{reinterpret_cast<std::uint64_t>(shareable_), bytes, shared_mr_->lkey};
    ibv_sge sink{reinterpret_cast<std::uint64_t>(scenario_memory.data()), 8192, mr_->lkey};
    ibv_recv_wr receive{};
    receive.wr_id = 2;
    receive.sg_list = &sink;
    receive.num_sge = 1;
    ibv_recv_wr* bad_receive = nullptr;
    const bool to_itself = place_ == nullptr;
    int expected = 1;
    if (to_itself && opcode == IBV_WR_SEND) {
      if (const int code = ibv_post_recv(qp_, &receive, &bad_receive))
        return failed("receive", code);
      ++expected;
    }
    ibv_send_wr request{};
    request.opcode = opcode;
    request.send_flags = IBV_SEND_SIGNALED;
    request.sg_list = &data;
    request.num_sge = 1;
    request.wr.rdma.remote_addr =
        to_itself ? reinterpret_cast<std::uint64_t>(scenario_memory.data()) + 8192
                  : place_->peer_address;
    request.wr.rdma.rkey = to_itself ? mr_->rkey : place_->peer_key;
    if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
      const std::uint64_t address = request.wr.rdma.remote_addr;
      const std::uint32_t key = request.wr.rdma.rkey;
      request.wr.atomic.remote_addr = address;
      request.wr.atomic.compare_add = 1;
      request.wr.atomic.swap = 0;
      request.wr.atomic.rkey = key;
    }
    ibv_send_wr* bad = nullptr;
    if (const int code = ibv_post_send(qp_, &request, &bad)) return failed("post", code);
    const std::int64_t until = now() + 10;
    while (expected > 0) {
      ibv_wc done{};
      const int count = ibv_poll_cq(cq_, 1, &done);
      if (count < 0) return failed("poll", -count);
      if (count == 0 && now() > until) return late("poll");
      if (count == 0) sched_yield();
      if (count == 1 && done.status != IBV_WC_SUCCESS) return failed("status", EIO);
      expected -= count;
    }
    return true;
  }

  void close(const char* step, int code) {
    if (code == 0) return;
    // One step fails: if that was before, this is a consequence.
    const bool before = result_ != scenario_result::succeeded;
    static_cast<void>(failed(step, before ? 0 : code));
  }
  void destroy() {
    if (shared_mr_ != nullptr) close("dereg shared", SOFT(ibv_dereg_mr)(shared_mr_));
    const auto give_back = reinterpret_cast<int (*)(void*)>(find("verbena_soft_free"));
    if (shareable_ != nullptr) close("free", give_back(shareable_));
    if (mr_ != nullptr) close("dereg", SOFT(ibv_dereg_mr)(mr_));
    if (qp_ != nullptr) close("destroy qp", SOFT(ibv_destroy_qp)(qp_));
    if (srq_ != nullptr) close("destroy srq", SOFT(ibv_destroy_srq)(srq_));
    if (cq_ != nullptr) close("destroy cq", SOFT(ibv_destroy_cq)(cq_));
    if (channel_ != nullptr) close("destroy channel", SOFT(ibv_destroy_comp_channel)(channel_));
    if (pd_ != nullptr) close("dealloc pd", SOFT(ibv_dealloc_pd)(pd_));
    if (context_ != nullptr) close("close", SOFT(ibv_close_device)(context_));
  }

  meeting_place* place_;
  std::atomic<const char*>& step_;
  scenario_result result_ = scenario_result::succeeded;
  ibv_context* context_ = nullptr;
  ibv_pd* pd_ = nullptr;
  ibv_comp_channel* channel_ = nullptr;
  ibv_cq* cq_ = nullptr;
  ibv_srq* srq_ = nullptr;
  ibv_qp* qp_ = nullptr;
  ibv_mr* mr_ = nullptr;
  void* shareable_ = nullptr;
  ibv_mr* shared_mr_ = nullptr;
};

}  // namespace

scenario_result run_scenario(meeting_place* place, std::atomic<const char*>& step) {
  return scenario(place, step).run();
}

}  // namespace verbena::softdev::testing
