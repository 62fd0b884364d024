// SPDX-License-Identifier: MIT
// Offers for tests of decisions: compatible ones, which tests modify, and random ones.
#pragma once

#include <array>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "verbena/bringup/offer.hpp"

namespace offers {

using namespace verbena;
namespace bringup = verbena::bringup;
using bringup::offer;
using bringup::offered_gid;

/// Returns an IPv4 or IPv6 address with prefix length, such as `10.0.0.1/24`, as a GID table entry.
inline offered_gid entry(const std::string& text, gid_type type = gid_type::roce_v2,
                         unsigned index = 0) {
  const auto slash = text.find('/');
  offered_gid out{.gid = parse_gid(text.substr(0, slash)).value(),
                  .type = type,
                  .index = gid_index(static_cast<std::uint8_t>(index))};
  if (slash != std::string::npos) {
    const int bits = std::stoi(text.substr(slash + 1));
    out.prefix_bits = static_cast<std::uint8_t>(out.gid.is_ipv4_mapped() ? bits + 96 : bits);
  }
  return out;
}

inline offered_gid routed(offered_gid of) {
  of.routed = true;
  return of;
}

/// Returns the offer of an adapter with these addresses. Each `host` is a different host.
inline offer adapter(std::uint8_t host, std::vector<offered_gid> gids) {
  offer out;
  out.device = "mlx5_" + std::to_string(host);
  out.host[0] = host;
  out.mtu = mtu::bytes_4096;
  out.queue_pair = {.number = queue_pair_number(0x100U + host),
                    .first_psn = packet_sequence_number(host)};
  out.reliability = {.initiator_depth = 16,
                     .responder_resources = 16,
                     .timeout = {},
                     .retry_count = 7,
                     .rnr_retry_count = 6};
  out.gids = std::move(gids);
  for (std::size_t i = 0; i < out.gids.size(); ++i)
    out.gids[i].index = gid_index(static_cast<std::uint8_t>(i));
  return out;
}

/// Returns the offer of an InfiniBand port.
inline offer infiniband(std::uint8_t host, std::uint16_t with_lid,
                        const std::string& with_gid = "fe80::1") {
  offer out = adapter(host, {entry(with_gid + "/64", gid_type::infiniband)});
  out.link_layer = link_layer::infiniband;
  out.lid = lid(with_lid);
  return out;
}

/// Returns an offer with random fields. Addresses come from a short list, so that offers often
/// share an address.
template <class Random>
offer random_offer(Random& random) {
  const auto below = [&](unsigned limit) { return static_cast<unsigned>(random() % limit); };
  const auto u8 = [&](unsigned limit) { return static_cast<std::uint8_t>(below(limit)); };
  static const std::array<const char*, 8> addresses = {
      "10.0.0.1/24",    "10.0.0.2/24", "10.0.1.1/16",    "127.0.0.1/8",
      "2001:db8::1/64", "fe80::1/64",  "2001:db8::2/48", "192.0.2.1"};
  offer out;
  out.transport = below(8) == 0 ? bringup::offered_transport::uc : bringup::offered_transport::rc;
  out.fabric = static_cast<bringup::fabric>(below(8) == 0 ? below(4) : 0);
  out.link_layer = below(6) == 0 ? link_layer::infiniband : link_layer::ethernet;
  out.port_up = below(10) != 0;
  out.device = std::string(below(65), 'x');
  out.host[0] = u8(2);
  out.mtu = static_cast<mtu>(1 + below(5));
  out.lid = lid(static_cast<std::uint16_t>(below(3)));
  out.partition_key = below(6) == 0 ? std::uint16_t{0x7fff} : std::uint16_t{0xffff};
  out.inline_bytes = below(512);
  out.queue_pair = {.number = queue_pair_number(below(1U << 24)),
                    .first_psn = packet_sequence_number(below(1U << 24))};
  if (below(2) == 0) out.probe = {.number = queue_pair_number(below(99)), .first_psn = {}};
  out.reliability = {.initiator_depth = u8(256),
                     .responder_resources = u8(256),
                     .timeout = ack_timeout::from_exponent(u8(32)),
                     .ack_delay_exponent = u8(32),
                     .retry_count = u8(8),
                     .rnr_retry_count = u8(8),
                     .min_rnr_timer = rnr_timer::from_encoding(u8(32))};
  out.explicit_gid = below(6) == 0;
  const unsigned count = out.explicit_gid ? 1 : below(5);
  for (unsigned i = 0; i < count; ++i) {
    const char* const address = addresses[below(addresses.size())];
    auto made = entry(address, below(4) == 0 ? gid_type::roce_v1 : gid_type::roce_v2, i);
    made.routed = below(3) == 0;
    out.gids.push_back(made);
  }
  return out;
}

}  // namespace offers
