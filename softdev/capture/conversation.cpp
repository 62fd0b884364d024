// SPDX-License-Identifier: MIT
#include "softdev/capture/conversation.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "softdev/core/datagram.hpp"
#include "softdev/core/transport/rules.hpp"
#include "softdev/wire/engine/message_packets.hpp"
#include "verbena/base/bytes.hpp"

namespace verbena::softdev::capture {
namespace {

using wire::operation;
using wire::packet;
using wire::packet_transport;

constexpr std::size_t atomic_bytes = 8;

packet_transport transport_of(transport kind) noexcept {
  if (kind == transport::ud) return packet_transport::ud;
  return kind == transport::uc ? packet_transport::uc : packet_transport::rc;
}

/// Returns a UDP source port for this direction of a queue pair, derived from the queue pair
/// numbers as in adapters.
std::uint16_t port_of(std::uint32_t from, std::uint32_t to) noexcept {
  const std::uint32_t mixed = from * 0x9e37'79b1U ^ to;
  return static_cast<std::uint16_t>(0xc000U | ((mixed ^ mixed >> 14U) & 0x3fffU));
}

/// Reads the addresses in the route header of a datagram. Without a header, does not change
/// `route`.
void read_route(const message& what, std::span<const segment> local, conversation_route& route) {
  if (!what.origin.has_grh || local.empty() || local.front().bytes < grh_bytes) return;
  const datagram_route read =
      route_of(std::span<const std::byte, grh_bytes>(local.front().data, grh_bytes));
  route.source = read.source;
  route.destination = read.destination;
  route.traffic_class = read.traffic_class;
  route.hop_limit = read.hop_limit;
  route.flow_label = read.flow_label;
}

}  // namespace

wire::network_header conversation::towards_peer(const message& what) const noexcept {
  return {.source = route_.source,
          .destination = route_.destination,
          .traffic_class = route_.traffic_class,
          .hop_limit = route_.hop_limit,
          .flow_label = route_.flow_label,
          .source_port = port_of(what.source_qpn, what.destination_qpn)};
}

wire::network_header conversation::from_peer(const message& what) const noexcept {
  wire::network_header back = towards_peer(what);
  std::swap(back.source, back.destination);
  back.source_port = port_of(what.destination_qpn, what.source_qpn);
  return back;
}

conversation::requests::iterator conversation::find(std::uint32_t request_psn) noexcept {
  if (unanswered_.empty()) return unanswered_.end();
  const std::uint32_t index = (request_psn - unanswered_.front().what.psn) & psn_mask;
  return index < unanswered_.size() ? unanswered_.begin() + index : unanswered_.end();
}

/// Puts the packets of a request. Returns false if the payload is not accessible. The path then
/// also refuses the request.
bool conversation::put_request(const request& which, std::span<const segment> local,
                               packet_output& out) const {
  const message& what = which.what;
  const packet_transport transport = transport_of(what.transport);
  packet made{.pkey = what.pkey, .destination_qpn = what.destination_qpn};
  made.datagram = {what.qkey, what.source_qpn};
  made.remote = {what.remote_address, what.remote_key, what.length};
  made.immediate = network_order(what.immediate);  // the device keeps it in network order
  const wire::network_header around = towards_peer(what);
  if (is_read_or_atomic(what.opcode)) {
    made.atomic = wire::operands_of(what);
    made.opcode = wire::make_opcode(transport, wire::request_operation(what.opcode));
    made.psn = which.first_psn;
    made.ack_requested = true;
    out.put(around, made);
    return true;
  }
  const bool routed = rules_of(what.transport).routed;
  const std::uint32_t length = what.length - (routed ? grh_bytes : 0);
  wire::payload_reader payload(routed ? local.subspan(1) : local);
  for (std::uint32_t i = 0; i < which.packets; ++i) {
    const bool last = i + 1 == which.packets;
    const std::uint32_t bytes = last ? length - i * mtu_ : mtu_;
    made.opcode =
        wire::make_opcode(transport, wire::request_operation(what.opcode, i, which.packets));
    made.psn = (which.first_psn + i) & psn_mask;
    made.solicited = last && what.solicited;
    made.ack_requested = last && rules_of(what.transport).acknowledged;
    made.payload = payload.take(bytes);
    if (made.payload.size() != bytes) return false;
    out.put(around, made);
  }
  return true;
}

void conversation::sending(const message& what, std::span<const segment> local,
                           packet_output& out) {
  const transport_rules& rules = rules_of(what.transport);
  if (!rules.acknowledged) {
    if (std::exchange(put_psn_, what.psn) == what.psn) return;
    if (rules.routed) read_route(what, local, route_);
    request made{.what = what, .first_psn = next_psn_};
    if (!rules.routed) made.packets = wire::packets_of(what.length, mtu_);
    static_cast<void>(put_request(made, local, out));
    next_psn_ = (next_psn_ + made.packets) & psn_mask;
    return;
  }
  auto known = find(what.psn);
  if (known == unanswered_.end()) {
    const std::uint32_t packets = wire::packets_of(what, mtu_);
    messages_ = (messages_ + 1) & psn_mask;
    unanswered_.push_back(
        {.what = what, .first_psn = next_psn_, .packets = packets, .msn = messages_});
    next_psn_ = (next_psn_ + packets) & psn_mask;
    known = std::prev(unanswered_.end());
  }
  if (std::exchange(known->put, true)) return;
  static_cast<void>(put_request(*known, local, out));
}

void conversation::sent(const message& what, std::span<const segment> local, const response& answer,
                        packet_output& out) {
  const bool goes_on = answer.outcome == verdict::blocked || answer.outcome == verdict::partial;
  if (!rules_of(what.transport).acknowledged) {
    if (!goes_on) put_psn_.reset();
    return;
  }
  const auto known = find(what.psn);
  if (known == unanswered_.end() || goes_on || answer.outcome == verdict::pending) return;
  respond(known, local, answer, out);
}

void conversation::answered(std::uint32_t request_psn, std::span<const segment> sinks,
                            const response& answer, packet_output& out) {
  if (const auto known = find(request_psn); known != unanswered_.end())
    respond(known, sinks, answer, out);
}

void conversation::respond(const requests::iterator& to, std::span<const segment> sinks,
                           const response& answer, packet_output& out) {
  const request which = *to;
  // A request that will be retransmitted keeps its PSNs, and so do the requests after it.
  // An unread request is submitted again in another form, which is invisible on a wire.
  if (answer.outcome == verdict::unread) return;
  const bool again =
      answer.outcome == verdict::receiver_not_ready || answer.outcome == verdict::no_answer;
  if (again)
    std::for_each(to, unanswered_.end(), [](request& each) { each.put = false; });
  else
    unanswered_.erase(unanswered_.begin(), std::next(to));
  const std::uint8_t syndrome = wire::syndrome_of(answer);
  if (syndrome == 0) return;
  const bool done = answer.outcome == verdict::done;
  if (done && which.what.opcode == opcode::rdma_read) return put_read_data(which, sinks, out);
  packet made;
  made.answer = {syndrome, done ? which.msn : (which.msn - 1) & psn_mask};
  made.psn = done ? (which.first_psn + which.packets - 1) & psn_mask : which.first_psn;
  operation name = operation::acknowledge;
  if (done && is_atomic(which.what.opcode)) {
    name = operation::atomic_acknowledge;
    made.original = answer.original;
    // If the path executed the atomic operation itself, it has stored the original value in the
    // sink.
    if (answer.direct) {
      wire::payload_reader stored(sinks);
      if (const auto value = stored.take(atomic_bytes); value.size() == atomic_bytes)
        std::memcpy(&made.original, value.data(), atomic_bytes);
    }
  }
  made.opcode = wire::make_opcode(packet_transport::rc, name);
  put_answer(which, made, out);
}

void conversation::put_answer(const request& which, packet answer, packet_output& out) const {
  answer.pkey = which.what.pkey;
  answer.destination_qpn = which.what.source_qpn;
  out.put(from_peer(which.what), answer);
}

void conversation::put_read_data(const request& which, std::span<const segment> sinks,
                                 packet_output& out) const {
  wire::payload_reader data(sinks);
  packet made;
  made.answer = {wire::syndrome_ack, which.msn};
  for (std::uint32_t i = 0; i < which.packets; ++i) {
    const std::uint32_t bytes = i + 1 == which.packets ? which.what.length - i * mtu_ : mtu_;
    made.opcode =
        wire::make_opcode(packet_transport::rc, wire::read_response_operation(i, which.packets));
    made.psn = (which.first_psn + i) & psn_mask;
    made.payload = data.take(bytes);
    if (made.payload.size() != bytes) return;
    put_answer(which, made, out);
  }
}

}  // namespace verbena::softdev::capture
