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

/// A partition key. The top bit indicates full membership.
using partition_key = strong_id<struct partition_key_tag, std::uint16_t>;

/// An open device, made by device::open() or open_device(). Copies share the device, which is
/// closed after the last copy and all objects made from it are destroyed.
///
/// Queries and creations call the kernel or the software device: they may block briefly and
/// allocate. Their errors have the errno of the verb, and name the device and, if it applies, the
/// port. Threads: thread-safe for const use; other members by one thread at a time.
class context : public handle<detail::context_state> {
 public:
  /// Adopts a context of the C API. Precondition: the provider `from` opened it.
  [[nodiscard]] static context adopt(ibv_context* native, const verbena::provider& from,
                                     ownership owner);
  /// Borrows a context that the owner of `keep_alive` closes.
  [[nodiscard]] static context borrow(ibv_context* native, const verbena::provider& from,
                                      std::shared_ptr<const void> keep_alive);

  /// Returns the number of completion vectors.
  [[nodiscard]] std::uint32_t completion_vectors() const;

  /// Queries the attributes of the device: ibv_query_device(3).
  [[nodiscard]] result<device_attributes> query() const;
  /// Queries the extended attributes: ibv_query_device_ex(3). If the provider does not support it,
  /// all but the basic attributes are zero.
  [[nodiscard]] result<extended_device_attributes> query_extended() const;
  /// Queries a port: ibv_query_port(3). Ports count from 1.
  [[nodiscard]] result<port_attributes> query_port(port_number port) const;

  /// Returns the valid GIDs of all ports, in the order of the device.
  [[nodiscard]] result<std::vector<gid_entry>> gid_table() const;
  /// Returns one entry of a GID table. Errors: ENODATA for an empty entry.
  [[nodiscard]] result<gid_entry> query_gid(port_number port, gid_index index) const;
  /// Returns the GID of `port` that most likely reaches other hosts; choose_routable() has the
  /// order of preference. Errors: `unavailable` if the port has no GID.
  [[nodiscard]] result<gid_entry> routable_gid(port_number port) const;
  /// Returns an entry of the P_Key table of a port.
  [[nodiscard]] result<partition_key> query_pkey(port_number port, std::uint16_t index) const;

  /// Reads the clock of completion timestamps: ibv_query_rt_values_ex(3). Does not block.
  ///
  /// Errors: `not_supported` if the device has no readable clock.
  [[nodiscard]] result<device_clock_time> read_clock() const;

  /// Returns the descriptor for poll(2) and epoll(7). It is readable if there is an asynchronous
  /// event. The context owns it. The first call of async_fd(), poll_event() or wait_event() makes
  /// it non-blocking, also for an adopted or borrowed context.
  [[nodiscard]] int async_fd() const;
  /// Takes one event, or returns `nullopt` if there is none. The event is acknowledged before it is
  /// returned: see async_event. Never blocks. Thread-safe: each event is returned to one thread.
  ///
  /// Errors: the errno of ibv_get_async_event(3); EIO if the device was removed.
  [[nodiscard(
      "each event is returned only once: use the result")]] result<std::optional<async_event>>
  poll_event() const;
  /// Waits for an event until the deadline. If the deadline passes, returns `nullopt`. Signals, and
  /// events that another thread takes, do not end the wait. Blocks. Thread-safe.
  ///
  /// Errors: the errno of poll(2) or ibv_get_async_event(3).
  [[nodiscard(
      "each event is returned only once: use the result")]] result<std::optional<async_event>>
  wait_event(deadline until) const;

  /// Allocates a protection domain: ibv_alloc_pd(3).
  [[nodiscard]] result<protection_domain> allocate_pd() const;

  /// Creates a completion queue of at least `capacity` entries: see completion_queue.hpp.
  [[nodiscard]] result<completion_queue> create_cq(std::uint32_t capacity) const;
  /// Creates a completion queue with options.
  [[nodiscard]] result<completion_queue> create_cq(std::uint32_t capacity,
                                                   const completion_queue_options& options) const;
  /// Creates an extended completion queue: see extended_completion_queue.hpp.
  [[nodiscard]] result<extended_completion_queue> create_extended_cq(std::uint32_t capacity) const;
  /// Creates an extended completion queue with options.
  [[nodiscard]] result<extended_completion_queue> create_extended_cq(
      std::uint32_t capacity, const extended_completion_queue_options& options) const;
  /// Creates a completion channel: see completion_channel.hpp.
  [[nodiscard]] result<completion_channel> create_completion_channel() const;

  /// Closes the device. If copies or objects made from it exist, or if the verb fails, returns the
  /// context with the error.
  close_result<context> close() && { return close_handle(std::move(*this)); }

 private:
  friend struct detail::internals;
  [[nodiscard]] result<void> stop_blocking_for_events() const;
  using handle::handle;
};

}  // namespace verbena::inline VERBENA_ABI
