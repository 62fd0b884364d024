// SPDX-License-Identifier: MIT
//   transport u8   fabric u8   link layer u8   flags u8 (port up, explicit GID, probe)
//   MTU u8   reads as initiator u8   reads as target u8   ACK delay u8
//   ACK timeout u8   retries u8   RNR retries u8   RNR timer u8
//   P_Key u16   LID u16   inline bytes u32   host 16 bytes
//   queue pair u32   PSN u32 (of UD: Q_Key)   probe's queue pair u32   probe's PSN u32
//   length of the device's name u8   its characters   number of GIDs u8
//   each GID: 16 bytes   type u8   index u8   prefix bits u8   flags u8 (routed)
#include "verbena/bringup/offer.hpp"

#include <algorithm>
#include <utility>

#include "verbena/base/assert.hpp"
#include "verbena/base/bytes.hpp"

namespace verbena::inline VERBENA_ABI::bringup {
namespace {

constexpr unsigned flag_port_up = 1;
constexpr unsigned flag_explicit_gid = 2;
constexpr unsigned flag_probe = 4;
constexpr unsigned flag_routed = 1;
constexpr std::uint8_t most_bits = 128;
constexpr std::uint8_t bits_before_ipv4 = 96;
constexpr std::uint8_t most_retries = 7;

bool is_printable(char c) { return c > 0x20 && c < 0x7f; }

class writer {
 public:
  template <std::unsigned_integral T>
  void put(T value) {
    const auto at = bytes_.size();
    bytes_.resize(at + sizeof value);
    store_network_order(bytes_.data() + at, value);
  }
  void put(std::span<const std::uint8_t> values) {
    for (const auto value : values) bytes_.push_back(static_cast<std::byte>(value));
  }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

// Reads fields in order; after the first invalid one all are zero.
class reader {
 public:
  explicit reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <std::unsigned_integral T>
  T take(const char* field, T least, T most) {
    const auto value = bytes_.take<T>();
    if (!value) return fail<T>("it ends before its ", field);
    if (*value < least || *value > most) return fail<T>("it has an invalid ", field);
    return problem_.empty() ? *value : T{};
  }
  template <std::size_t Count>
  std::array<std::uint8_t, Count> take_array(const char* field) {
    std::array<std::uint8_t, Count> values{};
    if (const auto found = bytes_.take_bytes(Count))
      std::ranges::transform(*found, values.begin(),
                             [](std::byte byte) { return std::to_integer<std::uint8_t>(byte); });
    else
      fail<std::uint8_t>("it ends before its ", field);
    return values;
  }
  template <class T = std::uint8_t>
  T fail(const char* what, const char* field) {
    if (problem_.empty()) problem_ = std::string(what) + field;
    return T{};
  }
  void end() {
    if (!bytes_.rest().empty()) fail("it has bytes after its ", "end");
  }
  [[nodiscard]] const std::string& problem() const { return problem_; }

 private:
  byte_reader bytes_;
  std::string problem_;
};

offered_queue_pair take_queue_pair(reader& from, const char* number, const char* psn) {
  const auto value = from.take<std::uint32_t>(number, 0, queue_pair_number::max);
  const auto first = from.take<std::uint32_t>(psn, 0, packet_sequence_number::max);
  return {.number = queue_pair_number(value), .first_psn = packet_sequence_number(first)};
}

void take_reliability(reader& from, offer& into) {
  auto& out = into.reliability;
  const auto u8 = [&](const char* field, std::uint8_t most) {
    return from.take<std::uint8_t>(field, 0, most);
  };
  out.initiator_depth = u8("read depth", 0xff);
  out.responder_resources = u8("read depth", 0xff);
  out.ack_delay_exponent = u8("ACK delay", ack_timeout::max_exponent);
  out.timeout = ack_timeout::from_exponent(u8("ACK timeout", ack_timeout::max_exponent));
  out.retry_count = u8("retry count", most_retries);
  out.rnr_retry_count = u8("RNR retry count", most_retries);
  out.min_rnr_timer = rnr_timer::from_encoding(u8("RNR timer", rnr_timer::max_encoding));
}

void take_name(reader& from, offer& into) {
  const auto length = from.take<std::uint8_t>("device name", 0, offer::max_device_name);
  for (unsigned i = 0; i < length; ++i)
    into.device += static_cast<char>(from.take<std::uint8_t>("device name", 0x21, 0x7e));
}

offered_gid take_gid(reader& from) {
  offered_gid out;
  out.gid = gid(from.take_array<16>("GID"));
  if (out.gid.is_zero()) from.fail("it has an invalid ", "GID");
  out.type = static_cast<gid_type>(
      from.take<std::uint8_t>("GID type", static_cast<std::uint8_t>(gid_type::infiniband),
                              static_cast<std::uint8_t>(gid_type::roce_v2)));
  out.index = gid_index(from.take<std::uint8_t>("GID index", 0, 0xff));
  out.prefix_bits = from.take<std::uint8_t>("prefix length", 0, most_bits);
  if (out.gid.is_ipv4_mapped() && out.prefix_bits != 0 && out.prefix_bits < bits_before_ipv4)
    from.fail("it has an invalid ", "prefix length");
  out.routed = from.take<std::uint8_t>("GID flag", 0, flag_routed) != 0;
  return out;
}

}  // namespace

std::string to_string(fabric of) {
  switch (of) {
    case fabric::network:
      return "an adapter";
    case fabric::iwarp:
      return "iWARP";
    case fabric::this_host:
      return "soft0";
    case fabric::soft_network:
      return "soft0 with VERBENA_SOFTDEV_WIRE";
  }
  return "unknown (" + std::to_string(static_cast<unsigned>(of)) + ")";
}

std::string to_string(offered_transport of) {
  switch (of) {
    case offered_transport::rc:
      return "RC";
    case offered_transport::uc:
      return "UC";
    case offered_transport::ud:
      return "UD";
  }
  return "unknown (" + std::to_string(static_cast<unsigned>(of)) + ")";
}

std::vector<std::byte> offer::encode() const {
  VERBENA_ASSERT(gids.size() <= max_gids && device.size() <= max_device_name &&
                     std::ranges::all_of(device, is_printable),
                 "an offer with more than 32 GIDs, or with a device name that is not printable or "
                 "exceeds 64 characters");
  writer out;
  const auto u8 = [&](auto value) { out.put(static_cast<std::uint8_t>(value)); };
  u8(transport);
  u8(fabric);
  u8(link_layer);
  u8((port_up ? flag_port_up : 0) | (explicit_gid ? flag_explicit_gid : 0) |
     (probe ? flag_probe : 0));
  u8(mtu);
  u8(reliability.initiator_depth);
  u8(reliability.responder_resources);
  u8(reliability.ack_delay_exponent);
  u8(reliability.timeout.exponent());
  u8(reliability.retry_count);
  u8(reliability.rnr_retry_count);
  u8(reliability.min_rnr_timer.encoding());
  out.put(partition_key);
  out.put(lid.value());
  out.put(inline_bytes);
  out.put(host);
  const auto probing = probe.value_or(offered_queue_pair{});
  out.put(queue_pair.number.value());
  out.put(transport == offered_transport::ud ? key.value() : queue_pair.first_psn.value());
  out.put(probing.number.value());
  out.put(probing.first_psn.value());
  u8(device.size());
  for (const char c : device) u8(c);
  u8(gids.size());
  for (const auto& each : gids) {
    out.put(each.gid.bytes());
    u8(each.type);
    u8(each.index.value());
    u8(each.prefix_bits);
    u8(each.routed ? flag_routed : 0);
  }
  return out.take();
}

result<offer> offer::decode(std::span<const std::byte> bytes) {
  reader from(bytes);
  offer out;
  const auto u8 = [&](const char* field, std::uint8_t least, std::uint8_t most) {
    return from.take<std::uint8_t>(field, least, most);
  };
  out.transport = static_cast<offered_transport>(u8("transport", 2, 4));
  out.fabric = static_cast<bringup::fabric>(u8("fabric", 0, 3));
  out.link_layer = static_cast<verbena::link_layer>(u8("link layer", 1, 2));
  const unsigned flags = u8("flag", 0, flag_port_up | flag_explicit_gid | flag_probe);
  out.port_up = (flags & flag_port_up) != 0;
  out.explicit_gid = (flags & flag_explicit_gid) != 0;
  out.mtu = static_cast<verbena::mtu>(u8("MTU", 1, 5));
  take_reliability(from, out);
  out.partition_key = from.take<std::uint16_t>("P_Key", 0, 0xffff);
  out.lid = verbena::lid(from.take<std::uint16_t>("LID", 0, 0xffff));
  out.inline_bytes = from.take<std::uint32_t>("inline size", 0, 0xffff'ffff);
  out.host = from.take_array<16>("host");
  if (out.transport == offered_transport::ud) {
    out.queue_pair.number =
        queue_pair_number(from.take<std::uint32_t>("queue pair number", 0, queue_pair_number::max));
    out.key = queue_key(from.take<std::uint32_t>("Q_Key", 0, 0xffff'ffff));
  } else {
    out.queue_pair = take_queue_pair(from, "queue pair number", "PSN");
  }
  const auto probing = take_queue_pair(from, "probe's queue pair number", "probe's PSN");
  if ((flags & flag_probe) != 0)
    out.probe = probing;
  else if (probing != offered_queue_pair{})
    from.fail("it has an invalid ", "probe");
  take_name(from, out);
  const std::size_t count = u8("number of GIDs", 0, max_gids);
  out.gids.reserve(count);
  for (std::size_t i = 0; i < count && from.problem().empty(); ++i)
    out.gids.push_back(take_gid(from));
  if (out.explicit_gid && count != 1) from.fail("it has an invalid ", "number of GIDs");
  from.end();
  if (!from.problem().empty())
    return error::protocol("decode_offer", {}, "the peer's offer is invalid: " + from.problem());
  return out;
}

}  // namespace verbena::inline VERBENA_ABI::bringup
