// SPDX-License-Identifier: MIT
#include "src/verbs/queue_pair_creation.hpp"

#include <algorithm>
#include <cerrno>
#include <optional>
#include <string>
#include <utility>

#include "src/verbs/creation.hpp"
#include "src/verbs/text.hpp"
#include "verbena/base/random.hpp"
#include "verbena/verbs/context.hpp"
#include "verbena/verbs/device_attributes.hpp"
#include "verbena/verbs/gid_table.hpp"
#include "verbena/verbs/port_attributes.hpp"
#include "verbena/verbs/prepared_queue_pair.hpp"

namespace verbena::inline VERBENA_ABI::detail {
namespace {

using rc_options = queue_pair_options<rc>;

ibv_qp_init_attr_ex native_attributes(const protection_domain& pd, const completion_queue& send,
                                      const completion_queue& receive, const rc_options& options,
                                      const creation& kind) {
  ibv_qp_init_attr_ex out{};
  out.send_cq = send.native();
  out.recv_cq = receive.native();
  out.cap = {.max_send_wr = options.max_send_wr,
             .max_recv_wr = options.max_recv_wr,
             .max_send_sge = options.max_send_sge,
             .max_recv_sge = options.max_recv_sge,
             .max_inline_data = options.max_inline_data};
  out.qp_type = kind.type;
  out.sq_sig_all = options.signal_all ? 1 : 0;
  out.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  out.pd = pd.native();
  out.send_ops_flags = kind.send_operations;
  return out;
}

// The granted capabilities are written back into `asked`.
created<ibv_qp> create_classic(const protection_domain& pd, ibv_qp_init_attr_ex& asked) {
  ibv_qp_init_attr classic{.send_cq = asked.send_cq,
                           .recv_cq = asked.recv_cq,
                           .cap = asked.cap,
                           .qp_type = asked.qp_type,
                           .sq_sig_all = asked.sq_sig_all};
  const auto made = call_create(pd.provider().verbs.create_qp, pd.native(), &classic);
  asked.cap = classic.cap;
  return made;
}

// Which of the device's limits the options exceed; empty if none.
std::string exceeded_limits(const protection_domain& pd, const rc_options& options) {
  ibv_device_attr limits{};
  if (call(pd.provider().verbs.query_device, pd.native()->context, &limits).failed) return {};
  std::string text;
  const auto compare = [&text](const char* what, std::uint32_t asked, int limit) {
    if (limit < 0 || asked <= static_cast<std::uint32_t>(limit)) return;
    if (!text.empty()) text += ", ";
    text.append(what).append(" ").append(std::to_string(asked));
    text.append(" > the device's maximum ").append(std::to_string(limit));
  };
  compare("max_send_wr", options.max_send_wr, limits.max_qp_wr);
  compare("max_recv_wr", options.max_recv_wr, limits.max_qp_wr);
  compare("max_send_sge", options.max_send_sge, limits.max_sge);
  compare("max_recv_sge", options.max_recv_sge, limits.max_sge);
  if (text.empty() && options.max_inline_data > 0)
    text = "the device may not have room for " + std::to_string(options.max_inline_data) +
           " bytes of inline data";
  return text;
}

error creation_failed(const protection_domain& pd, const rc_options& options, std::string_view verb,
                      int code) {
  error failed = creation_error(code, verb, pd.name());
  if (code != EINVAL && code != ENOMEM && code != 0) return failed;
  const std::string exceeded = exceeded_limits(pd, options);
  return exceeded.empty() ? failed : std::move(failed).with_diagnosis(exceeded);
}

result<void> check_options(const protection_domain& pd, const rc_options& options) {
  const auto refuse = [&](const std::string& diagnosis) {
    return error::invalid_argument("create_queue_pair", pd.name(), diagnosis);
  };
  if (options.retry_count > 7 || options.rnr_retry_count > 7)
    return refuse("a retry count has 3 bits: 0 to 7");
  if (options.service_level > 15) return refuse("a service level has 4 bits: 0 to 15");
  if (options.port == port_number(0)) return refuse("ports count from 1");
  if (options.path_mtu && byte_count(*options.path_mtu) == 0)
    return refuse("the path MTU " + to_string(*options.path_mtu) + " does not exist");
  return {};
}

result<gid_entry> find_gid(const context& device, const rc_options& options) {
  if (options.gid_index) return device.query_gid(options.port, *options.gid_index);
  return device.routable_gid(options.port);
}

std::uint8_t read_depth(std::uint8_t asked, int limit) noexcept {
  return static_cast<std::uint8_t>(std::min<int>(asked, std::max(limit, 0)));
}

}  // namespace

std::shared_ptr<queue_pair_state_object> make_queue_pair_state(ibv_qp* native,
                                                               const protection_domain& pd,
                                                               ownership owner,
                                                               completion_parents into) {
  return std::make_shared<queue_pair_state_object>(queue_pair_state_object::arguments{
      .provider = &pd.provider(),
      .native = native,
      .owner = owner,
      .name = "queue pair " + hexadecimal(native->qp_num) + " on " + pd.context().name(),
      .parents = {internals::state_of(pd), std::move(into.send), std::move(into.receive)}});
}

result<created_queue_pair> create_queue_pair(const protection_domain& pd,
                                             const completion_queue& send,
                                             const completion_queue& receive,
                                             const rc_options& options, const creation& kind) {
  VERBENA_TRY_VOID(check_options(pd, options));
  ibv_context* const context = pd.native()->context;
  if (send.native()->context != context || receive.native()->context != context)
    return error::invalid_argument(
        "create_queue_pair", pd.name(),
        "the completion queues belong to another open device than the protection domain");
  auto asked = native_attributes(pd, send, receive, options, kind);
  const auto& verbs = pd.provider().verbs;
  created<ibv_qp> made;
  std::string_view verb = verbs.create_qp.name();
  if (options.extended) made = call_create(verbs.create_qp_ex, context, &asked);
  // Only what ibv_create_qp_ex(3) made may be asked for its extended interface: libibverbs looks
  // into it, and providers without the interface have something else there.
  ibv_qp_ex* const extended = made ? verbs.qp_to_qp_ex(made.native) : nullptr;
  // Providers without send_ops say so in several ways: ask again without. What is wrong in the
  // options themselves is then refused again.
  if (!made && (!options.extended || made.code == EOPNOTSUPP || made.code == ENOSYS ||
                made.code == EINVAL || made.code == EPROTONOSUPPORT))
    made = create_classic(pd, asked);
  else if (!made)
    verb = verbs.create_qp_ex.name();
  if (!made) return creation_failed(pd, options, verb, made.code);
  return created_queue_pair{
      .state = make_queue_pair_state(made.native, pd, ownership::take,
                                     {internals::state_of(send), internals::state_of(receive)}),
      .extended = extended,
      .granted = {.max_send_wr = asked.cap.max_send_wr,
                  .max_recv_wr = asked.cap.max_recv_wr,
                  .max_send_sge = asked.cap.max_send_sge,
                  .max_recv_sge = asked.cap.max_recv_sge,
                  .max_inline_data = asked.cap.max_inline_data}};
}

result<local_side> find_local_side(const protection_domain& pd, const rc_options& options) {
  const context device = pd.context();
  VERBENA_TRY(const auto limits, device.query());
  VERBENA_TRY(const auto port, device.query_port(options.port));
  if (port.state() != port_state::active && port.state() != port_state::armed)
    return error::unavailable(
        0, "create_queue_pair",
        "port " + std::to_string(options.port.value()) + " of " + device.name(),
        "the port is not up: its state is " + to_string(port.state()));

  local_side local;
  if (options.gid_index || port.link_layer() == link_layer::ethernet) {
    VERBENA_TRY(const auto entry, find_gid(device, options));
    local.endpoint.gid = entry.gid;
    local.source_gid = entry.index;
  }
  local.endpoint.lid = port.lid();
  local.endpoint.mtu = options.path_mtu.value_or(port.active_mtu());
  local.endpoint.first_psn = options.first_psn.value_or(
      packet_sequence_number(random_u32() & packet_sequence_number::max));
  local.endpoint.read_depth = read_depth(options.read_depth, limits.max_reads_as_target());
  local.reads_as_initiator = read_depth(options.read_depth, limits.max_reads_as_initiator());
  return local;
}

}  // namespace verbena::inline VERBENA_ABI::detail
