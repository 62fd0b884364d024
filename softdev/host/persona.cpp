// SPDX-License-Identifier: MIT
#include "softdev/host/persona.hpp"

#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "softdev/host/permitted_addresses.hpp"
#include "verbena/base/fd.hpp"

namespace verbena::softdev {
namespace {

std::uint64_t fnv1a(std::span<const char> text) noexcept {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char byte : text) {
    hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3U;
  }
  // Finalise: FNV alone leaves the top bits of short texts alike.
  hash ^= hash >> 33U;
  hash *= 0xff51afd7ed558ccdU;
  hash ^= hash >> 33U;
  return hash;
}

// The machine's identifier (machine-id(5): 32 hexadecimal digits), or its name.
std::string host_seed() {
  for (const char* path : {"/etc/machine-id", "/var/lib/dbus/machine-id"}) {
    const unique_fd file(open(path, O_RDONLY | O_CLOEXEC));
    if (!file) continue;
    std::array<char, 33> text{};
    const ssize_t length = read(file.get(), text.data(), 32);
    const auto is_hex = [](char c) {
      return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
    };
    if (length == 32 && std::all_of(text.begin(), text.begin() + 32, is_hex)) return text.data();
  }
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) == 0 && name[0] != '\0') return name.data();
  return "verbena";
}

std::array<std::uint8_t, 16> mapped(in_addr address) noexcept {
  std::array<std::uint8_t, 16> gid{};
  gid[10] = gid[11] = 0xff;
  std::memcpy(gid.data() + 12, &address.s_addr, 4);
  return gid;
}

// The addresses of the host's interfaces that are up.
struct host_addresses {
  std::vector<gid_entry> ipv4;        // those that other hosts can reach come first
  std::vector<gid_entry> ipv6;        // without ::1
  std::vector<gid_entry> link_local;  // of IPv6
  bool complete = true;
};

// Returns the index of an interface, or 0. Sets `complete` to false unless the interface has just
// disappeared.
std::uint32_t index_of(const char* interface, bool& complete) noexcept {
  const unsigned index = if_nametoindex(interface);
  if (index == 0 && errno != ENODEV && errno != ENXIO) complete = false;
  return index;
}

void add(const ifaddrs& entry, bool wanted_loopback, host_addresses& out) {
  if (entry.ifa_addr == nullptr || (entry.ifa_flags & IFF_UP) == 0) return;
  if (((entry.ifa_flags & IFF_LOOPBACK) != 0) != wanted_loopback) return;
  if (entry.ifa_addr->sa_family == AF_INET) {
    sockaddr_in address;
    std::memcpy(&address, entry.ifa_addr, sizeof address);
    out.ipv4.push_back({mapped(address.sin_addr), index_of(entry.ifa_name, out.complete)});
  } else if (entry.ifa_addr->sa_family == AF_INET6) {
    sockaddr_in6 address;
    std::memcpy(&address, entry.ifa_addr, sizeof address);
    if (IN6_IS_ADDR_LOOPBACK(&address.sin6_addr)) return;
    gid_entry made{.interface_index = index_of(entry.ifa_name, out.complete)};
    std::memcpy(made.gid.data(), &address.sin6_addr, made.gid.size());
    (IN6_IS_ADDR_LINKLOCAL(&address.sin6_addr) ? out.link_local : out.ipv6).push_back(made);
  }
}

host_addresses find_addresses() {
  host_addresses found;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) {
    found.complete = false;
    return found;
  }
  for (const bool loopback : {false, true})
    for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next)
      add(*entry, loopback, found);
  freeifaddrs(list);
  return found;
}

// An InfiniBand GID: the default subnet prefix and a GUID of the port.
gid_entry subnet_gid(const std::array<std::uint8_t, 8>& guid) noexcept {
  gid_entry made;
  made.gid = {0xfe, 0x80};
  std::copy(guid.begin(), guid.end(), made.gid.begin() + 8);
  return made;
}

// Sets the attributes that a subnet manager would assign to the port. They are the same in all
// processes of a host.
void describe_subnet(const std::array<std::uint8_t, 6>& mac, persona& out) {
  constexpr unsigned unicast_lids = 0xbfff;
  const unsigned number = (static_cast<unsigned>(mac[4]) << 8U) | mac[5];
  out.sm_lid = 1;
  out.lid = static_cast<std::uint16_t>(2 + number % (unicast_lids - 1));
  // The default partition, two others as full member, and one of them as limited member, too.
  out.pkeys = {default_partition, 0x8001, 0x8002, 0x0002, 0, 0, 0, 0};
  std::array<std::uint8_t, 8> guid = out.node_guid;
  out.gids.push_back(subnet_gid(guid));
  guid[7] = static_cast<std::uint8_t>(guid[7] + 1);  // an alias
  out.gids.push_back(subnet_gid(guid));
}

}  // namespace

std::array<std::uint8_t, 6> hardware_address(std::span<const char> seed) noexcept {
  const std::uint64_t hash = fnv1a(seed);
  std::array<std::uint8_t, 6> address;
  std::memcpy(address.data(), &hash, address.size());
  address[0] = static_cast<std::uint8_t>((address[0] & 0xfcU) | 0x02U);  // unicast, local
  return address;
}

persona describe_host(persona_kind kind, std::vector<std::string> preferred) {
  persona result;
  result.kind = kind;
  result.preferred = std::move(preferred);
  const std::string seed = host_seed();
  const auto mac = hardware_address(seed);
  result.node_guid = {mac[0], mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5]};

  if (kind == persona_kind::infiniband) {
    describe_subnet(mac, result);
    return result;
  }
  if (kind == persona_kind::efa) {
    result.lid = efa_identity::own_lid;
    result.gids.push_back(subnet_gid(result.node_guid));
    return result;
  }
  auto [addresses, ipv6, link_local_ipv6, complete] = find_addresses();
  const gid_entry local{mapped({htonl(INADDR_LOOPBACK)}), index_of("lo", complete)};
  result.complete = complete;
  const auto is_local = [&](const gid_entry& known) { return known.gid == local.gid; };
  if (std::none_of(addresses.begin(), addresses.end(), is_local)) addresses.push_back(local);
  for (auto* const each : {&addresses, &ipv6, &link_local_ipv6})
    order_by_list(*each, result.preferred);

  gid_entry link_local;
  link_local.gid = {0xfe, 0x80};
  std::copy(result.node_guid.begin(), result.node_guid.end(), link_local.gid.begin() + 8);
  link_local.gid[8] ^= 0x02U;  // in an interface identifier, this bit is inverted
  link_local.interface_index = addresses.front().interface_index;
  result.gids.push_back(link_local);
  // IPv4 first: programs with a fixed index expect it at 1.
  for (const auto* const each : {&addresses, &ipv6, &link_local_ipv6}) {
    const std::size_t room = persona::gid_table_length - result.gids.size();
    result.gids.insert(result.gids.end(), each->begin(),
                       each->begin() + static_cast<std::ptrdiff_t>(std::min(room, each->size())));
  }
  return result;
}

}  // namespace verbena::softdev
