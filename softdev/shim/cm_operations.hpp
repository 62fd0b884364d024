// SPDX-License-Identifier: MIT
// The functions of rdma_cma.h as calls within the device: the exported names could be taken by
// another library of the process. Conventions on errors are those of rdma_cma.h.
#pragma once

#include <rdma/rdma_cma.h>

#include <cerrno>

#include "softdev/host/host.hpp"
#include "softdev/shim/cm_objects.hpp"

namespace verbena::softdev {

/// 0 for 0; else -1 with errno.
[[nodiscard]] inline int cm_result(int code) noexcept {
  if (code == 0) return 0;
  errno = code;
  return -1;
}

/// The process's device.
[[nodiscard]] host& cm_host(const cm_id_object& id) noexcept;

[[nodiscard]] cm_channel_object* cm_create_channel(cm_process& home);
void cm_destroy_channel(rdma_event_channel* channel) noexcept;
[[nodiscard]] int cm_get_event(rdma_event_channel* channel, rdma_cm_event** out);
[[nodiscard]] int cm_acknowledge(rdma_cm_event* event);
/// Acknowledges the event that a synchronous identifier still has, if there is one.
void cm_acknowledge_own(rdma_cm_id& id);

[[nodiscard]] int cm_create_id(rdma_event_channel* channel, rdma_cm_id** out, void* context,
                               rdma_port_space space, ibv_qp_type type);
/// The identifier of a request that came for `listener`; nullptr with errno.
[[nodiscard]] cm_id_object* cm_adopt(cm_id_object& listener, const cm::endpoint_ptr& end);
[[nodiscard]] int cm_destroy_id(rdma_cm_id* id);
[[nodiscard]] int cm_migrate(rdma_cm_id* id, rdma_event_channel* channel);
/// Of a synchronous identifier: waits for the event that ends the call; it stays in `id->event`.
[[nodiscard]] int cm_complete(cm_id_object& id);

/// Puts the addresses, and the device once there is one, into the public members.
void cm_refresh(cm_id_object& id);
/// The path MTU (ibv_mtu) that a request to another host proposes; 0: the destination is this host.
[[nodiscard]] std::uint8_t cm_path_mtu_to(host& home, const cm::address& destination);
/// That of a connection: what its request said, else `unless_said` if it is not 0.
[[nodiscard]] std::uint8_t cm_path_mtu(const cm::endpoint_view& now,
                                       std::uint8_t unless_said = 0) noexcept;
/// Puts the path into the public members.
void cm_fill_path(cm_id_object& id);
[[nodiscard]] int cm_bind(rdma_cm_id* id, sockaddr* source);
[[nodiscard]] int cm_resolve_address(rdma_cm_id* id, sockaddr* source, sockaddr* destination);
[[nodiscard]] int cm_resolve_route(rdma_cm_id* id);

[[nodiscard]] int cm_create_queue_pair(rdma_cm_id* id, ibv_pd* pd, ibv_qp_init_attr* wanted);
void cm_destroy_queue_pair(rdma_cm_id* id) noexcept;
void cm_destroy_shared_queue(rdma_cm_id* id) noexcept;
[[nodiscard]] int cm_init_attributes(rdma_cm_id* id, ibv_qp_attr* out, int* mask);
/// The way to `remote`, from the place of `source` in the GID table.
[[nodiscard]] ibv_ah_attr cm_way(const cm_id_object& id, const cm::address& source,
                                 const cm::side& remote);
/// Moves the identifier's queue pair, if it has one, to RTR and RTS: 0, or -1 with errno. Reads are
/// those of the request and the reply where RDMA_MAX_RESP_RES or RDMA_MAX_INIT_DEPTH stands.
[[nodiscard]] int cm_make_ready(cm_id_object& id, std::uint8_t responder_resources,
                                std::uint8_t initiator_depth);
/// Moves the identifier's queue pair, if it has one: 0, or -1 with errno.
[[nodiscard]] int cm_to_error(cm_id_object& id);

/// What the event of a joined group says; attaches the identifier's queue pair, if it has one and
/// is to receive. False when the group was left meanwhile.
[[nodiscard]] bool cm_joined(cm_id_object& id, std::uint64_t membership, rdma_cm_event& out);

/// Connects the queue pair to the one that has answered, and confirms: 0, or -1 with errno.
[[nodiscard]] int cm_confirm(cm_id_object& id);

}  // namespace verbena::softdev
