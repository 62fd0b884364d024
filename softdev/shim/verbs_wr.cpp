// SPDX-License-Identifier: MIT
// Posting: the extended interface, ibv_wr_*. Between wr_start and wr_complete or wr_abort the send
// side belongs to the calling thread. After the first error of a batch, the rest of the batch is
// ignored. wr_complete then returns the error and posts no request.
#include <infiniband/verbs.h>

#include <cerrno>
#include <type_traits>

#include "softdev/shim/efa.hpp"
#include "softdev/shim/not_supported.hpp"
#include "softdev/shim/operations.hpp"
#include "softdev/shim/translate.hpp"

namespace verbena::softdev {
namespace {

constexpr unsigned known_flags =
    IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_INLINE;

// A child of fork must not take a lock: a thread that exists only in the parent may hold it.
bool is_usable(const qp_object& qp) noexcept { return qp.context_of->host->usable(); }

void start(ibv_qp_ex* handle) {
  qp_object& qp = object_of(handle);
  if (!is_usable(qp)) {
    qp.batch_error = ENODEV;
    return;
  }
  qp.core->sends().open();
  qp.batch_error = 0;
}

int complete(ibv_qp_ex* handle) {
  qp_object& qp = object_of(handle);
  if (!is_usable(qp)) return ENODEV;
  const int error = qp.batch_error;
  if (error != 0) {
    qp.core->sends().abort();
    return error;
  }
  qp.core->sends().submit();
  return 0;
}

void abort(ibv_qp_ex* handle) {
  qp_object& qp = object_of(handle);
  if (is_usable(qp)) qp.core->sends().abort();
}

// Returns the request that wr_id and wr_flags describe. Ignores IBV_SEND_INLINE: programs set it
// for both kinds of data, and the function that sets the data decides.
send_request request_of(const ibv_qp_ex& qp, opcode what) noexcept {
  send_request request;
  request.wr_id = qp.wr_id;
  request.opcode = what;
  request.flags = send_flags::from_mask(
      static_cast<std::uint8_t>(qp.wr_flags & ~static_cast<unsigned>(IBV_SEND_INLINE)));
  return request;
}

void add(qp_object& qp, const send_request& request) noexcept {
  if (qp.batch_error != 0) return;
  qp.batch_error = (qp.wr_flags & ~known_flags) != 0 ? EINVAL : qp.core->sends().add(request);
}

void atomic_cmp_swp(ibv_qp_ex* handle, std::uint32_t rkey, std::uint64_t remote_addr,
                    std::uint64_t compare, std::uint64_t swap) {
  send_request request = request_of(*handle, opcode::compare_swap);
  request.remote_address = remote_addr;
  request.remote_key = rkey;
  request.compare_or_add = compare;
  request.swap = swap;
  add(object_of(handle), request);
}

void atomic_fetch_add(ibv_qp_ex* handle, std::uint32_t rkey, std::uint64_t remote_addr,
                      std::uint64_t added) {
  send_request request = request_of(*handle, opcode::fetch_add);
  request.remote_address = remote_addr;
  request.remote_key = rkey;
  request.compare_or_add = added;
  add(object_of(handle), request);
}

template <opcode What>
void rdma(ibv_qp_ex* handle, std::uint32_t rkey, std::uint64_t remote_addr) {
  send_request request = request_of(*handle, What);
  request.remote_address = remote_addr;
  request.remote_key = rkey;
  add(object_of(handle), request);
}

void rdma_write_imm(ibv_qp_ex* handle, std::uint32_t rkey, std::uint64_t remote_addr,
                    __be32 imm_data) {
  send_request request = request_of(*handle, opcode::rdma_write_with_imm);
  request.remote_address = remote_addr;
  request.remote_key = rkey;
  request.immediate = imm_data;
  add(object_of(handle), request);
}

void send(ibv_qp_ex* handle) { add(object_of(handle), request_of(*handle, opcode::send)); }

void send_imm(ibv_qp_ex* handle, __be32 imm_data) {
  send_request request = request_of(*handle, opcode::send_with_imm);
  request.immediate = imm_data;
  add(object_of(handle), request);
}

void set_sge_list(ibv_qp_ex* handle, std::size_t num_sge, const ibv_sge* sg_list) {
  qp_object& qp = object_of(handle);
  if (qp.batch_error != 0) return;
  qp.batch_error = num_sge > limits::max_sges || (num_sge != 0 && sg_list == nullptr)
                       ? EINVAL
                       : qp.core->sends().set_sges({sg_list, static_cast<std::uint32_t>(num_sge)});
}

void set_sge(ibv_qp_ex* handle, std::uint32_t lkey, std::uint64_t addr, std::uint32_t length) {
  const ibv_sge element{addr, length, lkey};
  set_sge_list(handle, 1, &element);
}

void set_ud_addr(ibv_qp_ex* handle, ibv_ah* ah, std::uint32_t remote_qpn,
                 std::uint32_t remote_qkey) {
  qp_object& qp = object_of(handle);
  if (qp.batch_error == 0) qp.batch_error = set_destination(qp, {ah, remote_qpn, remote_qkey});
}

void set_inline_data_list(ibv_qp_ex* handle, std::size_t num_buf, const ibv_data_buf* buf_list) {
  qp_object& qp = object_of(handle);
  // An empty list also makes the request inline.
  if (num_buf == 0 && qp.batch_error == 0)
    qp.batch_error = qp.core->sends().append_inline(nullptr, 0);
  for (std::size_t i = 0; i < num_buf && qp.batch_error == 0; ++i)
    qp.batch_error = qp.core->sends().append_inline(buf_list[i].addr, buf_list[i].length);
}

void set_inline_data(ibv_qp_ex* handle, void* addr, std::size_t length) {
  const ibv_data_buf buffer{addr, length};
  set_inline_data_list(handle, 1, &buffer);
}

// Replaces an operation that the queue pair was created without.
template <class Signature>
struct refused;
template <class... Arguments>
struct refused<void(ibv_qp_ex*, Arguments...)> {
  static void call(ibv_qp_ex* handle, Arguments... /*arguments*/) {
    qp_object& qp = object_of(handle);
    if (qp.batch_error == 0) qp.batch_error = EINVAL;
  }
};

// An operation that the device does not support.
template <const refusal* What, class Signature>
struct not_of_device;
template <const refusal* What, class... Arguments>
struct not_of_device<What, void(ibv_qp_ex*, Arguments...)> {
  static void call(ibv_qp_ex* handle, Arguments... /*arguments*/) {
    qp_object& qp = object_of(handle);
    if (qp.batch_error == 0) qp.batch_error = refuse(*What);
  }
};

template <class Function>
void set(Function*& member, bool wanted, Function* function) noexcept {
  member = wanted ? function : &refused<Function>::call;
}

// Checks the flags of a request for EFA: every request must be signaled, and few flags are
// permitted.
template <auto Function>
struct checked;
template <class... Arguments, void (*Function)(ibv_qp_ex*, Arguments...)>
struct checked<Function> {
  static void call(ibv_qp_ex* handle, Arguments... arguments) {
    qp_object& qp = object_of(handle);
    if (qp.batch_error == 0) qp.batch_error = check_efa_request(qp, handle->wr_flags);
    Function(handle, arguments...);
  }
};

void fill_efa_requests(qp_object& qp, std::uint64_t operations) noexcept {
  const auto has = [operations](std::uint64_t flag) { return (operations & flag) != 0; };
  set(qp.wr_rdma_read, has(IBV_QP_EX_WITH_RDMA_READ), &checked<&rdma<opcode::rdma_read>>::call);
  set(qp.wr_rdma_write, has(IBV_QP_EX_WITH_RDMA_WRITE), &checked<&rdma<opcode::rdma_write>>::call);
  set(qp.wr_rdma_write_imm, has(IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM),
      &checked<&rdma_write_imm>::call);
  set(qp.wr_send, has(IBV_QP_EX_WITH_SEND), &checked<&send>::call);
  set(qp.wr_send_imm, has(IBV_QP_EX_WITH_SEND_WITH_IMM), &checked<&send_imm>::call);
  qp.wr_set_ud_addr = &set_ud_addr;
}

}  // namespace

std::uint64_t supported_send_operations(ibv_qp_type type) noexcept {
  constexpr std::uint64_t sends = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
  constexpr std::uint64_t writes = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;
  if (type == IBV_QPT_UD) return sends;
  if (type == IBV_QPT_UC) return sends | writes;
  if (type == IBV_QPT_DRIVER) return sends | writes | IBV_QP_EX_WITH_RDMA_READ;
  return sends | writes | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
         IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
}

void fill_extended_interface(qp_object& qp, std::uint64_t operations) noexcept {
#define NOT_SUPPORTED_REQUEST(name, feature) \
  qp.name = &not_of_device<&refusals::name, std::remove_pointer_t<decltype(ibv_qp_ex::name)>>::call;
#include "softdev/shim/not_supported.inc"
  const auto has = [operations](std::uint64_t flag) { return (operations & flag) != 0; };
  set(qp.wr_atomic_cmp_swp, has(IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP), &atomic_cmp_swp);
  set(qp.wr_atomic_fetch_add, has(IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD), &atomic_fetch_add);
  set(qp.wr_rdma_read, has(IBV_QP_EX_WITH_RDMA_READ), &rdma<opcode::rdma_read>);
  set(qp.wr_rdma_write, has(IBV_QP_EX_WITH_RDMA_WRITE), &rdma<opcode::rdma_write>);
  set(qp.wr_rdma_write_imm, has(IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM), &rdma_write_imm);
  set(qp.wr_send, has(IBV_QP_EX_WITH_SEND), &send);
  set(qp.wr_send_imm, has(IBV_QP_EX_WITH_SEND_WITH_IMM), &send_imm);
  set(qp.wr_set_ud_addr, qp.qp_base.qp_type == IBV_QPT_UD, &set_ud_addr);
  if (is_efa(*qp.qp_base.context)) fill_efa_requests(qp, operations);
  qp.wr_set_inline_data = &set_inline_data;
  qp.wr_set_inline_data_list = &set_inline_data_list;
  qp.wr_set_sge = &set_sge;
  qp.wr_set_sge_list = &set_sge_list;
  qp.wr_start = &start;
  qp.wr_complete = &complete;
  qp.wr_abort = &abort;
}

}  // namespace verbena::softdev
