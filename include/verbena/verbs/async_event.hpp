// SPDX-License-Identifier: MIT
// Asynchronous events: errors of queues, and changes of ports and of their tables.
// context::poll_event() and context::wait_event() return them.
#pragma once

#include <infiniband/verbs.h>

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "verbena/base/enum_bits.hpp"
#include "verbena/base/ids.hpp"

namespace verbena::inline VERBENA_ABI {

/// The kind of an asynchronous event. Values as in `ibv_event_type`; unknown values are preserved.
/// Source: ibv_get_async_event(3).
enum class async_event_kind : std::uint32_t {
  cq_error = IBV_EVENT_CQ_ERR,    ///< a completion queue overran or failed
  qp_fatal = IBV_EVENT_QP_FATAL,  ///< a queue pair failed and cannot generate a completion
  qp_request_error = IBV_EVENT_QP_REQ_ERR,  ///< a peer's request was invalid; the queue pair failed
  qp_access_error = IBV_EVENT_QP_ACCESS_ERR,  ///< a peer violated key, range or access flags of a
                                              ///< region; the queue pair failed
  communication_established =
      IBV_EVENT_COMM_EST,  ///< the first packet arrived while the queue pair was in RTR
  send_queue_drained = IBV_EVENT_SQ_DRAINED,  ///< in SQD: all sends that had begun are complete
  path_migrated = IBV_EVENT_PATH_MIG,         ///< a connection migrated to its alternate path
  path_migration_error =
      IBV_EVENT_PATH_MIG_ERR,             ///< a connection could not migrate to its alternate path
  device_fatal = IBV_EVENT_DEVICE_FATAL,  ///< the device no longer works
  port_active = IBV_EVENT_PORT_ACTIVE,    ///< the link of a port became active
  port_error = IBV_EVENT_PORT_ERR,        ///< the link of a port became unavailable
  lid_change = IBV_EVENT_LID_CHANGE,      ///< the LID of a port changed
  pkey_change = IBV_EVENT_PKEY_CHANGE,    ///< the P_Key table of a port changed
  sm_change = IBV_EVENT_SM_CHANGE,        ///< the subnet manager changed
  srq_error = IBV_EVENT_SRQ_ERR,          ///< a shared receive queue failed
  srq_limit_reached = IBV_EVENT_SRQ_LIMIT_REACHED,  ///< the number of receives is below the limit
  qp_last_wqe_reached = IBV_EVENT_QP_LAST_WQE_REACHED,  ///< a failed queue pair will not consume
                                                        ///< another receive of its SRQ
  client_reregister = IBV_EVENT_CLIENT_REREGISTER,  ///< the subnet manager requests that clients
                                                    ///< register again (multicast, services)
  gid_change = IBV_EVENT_GID_CHANGE,                ///< the GID table of a port changed
  wq_fatal = IBV_EVENT_WQ_FATAL,                    ///< a work queue failed
  device_speed_change = 20,  ///< the speed of the device changed (newer rdma-core)
};

/// Returns the name of verbs.h without `IBV_EVENT_`: `SRQ_LIMIT_REACHED`, or `unknown (77)`.
[[nodiscard]] std::string to_string(async_event_kind kind);
/// Returns the meaning and the remedy in words; empty for unknown values.
[[nodiscard]] std::string_view describe(async_event_kind kind) noexcept;

/// A handle of an object with asynchronous events: a queue pair, completion queue or shared receive
/// queue.
template <class Object>
concept raises_async_events = requires(const Object& object) {
  { object.native() } -> std::same_as<ibv_qp*>;
} || requires(const Object& object) {
  { object.native() } -> std::same_as<ibv_cq*>;
} || requires(const Object& object) {
  { object.native() } -> std::same_as<ibv_srq*>;
};

/// An asynchronous event. Source: ibv_get_async_event(3).
///
/// The library acknowledges the event before it returns this copy, so no close() and no destructor
/// waits for an event. Therefore the object of the event may no longer exist, and a new object may
/// have its address. Use concerns() only with handles that existed before the event was taken.
/// Threads: immutable value.
class async_event {
 public:
  /// Copies `pending`, an event of the device named `device` that is not acknowledged yet. For
  /// programs that call ibv_get_async_event(3).
  async_event(const ibv_async_event& pending, std::string_view device);

  /// Returns the kind of the event.
  [[nodiscard]] async_event_kind kind() const noexcept {
    return enum_from_bits<async_event_kind>(native_.event_type);
  }
  /// Returns the port of PORT_ACTIVE, PORT_ERR, LID_CHANGE, PKEY_CHANGE, SM_CHANGE, GID_CHANGE and
  /// CLIENT_REREGISTER; `nullopt` for other kinds.
  [[nodiscard]] std::optional<port_number> port() const noexcept;
  /// Returns the number of the queue pair; `nullopt` for events of other objects.
  [[nodiscard]] std::optional<queue_pair_number> queue_pair() const noexcept;
  /// Returns the name of the object: `queue pair 0x11 on soft0`, `port 1 of soft0`, `soft0`.
  [[nodiscard]] const std::string& object() const noexcept { return object_; }

  /// Returns whether the event belongs to `object`. Compares the addresses of the objects of the C
  /// API. If the kind of the event is unknown, returns false.
  template <raises_async_events Object>
  [[nodiscard]] bool concerns(const Object& object) const {
    return is_about(object.native());
  }

  /// Returns the event of the C API. Do not dereference its pointers: the object may not exist.
  [[nodiscard]] const ibv_async_event& native() const noexcept { return native_; }

 private:
  [[nodiscard]] bool is_about(const ibv_qp* queue) const noexcept;
  [[nodiscard]] bool is_about(const ibv_cq* queue) const noexcept;
  [[nodiscard]] bool is_about(const ibv_srq* queue) const noexcept;

  ibv_async_event native_;
  queue_pair_number queue_pair_;
  bool has_queue_pair_ = false;
  std::string object_;
};

/// Returns `QP_ACCESS_ERR of queue pair 0x11 on soft0: …`, with describe().
[[nodiscard]] std::string to_string(const async_event& event);

}  // namespace verbena::inline VERBENA_ABI
