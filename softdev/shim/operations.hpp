// SPDX-License-Identifier: MIT
// The functions that programs call through pointers in a context, not by name. Errors are reported
// as in verbs.h.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>

#include "softdev/core/engine.hpp"
#include "softdev/shim/objects.hpp"

namespace verbena::softdev {

int query_port(ibv_context* context, std::uint8_t port_num, ibv_port_attr* attributes,
               std::size_t size);
int query_device_ex(ibv_context* context, const ibv_query_device_ex_input* input,
                    ibv_device_attr_ex* attributes, std::size_t size);
int query_rt_values(ibv_context* context, ibv_values_ex* values);

int advise_mr(ibv_pd* pd, ibv_advise_mr_advice advice, std::uint32_t flags, ibv_sge* ranges,
              std::uint32_t count);

ibv_cq_ex* create_cq_ex(ibv_context* context, ibv_cq_init_attr_ex* attributes);
int poll_cq(ibv_cq* cq, int num_entries, ibv_wc* entries);
int req_notify_cq(ibv_cq* cq, int solicited_only);
int modify_cq(ibv_cq* cq, ibv_modify_cq_attr* changes);
/// Publishes, or withdraws, the receive completion queue of `qp`, so that peers that send to `qp`
/// see whether it is armed.
void publish_completion_queues(qp_object& qp) noexcept;
void withdraw_completion_queues(qp_object& qp) noexcept;
/// Sets the functions of the lazy interface in a new completion queue.
void fill_lazy_interface(cq_object& cq, std::uint64_t wc_flags) noexcept;

struct queue_pair_creation {
  ibv_pd* pd = nullptr;
  ibv_qp_init_attr wanted{};
  bool extended = false;
  std::uint64_t operations = 0;
  bool scalable = false;  ///< SRD
};
/// Translates the extended attributes, whose comp_mask was checked.
[[nodiscard]] queue_pair_creation creation_of(const ibv_qp_init_attr_ex& wanted) noexcept;
/// Creates a queue pair, and sets `granted` to the sizes of its queues. Returns NULL and errno on
/// failure.
ibv_qp* create_queue_pair(queue_pair_creation& what, ibv_qp_cap& granted);
ibv_qp* create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* attributes);
int post_send(ibv_qp* qp, ibv_send_wr* request, ibv_send_wr** bad_request);
int post_send_to_efa(ibv_qp* qp, ibv_send_wr* request, ibv_send_wr** bad_request);
int post_receive(ibv_qp* qp, ibv_recv_wr* request, ibv_recv_wr** bad_request);
ibv_srq* create_srq_ex(ibv_context* context, ibv_srq_init_attr_ex* attributes);
int post_shared_receive(ibv_srq* srq, ibv_recv_wr* request, ibv_recv_wr** bad_request);
/// Returns the ibv_qp_create_send_ops_flags that a transport supports.
[[nodiscard]] std::uint64_t supported_send_operations(ibv_qp_type type) noexcept;
struct destination_handle {
  ibv_ah* ah;
  std::uint32_t qpn;
  std::uint32_t qkey;
};
/// Sets the destination of the last datagram of the open batch. Returns 0, or EINVAL if the address
/// handle is null or of another protection domain.
[[nodiscard]] int set_destination(qp_object& qp, const destination_handle& to) noexcept;
/// Sets the functions of the extended interface in a new queue pair.
void fill_extended_interface(qp_object& qp, std::uint64_t operations) noexcept;

/// Returns the observer that passes events of queue pairs on to their contexts.
[[nodiscard]] queue_pair_observer& queue_pair_events() noexcept;
/// Reports an event of the device or its port to a context, and applies its effect. Called on any
/// thread.
[[nodiscard]] bool notify_context(event_report& report);
/// Returns the kind of the node of an event: its type and port.
[[nodiscard]] std::uint32_t kind_of(raised_event what) noexcept;
/// Prepares the event nodes of an object.
void prepare_events(context_object& context) noexcept;
void prepare_events(qp_object& qp) noexcept;
void prepare_events(cq_object& cq) noexcept;
void prepare_events(srq_object& srq) noexcept;
/// Drops the pending events of an object before its destruction. Blocks until the program has
/// acknowledged the events that it has taken.
void finish_events(qp_object& qp) noexcept;
void finish_events(cq_object& cq) noexcept;
void finish_events(srq_object& srq) noexcept;

}  // namespace verbena::softdev
