// SPDX-License-Identifier: MIT
// The checks of a responder in their order: port, queue pair, sequence, permitted operations,
// memory region. Pure functions, used by the responder itself and by a requester that executes its
// request in the responder's memory.
#pragma once

#include <cstdint>

#include "softdev/core/message.hpp"
#include "softdev/core/region_check.hpp"
#include "softdev/core/transport/rules.hpp"
#include "softdev/core/types.hpp"

namespace verbena::softdev {

/// The attributes of a queue pair on which the checks depend. Threads: immutable value.
struct responder_view {
  std::uint32_t number = 0;
  domain_id domain{};
  queue_pair_state state = queue_pair_state::reset;
  softdev::transport transport = softdev::transport::rc;
  bool port_is_up = false;
  std::uint16_t lid = 0;
  std::uint16_t pkey = 0;
  std::uint32_t qkey = 0;             ///< of UD and SRD
  std::uint32_t destination_qpn = 0;  ///< of RC and UC
  std::uint32_t expected_psn = 0;     ///< of RC
  access_flags access;
  bool has_read_resources = false;  ///< max_dest_rd_atomic is not 0
};

/// Returns whether a queue pair in this state receives.
[[nodiscard]] constexpr bool receives(queue_pair_state state) noexcept {
  return state == queue_pair_state::rtr || state == queue_pair_state::rts ||
         state == queue_pair_state::sqd || state == queue_pair_state::sqe;
}

/// Returns the access flags that a request needs of the queue pair and of the memory region.
[[nodiscard]] constexpr access_flags access_needed(opcode op) noexcept {
  if (is_write(op)) return access::remote_write;
  if (op == opcode::rdma_read) return access::remote_read;
  if (is_atomic(op)) return access::remote_atomic;
  return {};
}

/// Returns the first check of check_connection() that fails, or reason::none. `Request` is
/// `message`, or has those of its members that are checked.
template <class Request>
[[nodiscard]] constexpr reason connection_refusal(const responder_view& self,
                                                  const Request& what) noexcept {
  if (!self.port_is_up) return reason::peer_port_down;
  if (what.destination_lid != self.lid) return reason::lid_mismatch;
  if (!receives(self.state)) return reason::peer_not_ready;
  if (what.transport != self.transport) return reason::transport_mismatch;
  if (!same_partition(what.pkey, self.pkey)) return reason::partition_mismatch;
  const transport_rules& rules = rules_of(self.transport);
  if (!rules.connected) return what.qkey == self.qkey ? reason::none : reason::qkey_mismatch;
  if (self.destination_qpn != what.source_qpn) return reason::peer_not_connected;
  if (rules.sequenced && what.psn != self.expected_psn) return reason::psn_mismatch;
  return reason::none;
}
/// Checks that the request is for this queue pair, and is the next one. Returns the failed check,
/// for which the responder sends no answer, or reason::none.
[[nodiscard]] failure check_connection(const responder_view& self, const message& what) noexcept;

/// Returns the first check of check_permission() that fails, or reason::none.
[[nodiscard]] constexpr reason permission_refusal(const responder_view& self,
                                                  const message& what) noexcept {
  if (!self.access.contains(access_needed(what.opcode))) return reason::qp_access_denied;
  if (is_read_or_atomic(what.opcode) && !self.has_read_resources)
    return reason::no_responder_resources;
  if (is_atomic(what.opcode) && what.remote_address % 8 != 0) return reason::atomic_misaligned;
  return reason::none;
}

/// Checks that the queue pair permits the operation. Returns `done`, or the answer with the failed
/// check. Precondition: check_connection() returned reason::none.
[[nodiscard]] response check_permission(const responder_view& self, const message& what) noexcept;

/// Returns the access of a request to the memory region of its key.
[[nodiscard]] constexpr region_access access_of(const responder_view& self,
                                                const message& what) noexcept {
  return {.key = what.remote_key,
          .address = what.remote_address,
          .length = what.length,
          .needed = access_needed(what.opcode),
          .domain = self.domain};
}

/// Returns whether the request accesses a memory region. The key of an access to zero bytes is
/// ignored.
[[nodiscard]] constexpr bool accesses_region(const message& what) noexcept {
  return what.length != 0 && !access_needed(what.opcode).empty();
}

/// Returns whether admit() permits a request whose connection was checked before.
[[nodiscard]] constexpr bool permits_request(const responder_view& self, const region_view& region,
                                             const message& what) noexcept {
  return permission_refusal(self, what) == reason::none &&
         (!accesses_region(what) || is_permitted(region, access_of(self, what)));
}

/// Makes all checks of a request that takes no receive request. `region` is the region of its key,
/// or nullptr. Returns `done`, `no_answer` or the answer, with the failed check. For other
/// requests, the responder takes a receive request before its table checks the region.
[[nodiscard]] response admit(const responder_view& self, const region_view* region,
                             const message& what) noexcept;

}  // namespace verbena::softdev
