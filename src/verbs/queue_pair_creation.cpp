// SPDX-License-Identifier: MIT
#include "src/verbs/queue_pair_creation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "src/verbs/creation.hpp"
#include "src/verbs/in_flight.hpp"
#include "src/verbs/ports.hpp"
#include "src/verbs/rxe_defects.hpp"
#include "src/verbs/text.hpp"
#include "verbena/base/random.hpp"
#include "verbena/verbs/context.hpp"
#include "verbena/verbs/device_attributes.hpp"
#include "verbena/verbs/gid_table.hpp"
#include "verbena/verbs/port_attributes.hpp"
#include "verbena/verbs/prepared_queue_pair.hpp"
#include "verbena/verbs/shared_receive_queue.hpp"

namespace verbena::inline VERBENA_ABI::detail {
namespace {

ibv_qp_init_attr_ex native_attributes(const protection_domain& pd, const queue_pair_queues& queues,
                                      const queue_pair_request& asked) {
  ibv_qp_init_attr_ex out{};
  out.send_cq = queues.send.native();
  out.recv_cq = queues.receive.native();
  out.cap = {.max_send_wr = asked.queues.max_send_wr,
             .max_recv_wr = asked.queues.max_recv_wr,
             .max_send_sge = asked.queues.max_send_sge,
             .max_recv_sge = asked.queues.max_recv_sge,
             .max_inline_data = asked.queues.max_inline_data};
  if (queues.shared != nullptr) {
    out.srq = queues.shared->native();
    out.cap.max_recv_wr = 0;
    out.cap.max_recv_sge = 0;
  }
  out.qp_type = asked.type;
  out.sq_sig_all = asked.signal_all ? 1 : 0;
  out.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  out.pd = pd.native();
  out.send_ops_flags = (asked.operations.empty() ? asked.possible : asked.operations).mask();
  return out;
}

// Creates a queue pair with ibv_create_qp(3). Stores the granted capabilities in `asked`.
created<ibv_qp> create_classic(const protection_domain& pd, ibv_qp_init_attr_ex& asked) {
  ibv_qp_init_attr classic{.send_cq = asked.send_cq,
                           .recv_cq = asked.recv_cq,
                           .srq = asked.srq,
                           .cap = asked.cap,
                           .qp_type = asked.qp_type,
                           .sq_sig_all = asked.sq_sig_all};
  const auto made = call_create(pd.provider().verbs.create_qp, pd.native(), &classic);
  asked.cap = classic.cap;
  return made;
}

// Returns the sizes that exceed a limit of the device; an empty string if no size does.
std::string exceeded_limits(const protection_domain& pd, const queue_sizes& sizes) {
  ibv_device_attr limits{};
  if (call(pd.provider().verbs.query_device, pd.native()->context, &limits).failed) return {};
  std::string text = above_limits({{"max_send_wr", sizes.max_send_wr, limits.max_qp_wr},
                                   {"max_recv_wr", sizes.max_recv_wr, limits.max_qp_wr},
                                   {"max_send_sge", sizes.max_send_sge, limits.max_sge},
                                   {"max_recv_sge", sizes.max_recv_sge, limits.max_sge}});
  if (text.empty() && sizes.max_inline_data > 0)
    text = fmt::format("the device may not have room for {} bytes of inline data",
                       sizes.max_inline_data);
  return text;
}

// Returns the number of queue pairs that the device supports; an empty string if it is unknown.
std::string room_for_queue_pairs(const protection_domain& pd) {
  ibv_device_attr limits{};
  if (call(pd.provider().verbs.query_device, pd.native()->context, &limits).failed) return {};
  return fmt::format("the device has room for {}",
                     counted(static_cast<std::uint32_t>(limits.max_qp), "queue pair"));
}

error creation_failed(const protection_domain& pd, const queue_pair_request& asked,
                      std::string_view verb, int code) {
  error failed = creation_error(code, verb, pd.name());
  if (code != EINVAL && code != ENOMEM && code != 0) return failed;
  std::string cause = exceeded_limits(pd, asked.queues);
  if (cause.empty() && code == ENOMEM) cause = room_for_queue_pairs(pd);
  return cause.empty() ? failed : std::move(failed).with_diagnosis(cause);
}

// Returns why the request is invalid on every device; an empty string if it is valid.
std::string fault_of(const queue_pair_request& asked) {
  if (asked.route.port == port_number(0)) return "port 0 does not exist: ports count from 1";
  if (!asked.possible.contains(asked.operations))
    return fmt::format("queue pairs of {} do not support {}", asked.transport,
                       to_string(asked.operations.without(asked.possible)));
  const route& via = asked.route;
  if (via.service_level > 15)
    return fmt::format("service level {} exceeds 15 (4 bits)", via.service_level);
  if (via.path_mtu && byte_count(*via.path_mtu) == 0)
    return fmt::format("the path MTU {} does not exist", to_string(*via.path_mtu));
  if (!asked.is_reliable_connection) return {};
  const auto& reliable = asked.reliability;
  if (reliable.retry_count > 7)
    return fmt::format("retry_count {} exceeds 7 (3 bits)", reliable.retry_count);
  if (reliable.rnr_retry_count.value_or(0) > 7)
    return fmt::format("rnr_retry_count {} exceeds 7 (3 bits)", *reliable.rnr_retry_count);
  return {};
}

result<void> check_request(const protection_domain& pd, const queue_pair_queues& queues,
                           const queue_pair_request& asked) {
  const auto refuse = [&](const std::string& diagnosis) {
    return error::invalid_argument("create_qp", pd.name(), diagnosis);
  };
  if (const auto fault = fault_of(asked); !fault.empty()) return refuse(fault);
  const ibv_context* const context = pd.native()->context;
  if (queues.send.native()->context != context || queues.receive.native()->context != context)
    return refuse(
        "the completion queues and the protection domain belong to different open devices");
  if (queues.shared != nullptr && queues.shared->native()->context != context)
    return refuse(
        "the shared receive queue and the protection domain belong to different open devices");
  return {};
}

result<gid_entry> find_gid(const context& device, const port_attributes& port,
                           const queue_pair_request& asked) {
  if (asked.route.gid_index) return device.query_gid(asked.route.port, *asked.route.gid_index);
  // EFA: the GID table of a port has one entry.
  if (port.link_layer() == link_layer::unspecified)
    return device.query_gid(asked.route.port, gid_index(0));
  return device.routable_gid(asked.route.port);
}

std::uint8_t read_depth(std::uint8_t asked, int limit) noexcept {
  return static_cast<std::uint8_t>(std::min<int>(asked, std::max(limit, 0)));
}

// The queues of a queue pair; null for adopted queue pairs.
struct queue_owners {
  std::shared_ptr<completion_queue_state> send;
  std::shared_ptr<completion_queue_state> receive;
  std::shared_ptr<shared_receive_queue_state> shared;
};

queue_owners owners_of(const queue_pair_queues& queues) {
  return {internals::state_of(queues.send), internals::state_of(queues.receive),
          queues.shared == nullptr ? nullptr : internals::state_of(*queues.shared)};
}

// Makes the owner, which the checker does not know yet.
std::shared_ptr<queue_pair_state_object> make_unwatched_state(ibv_qp* native,
                                                              const protection_domain& pd,
                                                              ownership owner, queue_owners with) {
  return std::make_shared<queue_pair_state_object>(queue_pair_state_object::arguments{
      .provider = &pd.provider(),
      .native = native,
      .owner = owner,
      .name = fmt::format("queue pair {:#x} on {}", native->qp_num, pd.context().name()),
      .parents = {internals::state_of(pd), std::move(with.send), std::move(with.receive),
                  std::move(with.shared)}});
}

result<created_queue_pair> create_qp(const protection_domain& pd, const queue_pair_queues& queues,
                                     const queue_pair_request& request) {
  auto asked = native_attributes(pd, queues, request);
  bool has_defects = false;
  if (request.classic && request.extended) {
    VERBENA_TRY(has_defects, is_rxe(pd.context()));
  }
  VERBENA_TRY(const auto made, request.create(pd, request, asked));
  auto owner = make_owner(pd.provider().verbs, made.made, [&](ibv_qp* owned) {
    return make_unwatched_state(owned, pd, ownership::take, owners_of(queues));
  });
  watch(owner->native(), owner->name(), request.signal_all);
  created_queue_pair created{.state = std::move(owner),
                             .extended = made.extended,
                             .granted = {.max_send_wr = asked.cap.max_send_wr,
                                         .max_recv_wr = asked.cap.max_recv_wr,
                                         .max_send_sge = asked.cap.max_send_sge,
                                         .max_recv_sge = asked.cap.max_recv_sge,
                                         .max_inline_data = asked.cap.max_inline_data}};
  if (created.extended != nullptr && has_defects) {
    correct_lists(*created.extended);
    created.prefers_classic = true;
  }
  if (created.extended == nullptr && !request.classic)
    return error::not_supported(pd.provider().verbs.qp_to_qp_ex.name(), pd.name(),
                                fmt::format("the device does not have the extended interface, "
                                            "which queue pairs of {} need",
                                            request.transport));
  return created;
}

// Queries the port, its GID and the limits of the device.
result<local_side> find_local_side(const protection_domain& pd, const queue_pair_request& asked) {
  const context device = pd.context();
  VERBENA_TRY(const auto limits, device.query());
  VERBENA_TRY(const auto port, device.query_port(asked.route.port));
  if (port.state() != port_state::active && port.state() != port_state::armed)
    return error::unavailable(
        0, "create_qp", fmt::format("port {} of {}", asked.route.port.value(), device.name()),
        fmt::format("the port is not up: its state is {}", to_string(port.state())));

  local_side local;
  if (asked.route.gid_index || is_addressed_by_gid(port)) {
    VERBENA_TRY(const auto entry, find_gid(device, port, asked));
    local.endpoint.gid = entry.gid;
    local.source_gid_index = entry.index;
  }
  local.endpoint.lid = port.lid();
  local.endpoint.mtu = asked.route.path_mtu.value_or(port.active_mtu());
  local.endpoint.first_psn =
      asked.first_psn.value_or(packet_sequence_number(random_u32() & packet_sequence_number::max));
  if (asked.is_reliable_connection) {
    const auto depth = asked.reliability.read_depth;
    local.endpoint.responder_resources = read_depth(depth, limits.max_responder_resources());
    local.initiator_depth = read_depth(depth, limits.max_initiator_depth());
  }
  return local;
}

}  // namespace

result<native_queue_pair> create_by_verbs(const protection_domain& pd,
                                          const queue_pair_request& request,
                                          ibv_qp_init_attr_ex& asked) {
  const auto& verbs = pd.provider().verbs;
  created<ibv_qp> made;
  std::string_view verb = verbs.create_qp.name();
  if (request.extended) made = call_create(verbs.create_qp_ex, pd.native()->context, &asked);
  // ibv_qp_to_qp_ex(3) is only valid for queue pairs of ibv_create_qp_ex(3). The function reads a
  // field after ibv_qp, and providers without the extended interface have other data there.
  if (made) return native_queue_pair{made.native, verbs.qp_to_qp_ex(made.native)};
  // Providers without send_ops fail with one of several errnos: repeat without send_ops. Invalid
  // options fail again.
  if (!request.extended || made.code == EOPNOTSUPP || made.code == ENOSYS || made.code == EINVAL ||
      made.code == EPROTONOSUPPORT)
    made = create_classic(pd, asked);
  else
    verb = verbs.create_qp_ex.name();
  if (!made) return creation_failed(pd, request, verb, made.code);
  return native_queue_pair{made.native, nullptr};
}

std::shared_ptr<queue_pair_state_object> adopt_queue_pair_state(ibv_qp* native,
                                                                const protection_domain& pd,
                                                                ownership owner) {
  auto state = make_unwatched_state(native, pd, owner, {});
  watch(native, state->name(), std::nullopt);
  return state;
}

result<prepared_parts> prepare_queue_pair(const protection_domain& pd,
                                          const queue_pair_queues& queues,
                                          const queue_pair_request& request) {
  VERBENA_TRY_VOID(check_request(pd, queues, request));
  VERBENA_TRY(auto made, create_qp(pd, queues, request));
  VERBENA_TRY(auto local, find_local_side(pd, request));
  local.endpoint.queue_pair =
      queue_pair_number(made.state->native()->qp_num & queue_pair_number::max);
  return prepared_parts{std::move(made), local, request};
}

}  // namespace verbena::inline VERBENA_ABI::detail
