// SPDX-License-Identifier: MIT
#include "softdev/core/responder_checks.hpp"

namespace verbena::softdev {
failure check_connection(const responder_view& self, const message& what) noexcept {
  failure found{.why = connection_refusal(self, what)};
  const auto differ = [&](std::uint32_t first, std::uint32_t second) {
    found.detail = first;
    found.extra = second;
  };
  switch (found.why) {
    case reason::peer_port_down:
      found.detail = self.number;
      break;
    case reason::lid_mismatch:
      differ(what.destination_lid, self.lid);
      break;
    case reason::peer_not_ready:
      differ(self.number, static_cast<std::uint32_t>(self.state));
      break;
    case reason::transport_mismatch:
      differ(static_cast<std::uint32_t>(what.transport),
             static_cast<std::uint32_t>(self.transport));
      break;
    case reason::partition_mismatch:
      differ(what.pkey, self.pkey);
      break;
    case reason::qkey_mismatch:
      differ(what.qkey, self.qkey);
      break;
    case reason::peer_not_connected:
      differ(self.destination_qpn, what.source_qpn);
      break;
    case reason::psn_mismatch:
      differ(what.psn, self.expected_psn);
      break;
    default:
      break;
  }
  return found;
}

response check_permission(const responder_view& self, const message& what) noexcept {
  const reason why = permission_refusal(self, what);
  if (why == reason::none) return {};
  response refused{.outcome = verdict::invalid_request, .why = {.why = why}};
  switch (why) {
    case reason::qp_access_denied:
      refused.why.key = self.number;
      refused.why.detail = self.access.mask();
      refused.why.extra = access_needed(what.opcode).mask();
      break;
    case reason::no_responder_resources:
      refused.why.detail = self.number;
      break;
    default:
      refused.why.address = what.remote_address;
      break;
  }
  return refused;
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
