// SPDX-License-Identifier: MIT
#include "softdev/wire/engine/datagrams.hpp"

#include <array>

#include "softdev/core/datagram.hpp"
#include "softdev/core/queue_pair.hpp"
#include "softdev/wire/engine/message_packets.hpp"
#include "verbena/base/bytes.hpp"

namespace verbena::softdev::wire {

response put_datagram(const message& what, std::span<const segment> local,
                      packet_output& out) noexcept {
  const std::uint32_t bytes = what.length - grh_bytes;
  payload_reader payload(local.subspan(1));
  packet made;
  made.opcode = make_opcode(packet_transport::ud, request_operation(what.opcode));
  made.solicited = what.solicited;
  made.pkey = what.pkey;
  made.destination_qpn = what.destination_qpn;
  made.psn = what.psn;
  made.datagram = {what.qkey, what.source_qpn};
  made.immediate = network_order(what.immediate);  // the core keeps it in network order
  made.payload = payload.view(bytes);
  const datagram_route by =
      route_of(std::span<const std::byte, grh_bytes>(local.front().data, grh_bytes));
  if (made.payload.size() != bytes || !out.put_datagram(by, made))
    return local_fault(payload.piece());
  return {};
}

void take_datagram(queue_pair& to, const packet& what, const network_header& from) noexcept {
  datagram_address way({.source = from.source,
                        .destination = from.destination,
                        .flow_label = from.flow_label,
                        .traffic_class = from.traffic_class,
                        .hop_limit = from.hop_limit},
                       {});
  way.set_service_level(way.packet_type());
  const packet_role role = role_of(what.opcode);
  message made;
  made.opcode = role.immediate ? with_immediate(role.what) : role.what;
  made.solicited = what.solicited;
  made.pkey = what.pkey;
  made.transport = transport::ud;
  made.source_qpn = what.datagram.source_qpn;
  made.destination_qpn = what.destination_qpn;
  made.psn = what.psn;
  made.immediate = network_order(what.immediate);
  made.length = grh_bytes + static_cast<std::uint32_t>(what.payload.size());
  made.qkey = what.datagram.qkey;
  made.origin = way.origin();
  responder& receiver = to.receiver();
  if (receiver.begin(made).outcome != verdict::done) return;
  std::array<std::byte, grh_bytes> header;
  way.write(header, static_cast<std::uint32_t>(what.payload.size()), role.immediate);
  for (const std::span<const std::byte> part : {std::span<const std::byte>(header), what.payload})
    if (receiver.place(part).outcome != verdict::done) return;
  static_cast<void>(receiver.finish());
}

}  // namespace verbena::softdev::wire
