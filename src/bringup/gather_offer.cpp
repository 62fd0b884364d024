// SPDX-License-Identifier: MIT
#include "src/bringup/gather_offer.hpp"

#include <ifaddrs.h>
#include <netinet/in.h>
#include <sys/stat.h>
#include <sys/utsname.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "src/verbs/iwarp.hpp"
#include "src/verbs/ports.hpp"
#include "verbena/diagnose/host_facts.hpp"
#include "verbena/verbs/device.hpp"
#include "verbena/verbs/device_attributes.hpp"
#include "verbena/verbs/gid_scope.hpp"

namespace verbena::inline VERBENA_ABI::bringup::detail {
namespace {

constexpr std::uint8_t bits_before_ipv4 = 96;
constexpr std::uint8_t prefix_bits_of_infiniband = 64;

std::uint8_t count_bits(std::span<const std::uint8_t> mask) {
  unsigned bits = 0;
  for (const auto byte : mask) bits += static_cast<unsigned>(std::popcount(byte));
  return static_cast<std::uint8_t>(bits);
}

// Converts an IPv4 or IPv6 address to a GID; nullopt for other families.
std::optional<gid> gid_of(const sockaddr* address) {
  std::array<std::uint8_t, 16> bytes{};
  if (address == nullptr) return std::nullopt;
  if (address->sa_family == AF_INET) {
    sockaddr_in four{};
    std::memcpy(&four, address, sizeof four);
    bytes[10] = bytes[11] = 0xff;
    std::memcpy(bytes.data() + 12, &four.sin_addr, 4);
  } else if (address->sa_family == AF_INET6) {
    sockaddr_in6 six{};
    std::memcpy(&six, address, sizeof six);
    std::memcpy(bytes.data(), &six.sin6_addr, 16);
  } else {
    return std::nullopt;
  }
  return gid(bytes);
}

struct free_addresses {
  void operator()(ifaddrs* list) const noexcept { ::freeifaddrs(list); }
};

struct host_address {
  gid address;
  std::uint8_t prefix_bits;
};

std::vector<host_address> addresses_of_host() {
  std::vector<host_address> out;
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return out;
  const std::unique_ptr<ifaddrs, free_addresses> list(first);
  for (const ifaddrs* each = first; each != nullptr; each = each->ifa_next) {
    const auto address = gid_of(each->ifa_addr);
    // An address is skipped if the kernel has not set the family of its mask.
    const auto mask = gid_of(each->ifa_netmask);
    if (!address || !mask) continue;
    const auto bytes = std::span(mask->bytes());
    const bool four = address->is_ipv4_mapped();
    const auto bits = count_bits(four ? bytes.subspan(12) : bytes);
    out.push_back({*address, static_cast<std::uint8_t>(four ? bits + bits_before_ipv4 : bits)});
  }
  return out;
}

bool has_prefix_of_type(const gid_entry& entry) {
  return entry.type == gid_type::infiniband || entry.gid.is_link_local();
}

// The addresses and routes of the host's interfaces.
class host_tables {
 public:
  host_tables() : addresses_(addresses_of_host()), routes_(diagnose::gather_routes()) {}

  // Returns true if prefix_bits() of the entry needs no address, or an address of the tables.
  [[nodiscard]] bool knows(const gid_entry& entry) const {
    return has_prefix_of_type(entry) ||
           std::ranges::find(addresses_, entry.gid, &host_address::address) != addresses_.end();
  }
  [[nodiscard]] std::uint8_t prefix_bits(const gid_entry& entry) const {
    if (has_prefix_of_type(entry)) return prefix_bits_of_infiniband;
    const auto found = std::ranges::find(addresses_, entry.gid, &host_address::address);
    return found == addresses_.end() ? std::uint8_t{0} : found->prefix_bits;
  }
  // Returns whether a route beyond the subnet of the address uses its interface.
  [[nodiscard]] bool is_routed(const gid_entry& entry, std::uint8_t bits) {
    const auto name = entry.interface_name();
    if (!name || bits == 0) return false;
    if (!entry.gid.is_ipv4_mapped()) return has_ipv6_gateway(*name);
    return std::ranges::any_of(routes_, [&](const diagnose::route& each) {
      const auto length = static_cast<unsigned>(std::popcount(each.mask));
      return each.interface == *name && length + bits_before_ipv4 < bits;
    });
  }

 private:
  [[nodiscard]] bool has_ipv6_gateway(const std::string& interface) {
    const auto found = ipv6_gateways_.find(interface);
    if (found != ipv6_gateways_.end()) return found->second;
    return ipv6_gateways_[interface] = diagnose::has_ipv6_gateway(interface);
  }

  std::vector<host_address> addresses_;
  std::vector<diagnose::route> routes_;
  std::map<std::string, bool> ipv6_gateways_;  // by interface, read at the first use
};

// Returns the tables for an offer with these GIDs. Reading them takes longer than the rest of an
// offer, so the tables of a thread are used again for at most one second: an offer may lack changes
// of the routes in that time. They are read again for a GID whose address they do not have, and for
// another network namespace.
host_tables& tables_for(std::span<const gid_entry> entries) {
  using clock = std::chrono::steady_clock;
  constexpr std::chrono::seconds time_of_use{1};
  struct used_again {
    host_tables tables;
    ino_t network;
    clock::time_point until;
  };
  thread_local std::optional<used_again> last;
  struct stat space{};
  const ino_t network = ::stat("/proc/thread-self/ns/net", &space) == 0 ? space.st_ino : 0;
  const bool is_current =
      last && last->network == network && clock::now() < last->until &&
      std::ranges::all_of(entries, [&](const auto& each) { return last->tables.knows(each); });
  const auto until = clock::now() + time_of_use;  // before the reads
  if (!is_current) last.emplace(used_again{.tables = {}, .network = network, .until = until});
  return last->tables;
}

// Returns the identifier of the boot, which is constant; empty if the file cannot be read.
const std::string& boot_id() {
  static const std::string id = [] {
    std::string line;
    std::ifstream file("/proc/sys/kernel/random/boot_id");
    return std::getline(file, line) ? line : std::string();
  }();
  return id;
}

// Identifies the host and the network namespace, within which soft0 and loopback addresses reach
// each other. Mixes the boot identifier, or else the host name, with the inode of the namespace.
std::array<std::uint8_t, 16> identify_host() {
  std::array<std::uint8_t, 16> out{};
  std::string line = boot_id();
  if (line.empty()) {
    utsname names{};
    if (::uname(&names) == 0) line = static_cast<const char*>(names.nodename);
  }
  // Any text that differs between hosts suffices: every character changes one of the bytes.
  for (std::size_t i = 0; i < line.size(); ++i)
    out[i % out.size()] =
        static_cast<std::uint8_t>(out[i % out.size()] * 31U + static_cast<unsigned char>(line[i]));
  struct stat space{};
  if (::stat("/proc/self/ns/net", &space) == 0)
    for (std::size_t i = 0; i < sizeof space.st_ino; ++i)
      out[i] = static_cast<std::uint8_t>(out[i] ^ (space.st_ino >> 8 * i));
  return out;
}

std::string printable(std::string_view name) {
  std::string out(name.substr(0, offer::max_device_name));
  for (char& c : out)
    if (c <= 0x20 || c >= 0x7f) c = '?';
  return out;
}

bringup::fabric fabric_of(const context& device) {
  if (verbena::detail::is_iwarp(device)) return fabric::iwarp;
  return device.provider().origin == provider_origin::soft ? fabric::this_host : fabric::network;
}

// Keeps only the GIDs from which soft0 reaches other hosts. If there are none, keeps all.
bringup::fabric restrict_to_network(const context& device, port_number port,
                                    std::vector<offered_gid>& gids) {
  const auto reaches = device.provider().soft_reaches_hosts;
  if (reaches == nullptr) return fabric_of(device);
  const auto is_local = [&](const offered_gid& each) {
    return reaches(device.native(), port.value(), each.index.value()) == 0;
  };
  if (std::ranges::all_of(gids, is_local)) return fabric_of(device);
  std::erase_if(gids, is_local);
  return fabric::soft_network;
}

bool is_known_type(const gid_entry& entry) {
  return entry.type == gid_type::infiniband || entry.type == gid_type::roce_v1 ||
         entry.type == gid_type::roce_v2;
}

// The sort key of GIDs: an offer contains the first max_gids of them.
auto merit(const offered_gid& of) {
  const int older = of.type == gid_type::roce_v2 ? 0 : 1;
  return std::tuple(older, scope_of(of.gid), of.index);
}

result<std::vector<offered_gid>> gather_gids(const negotiating_side& side, const context& device) {
  std::vector<gid_entry> entries;
  if (side.wishes.route.gid_index) {
    VERBENA_TRY(const auto chosen,
                device.query_gid(side.wishes.route.port, *side.wishes.route.gid_index));
    entries.push_back(chosen);
  } else {
    VERBENA_TRY(entries, device.gid_table());
  }
  // Only these GIDs are offered.
  std::erase_if(entries, [&](const auto& each) {
    return each.port != side.wishes.route.port || !is_known_type(each);
  });
  host_tables& tables = tables_for(entries);
  std::vector<offered_gid> out;
  out.reserve(entries.size());
  for (const auto& each : entries) {
    const auto bits = tables.prefix_bits(each);
    out.push_back({.gid = each.gid,
                   .type = each.type,
                   .index = each.index,
                   .prefix_bits = bits,
                   .routed = tables.is_routed(each, bits)});
  }
  std::ranges::sort(out, {}, merit);
  if (out.size() > offer::max_gids) out.resize(offer::max_gids);
  return out;
}

// iWARP devices have no P_Key table.
result<partition_key> partition_key_of(const negotiating_side& side, const context& device) {
  if (fabric_of(device) == fabric::iwarp) return partition_key(0xffff);
  return device.query_pkey(side.wishes.route.port, side.wishes.route.pkey_index);
}

std::uint8_t clamped(std::uint8_t asked, int limit) {
  return static_cast<std::uint8_t>(std::min<int>(asked, std::max(limit, 0)));
}

offered_reliability gather_reliability(const connection_wishes& wishes,
                                       const device_attributes& limits) {
  auto out = wishes.reliability;
  if (wishes.transport != offered_transport::rc) return {};
  out.initiator_depth = clamped(out.initiator_depth, limits.max_initiator_depth());
  out.responder_resources = clamped(out.responder_resources, limits.max_responder_resources());
  out.ack_delay_exponent = limits.native().local_ca_ack_delay & ack_timeout::max_exponent;
  return out;
}

}  // namespace

context device_of(const negotiating_side& side) {
  return context::borrow(side.pair.native()->context, side.pair.provider(), nullptr);
}

result<offer> gather_offer(const negotiating_side& side) {
  const context device = device_of(side);
  VERBENA_TRY(const auto limits, device.query());
  VERBENA_TRY(const auto port, device.query_port(side.wishes.route.port));
  VERBENA_TRY(const auto key, partition_key_of(side, device));
  VERBENA_TRY(auto gids, gather_gids(side, device));
  const auto fabric = restrict_to_network(device, side.wishes.route.port, gids);
  return offer{
      .transport = side.wishes.transport,
      .fabric = fabric,
      .link_layer = verbena::detail::is_addressed_by_gid(port) ? link_layer::ethernet
                                                               : link_layer::infiniband,
      .port_up = port.state() == port_state::active || port.state() == port_state::armed,
      .explicit_gid = side.wishes.route.gid_index.has_value(),
      .device = printable(device.name()),
      .host = identify_host(),
      .mtu = side.wishes.route.path_mtu.value_or(port.active_mtu()),
      .lid = port.lid(),
      .partition_key = key.value(),
      .inline_bytes = side.pair.capabilities().max_inline_data,
      .queue_pair = {.number = side.pair.number(), .first_psn = side.own_endpoint.first_psn},
      .key = side.key,
      .probe = std::nullopt,
      .reliability = gather_reliability(side.wishes, limits),
      .gids = std::move(gids)};
}

}  // namespace verbena::inline VERBENA_ABI::bringup::detail
