// SPDX-License-Identifier: MIT
// Three note words extend the record of the segment. The low half of the first one is the packet
// sequence number that the queue pair expects first and its transport; the high half is
// max_dest_rd_atomic, or the Q_Key if that is not negotiated. The second one is P_Key, LID and
// state of the port, and whether the queue pair waits for its first request. The third one is the
// generation of references.
#include "softdev/fabric/published_views.hpp"

#include "softdev/core/transport/rules.hpp"

namespace verbena::softdev {
namespace {

constexpr unsigned transport_at = 24;  // above the packet sequence number
static_assert(psn_mask >> transport_at == 0);
constexpr unsigned port_is_up_at = 32;  // above LID and P_Key
constexpr unsigned awaits_first_at = 33;

}  // namespace

void publish_queue_pair(public_segment& own, queue_pair& which, const port_state& port) noexcept {
  const queue_pair_attributes& attributes = which.attributes();
  const std::uint64_t more = rules_of(which.transport()).negotiates_reads
                                 ? attributes.max_dest_rd_atomic
                                 : attributes.qkey;
  auto& notes = own.line(which.number()).notes;
  notes[0].store(more << 32U |
                 std::uint64_t{static_cast<std::uint8_t>(which.transport())} << transport_at |
                 attributes.receive_psn);
  const bool awaits = which.receiver().awaits_first_request();
  notes[1].store(std::uint64_t{awaits} << awaits_first_at |
                 std::uint64_t{port.up(attributes.port)} << port_is_up_at |
                 std::uint64_t{port.lid()} << 16U | port.pkey(attributes.pkey_index));
  const auto state_of = [](const void* of) noexcept {
    return static_cast<std::uint32_t>(static_cast<const queue_pair*>(of)->state());
  };
  own.publish_queue_pair({.qpn = which.number(),
                          .pd = static_cast<std::uint32_t>(which.domain()),
                          .access = attributes.rights.mask(),
                          .peer_qpn = attributes.destination_qpn},
                         {&which, state_of});
}

bool read_queue_pair(const peer_segment& at, const queue_pair& sender, const message& next,
                     responder_view& out) noexcept {
  queue_pair_record record;
  if (at.find_queue_pair(next.destination_qpn, record) != lookup::found) return false;
  const auto& notes = at.line(next.destination_qpn).notes;
  const std::uint64_t first = notes[0].load();
  const std::uint64_t port = notes[1].load();
  const auto more = static_cast<std::uint32_t>(first >> 32U);
  const auto kind = static_cast<transport>(first >> transport_at & 0xffU);
  const bool agreed = (first & psn_mask) == sender.attributes().send_psn;
  out.number = next.destination_qpn;
  out.domain = static_cast<domain_id>(record.pd);
  out.state = static_cast<queue_pair_state>(record.state);
  out.transport = kind;
  out.port_is_up = (port >> port_is_up_at & 1U) != 0;
  out.lid = static_cast<std::uint16_t>(port >> 16U);
  out.pkey = static_cast<std::uint16_t>(port);
  out.qkey = more;
  out.destination_qpn = record.peer_qpn;
  out.expected_psn = agreed ? next.psn : (next.psn + 1) & psn_mask;
  out.access = access_flags::from_mask(record.access);
  out.has_read_resources = !rules_of(kind).negotiates_reads || more != 0;
  return true;
}

bool awaits_first_request(const peer_segment& at, const responder_view& responder) noexcept {
  return responder.state == queue_pair_state::rtr && rules_of(responder.transport).connected &&
         (at.line(responder.number).notes[1].load() >> awaits_first_at & 1U) != 0;
}

void publish_generation(public_segment& own, const queue_pair& which,
                        std::uint64_t generation) noexcept {
  own.line(which.number()).notes[2].store(generation, std::memory_order_seq_cst);
}

std::uint64_t generation_of(const peer_segment& at, std::uint32_t qpn) noexcept {
  return at.line(qpn).notes[2].load(std::memory_order_seq_cst);
}

region_view view_of(const region_record& region) noexcept {
  return {.domain = static_cast<domain_id>(region.pd),
          .iova = region.iova,
          .length = region.length,
          .rights = access_flags::from_mask(region.access)};
}

}  // namespace verbena::softdev
