// SPDX-License-Identifier: MIT
#include "softdev/cm/mad.hpp"

#include <algorithm>
#include <cstring>

#include "verbena/base/bytes.hpp"

namespace verbena::softdev::cm {
namespace {

// The header of a management datagram.
constexpr std::array<std::uint8_t, 4> class_header = {1, 7, 2, 3};  // versions, class, Send
constexpr std::size_t transaction_at = 8;
constexpr std::size_t kind_at = 16;
constexpr std::size_t header_bytes = 24;

// The other fields: offsets from the end of the header. The communication IDs are first.
constexpr std::size_t sender_at = 0;
constexpr std::size_t receiver_at = 4;
constexpr std::size_t subject_at = 8;
constexpr std::size_t working_time_at = 9;
constexpr std::size_t reason_at = 10;
constexpr std::size_t disconnect_pair_at = 8;
namespace request_at {
constexpr std::size_t service = 8;
constexpr std::size_t guid = 16;
constexpr std::size_t queue_key = 28;
constexpr std::size_t queue_pair = 32;
constexpr std::size_t responder_resources = 35;
constexpr std::size_t initiator_depth = 39;
constexpr std::size_t remote_timeout = 43;
constexpr std::size_t psn = 44;
constexpr std::size_t retries = 47;
constexpr std::size_t partition = 48;
constexpr std::size_t mtu = 50;
constexpr std::size_t manager_retries = 51;
constexpr std::size_t lids = 52;
constexpr std::size_t local_gid = 56;
constexpr std::size_t remote_gid = 72;
constexpr std::size_t rate = 91;
constexpr std::size_t hop_limit = 93;
constexpr std::size_t acknowledge_timeout = 95;
constexpr std::size_t data = 140;
}  // namespace request_at
namespace reply_at {
constexpr std::size_t queue_key = 8;
constexpr std::size_t queue_pair = 12;
constexpr std::size_t psn = 20;
constexpr std::size_t responder_resources = 24;
constexpr std::size_t initiator_depth = 25;
constexpr std::size_t flags = 26;
constexpr std::size_t retries = 27;
constexpr std::size_t guid = 28;
constexpr std::size_t data = 36;
}  // namespace reply_at
namespace sidr_at {
constexpr std::size_t partition = 4;
constexpr std::size_t service = 8;
constexpr std::size_t data = 16;
constexpr std::size_t status = 4;
constexpr std::size_t queue_pair = 8;
constexpr std::size_t reply_service = 12;
constexpr std::size_t queue_key = 20;
constexpr std::size_t reply_data = 96;
}  // namespace sidr_at
constexpr std::size_t rejection_info_length_at = 9;
constexpr std::size_t rejection_info_at = 12;
constexpr std::size_t rejection_data_at = 84;

// The header with the addresses of a request, in its private data (annex A11).
constexpr std::size_t ip_version_at = 1;
constexpr std::size_t ip_port_at = 2;
constexpr std::size_t ip_source_at = 4;
constexpr std::size_t ip_destination_at = 20;
constexpr std::size_t ip_header_bytes = 36;
constexpr std::size_t ip_bytes = 16;
constexpr std::size_t ipv4_offset = 12;

constexpr std::uint16_t default_partition = 0xffff;
constexpr std::uint16_t permissive_lid = 0xffff;
constexpr std::uint32_t mask_24_bits = 0xff'ffff;
constexpr std::uint8_t manager_time = 20;  // 4.3 s for an answer
constexpr std::uint8_t manager_tries = 15;
constexpr std::uint8_t packet_rate = 3;  // 10 Gb/s
constexpr std::uint8_t hops = 64;
constexpr std::uint8_t acknowledge_time = 16;  // 268 ms

template <class T>
T load(mad_view from, std::size_t at) noexcept {
  T value;
  std::memcpy(&value, from.data() + header_bytes + at, sizeof value);
  return network_order(value);
}
std::uint8_t load_byte(mad_view from, std::size_t at) noexcept {
  return std::to_integer<std::uint8_t>(from[header_bytes + at]);
}
std::uint32_t load_24(mad_view from, std::size_t at) noexcept {
  return load<std::uint32_t>(from, at) >> 8U;
}

mad_subject load_subject(mad_view from) noexcept {
  return static_cast<mad_subject>(std::min(load_byte(from, subject_at) >> 6U, 2));
}

/// Writes fields of a message whose other bytes are zero.
class writer {
 public:
  explicit writer(std::span<std::byte, mad_bytes> out) noexcept : out_(out) {
    std::ranges::fill(out_, std::byte{0});
  }
  template <class T>
  void put(std::size_t at, T value) noexcept {
    store_network_order(out_.data() + header_bytes + at, value);
  }
  void put_24(std::size_t at, std::uint32_t value) noexcept {
    put(at, static_cast<std::uint16_t>(value >> 8U));
    put(at + 2, static_cast<std::uint8_t>(value));
  }
  void put_bytes(std::size_t at, std::span<const std::uint8_t> bytes) noexcept {
    std::ranges::copy(std::as_bytes(bytes),
                      out_.begin() + static_cast<std::ptrdiff_t>(header_bytes + at));
  }
  void put_header(const mad& what) noexcept {
    std::ranges::copy(std::as_bytes(std::span(class_header)), out_.begin());
    store_network_order(out_.data() + transaction_at, what.transaction);
    store_network_order(out_.data() + kind_at, static_cast<std::uint16_t>(what.kind));
  }
  void put_data(std::size_t at, const private_data& data) noexcept {
    put_bytes(at, std::span(data.bytes).first(data.length));
  }

 private:
  std::span<std::byte, mad_bytes> out_;
};

std::uint64_t service_of(const frame& content) noexcept {
  return std::uint64_t{static_cast<std::uint16_t>(content.space)} << 16U | content.destination.port;
}

std::array<std::uint8_t, ip_bytes> ip_field(const address& from) noexcept {
  std::array<std::uint8_t, ip_bytes> out{};
  if (from.family == address_family::ipv4)
    std::copy_n(from.bytes.begin(), ip_bytes - ipv4_offset, out.begin() + ipv4_offset);
  else
    out = from.bytes;
  return out;
}

void put_addresses(writer& to, std::size_t at, const frame& content) noexcept {
  const bool ipv4 = content.source.family == address_family::ipv4;
  to.put(at + ip_version_at, static_cast<std::uint8_t>(ipv4 ? 0x40 : 0x60));
  to.put(at + ip_port_at, content.source.port);
  to.put_bytes(at + ip_source_at, ip_field(content.source));
  to.put_bytes(at + ip_destination_at, ip_field(content.destination));
}

address load_address(mad_view from, std::size_t at, address_family family) noexcept {
  address out{.family = family};
  const std::size_t offset = family == address_family::ipv4 ? ipv4_offset : 0;
  for (std::size_t i = offset; i < ip_bytes; ++i) out.bytes[i - offset] = load_byte(from, at + i);
  return out;
}

/// Reads port space and addresses. Leaves the families at `none` if the service is not a port.
void read_addresses(mad_view from, std::uint64_t service, std::size_t at, frame& out) noexcept {
  const std::uint64_t space = service >> 16U;
  if (!is_port_space(space)) return;
  const std::uint8_t version = load_byte(from, at + ip_version_at) >> 4U;
  if (load_byte(from, at) != 0 || (version != 4 && version != 6)) return;
  const auto family = version == 4 ? address_family::ipv4 : address_family::ipv6;
  out.space = static_cast<port_space>(space);
  out.source = with_port(load_address(from, at + ip_source_at, family),
                         load<std::uint16_t>(from, at + ip_port_at));
  out.destination = with_port(load_address(from, at + ip_destination_at, family),
                              static_cast<std::uint16_t>(service));
}

/// Reads private data with the padding of its field.
void read_data(mad_view from, std::size_t at, frame_kind kind, private_data& out) noexcept {
  out.length = private_limit(kind);
  for (std::size_t i = 0; i < out.length; ++i) out.bytes[i] = load_byte(from, at + i);
}

void read_request(mad_view from, mad& out) noexcept {
  using namespace request_at;
  constexpr unsigned transport_mask = 6;
  constexpr unsigned extended_mask = 7;
  frame& content = out.content;
  side& peer = content.from;
  const unsigned limits = load_byte(from, manager_retries);
  // Supports RC only, the transport that programs of the connection manager connect.
  if ((load_byte(from, remote_timeout) & transport_mask) != 0 || (limits & extended_mask) != 0)
    out.rejection_reason = reject_reason::other_transport;
  out.guid = load<std::uint64_t>(from, guid);
  content.kind = frame_kind::request;
  peer.queue_key = load<std::uint32_t>(from, queue_key);
  peer.queue_pair = load_24(from, queue_pair);
  peer.responder_resources = load_byte(from, responder_resources);
  peer.initiator_depth = load_byte(from, initiator_depth);
  peer.flow_control = load_byte(from, remote_timeout) & 1U;
  peer.starting_psn = load_24(from, psn);
  peer.retry_count = load_byte(from, retries) & 7U;
  peer.path_mtu = load_byte(from, mtu) >> 4U;
  peer.rnr_retry_count = load_byte(from, mtu) & 7U;
  peer.shared_receives = limits >> 3U & 1U;
  for (std::size_t i = 0; i < peer.gid.size(); ++i) peer.gid[i] = load_byte(from, local_gid + i);
  if (peer.path_mtu == 0 || peer.path_mtu > largest_path_mtu) {
    out.rejection_reason = reject_reason::path_mtu;
    peer.path_mtu = 0;
  }
  read_addresses(from, load<std::uint64_t>(from, service), data, content);
  read_data(from, data + ip_header_bytes, frame_kind::request, content.data);
}

void read_reply(mad_view from, mad& out) noexcept {
  using namespace reply_at;
  side& peer = out.content.from;
  out.guid = load<std::uint64_t>(from, guid);
  out.content.kind = frame_kind::reply;
  peer.queue_key = load<std::uint32_t>(from, queue_key);
  peer.queue_pair = load_24(from, queue_pair);
  peer.starting_psn = load_24(from, psn);
  peer.responder_resources = load_byte(from, responder_resources);
  peer.initiator_depth = load_byte(from, initiator_depth);
  peer.flow_control = load_byte(from, flags) & 1U;
  peer.rnr_retry_count = load_byte(from, retries) >> 5U;
  peer.shared_receives = load_byte(from, retries) >> 4U & 1U;
  read_data(from, data, frame_kind::reply, out.content.data);
}

void read_rejection(mad_view from, mad& out) noexcept {
  out.subject = load_subject(from);
  out.content.kind = frame_kind::rejection;
  out.content.reason = load<std::uint16_t>(from, reason_at);
  read_data(from, rejection_data_at, frame_kind::rejection, out.content.data);
}

void read_sidr_request(mad_view from, mad& out) noexcept {
  out.content.kind = frame_kind::sidr_request;
  read_addresses(from, load<std::uint64_t>(from, sidr_at::service), sidr_at::data, out.content);
  read_data(from, sidr_at::data + ip_header_bytes, frame_kind::sidr_request, out.content.data);
}

void read_sidr_reply(mad_view from, mad& out) noexcept {
  out.content.kind = frame_kind::sidr_reply;
  out.content.reason = load_byte(from, sidr_at::status);
  out.content.from.queue_pair = load_24(from, sidr_at::queue_pair);
  out.content.from.queue_key = load<std::uint32_t>(from, sidr_at::queue_key);
  read_data(from, sidr_at::reply_data, frame_kind::sidr_reply, out.content.data);
}

void write_request(const mad& what, writer& to) noexcept {
  using namespace request_at;
  const side& own = what.content.from;
  to.put(service, service_of(what.content));
  to.put(guid, what.guid);
  to.put(queue_key, own.queue_key);
  to.put_24(queue_pair, own.queue_pair);
  to.put(responder_resources, own.responder_resources);
  to.put(initiator_depth, own.initiator_depth);
  to.put(remote_timeout, static_cast<std::uint8_t>(manager_time << 3U | (own.flow_control & 1U)));
  to.put_24(psn, own.starting_psn);
  to.put(retries, static_cast<std::uint8_t>(manager_time << 3U | own.retry_count));
  to.put(partition, default_partition);
  to.put(mtu, static_cast<std::uint8_t>(own.path_mtu << 4U | own.rnr_retry_count));
  to.put(manager_retries,
         static_cast<std::uint8_t>(manager_tries << 4U | own.shared_receives << 3U));
  to.put(lids, permissive_lid);
  to.put(lids + 2, permissive_lid);
  to.put_bytes(local_gid, gid_of(what.content.source));
  to.put_bytes(remote_gid, gid_of(what.content.destination));
  to.put(rate, packet_rate);
  to.put(hop_limit, hops);
  to.put(acknowledge_timeout, static_cast<std::uint8_t>(acknowledge_time << 3U));
  put_addresses(to, data, what.content);
  to.put_data(data + ip_header_bytes, what.content.data);
}

void write_reply(const mad& what, writer& to) noexcept {
  using namespace reply_at;
  const side& own = what.content.from;
  to.put(queue_key, own.queue_key);
  to.put_24(queue_pair, own.queue_pair);
  to.put_24(psn, own.starting_psn);
  to.put(responder_resources, own.responder_resources);
  to.put(initiator_depth, own.initiator_depth);
  to.put(flags, static_cast<std::uint8_t>(own.flow_control & 1U));
  to.put(retries, static_cast<std::uint8_t>(own.rnr_retry_count << 5U | own.shared_receives << 4U));
  to.put(guid, what.guid);
  to.put_data(data, what.content.data);
}

void write_rejection(const mad& what, writer& to) noexcept {
  to.put(subject_at, static_cast<std::uint8_t>(static_cast<unsigned>(what.subject) << 6U));
  to.put(reason_at, static_cast<std::uint16_t>(what.content.reason));
  if (what.content.reason == reject_reason::timeout) {
    // Identifies the request if the sender does not know the receiver's communication ID.
    constexpr unsigned length_shift = 1;
    to.put(rejection_info_length_at, static_cast<std::uint8_t>(sizeof what.guid << length_shift));
    to.put(rejection_info_at, what.guid);
  }
  to.put_data(rejection_data_at, what.content.data);
}

void write_sidr_request(const mad& what, writer& to) noexcept {
  to.put(sidr_at::partition, default_partition);
  to.put(sidr_at::service, service_of(what.content));
  put_addresses(to, sidr_at::data, what.content);
  to.put_data(sidr_at::data + ip_header_bytes, what.content.data);
}

void write_sidr_reply(const mad& what, writer& to) noexcept {
  to.put(sidr_at::status, static_cast<std::uint8_t>(what.content.reason));
  to.put_24(sidr_at::queue_pair, what.content.from.queue_pair);
  to.put(sidr_at::reply_service, service_of(what.content));
  to.put(sidr_at::queue_key, what.content.from.queue_key);
  to.put_data(sidr_at::reply_data, what.content.data);
}

bool is_class(mad_view bytes) noexcept {
  return std::ranges::equal(bytes.first(class_header.size()),
                            std::as_bytes(std::span(class_header)));
}

std::uint16_t kind_of(mad_view bytes) noexcept {
  std::uint16_t kind;
  std::memcpy(&kind, bytes.data() + kind_at, sizeof kind);
  return network_order(kind);
}

}  // namespace

std::optional<mad> parse_mad(mad_view bytes) noexcept {
  if (!is_class(bytes)) return std::nullopt;
  mad out;
  out.kind = static_cast<mad_kind>(kind_of(bytes));
  std::memcpy(&out.transaction, bytes.data() + transaction_at, sizeof out.transaction);
  out.transaction = network_order(out.transaction);
  out.sender_id = load<std::uint32_t>(bytes, sender_at);
  out.receiver_id = load<std::uint32_t>(bytes, receiver_at);
  switch (out.kind) {
    case mad_kind::request:
      out.receiver_id = 0;
      read_request(bytes, out);
      return out;
    case mad_kind::mra:
      out.subject = load_subject(bytes);
      out.service_timeout = load_byte(bytes, working_time_at) >> 3U;
      return out;
    case mad_kind::rejection:
      read_rejection(bytes, out);
      return out;
    case mad_kind::reply:
      read_reply(bytes, out);
      return out;
    case mad_kind::ready:
      out.content.kind = frame_kind::ready;
      return out;
    case mad_kind::disconnect:
      out.content.kind = frame_kind::disconnect;
      out.content.from.queue_pair = load_24(bytes, disconnect_pair_at);
      return out;
    case mad_kind::disconnected:
      out.content.kind = frame_kind::disconnected;
      return out;
    case mad_kind::sidr_request:
      out.receiver_id = 0;
      read_sidr_request(bytes, out);
      return out;
    case mad_kind::sidr_reply:
      out.receiver_id = out.sender_id;
      read_sidr_reply(bytes, out);
      return out;
  }
  return std::nullopt;
}

void write_mad(const mad& what, std::span<std::byte, mad_bytes> out) noexcept {
  writer to(out);
  to.put_header(what);
  to.put(sender_at, what.sender_id);
  const bool is_sidr = what.kind == mad_kind::sidr_request || what.kind == mad_kind::sidr_reply;
  if (what.kind != mad_kind::request && !is_sidr) to.put(receiver_at, what.receiver_id);
  switch (what.kind) {
    case mad_kind::request:
      return write_request(what, to);
    case mad_kind::mra:
      to.put(subject_at, static_cast<std::uint8_t>(static_cast<unsigned>(what.subject) << 6U));
      return to.put(working_time_at, static_cast<std::uint8_t>(what.service_timeout << 3U));
    case mad_kind::rejection:
      return write_rejection(what, to);
    case mad_kind::reply:
      return write_reply(what, to);
    case mad_kind::disconnect:
      return to.put_24(disconnect_pair_at, what.content.from.queue_pair);
    case mad_kind::sidr_request:
      return write_sidr_request(what, to);
    case mad_kind::sidr_reply:
      return write_sidr_reply(what, to);
    case mad_kind::ready:
    case mad_kind::disconnected:
      return;
  }
}

std::optional<std::uint32_t> receiver_of(mad_view bytes) noexcept {
  if (!is_class(bytes)) return std::nullopt;
  switch (static_cast<mad_kind>(kind_of(bytes))) {
    case mad_kind::mra:
    case mad_kind::rejection:
    case mad_kind::reply:
    case mad_kind::ready:
    case mad_kind::disconnect:
    case mad_kind::disconnected:
      return load<std::uint32_t>(bytes, receiver_at);
    case mad_kind::sidr_reply:
      return load<std::uint32_t>(bytes, sender_at);
    case mad_kind::request:
    case mad_kind::sidr_request:
      break;
  }
  return std::nullopt;
}

}  // namespace verbena::softdev::cm
