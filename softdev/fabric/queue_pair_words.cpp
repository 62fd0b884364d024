// SPDX-License-Identifier: MIT
// Two note words extend the record of the segment. The low half of the first one is the packet
// sequence number that the queue pair expects first (RC), or one of the values below; the high half
// is max_dest_rd_atomic, or the Q_Key (SRD). The second one is P_Key, LID and state of the port.
#include "softdev/fabric/queue_pair_words.hpp"

namespace verbena::softdev {
namespace {

constexpr std::uint32_t is_srd = 1U << 30U;
constexpr std::uint32_t is_ud = 1U << 31U;
constexpr std::uint32_t is_uc = ~std::uint32_t{0};
static_assert(is_srd > psn_mask);

std::uint32_t sequence_word(transport kind, std::uint32_t first_psn) noexcept {
  switch (kind) {
    case transport::rc:
      return first_psn;
    case transport::uc:
      return is_uc;
    case transport::ud:
      return is_ud;
    case transport::srd:
      return is_srd;
  }
  return is_ud;
}

transport transport_of(std::uint32_t sequence) noexcept {
  if (sequence == is_uc) return transport::uc;
  if (sequence == is_srd) return transport::srd;
  return sequence <= psn_mask ? transport::rc : transport::ud;
}

}  // namespace

void publish_words(public_segment& own, const queue_pair& which, const port_state& port) noexcept {
  const queue_pair_attributes& attributes = which.attributes();
  const std::uint64_t more =
      which.transport() == transport::srd ? attributes.qkey : attributes.max_dest_rd_atomic;
  auto& notes = own.line(which.number()).notes;
  notes[0].store(more << 32U | sequence_word(which.transport(), attributes.receive_psn));
  notes[1].store(std::uint64_t{port.up()} << 32U | std::uint64_t{port.lid()} << 16U |
                 port.partition(attributes.pkey_index));
  own.publish_queue_pair({.qpn = which.number(),
                          .state = static_cast<std::uint32_t>(which.state()),
                          .pd = static_cast<std::uint32_t>(which.domain()),
                          .access = attributes.rights.mask(),
                          .peer_qpn = attributes.destination_qpn});
}

std::optional<published_queue_pair> read_words(const peer_segment& at, const queue_pair& sender,
                                               const message& next) noexcept {
  queue_pair_record record;
  if (at.find_queue_pair(next.destination_qpn, record) != lookup::found) return std::nullopt;
  const auto& notes = at.line(next.destination_qpn).notes;
  const std::uint64_t first = notes[0].load();
  const std::uint64_t port = notes[1].load();
  const auto sequence = static_cast<std::uint32_t>(first);
  const auto more = static_cast<std::uint32_t>(first >> 32U);
  const transport kind = transport_of(sequence);
  const bool agreed = sequence == sender.attributes().send_psn;
  return published_queue_pair{
      .view = {.number = next.destination_qpn,
               .state = static_cast<queue_pair_state>(record.state),
               .transport = kind,
               .port_is_up = (port >> 32U & 1U) != 0,
               .lid = static_cast<std::uint16_t>(port >> 16U),
               .partition = static_cast<std::uint16_t>(port),
               .qkey = more,
               .destination_qpn = record.peer_qpn,
               .expected_psn = agreed ? next.psn : (next.psn + 1) & psn_mask,
               .access = access_flags::from_mask(record.access),
               .has_read_resources = kind == transport::srd || more != 0},
      .domain = static_cast<domain_id>(record.pd)};
}

}  // namespace verbena::softdev
