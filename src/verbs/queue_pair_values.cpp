// SPDX-License-Identifier: MIT
// Source of the limits: ibv_modify_qp(3), ibv_query_device(3), ibv_query_port(3).
#include "src/verbs/queue_pair_values.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "src/verbs/address_diagnosis.hpp"
#include "verbena/verbs/detail/call.hpp"

namespace verbena::inline VERBENA_ABI::detail {
namespace {

constexpr std::uint32_t first_usable_number = 2;  // 0 and 1 are for management datagrams

std::string explain_depths(const ibv_device_attr& limits, const queue_pair_attributes& changes) {
  const auto beyond = [](const char* name, std::optional<std::uint8_t> asked, int limit) {
    if (!asked || *asked <= limit) return std::string();
    return fmt::format("{} {} exceeds the device's maximum of {}", name, *asked, limit);
  };
  std::string text =
      beyond("MAX_QP_RD_ATOMIC", changes.initiator_depth(), limits.max_qp_init_rd_atom);
  if (text.empty())
    text = beyond("MAX_DEST_RD_ATOMIC", changes.responder_resources(), limits.max_qp_rd_atom);
  return text;
}

std::string explain_port_values(const ibv_port_attr& port, const queue_pair_attributes& changes) {
  if (const auto largest = changes.path_mtu();
      largest && byte_count(*largest) > byte_count(static_cast<mtu>(port.active_mtu)))
    return fmt::format("the path MTU {} exceeds the port's active MTU {}", to_string(*largest),
                       to_string(static_cast<mtu>(port.active_mtu)));
  if (const auto index = changes.pkey_index(); index && *index >= port.pkey_tbl_len)
    return fmt::format("P_Key index {} is outside the port's table of length {}", *index,
                       port.pkey_tbl_len);
  return {};
}

}  // namespace

std::string explain_values(queried_device device, const queue_pair_attributes& changes) {
  const auto to = changes.address();
  const auto named = to ? std::optional(to->port) : changes.port();
  const auto number = changes.destination();
  if (number && number->value() < first_usable_number)
    return fmt::format(
        "the peer's queue pair number {} is not valid for a connection; check that the peer's "
        "endpoint has all values",
        number->value());
  if (named) {
    ibv_port_attr port{};
    if (call(device.from->verbs.query_port, device.context, named->value(), &port).failed)
      return fmt::format("port {} does not exist", named->value());
    std::string text = explain_port_values(port, changes);
    if (text.empty() && to) text = explain_address(device, *to);
    if (!text.empty()) return text;
  }
  ibv_device_attr limits{};
  if (call(device.from->verbs.query_device, device.context, &limits).failed) return {};
  return explain_depths(limits, changes);
}

}  // namespace verbena::inline VERBENA_ABI::detail
