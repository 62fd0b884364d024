// SPDX-License-Identifier: MIT
// The lazy interface of completion queues: start_poll, next_poll, end_poll and the read functions.
// The current completion is a copy, so no lock of the engine is held between the calls.
#include <infiniband/verbs.h>

#include <sched.h>

#include <cerrno>
#include <ctime>

#include "softdev/host/device_clock.hpp"
#include "softdev/shim/operations.hpp"

namespace verbena::softdev {
namespace {

// Reserves polling for the calling thread. Returns 0, or EBUSY if this thread is already polling.
int begin_turn(cq_object& cq) noexcept {
  if (cq.single_threaded) return 0;
  if (pthread_mutex_trylock(&cq.poll_mutex) != 0) {
    if (pthread_equal(cq.poller.load(std::memory_order_relaxed), pthread_self()) != 0) return EBUSY;
    pthread_mutex_lock(&cq.poll_mutex);
  }
  cq.poller.store(pthread_self(), std::memory_order_relaxed);
  return 0;
}

void end_turn(cq_object& cq) noexcept {
  if (cq.single_threaded) return;
  cq.poller.store(pthread_t{}, std::memory_order_relaxed);
  pthread_mutex_unlock(&cq.poll_mutex);
}

// Takes the next completion. Returns false if the queue is empty.
bool take(cq_object& cq) noexcept {
  if (cq.queue->poll({&cq.now, 1}) == 0) return false;
  cq.wr_id = cq.now.wr_id;
  cq.status = static_cast<ibv_wc_status>(cq.now.status);
  cq.idle.note_found();
  return true;
}

int start_poll(ibv_cq_ex* current, ibv_poll_cq_attr* attributes) {
  if (attributes != nullptr && attributes->comp_mask != 0) return EINVAL;
  cq_object& cq = object_of(current);
  host& home = *cq.context_of->host;
  if (!home.usable()) return ENODEV;
  if (const int busy = begin_turn(cq)) return busy;
  if (take(cq)) return 0;
  home.progress(host::caller::poll);
  if (take(cq)) return 0;
  end_turn(cq);
  if (cq.queue->overrun()) return EIO;
  if (cq.idle.note_nothing()) sched_yield();
  return ENOENT;
}

int next_poll(ibv_cq_ex* current) { return take(object_of(current)) ? 0 : ENOENT; }

void end_poll(ibv_cq_ex* current) { end_turn(object_of(current)); }

ibv_wc_opcode read_opcode(ibv_cq_ex* current) {
  return static_cast<ibv_wc_opcode>(object_of(current).now.opcode);
}
std::uint32_t read_vendor_err(ibv_cq_ex* current) { return object_of(current).now.vendor_error; }
std::uint32_t read_byte_len(ibv_cq_ex* current) { return object_of(current).now.byte_count; }
__be32 read_imm_data(ibv_cq_ex* current) { return object_of(current).now.immediate; }
std::uint32_t read_qp_num(ibv_cq_ex* current) { return object_of(current).now.qp_num; }
std::uint32_t read_src_qp(ibv_cq_ex* current) { return object_of(current).now.source_qp; }
unsigned read_wc_flags(ibv_cq_ex* current) { return object_of(current).now.flags; }
std::uint32_t read_slid(ibv_cq_ex* current) { return object_of(current).now.source_lid; }
std::uint8_t read_sl(ibv_cq_ex* current) { return object_of(current).now.service_level; }
std::uint8_t read_dlid_path_bits(ibv_cq_ex* current) { return object_of(current).now.path_bits; }
std::uint64_t read_completion_ts(ibv_cq_ex* current) { return object_of(current).now.timestamp; }

// Returns the time of the completion on CLOCK_REALTIME, as that clock is set now.
std::uint64_t read_completion_wallclock_ns(ibv_cq_ex* current) {
  timespec wall;
  clock_gettime(CLOCK_REALTIME, &wall);
  const auto wall_ns = static_cast<std::uint64_t>(wall.tv_sec) * 1'000'000'000U +
                       static_cast<std::uint64_t>(wall.tv_nsec);
  const std::uint64_t age = device_clock::now() - object_of(current).now.timestamp;
  return wall_ns - (age & device_clock::mask);
}

}  // namespace

void fill_lazy_interface(cq_object& cq, std::uint64_t wc_flags) noexcept {
  cq.start_poll = &start_poll;
  cq.next_poll = &next_poll;
  cq.end_poll = &end_poll;
  cq.read_opcode = &read_opcode;
  cq.read_vendor_err = &read_vendor_err;
  cq.read_wc_flags = &read_wc_flags;
  const auto wants = [wc_flags](std::uint64_t flag) { return (wc_flags & flag) != 0; };
  if (wants(IBV_WC_EX_WITH_BYTE_LEN)) cq.read_byte_len = &read_byte_len;
  if (wants(IBV_WC_EX_WITH_IMM)) cq.read_imm_data = &read_imm_data;
  if (wants(IBV_WC_EX_WITH_QP_NUM)) cq.read_qp_num = &read_qp_num;
  if (wants(IBV_WC_EX_WITH_SRC_QP)) cq.read_src_qp = &read_src_qp;
  if (wants(IBV_WC_EX_WITH_SLID)) cq.read_slid = &read_slid;
  if (wants(IBV_WC_EX_WITH_SL)) cq.read_sl = &read_sl;
  if (wants(IBV_WC_EX_WITH_DLID_PATH_BITS)) cq.read_dlid_path_bits = &read_dlid_path_bits;
  if (wants(IBV_WC_EX_WITH_COMPLETION_TIMESTAMP)) cq.read_completion_ts = &read_completion_ts;
  if (wants(IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK))
    cq.read_completion_wallclock_ns = &read_completion_wallclock_ns;
}

}  // namespace verbena::softdev
