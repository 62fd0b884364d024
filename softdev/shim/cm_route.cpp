// SPDX-License-Identifier: MIT
// Addresses and routes of identifiers, and the list of devices, which has one entry.
#include <rdma/rdma_cma.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <new>

#include "softdev/ipc/cancellation.hpp"
#include "softdev/shim/address.hpp"
#include "softdev/shim/cm_address.hpp"
#include "softdev/shim/cm_operations.hpp"
#include "softdev/shim/cm_wire.hpp"
#include "softdev/shim/guard.hpp"
#include "softdev/shim/objects.hpp"

namespace verbena::softdev {
namespace {

constexpr std::uint8_t exactly = 2;            // a selector in a path record
constexpr std::uint8_t packet_life_time = 14;  // 4.096 us * 2^14 = 67 ms

}  // namespace

host& cm_host(const cm_id_object& id) noexcept { return *object_of(id.home->context).host; }

ibv_ah_attr cm_way(const cm_id_object& id, const cm::address& source, const cm::side& remote) {
  host& home = cm_host(id);
  ibv_ah_attr out{};
  out.port_num = 1;
  out.dlid = remote.lid;
  out.is_global = home.persona().kind == persona_kind::infiniband ? 0 : 1;
  out.grh.sgid_index = cm_gid_index(home, source);
  out.grh.hop_limit = cm_hop_limit;
  out.grh.traffic_class = id.type_of_service;
  std::ranges::copy(remote.gid, out.grh.dgid.raw);
  return out;
}

std::uint8_t cm_path_mtu_to(host& home, const cm::address& destination) {
  const bool other = is_on_another_host(home, destination);
  return other ? static_cast<std::uint8_t>(active_mtu(home)) : std::uint8_t{0};
}

std::uint8_t cm_path_mtu(const cm::endpoint_view& now, std::uint8_t fallback) noexcept {
  const std::uint8_t path_mtu = now.active ? now.local.path_mtu : now.remote.path_mtu;
  if (path_mtu != 0) return path_mtu;
  return fallback != 0 ? fallback : std::uint8_t{IBV_MTU_4096};
}

void cm_refresh(cm_id_object& id) {
  const cm::endpoint_view now = id.home->manager->look(id.end);
  rdma_addr& out = id.route.addr;
  if (now.source.family != cm::address_family::none) to_sockaddr(now.source, out.src_storage);
  if (now.destination.family != cm::address_family::none)
    to_sockaddr(now.destination, out.dst_storage);
  if (now.source.family == cm::address_family::none || cm::is_wildcard(now.source)) return;
  if (id.verbs == nullptr) {
    id.verbs = id.home->context;
    if (id.pd == nullptr) id.pd = id.home->domain;
    id.port_num = 1;
  }
  host& home = cm_host(id);
  rdma_ib_addr& gids = out.addr.ibaddr;
  gids.pkey = htobe16(home.core().port().pkey(0));
  gids.sgid = cm_gid(home, cm_gid_index(home, now.source));
  if (cm::is_multicast(now.destination)) {
    gids.dgid = cm_group_of(home, now.destination).gid;
  } else if (now.destination.family != cm::address_family::none) {
    const bool other = is_on_another_host(home, now.destination);
    if (other)
      std::ranges::copy(cm::gid_of(now.destination), gids.dgid.raw);
    else
      gids.dgid = cm_gid(home, cm_gid_index(home, now.destination));
  }
}

void cm_fill_path(cm_id_object& id) {
  if (id.verbs == nullptr || id.path != nullptr) return;
  id.path = std::make_unique<ibv_sa_path_rec>();
  ibv_sa_path_rec& path = *id.path;
  host& home = cm_host(id);
  const rdma_ib_addr& gids = id.route.addr.addr.ibaddr;
  path.sgid = gids.sgid;
  path.dgid = gids.dgid;
  const cm::endpoint_view now = id.home->manager->look(id.end);
  if (home.persona().kind == persona_kind::infiniband) {
    path.slid = htobe16(home.core().port().lid());
    path.dlid = now.remote.lid != 0 ? htobe16(now.remote.lid) : path.slid;
  }
  path.hop_limit = cm_hop_limit;
  path.traffic_class = id.type_of_service;
  path.reversible = 1;
  path.numb_path = 1;
  path.pkey = gids.pkey;
  path.mtu_selector = exactly;
  path.mtu = cm_path_mtu(now, cm_path_mtu_to(home, now.destination));
  path.rate_selector = exactly;
  path.rate = IBV_RATE_100_GBPS;
  path.packet_life_time_selector = exactly;
  path.packet_life_time = packet_life_time;
  id.route.path_rec = id.path.get();
  id.route.num_paths = 1;
}

int cm_bind(rdma_cm_id* id, sockaddr* source) {
  cm_id_object& object = object_of(id);
  if (!cm_usable(*object.home)) return -1;
  const auto wanted = to_cm_address(source);
  if (!wanted) return cm_result(EINVAL);
  if (const int refused = object.home->manager->bind(object.end, *wanted))
    return cm_result(refused);
  cm_refresh(object);
  return 0;
}

int cm_resolve_address(rdma_cm_id* id, sockaddr* source, sockaddr* destination) {
  cm_id_object& object = object_of(id);
  if (!cm_usable(*object.home)) return -1;
  const auto from = to_cm_address(source);
  const auto to = to_cm_address(destination);
  if (!to || (source != nullptr && !from)) return cm_result(EINVAL);
  if (const int refused = object.home->manager->resolve_address(object.end, from, *to))
    return cm_result(refused);
  to_sockaddr(*to, object.route.addr.dst_storage);
  return cm_complete(object);
}

int cm_resolve_route(rdma_cm_id* id) {
  cm_id_object& object = object_of(id);
  if (!cm_usable(*object.home)) return -1;
  if (const int refused = object.home->manager->resolve_route(object.end))
    return cm_result(refused);
  return cm_complete(object);
}

}  // namespace verbena::softdev

using namespace verbena::softdev;

#pragma GCC visibility push(default)
extern "C" {

int rdma_bind_addr(rdma_cm_id* id, sockaddr* addr) try {
  const without_cancellation disabled;
  return cm_bind(id, addr);
}
VERBENA_END_OF_C_FUNCTION(minus_one)

// Ignores the timeout: the result is known at once.
int rdma_resolve_addr(rdma_cm_id* id, sockaddr* src_addr, sockaddr* dst_addr,
                      int /*timeout_ms*/) try {
  const without_cancellation disabled;
  return cm_resolve_address(id, src_addr, dst_addr);
}
VERBENA_END_OF_C_FUNCTION(minus_one)

int rdma_resolve_route(rdma_cm_id* id, int /*timeout_ms*/) try {
  const without_cancellation disabled;
  return cm_resolve_route(id);
}
VERBENA_END_OF_C_FUNCTION(minus_one)

ibv_context** rdma_get_devices(int* num_devices) try {
  const without_cancellation disabled;
  if (num_devices != nullptr) *num_devices = 0;
  const cm_process* const home = cm_here();
  if (home == nullptr) return nullptr;
  auto** const list = static_cast<ibv_context**>(std::calloc(2, sizeof(ibv_context*)));
  if (list == nullptr) return nullptr;
  list[0] = home->context;
  if (num_devices != nullptr) *num_devices = 1;
  return list;
}
VERBENA_END_OF_C_FUNCTION(null)

void rdma_free_devices(ibv_context** list) try {
  const without_cancellation disabled;
  std::free(list);
}
VERBENA_END_OF_SILENT_C_FUNCTION

}  // extern "C"
#pragma GCC visibility pop
