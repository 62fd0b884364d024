// SPDX-License-Identifier: MIT
#include "softdev/cm/frame.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <type_traits>

namespace verbena::softdev::cm {
namespace {

constexpr std::uint32_t frame_magic = 0x314d4356;  // "VCM1"
constexpr std::uint16_t frame_version = 2;
constexpr std::uint32_t max_24_bits = 0xff'ffff;

struct wire_address {
  std::uint8_t bytes[16];
  std::uint32_t scope;
  std::uint16_t port;
  std::uint8_t family;
  std::uint8_t reserved;
};

/// The first three members keep their place in all versions.
struct wire_frame {
  std::uint32_t magic;
  std::uint16_t version;
  std::uint16_t kind;
  std::uint16_t space;
  std::uint16_t lid;
  std::uint32_t reason;
  wire_address source;
  wire_address destination;
  std::uint32_t queue_pair;
  std::uint32_t starting_psn;
  std::uint32_t queue_key;
  std::uint8_t gid[16];
  std::uint32_t communication_id;
  std::uint64_t transaction;
  std::uint32_t vendor;
  std::uint32_t options;
  std::uint8_t responder_resources;
  std::uint8_t initiator_depth;
  std::uint8_t flow_control;
  std::uint8_t retry_count;
  std::uint8_t rnr_retry_count;
  std::uint8_t shared_receives;
  std::uint8_t data_length;
  std::uint8_t path_mtu;
  std::uint8_t data[private_data::capacity];
  std::uint32_t reserved;
};
static_assert(sizeof(wire_frame) == 320 && std::is_trivially_copyable_v<wire_frame>);

void encode(const address& from, wire_address& to) noexcept {
  std::ranges::copy(from.bytes, to.bytes);
  to.scope = from.scope;
  to.port = from.port;
  to.family = static_cast<std::uint8_t>(from.family);
}

bool decode(const wire_address& from, address& to) noexcept {
  if (from.family > static_cast<std::uint8_t>(address_family::ipv6) || from.reserved != 0)
    return false;
  std::ranges::copy(from.bytes, to.bytes.begin());
  to.scope = from.scope;
  to.port = from.port;
  to.family = static_cast<address_family>(from.family);
  return true;
}

bool is_sound(const wire_frame& wire) noexcept {
  const bool known = wire.kind >= static_cast<std::uint16_t>(frame_kind::request) &&
                     wire.kind <= static_cast<std::uint16_t>(frame_kind::remote_rejection);
  return known && is_port_space(wire.space) && wire.reserved == 0 &&
         wire.queue_pair <= max_24_bits && wire.starting_psn <= max_24_bits &&
         wire.retry_count <= 7 && wire.rnr_retry_count <= 7 && wire.shared_receives <= 1 &&
         wire.path_mtu <= largest_path_mtu &&
         wire.data_length <= private_limit(static_cast<frame_kind>(wire.kind));
}

bool decode(const wire_frame& wire, frame& out) noexcept {
  if (!is_sound(wire) || !decode(wire.source, out.source) ||
      !decode(wire.destination, out.destination))
    return false;
  out.kind = static_cast<frame_kind>(wire.kind);
  out.space = static_cast<port_space>(wire.space);
  out.reason = wire.reason;
  out.from = {.queue_pair = wire.queue_pair,
              .starting_psn = wire.starting_psn,
              .queue_key = wire.queue_key,
              .lid = wire.lid,
              .responder_resources = wire.responder_resources,
              .initiator_depth = wire.initiator_depth,
              .flow_control = wire.flow_control,
              .retry_count = wire.retry_count,
              .rnr_retry_count = wire.rnr_retry_count,
              .shared_receives = wire.shared_receives,
              .path_mtu = wire.path_mtu,
              .vendor = wire.vendor,
              .options = wire.options};
  std::ranges::copy(wire.gid, out.from.gid.begin());
  out.communication_id = wire.communication_id;
  out.transaction = wire.transaction;
  out.data.length = wire.data_length;
  out.data.bytes = {};
  std::copy_n(wire.data, wire.data_length, out.data.bytes.begin());
  return true;
}

}  // namespace

bool is_port_space(std::uint64_t number) noexcept {
  return number == static_cast<std::uint16_t>(port_space::ipoib) ||
         number == static_cast<std::uint16_t>(port_space::tcp) ||
         number == static_cast<std::uint16_t>(port_space::udp) ||
         number == static_cast<std::uint16_t>(port_space::ib);
}

std::uint8_t private_limit(frame_kind kind) noexcept {
  switch (kind) {
    case frame_kind::request:
    case frame_kind::remote_request:
      return private_limits::request;
    case frame_kind::reply:
      return private_limits::reply;
    case frame_kind::rejection:
    case frame_kind::remote_rejection:
      return private_limits::rejection;
    case frame_kind::sidr_request:
    case frame_kind::remote_sidr_request:
      return private_limits::sidr_request;
    case frame_kind::sidr_reply:
      return private_limits::sidr_reply;
    case frame_kind::ready:
    case frame_kind::disconnect:
    case frame_kind::disconnected:
      return 0;
  }
  return 0;
}

send_outcome send_frame(int socket, const frame& what) noexcept {
  wire_frame wire{};
  wire.magic = frame_magic;
  wire.version = frame_version;
  wire.kind = static_cast<std::uint16_t>(what.kind);
  wire.space = static_cast<std::uint16_t>(what.space);
  wire.lid = what.from.lid;
  wire.reason = what.reason;
  encode(what.source, wire.source);
  encode(what.destination, wire.destination);
  wire.queue_pair = what.from.queue_pair;
  wire.starting_psn = what.from.starting_psn;
  wire.queue_key = what.from.queue_key;
  std::ranges::copy(what.from.gid, wire.gid);
  wire.communication_id = what.communication_id;
  wire.transaction = what.transaction;
  wire.path_mtu = what.from.path_mtu;
  wire.vendor = what.from.vendor;
  wire.options = what.from.options;
  wire.responder_resources = what.from.responder_resources;
  wire.initiator_depth = what.from.initiator_depth;
  wire.flow_control = what.from.flow_control;
  wire.retry_count = what.from.retry_count;
  wire.rnr_retry_count = what.from.rnr_retry_count;
  wire.shared_receives = what.from.shared_receives;
  wire.data_length = what.data.length;
  std::copy_n(what.data.bytes.begin(), what.data.length, wire.data);
  ssize_t sent = -1;
  do {
    sent = ::send(socket, &wire, sizeof wire, MSG_DONTWAIT | MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent == static_cast<ssize_t>(sizeof wire) ? send_outcome::sent : send_outcome::lost;
}

void send_rejection(int socket, const frame& request, std::uint32_t reason) noexcept {
  frame answer;
  answer.space = request.space;
  answer.source = request.destination;
  answer.destination = request.source;
  const bool is_sidr = request.kind == frame_kind::sidr_request;
  answer.kind = is_sidr ? frame_kind::sidr_reply : frame_kind::rejection;
  answer.reason = reason;
  if (is_sidr)
    answer.reason =
        reason == reject_reason::no_listener ? sidr_status::no_listener : sidr_status::rejected;
  static_cast<void>(send_frame(socket, answer));
}

receive_outcome receive_frame(int socket, frame& out) noexcept {
  wire_frame wire{};
  iovec room{&wire, sizeof wire};
  msghdr header{};  // no control data: received descriptors are closed
  header.msg_iov = &room;
  header.msg_iovlen = 1;
  ssize_t length = ::recvmsg(socket, &header, MSG_DONTWAIT);
  // If a peer closes its socket with unread data, one call fails with ECONNRESET. The frames that
  // the peer sent before can still be received.
  for (int turn = 0; turn < 3 && length < 0 && (errno == EINTR || errno == ECONNRESET); ++turn)
    length = ::recvmsg(socket, &header, MSG_DONTWAIT);
  if (length < 0) return errno == EAGAIN ? receive_outcome::nothing : receive_outcome::ended;
  if (length == 0) return receive_outcome::ended;
  constexpr auto head = static_cast<ssize_t>(offsetof(wire_frame, kind));
  if (length < head || wire.magic != frame_magic) return receive_outcome::malformed;
  if (wire.version != frame_version) return receive_outcome::other_version;
  const bool whole = length == static_cast<ssize_t>(sizeof wire) &&
                     (header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0;
  return whole && decode(wire, out) ? receive_outcome::received : receive_outcome::malformed;
}

}  // namespace verbena::softdev::cm
