// SPDX-License-Identifier: MIT
#include "softdev/core/responder_checks.hpp"

#include "softdev/core/transport/rules.hpp"

namespace verbena::softdev {
namespace {

bool receives(queue_pair_state state) noexcept {
  return state == queue_pair_state::rtr || state == queue_pair_state::rts ||
         state == queue_pair_state::sqd || state == queue_pair_state::sqe;
}

}  // namespace

failure check_connection(const responder_view& self, const message& what) noexcept {
  if (!self.port_is_up) return {.why = reason::peer_port_down, .detail = self.number};
  if (what.destination_lid != self.lid)
    return {.why = reason::lid_mismatch, .detail = what.destination_lid, .extra = self.lid};
  if (!receives(self.state))
    return {.why = reason::peer_not_ready,
            .detail = self.number,
            .extra = static_cast<std::uint32_t>(self.state)};
  if (what.transport != self.transport)
    return {.why = reason::transport_mismatch,
            .detail = static_cast<std::uint32_t>(what.transport),
            .extra = static_cast<std::uint32_t>(self.transport)};
  if (!same_partition(what.partition, self.partition))
    return {.why = reason::partition_mismatch, .detail = what.partition, .extra = self.partition};
  const transport_rules& rules = rules_of(self.transport);
  if (!rules.connected) {
    if (what.qkey == self.qkey) return {};
    return {.why = reason::qkey_mismatch, .detail = what.qkey, .extra = self.qkey};
  }
  if (self.destination_qpn != what.source_qpn)
    return {.why = reason::peer_not_connected,
            .detail = self.destination_qpn,
            .extra = what.source_qpn};
  if (rules.sequenced && what.psn != self.expected_psn)
    return {.why = reason::psn_mismatch, .detail = what.psn, .extra = self.expected_psn};
  return {};
}

response check_permission(const responder_view& self, const message& what) noexcept {
  const access_flags needed = access_needed(what.opcode);
  if (!self.access.contains(needed))
    return {.outcome = verdict::invalid_request,
            .why = {.why = reason::qp_access_denied,
                    .key = self.number,
                    .detail = self.access.mask(),
                    .extra = needed.mask()}};
  if (is_read_or_atomic(what.opcode) && !self.has_read_resources)
    return {.outcome = verdict::invalid_request,
            .why = {.why = reason::no_responder_resources, .detail = self.number}};
  if (is_atomic(what.opcode) && what.remote_address % 8 != 0)
    return {.outcome = verdict::invalid_request,
            .why = {.why = reason::atomic_misaligned, .address = what.remote_address}};
  return {};
}

response admit(const responder_view& self, const region_view* region,
               const message& what) noexcept {
  const failure foreign = check_connection(self, what);
  if (foreign.why != reason::none) return {.outcome = verdict::no_answer, .why = foreign};
  response answer = check_permission(self, what);
  if (answer.outcome != verdict::done || !accesses_region(what)) return answer;
  const failure why = check_region(region, access_of(self, what), access_side::remote);
  if (why.why != reason::none) answer = {.outcome = verdict::access_error, .why = why};
  return answer;
}

}  // namespace verbena::softdev
