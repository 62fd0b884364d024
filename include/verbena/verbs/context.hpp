// SPDX-License-Identifier: MIT
// An open device: queries, asynchronous events, and creation of objects.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "verbena/base/deadline.hpp"
#include "verbena/base/guid.hpp"
#include "verbena/base/ids.hpp"
#include "verbena/base/result.hpp"
#include "verbena/sys/provider.hpp"
#include "verbena/verbs/async_event.hpp"
#include "verbena/verbs/detail/states.hpp"
#include "verbena/verbs/device_attributes.hpp"
#include "verbena/verbs/device_clock.hpp"
#include "verbena/verbs/gid_table.hpp"
#include "verbena/verbs/handle.hpp"
#include "verbena/verbs/port_attributes.hpp"

namespace verbena::inline VERBENA_ABI {

class completion_channel;
class completion_queue;
struct completion_queue_options;
class extended_completion_queue;
struct extended_completion_queue_options;
class protection_domain;

/// A partition key (P_Key). The top bit indicates full membership.
using partition_key = strong_id<struct partition_key_tag, std::uint16_t>;

/// An open device, from device::open() or open_device(). Copies share the device. The device is
/// closed when the last copy and all objects made from the context have been destroyed.
///
/// Query and create functions allocate memory and may block in the kernel. Their errors have the
/// errno of the verb and name the device and the port.
/// Threads: thread-safe for const use; other members by one thread at a time.
class context : public handle<detail::context_state> {
 public:
  /// Adopts a context of the C API. Precondition: the provider `from` opened it.
  [[nodiscard]] static context adopt(ibv_context* native, const verbena::provider& from,
                                     ownership owner);
  /// Borrows a context, which must stay open as long as `keep_alive` exists. The handles and all
  /// objects made from them hold copies of `keep_alive`.
  [[nodiscard]] static context borrow(ibv_context* native, const verbena::provider& from,
                                      std::shared_ptr<const void> keep_alive);

  /// Returns the number of completion vectors (`num_comp_vectors`).
  [[nodiscard]] std::uint32_t completion_vectors() const;

  /// Queries the attributes of the device: ibv_query_device(3).
  [[nodiscard]] result<device_attributes> query() const;
  /// Queries the extended attributes: ibv_query_device_ex(3). If the provider does not support the
  /// verb, all attributes except the basic ones are zero.
  [[nodiscard]] result<extended_device_attributes> query_extended() const;
  /// Queries a port: ibv_query_port(3). Ports count from 1.
  [[nodiscard]] result<port_attributes> query_port(port_number port) const;

  /// Returns the valid GIDs of all ports, in the order of the device: ibv_query_gid_table(3). Omits
  /// entries with a port or an index above 255, which an address vector cannot contain.
  [[nodiscard]] result<std::vector<gid_entry>> gid_table() const;
  /// Returns one entry of a GID table: ibv_query_gid_ex(3). Errors: ENODATA for an empty entry.
  [[nodiscard]] result<gid_entry> query_gid(port_number port, gid_index index) const;
  /// Returns the GID of `port` that most likely reaches other hosts, by choose_routable(). Errors:
  /// `unavailable` if the port has no GID.
  [[nodiscard]] result<gid_entry> routable_gid(port_number port) const;
  /// Returns an entry of the P_Key table of a port: ibv_query_pkey(3).
  [[nodiscard]] result<partition_key> query_pkey(port_number port, std::uint16_t index) const;

  /// Reads the clock of completion timestamps: ibv_query_rt_values_ex(3). The first call also
  /// queries the device.
  ///
  /// Errors: `not_supported` if the device has no readable clock.
  [[nodiscard]] result<device_clock_time> read_clock() const;

  /// Returns the descriptor for poll(2) and epoll(7). The descriptor is readable if there is an
  /// asynchronous event. The context owns it. The first call of async_fd(), poll_event() or
  /// wait_event() makes it non-blocking, also for an adopted or borrowed context. If fcntl(2)
  /// fails, the next poll_event() or wait_event() returns the error.
  [[nodiscard]] int async_fd() const;
  /// Takes one asynchronous event, or returns `nullopt` if there is none. Does not block; allocates
  /// for an event. Thread-safe: each event is returned to one thread.
  ///
  /// Errors: the errno of ibv_get_async_event(3) or fcntl(2); EIO if the device was removed.
  [[nodiscard(
      "each event is returned only once: use the result")]] result<std::optional<async_event>>
  poll_event() const;
  /// Waits for an event until the deadline. If the deadline passes, returns `nullopt`. Signals, and
  /// events that another thread takes, do not end the wait. Blocks and allocates. Thread-safe.
  ///
  /// Errors: the errno of poll(2) or ibv_get_async_event(3).
  [[nodiscard(
      "each event is returned only once: use the result")]] result<std::optional<async_event>>
  wait_event(deadline until) const;

  /// Allocates a protection domain: ibv_alloc_pd(3).
  [[nodiscard]] result<protection_domain> allocate_pd() const;

  /// Creates a completion queue of at least `capacity` entries: ibv_create_cq(3).
  ///
  /// Errors: `invalid_argument` for a capacity of 0 or more than 2^31 - 1; otherwise the errno of
  /// the verb, with the limits of the device in the message.
  [[nodiscard]] result<completion_queue> create_cq(std::uint32_t capacity) const;
  /// Creates a completion queue with options. Errors: also `invalid_argument` for a completion
  /// vector that does not exist.
  [[nodiscard]] result<completion_queue> create_cq(std::uint32_t capacity,
                                                   const completion_queue_options& options) const;
  /// Creates an extended completion queue: ibv_create_cq_ex(3). Errors: those of create_cq();
  /// `not_supported` if the device does not support extended completion queues or an option.
  [[nodiscard]] result<extended_completion_queue> create_extended_cq(std::uint32_t capacity) const;
  /// Creates an extended completion queue with options. Errors: those of create_cq() and of
  /// create_extended_cq() without options.
  [[nodiscard]] result<extended_completion_queue> create_extended_cq(
      std::uint32_t capacity, const extended_completion_queue_options& options) const;
  /// Creates a completion channel: ibv_create_comp_channel(3).
  [[nodiscard]] result<completion_channel> create_completion_channel() const;

  /// Closes the device: ibv_close_device(3). If copies or objects made from it exist, or if the
  /// verb fails, returns the context with the error.
  close_result<context> close() &&;

 private:
  friend struct detail::internals;
  [[nodiscard]] result<void> stop_blocking_for_events() const;
  using handle::handle;
};

}  // namespace verbena::inline VERBENA_ABI
