// SPDX-License-Identifier: MIT
// Address handles: creation, also from a completion, and destruction; the Ethernet address of a
// GID.
#include <infiniband/verbs.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <new>
#include <span>

#include "softdev/shim/address.hpp"
#include "softdev/shim/answers.hpp"
#include "softdev/shim/objects.hpp"

namespace verbena::softdev {
namespace {

constexpr std::size_t ipv4_offset = 20;
constexpr std::uint8_t udp_protocol = 17;
constexpr std::uint8_t infiniband_transport = 0x1b;

std::uint32_t word(std::span<const std::uint8_t> bytes, std::size_t at) noexcept {
  return std::uint32_t{bytes[at]} << 24U | std::uint32_t{bytes[at + 1]} << 16U |
         std::uint32_t{bytes[at + 2]} << 8U | bytes[at + 3];
}

// Returns whether this is an IPv4 header of 20 bytes with a correct checksum (RFC 791): the sum is
// all ones.
bool is_ipv4_header(std::span<const std::uint8_t, 20> header) noexcept {
  if (header[0] != 0x45) return false;
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i < header.size(); i += 2)
    sum += std::uint32_t{header[i]} << 8U | header[i + 1];
  while (sum >> 16U != 0) sum = (sum & 0xffffU) + (sum >> 16U);
  return sum == 0xffff;
}

// Returns the index of a GID in the table, or -1.
int index_of(const host& home, std::span<const std::uint8_t, 16> gid) noexcept {
  const gid_table::entries table = home.adapter().gids().all();
  const auto found = std::ranges::find_if(
      table, [&](const gid_entry& entry) { return std::ranges::equal(entry.gid, gid); });
  return found == table.end() ? -1 : static_cast<int>(found - table.begin());
}

void map_ipv4(std::span<const std::uint8_t, 4> address, ibv_gid& out) noexcept {
  out = {};
  out.raw[10] = out.raw[11] = 0xff;
  std::ranges::copy(address, out.raw + 12);
}

// Reverses the route of a GRH. Returns 0; EPROTONOSUPPORT if the header is not valid; ENOENT if its
// destination is not a GID of this host.
int reverse_route(const host& home, std::span<const std::uint8_t, grh_bytes> header,
                  ibv_global_route& out) noexcept {
  ibv_gid own;
  const auto ip = header.subspan<ipv4_offset>();
  if (is_ipv4_header(ip)) {
    map_ipv4(ip.subspan<16, 4>(), own);
    map_ipv4(ip.subspan<12, 4>(), out.dgid);
    out.traffic_class = ip[1];
    out.hop_limit = ip[8];
  } else {
    const std::uint32_t first = word(header, 0);
    const bool infiniband = home.persona().kind == persona_kind::infiniband;
    if (first >> 28U != 6 || header[6] != (infiniband ? infiniband_transport : udp_protocol))
      return EPROTONOSUPPORT;
    std::ranges::copy(header.subspan<8, 16>(), out.dgid.raw);
    std::ranges::copy(header.subspan<24, 16>(), own.raw);
    out.traffic_class = static_cast<std::uint8_t>(first >> 20U);
    out.flow_label = first & 0xf'ffffU;
    out.hop_limit = header[7];
  }
  const int index = index_of(home, own.raw);
  if (index < 0) return ENOENT;
  out.sgid_index = static_cast<std::uint8_t>(index);
  return 0;
}

}  // namespace
}  // namespace verbena::softdev

using namespace verbena::softdev;

extern "C" {

ibv_ah* ibv_create_ah(ibv_pd* pd, ibv_ah_attr* attr) {
  context_object& context = object_of(pd->context);
  if (!working(context)) return nullptr;
  std::uint8_t wire_mtu = 0;
  if (const int refused = check_datagram_address(*context.host, *attr, wire_mtu))
    return fail(refused);
  std::atomic<int>& handles = context.host->adapter().counts().address_handles;
  if (handles.fetch_add(1) >= object_limits::max_ah) {
    handles.fetch_sub(1);
    return fail(ENOMEM);
  }
  auto* const object = new (std::nothrow) ah_object{};
  if (object == nullptr) {
    handles.fetch_sub(1);
    return fail(ENOMEM);
  }
  object->context = pd->context;
  object->pd = pd;
  object->address = to_datagram_address(*context.host, *attr, wire_mtu);
  object_of(pd).children.add();
  object_of(pd).addresses.fetch_add(1);
  return object;
}

int ibv_destroy_ah(ibv_ah* ah) {
  if (!usable(object_of(ah->context))) return ENODEV;
  object_of(ah->pd).addresses.fetch_sub(1);
  object_of(ah->pd).children.remove();
  object_of(ah->context).host->adapter().counts().address_handles.fetch_sub(1);
  delete &object_of(ah);
  return 0;
}

int ibv_init_ah_from_wc(ibv_context* context, std::uint8_t port_num, ibv_wc* wc, ibv_grh* grh,
                        ibv_ah_attr* ah_attr) {
  if (!usable(object_of(context))) return -1;
  *ah_attr = {};
  ah_attr->dlid = wc->slid;
  ah_attr->sl = wc->sl;
  ah_attr->src_path_bits = wc->dlid_path_bits;
  ah_attr->port_num = port_num;
  if ((wc->wc_flags & IBV_WC_GRH) == 0) return 0;
  std::array<std::uint8_t, grh_bytes> header;
  std::memcpy(header.data(), grh, header.size());
  ah_attr->is_global = 1;
  host& home = *object_of(context).host;
  const int failed =
      home.core().port().has(port_num) ? reverse_route(home, header, ah_attr->grh) : EINVAL;
  if (failed == 0) return 0;
  errno = failed;
  return -1;
}

ibv_ah* ibv_create_ah_from_wc(ibv_pd* pd, ibv_wc* wc, ibv_grh* grh, std::uint8_t port_num) {
  ibv_ah_attr attr;
  if (ibv_init_ah_from_wc(pd->context, port_num, wc, grh, &attr) != 0) return nullptr;
  return ibv_create_ah(pd, &attr);
}

// Supports only GIDs of this host: packets to other hosts are sent through UDP sockets, without
// Ethernet addresses. 0xffff: no VLAN.
int ibv_resolve_eth_l2_from_gid(ibv_context* context, ibv_ah_attr* attr,
                                std::uint8_t eth_mac[ETHERNET_LL_SIZE], std::uint16_t* vid) {
  context_object& owner = object_of(context);
  if (!usable(owner)) return ENODEV;
  if (const int refused = check_address(*owner.host, *attr)) return refused;
  const auto& guid = process_persona().node_guid;
  std::copy_n(guid.begin(), 3, eth_mac);
  std::copy_n(guid.begin() + 5, 3, eth_mac + 3);
  *vid = 0xffff;
  return 0;
}

}  // extern "C"
