// SPDX-License-Identifier: MIT
#include "src/verbs/in_flight.hpp"

#ifdef VERBENA_CHECKED

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "verbena/verbs/detail/exclusive_use.hpp"
#include "verbena/verbs/detail/in_flight.hpp"

namespace verbena::inline VERBENA_ABI::detail {
namespace {

using in_flight::queue_kind;
using in_flight::use;

struct operation_facts {
  const char* name;
  use how;
};

operation_facts facts_of(ibv_wr_opcode operation) noexcept {
  switch (operation) {
    case IBV_WR_RDMA_WRITE:
      return {"RDMA_WRITE", use::source};
    case IBV_WR_RDMA_WRITE_WITH_IMM:
      return {"RDMA_WRITE_WITH_IMM", use::source};
    case IBV_WR_SEND:
      return {"SEND", use::source};
    case IBV_WR_SEND_WITH_IMM:
      return {"SEND_WITH_IMM", use::source};
    case IBV_WR_RDMA_READ:
      return {"RDMA_READ", use::sink};
    case IBV_WR_ATOMIC_CMP_AND_SWP:
      return {"ATOMIC_CMP_AND_SWP", use::sink};
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
      return {"ATOMIC_FETCH_AND_ADD", use::sink};
    default:
      return {"request", use::source};
  }
}

std::vector<in_flight::slice> slices_of(std::span<const ibv_sge> list) {
  std::vector<in_flight::slice> slices;
  slices.reserve(list.size());
  for (const ibv_sge& each : list) slices.push_back({each.addr, each.length, each.lkey});
  return slices;
}

std::span<const ibv_sge> list_of(const ibv_sge* first, int count) noexcept {
  return {first, static_cast<std::size_t>(std::max(count, 0))};
}

std::vector<in_flight::request> requests_of(const ibv_send_wr* list) {
  std::vector<in_flight::request> requests;
  for (; list != nullptr; list = list->next) {
    const auto [name, how] = facts_of(list->opcode);
    const bool is_inline = (list->send_flags & IBV_SEND_INLINE) != 0;
    requests.push_back(
        {.id = list->wr_id,
         .operation = name,
         .how = how,
         .signaled = (list->send_flags & IBV_SEND_SIGNALED) != 0,
         .fenced = (list->send_flags & IBV_SEND_FENCE) != 0,
         .slices = slices_of(list_of(list->sg_list, is_inline ? 0 : list->num_sge))});
  }
  return requests;
}

std::vector<in_flight::request> requests_of(const ibv_recv_wr* list) {
  std::vector<in_flight::request> requests;
  for (; list != nullptr; list = list->next)
    requests.push_back({.id = list->wr_id,
                        .operation = "RECV",
                        .how = use::sink,
                        .signaled = true,
                        .fenced = false,
                        .slices = slices_of(list_of(list->sg_list, list->num_sge))});
  return requests;
}

void remove_at(in_flight::place at, failed_post how, call_site where) {
  in_flight::remove(at, {how.recorded.first + how.accepted, how.recorded.end}, how.code == ENOMEM,
                    where);
}

in_flight::polled_completion polled_completion_of(const ibv_wc& polled) noexcept {
  in_flight::polled_completion out{.id = polled.wr_id,
                                   .queue_pair = polled.qp_num,
                                   .is_receive = {},
                                   .ok = polled.status == IBV_WC_SUCCESS};
  if (out.ok) out.is_receive = (polled.opcode & IBV_WC_RECV) != 0;
  return out;
}

thread_local const closing_place* innermost = nullptr;

}  // namespace

void watch(ibv_qp* queue, const std::string& name, std::optional<bool> all_signaled) {
  in_flight::queue_facts facts;
  facts.native = queue;
  facts.context = queue->context;
  facts.domain = queue->pd;
  facts.name = name;
  facts.number = queue->qp_num;
  facts.send_queue = queue->send_cq;
  facts.receive_queue = queue->recv_cq;
  facts.shared_receives = queue->srq;
  facts.all_signaled = all_signaled;
  facts.in_order = queue->qp_type != IBV_QPT_DRIVER;  // SRD completes out of order
  if (queue->qp_type == IBV_QPT_UD) facts.header_bytes = 40;
  in_flight::created(std::move(facts));
}

void watch(ibv_srq* queue, const std::string& name) {
  in_flight::queue_facts facts;
  facts.native = queue;
  facts.context = queue->context;
  facts.domain = queue->pd;
  facts.name = name;
  facts.is_shared = true;
  in_flight::created(std::move(facts));
}

void watch(const memory_region& region, const void* memory, std::optional<call_site> registered) {
  const ibv_mr& native = *region.native();
  const bool is_ours = internals::state_of(region)->parents().memory != nullptr;
  const bool has_pages = !region.access().contains(access::on_demand);
  in_flight::created(
      in_flight::region_facts{.native = &native,
                              .context = native.context,
                              .domain = native.pd,
                              .key = native.lkey,
                              .base = region.remote().address(),
                              .memory = memory,
                              .length = region.length(),
                              .name = region.name(),
                              .may_be_replaced = memory != nullptr && !is_ours && has_pages,
                              .is_open_to_peers = !(region.access() & remote_access).empty(),
                              .registered = registered});
}

void watch_state(const ibv_qp* queue, ibv_qp_state state) noexcept {
  if (state == IBV_QPS_RESET) in_flight::forget(queue);
  if (state == IBV_QPS_ERR) in_flight::failed(queue);
}

in_flight::numbers record_post(ibv_qp* queue, const ibv_send_wr* list, call_site where) {
  return in_flight::add({queue, queue_kind::sends, __builtin_return_address(0)}, requests_of(list),
                        where);
}
in_flight::numbers record_post(ibv_qp* queue, const ibv_recv_wr* list, call_site where) {
  return in_flight::add({queue, queue_kind::receives, __builtin_return_address(0)},
                        requests_of(list), where);
}
in_flight::numbers record_post(ibv_srq* queue, const ibv_recv_wr* list, call_site where) {
  return in_flight::add({queue, queue_kind::shared_receives, __builtin_return_address(0)},
                        requests_of(list), where);
}

void record_failure(ibv_qp* queue, const ibv_send_wr* /*list*/, failed_post how, call_site where) {
  remove_at({queue, queue_kind::sends}, how, where);
}
void record_failure(ibv_qp* queue, const ibv_recv_wr* /*list*/, failed_post how, call_site where) {
  remove_at({queue, queue_kind::receives}, how, where);
}
void record_failure(ibv_srq* queue, const ibv_recv_wr* /*list*/, failed_post how, call_site where) {
  remove_at({queue, queue_kind::shared_receives}, how, where);
}

void record_completions(ibv_cq* queue, const ibv_wc* polled, int count, call_site where) {
  if (count < 0) in_flight::poll_failed(queue, where);
  if (count <= 0) return;
  std::vector<in_flight::polled_completion> completions;
  completions.reserve(static_cast<std::size_t>(count));
  for (const ibv_wc& each : std::span(polled, static_cast<std::size_t>(count)))
    completions.push_back(polled_completion_of(each));
  in_flight::complete(queue->context, queue, completions, where);
}

void open_requests::add(std::uint64_t id, unsigned flags, ibv_wr_opcode operation) {
  const auto [name, how] = facts_of(operation);
  requests_.push_back({.id = id,
                       .operation = name,
                       .how = how,
                       .signaled = (flags & IBV_SEND_SIGNALED) != 0,
                       .fenced = (flags & IBV_SEND_FENCE) != 0,
                       .slices = {}});
}

void open_requests::put(std::span<const ibv_sge> slices) {
  requests_.back().slices = slices_of(slices);
}

void open_requests::begin_post(ibv_qp* queue, call_site where) {
  recorded_ =
      in_flight::add({queue, queue_kind::sends, __builtin_return_address(0)}, requests_, where);
}

void open_requests::end_post(ibv_qp* queue, int code, call_site where) {
  if (code != 0) remove_at({queue, queue_kind::sends}, {recorded_, 0, code}, where);
}

void watched_queue_pair::begin_destroy(const void* queue, bool destroys) {
  if (destroys)
    check_not_open(queue, "a queue pair was destroyed while a batch of it was open",
                   closing_place::here());
  in_flight::begin_destroy(queue, destroys);
}

void watched_completion_queue::begin_destroy(const void* queue, bool destroys) {
  if (destroys)
    check_not_open(queue,
                   "a completion queue was destroyed between ibv_start_poll and ibv_end_poll",
                   closing_place::here());
}

void watched_region::begin_destroy(const void* region, bool destroys) {
  in_flight::begin_destroy_region(region, destroys, closing_place::here());
}

closing_place::closing_place(call_site where) noexcept : where_(where), outer_(innermost) {
  innermost = this;
}
closing_place::~closing_place() { innermost = outer_; }

call_site closing_place::here() noexcept {
  return innermost != nullptr ? innermost->where_ : call_site::here();
}

}  // namespace verbena::inline VERBENA_ABI::detail

#endif
