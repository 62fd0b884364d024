// SPDX-License-Identifier: MIT
// Queue pairs: creation, state and attributes, destruction.
#include <infiniband/verbs.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <string>

#include "softdev/core/transport/rules.hpp"
#include "softdev/host/warn_once.hpp"
#include "softdev/shim/address.hpp"
#include "softdev/shim/answers.hpp"
#include "softdev/shim/efa.hpp"
#include "softdev/shim/functions.hpp"
#include "softdev/shim/not_supported.hpp"
#include "softdev/shim/operations.hpp"
#include "softdev/shim/translate.hpp"
#include "verbena/base/log.hpp"

namespace verbena::softdev {
namespace {

// Checks the attributes of a new queue pair. Returns 0 or an errno.
int check(const queue_pair_creation& what) noexcept {
  const ibv_qp_init_attr& wanted = what.wanted;
  if (what.pd == nullptr) return EINVAL;
  if (is_efa(*what.pd->context)) return check_efa(what);
  if (wanted.qp_type != IBV_QPT_RC && wanted.qp_type != IBV_QPT_UC && wanted.qp_type != IBV_QPT_UD)
    return refuse_transport(wanted.qp_type) != 0 ? EOPNOTSUPP : EINVAL;
  if (wanted.srq != nullptr &&
      (wanted.srq->context != what.pd->context || wanted.qp_type == IBV_QPT_UC))
    return EINVAL;
  if (wanted.send_cq == nullptr || wanted.recv_cq == nullptr) return EINVAL;
  if (wanted.send_cq->context != what.pd->context || wanted.recv_cq->context != what.pd->context)
    return EINVAL;
  const ibv_qp_cap& cap = wanted.cap;
  if (cap.max_send_wr > limits::max_work_requests || cap.max_send_sge > limits::max_sges ||
      cap.max_inline_data > limits::max_inline_bytes)
    return EINVAL;
  // With a shared receive queue, the sizes of the receive queue are ignored.
  if (wanted.srq == nullptr &&
      (cap.max_recv_wr > limits::max_work_requests || cap.max_recv_sge > limits::max_sges))
    return EINVAL;
  if ((what.operations & ~supported_send_operations(wanted.qp_type)) != 0)
    return refuse(refusals::operations_of_qp);
  return 0;
}

// Returns the capabilities to request from the core: at least one of each, so that every queue pair
// can send and receive.
ibv_qp_cap at_least_one(const ibv_qp_init_attr& wanted) noexcept {
  const ibv_qp_cap& cap = wanted.cap;
  const bool shared = wanted.srq != nullptr;
  return {.max_send_wr = std::max(cap.max_send_wr, 1U),
          .max_recv_wr = shared ? 0 : std::max(cap.max_recv_wr, 1U),
          .max_send_sge = std::max(cap.max_send_sge, 1U),
          .max_recv_sge = shared ? 0 : std::max(cap.max_recv_sge, 1U),
          .max_inline_data = cap.max_inline_data};
}

shared_receive_queue* shared_by(const ibv_qp_init_attr& wanted) noexcept {
  return wanted.srq != nullptr ? object_of(wanted.srq).queue.get() : nullptr;
}

ibv_qp_cap granted_by(queue_pair& core) noexcept {
  const send_queue& sends = core.sender().queue();
  const receive_queue& receives = core.receiver().queue();
  const bool shared = core.options().shared_receives != nullptr;
  return {.max_send_wr = sends.capacity(),
          .max_recv_wr = shared ? 0 : receives.capacity(),
          .max_send_sge = sends.max_sges(),
          .max_recv_sge = shared ? 0 : receives.max_sges(),
          .max_inline_data = sends.max_inline_bytes()};
}

void fill(qp_object& object, const queue_pair_creation& what) noexcept {
  ibv_qp& base = object.qp_base;
  base.context = what.pd->context;
  base.qp_context = what.wanted.qp_context;
  base.pd = what.pd;
  base.send_cq = what.wanted.send_cq;
  base.recv_cq = what.wanted.recv_cq;
  base.srq = what.wanted.srq;
  base.handle = object.core->number();
  base.qp_num = object.core->number();
  base.state = IBV_QPS_RESET;
  base.qp_type = what.wanted.qp_type;
  if (what.extended) {
    object.private_mask = qp_object::has_extended_interface;
    fill_extended_interface(object, what.operations);
  }
}

transport transport_of(const queue_pair_creation& what) noexcept {
  return what.scalable ? transport::srd : static_cast<transport>(what.wanted.qp_type);
}

// Returns the integer in a field whose type is an enumeration. C programs can store any integer,
// and reading a field with a value outside its enumeration is undefined behaviour.
template <class Enumeration>
std::uint32_t integer_of(const Enumeration& field) {
  std::uint32_t value;
  static_assert(sizeof value == sizeof field);
  std::memcpy(&value, &field, sizeof value);
  return value;
}

int check_attributes(const ibv_qp_attr& wanted, int mask) {
  constexpr int known = (IBV_QP_DEST_QPN << 1) - 1;
  if ((mask & ~(known | IBV_QP_RATE_LIMIT)) != 0) return EINVAL;
  if ((mask & IBV_QP_RATE_LIMIT) != 0) return refuse(refusals::rate_limit_of_qp);
  const auto is_within = [](const auto& field, std::uint32_t least, std::uint32_t most) {
    const std::uint32_t value = integer_of(field);
    return value >= least && value <= most;
  };
  if ((mask & IBV_QP_STATE) != 0 && !is_within(wanted.qp_state, IBV_QPS_RESET, IBV_QPS_ERR))
    return EINVAL;
  if ((mask & IBV_QP_CUR_STATE) != 0 && !is_within(wanted.cur_qp_state, IBV_QPS_RESET, IBV_QPS_ERR))
    return EINVAL;
  if ((mask & IBV_QP_PATH_MTU) != 0 && !is_within(wanted.path_mtu, IBV_MTU_256, IBV_MTU_4096))
    return EINVAL;
  if ((mask & IBV_QP_PATH_MIG_STATE) != 0 &&
      !is_within(wanted.path_mig_state, IBV_MIG_MIGRATED, IBV_MIG_ARMED))
    return EINVAL;
  return 0;
}

// Connects a queue pair over the wire, if that is its path. Refuses a later change of the address.
int connect(qp_object& object, const ibv_qp_attr& wanted, int mask, path_to_peer by) {
  host& home = *object.context_of->host;
  const bool connects = (mask & IBV_QP_STATE) != 0 && wanted.qp_state == IBV_QPS_RTR;
  if (by == path_to_peer::wire && connects)
    return connect_by_wire(home, *object.core, wanted.ah_attr,
                           static_cast<std::uint8_t>(wanted.path_mtu));
  if (connects ||
      (by != path_to_peer::wire && object.core->query().path_to_peer != path_to_peer::wire))
    return 0;
  warn_once(
      "soft0: ibv_modify_qp: the address of a connection to another host cannot be changed; "
      "move the queue pair to RESET first");
  return EINVAL;
}

// Completes a state transition.
void entered(qp_object& object, ibv_qp_state state) {
  object.qp_base.state = state;
  host& home = *object.context_of->host;
  const queue_pair_attributes now = object.core->query();
  const bool from_elsewhere = !rules_of(object.core->transport()).connected ||
                              (now.path_to_peer == path_to_peer::same_host &&
                               !home.core().numbers().is_local(now.destination_qpn));
  if (state == IBV_QPS_RTR && from_elsewhere) {
    publish_completion_queues(object);
    home.progress();  // begins to pair with the peer's process
  } else if (state == IBV_QPS_RESET || state == IBV_QPS_ERR) {
    withdraw_completion_queues(object);
  }
}

}  // namespace

queue_pair_creation creation_of(const ibv_qp_init_attr_ex& wanted) noexcept {
  const bool extended = (wanted.comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0;
  return {.pd = wanted.pd,
          .wanted = {.qp_context = wanted.qp_context,
                     .send_cq = wanted.send_cq,
                     .recv_cq = wanted.recv_cq,
                     .srq = wanted.srq,
                     .cap = wanted.cap,
                     .qp_type = wanted.qp_type,
                     .sq_sig_all = wanted.sq_sig_all},
          .extended = extended,
          .operations = extended ? wanted.send_ops_flags : 0};
}

ibv_qp* create_queue_pair(queue_pair_creation& what, ibv_qp_cap& granted) {
  context_object& context = object_of(what.pd->context);
  if (!working(context)) return nullptr;
  if (const int refused = check(what)) return fail(refused);
  std::unique_ptr<qp_object> made(new (std::nothrow) qp_object{});
  qp_object* const object = made.get();
  if (object == nullptr) return fail(ENOMEM);
  what.wanted.cap = at_least_one(what.wanted);
  object->context_of = &context;
  object->created = what.wanted;
  pthread_mutex_init(&object->qp_base.mutex, nullptr);
  pthread_cond_init(&object->qp_base.cond, nullptr);
  prepare_events(*object);
  const ibv_qp_cap& cap = what.wanted.cap;
  auto core =
      context.host->core().create({.domain = static_cast<domain_id>(what.pd->handle),
                                   .transport = transport_of(what),
                                   .send_queue = object_of(what.wanted.send_cq).queue.get(),
                                   .receive_queue = object_of(what.wanted.recv_cq).queue.get(),
                                   .shared_receives = shared_by(what.wanted),
                                   .capabilities = {.max_send_wr = cap.max_send_wr,
                                                    .max_receive_wr = cap.max_recv_wr,
                                                    .max_send_sge = cap.max_send_sge,
                                                    .max_receive_sge = cap.max_recv_sge,
                                                    .max_inline_bytes = cap.max_inline_data},
                                   .signal_all = what.wanted.sq_sig_all != 0,
                                   .addresses = &object_of(what.pd).addresses,
                                   .observer = &queue_pair_events(),
                                   .owner = object});
  if (!core) {
    pthread_mutex_destroy(&object->qp_base.mutex);
    pthread_cond_destroy(&object->qp_base.cond);
    return fail(core.error().code());
  }
  object->core = *core;
  object->created.cap = granted_by(**core);
  fill(*object, what);
  try {
    const std::lock_guard lock(context.working.lock);
    context.working.queue_pairs.insert(object);
  } catch (const std::bad_alloc&) {
    context.host->core().destroy(object->core);
    throw;
  }
  object_of(what.pd).children.add();
  object_of(what.wanted.send_cq).children.add();
  object_of(what.wanted.recv_cq).children.add();
  if (what.wanted.srq != nullptr) object_of(what.wanted.srq).children.add();
  granted = object->created.cap;
  return &made.release()->qp_base;
}

ibv_qp* create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* attributes) {
  constexpr std::uint32_t known = (IBV_QP_INIT_ATTR_SEND_OPS_FLAGS << 1) - 1;
  constexpr std::uint32_t supported =
      IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  const std::uint32_t mask = attributes->comp_mask;
  if ((mask & ~known) != 0) return fail(EINVAL);
  if ((mask & ~supported) != 0) return fail(refuse(refusals::mask_of_qp));
  if ((mask & IBV_QP_INIT_ATTR_PD) == 0 || attributes->pd == nullptr) return fail(EINVAL);
  if (attributes->pd->context != context) return fail(EINVAL);
  if ((mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) != 0 && attributes->create_flags != 0)
    return fail(refuse(refusals::flags_of_qp));
  queue_pair_creation what = creation_of(*attributes);
  return create_queue_pair(what, attributes->cap);
}

}  // namespace verbena::softdev

using namespace verbena::softdev;

extern "C" {

ibv_qp* ibv_create_qp(ibv_pd* pd, ibv_qp_init_attr* qp_init_attr) {
  queue_pair_creation what{.pd = pd, .wanted = *qp_init_attr};
  return create_queue_pair(what, qp_init_attr->cap);
}

ibv_qp_ex* ibv_qp_to_qp_ex(ibv_qp* qp) {
  qp_object& object = object_of(qp);
  return (object.private_mask & qp_object::has_extended_interface) != 0 ? &object : nullptr;
}

int ibv_modify_qp(ibv_qp* qp, ibv_qp_attr* attr, int attr_mask) {
  qp_object& object = object_of(qp);
  if (!usable(*object.context_of)) return ENODEV;
  if (object.is_destroyed.load(std::memory_order_acquire)) return EINVAL;
  if (const int refused = check_attributes(*attr, attr_mask)) return refused;
  if (is_efa(*qp->context))
    if (const int refused = check_efa_attributes(*attr, attr_mask)) return refused;
  const bool has_partition = (attr_mask & IBV_QP_PKEY_INDEX) == 0 ||
                             object.context_of->host->core().port().pkey(attr->pkey_index) != 0;
  if (!has_partition) return EINVAL;
  if ((attr_mask & IBV_QP_PORT) != 0 && !object.context_of->host->core().port().has(attr->port_num))
    return EINVAL;
  const bool ends = (attr_mask & IBV_QP_STATE) != 0 &&
                    (attr->qp_state == IBV_QPS_ERR || attr->qp_state == IBV_QPS_RESET);
  if (!ends && !working(*object.context_of)) return errno;
  const bool has_address = (attr_mask & IBV_QP_AV) != 0;
  const auto mask = attribute_mask::from_mask(static_cast<std::uint32_t>(attr_mask));
  queue_pair_attributes wanted = to_attributes(*attr, attr_mask);
  if (has_address) set_route(*object.context_of->host, attr->ah_attr, wanted);
  const auto possible =
      check_modification(object.core->state(), wanted, mask, object.core->transport());
  if (possible && has_address) {
    const path_to_peer by = wanted.path_to_peer;
    if (const int refused = check_address(*object.context_of->host, attr->ah_attr, by))
      return refused;
    if (const int refused = connect(object, *attr, attr_mask, by)) return refused;
  }
  const bool receives = (attr_mask & IBV_QP_STATE) != 0 && attr->qp_state == IBV_QPS_RTR;
  if (possible && receives && rules_of(object.core->transport()).routed)
    if (const int refused = accept_datagrams(*object.context_of->host, *object.core))
      return refused;
  const bool leaves_reset = (attr_mask & IBV_QP_STATE) != 0 && attr->qp_state == IBV_QPS_INIT;
  if (leaves_reset) {
    if (const int failed = object.context_of->host->start_thread()) {
      warn_once(
          "soft0: ibv_modify_qp: the thread of the device cannot be started (pthread_create); see "
          "RLIMIT_AS (ulimit -v), RLIMIT_NPROC (ulimit -u) and the limit of the control group");
      return failed;
    }
  }
  if (has_address) record_route(*object.context_of->host, *object.core, attr->ah_attr);
  if (const auto modified = object.core->modify(wanted, mask); !modified) {
    verbena::log(verbena::log_level::debug, modified.error().message());
    return modified.error().code();
  }
  if (has_address) object.address = attr->ah_attr;
  if ((attr_mask & IBV_QP_STATE) != 0) entered(object, attr->qp_state);
  return 0;
}

int ibv_query_qp(ibv_qp* qp, ibv_qp_attr* attr, int /*attr_mask*/, ibv_qp_init_attr* init_attr) {
  qp_object& object = object_of(qp);
  if (!working(*object.context_of)) return errno;
  if (object.is_destroyed.load(std::memory_order_acquire)) return EINVAL;
  *attr = {};
  to_qp_attr(object.core->query(), *attr);
  attr->cap = object.created.cap;
  attr->ah_attr = object.address;
  *init_attr = object.created;
  qp->state = attr->qp_state;
  return 0;
}

// The bytes of a request are not guaranteed to be written in order; only the last ones are written
// last.
int ibv_query_qp_data_in_order(ibv_qp* /*qp*/, ibv_wr_opcode /*op*/, std::uint32_t /*flags*/) {
  return 0;
}

int ibv_destroy_qp(ibv_qp* qp) {
  qp_object& object = object_of(qp);
  context_object& context = *object.context_of;
  if (!usable(context)) return ENODEV;
  if (context.host->core().groups().has(object.core->number())) return EBUSY;
  {
    const std::lock_guard lock(context.working.lock);
    context.working.queue_pairs.erase(&object);
  }
  withdraw_completion_queues(object);
  // finish_events() waits for the program, which may use the handle in a handler of an event.
  object.is_destroyed.store(true, std::memory_order_release);
  context.host->core().destroy(object.core,
                               [](void* owner) { finish_events(*static_cast<qp_object*>(owner)); });
  object_of(qp->send_cq).children.remove();
  object_of(qp->recv_cq).children.remove();
  if (qp->srq != nullptr) object_of(qp->srq).children.remove();
  object_of(qp->pd).children.remove();
  pthread_mutex_destroy(&qp->mutex);
  pthread_cond_destroy(&qp->cond);
  delete &object;
  return 0;
}

}  // extern "C"
