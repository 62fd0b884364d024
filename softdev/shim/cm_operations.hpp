// SPDX-License-Identifier: MIT
// The functions of rdma_cma.h for calls within the device: the exported names could resolve to
// another library of the process. Errors are reported as in rdma_cma.h.
#pragma once

#include <rdma/rdma_cma.h>

#include <cerrno>

#include "softdev/host/host.hpp"
#include "softdev/shim/cm_objects.hpp"

namespace verbena::softdev {

/// Returns 0 if `code` is 0; else sets errno and returns -1.
[[nodiscard]] inline int cm_result(int code) noexcept {
  if (code == 0) return 0;
  errno = code;
  return -1;
}

/// Returns the device of the process.
[[nodiscard]] host& cm_host(const cm_id_object& id) noexcept;

[[nodiscard]] cm_channel_object* cm_create_channel(cm_process& home);
void cm_destroy_channel(rdma_event_channel* channel) noexcept;
[[nodiscard]] int cm_get_event(rdma_event_channel* channel, rdma_cm_event** out);
[[nodiscard]] int cm_acknowledge(rdma_cm_event* event);
/// Acknowledges the event that a synchronous identifier still has, if there is one.
void cm_acknowledge_own(rdma_cm_id& id);

[[nodiscard]] int cm_create_id(rdma_event_channel* channel, rdma_cm_id** out, void* context,
                               rdma_port_space space, ibv_qp_type type);
/// Creates the identifier of a connection request to `listener`. Returns nullptr and errno on
/// failure.
[[nodiscard]] cm_id_object* cm_adopt(cm_id_object& listener, const cm::endpoint_ptr& end);
[[nodiscard]] int cm_destroy_id(rdma_cm_id* id);
[[nodiscard]] int cm_migrate(rdma_cm_id* id, rdma_event_channel* channel);
/// If the identifier is synchronous, waits for the event that completes the call. The event stays
/// in `id->event`.
[[nodiscard]] int cm_complete(cm_id_object& id);

/// Sets the addresses in the public members, and the device if the source address is known.
void cm_refresh(cm_id_object& id);
/// Returns the path MTU (ibv_mtu) that a request to another host proposes; 0 if the destination is
/// this host.
[[nodiscard]] std::uint8_t cm_path_mtu_to(host& home, const cm::address& destination);
/// Returns the path MTU of a connection: that of its request, else `fallback` if not 0, else
/// 4096 bytes.
[[nodiscard]] std::uint8_t cm_path_mtu(const cm::endpoint_view& now,
                                       std::uint8_t fallback = 0) noexcept;
/// Sets the path in the public members.
void cm_fill_path(cm_id_object& id);
[[nodiscard]] int cm_bind(rdma_cm_id* id, sockaddr* source);
[[nodiscard]] int cm_resolve_address(rdma_cm_id* id, sockaddr* source, sockaddr* destination);
[[nodiscard]] int cm_resolve_route(rdma_cm_id* id);

[[nodiscard]] int cm_create_queue_pair(rdma_cm_id* id, ibv_pd* pd, ibv_qp_init_attr* wanted);
void cm_destroy_queue_pair(rdma_cm_id* id) noexcept;
void cm_destroy_shared_queue(rdma_cm_id* id) noexcept;
[[nodiscard]] int cm_init_attributes(rdma_cm_id* id, ibv_qp_attr* out, int* mask);
/// Returns the address vector of `remote`, with the GID index of `source`.
[[nodiscard]] ibv_ah_attr cm_way(const cm_id_object& id, const cm::address& source,
                                 const cm::side& remote);
/// Moves the identifier's queue pair, if it has one, to RTR and RTS. Returns 0, or -1 with errno.
/// RDMA_MAX_RESP_RES and RDMA_MAX_INIT_DEPTH select the values of the request and the reply.
[[nodiscard]] int cm_make_ready(cm_id_object& id, std::uint8_t responder_resources,
                                std::uint8_t initiator_depth);
/// Moves the identifier's queue pair, if it has one, to ERR. Returns 0, or -1 with errno.
[[nodiscard]] int cm_to_error(cm_id_object& id);

/// Fills the event of a joined group. Attaches the identifier's queue pair, if it has one, unless
/// the membership is send-only. Returns false if the group was left meanwhile.
[[nodiscard]] bool cm_joined(cm_id_object& id, std::uint64_t membership, rdma_cm_event& out);

/// Connects the queue pair to that of the reply, and confirms the connection. Returns 0, or -1 with
/// errno.
[[nodiscard]] int cm_confirm(cm_id_object& id);

}  // namespace verbena::softdev
