// SPDX-License-Identifier: MIT
// What a device reports on its own: failing queues, ports that go up and down, tables that change.
// context::poll_event() and context::wait_event() deliver it.
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

/// What happened. Values as in `ibv_event_type`; unknown ones are kept.
/// Source: ibv_get_async_event(3).
enum class async_event_kind : std::uint32_t {
  cq_error = IBV_EVENT_CQ_ERR,    ///< a completion queue overflowed or broke
  qp_fatal = IBV_EVENT_QP_FATAL,  ///< a queue pair failed and cannot say it by a completion
  qp_request_error = IBV_EVENT_QP_REQ_ERR,  ///< a peer's request was invalid; the queue pair failed
  qp_access_error =
      IBV_EVENT_QP_ACCESS_ERR,  ///< a peer tried what it may not; the queue pair failed
  communication_established =
      IBV_EVENT_COMM_EST,  ///< a first message came before the queue pair was ready to send
  send_queue_drained = IBV_EVENT_SQ_DRAINED,  ///< what was under way has ended, in the state SQD
  path_migrated = IBV_EVENT_PATH_MIG,         ///< a connection goes on by its alternate path
  path_migration_error =
      IBV_EVENT_PATH_MIG_ERR,             ///< a connection could not change to its alternate path
  device_fatal = IBV_EVENT_DEVICE_FATAL,  ///< the device works no more
  port_active = IBV_EVENT_PORT_ACTIVE,    ///< a port came up
  port_error = IBV_EVENT_PORT_ERR,        ///< a port went down
  lid_change = IBV_EVENT_LID_CHANGE,      ///< the subnet manager gave a port another LID
  pkey_change = IBV_EVENT_PKEY_CHANGE,    ///< a port's table of P_Keys changed
  sm_change = IBV_EVENT_SM_CHANGE,        ///< there is another subnet manager
  srq_error = IBV_EVENT_SRQ_ERR,          ///< a shared receive queue failed
  srq_limit_reached = IBV_EVENT_SRQ_LIMIT_REACHED,  ///< fewer receives are left than were armed for
  qp_last_wqe_reached = IBV_EVENT_QP_LAST_WQE_REACHED,  ///< a failed queue pair takes nothing more
                                                        ///< from its shared receive queue
  client_reregister =
      IBV_EVENT_CLIENT_REREGISTER,    ///< the subnet manager asks for all subscriptions again
  gid_change = IBV_EVENT_GID_CHANGE,  ///< a port's GID table changed
  wq_fatal = IBV_EVENT_WQ_FATAL,      ///< a work queue failed
  device_speed_change = 20,           ///< IBV_EVENT_DEVICE_SPEED_CHANGE, of newer rdma-core
};

/// `SRQ_LIMIT_REACHED`: the name of verbs.h without `IBV_EVENT_`; `unknown (77)` for other values.
[[nodiscard]] std::string to_string(async_event_kind kind);
/// What it means and what is to be done, in words; empty for unknown values.
[[nodiscard]] std::string_view describe(async_event_kind kind) noexcept;

/// A handle of something that raises events: queue pairs, completion queues and shared receive
/// queues. Ports and devices are not objects; async_event::port() and kind() tell of them.
template <class Object>
concept raises_async_events = requires(const Object& object) {
  { object.native() } -> std::same_as<ibv_qp*>;
} || requires(const Object& object) {
  { object.native() } -> std::same_as<ibv_cq*>;
} || requires(const Object& object) {
  { object.native() } -> std::same_as<ibv_srq*>;
};

/// One event: a copy, made before the event was acknowledged and delivered. libibverbs does not
/// destroy an object as long as an event of it is not acknowledged; since all are, no close() and
/// no destructor ever waits for an event that somebody holds.
///
/// What it costs: the object may be gone by the time the event is looked at, and a later one may
/// have its address. So ask concerns() of handles that exist since before the event was taken.
/// Threads: immutable value.
class async_event {
 public:
  /// A copy of `pending`, which is not yet acknowledged, of the device called `device`: for
  /// programs that call ibv_get_async_event(3) themselves.
  async_event(const ibv_async_event& pending, std::string_view device);

  /// What happened.
  [[nodiscard]] async_event_kind kind() const noexcept {
    return enum_from_bits<async_event_kind>(native_.event_type);
  }
  /// The port, for what happens to ports: PORT_ACTIVE, PORT_ERR, LID_CHANGE, PKEY_CHANGE,
  /// SM_CHANGE, GID_CHANGE, CLIENT_REREGISTER; nothing for other kinds.
  [[nodiscard]] std::optional<port_number> port() const noexcept;
  /// The queue pair's number, for what happens to queue pairs; nothing for other kinds.
  [[nodiscard]] std::optional<queue_pair_number> queue_pair() const noexcept { return queue_pair_; }
  /// What it is about, as messages call it: `queue pair 0x11 on soft0`, `port 1 of soft0`, `soft0`.
  [[nodiscard]] const std::string& object() const noexcept { return object_; }

  /// True when it is about `object`, by the object's address in the C API. Events of unknown kinds
  /// concern no object.
  template <raises_async_events Object>
  [[nodiscard]] bool concerns(const Object& object) const {
    return is_about(object.native());
  }

  /// The event of the C API. Its pointers are to be compared, since the objects may be gone.
  [[nodiscard]] const ibv_async_event& native() const noexcept { return native_; }

 private:
  [[nodiscard]] bool is_about(const ibv_qp* queue) const noexcept;
  [[nodiscard]] bool is_about(const ibv_cq* queue) const noexcept;
  [[nodiscard]] bool is_about(const ibv_srq* queue) const noexcept;

  ibv_async_event native_;
  std::optional<queue_pair_number> queue_pair_;
  std::string object_;
};

/// `QP_ACCESS_ERR of queue pair 0x11 on soft0: a peer tried what it may not …`.
[[nodiscard]] std::string to_string(const async_event& event);

}  // namespace verbena::inline VERBENA_ABI
