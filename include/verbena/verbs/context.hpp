// SPDX-License-Identifier: MIT
// An open device: what it can do, what its ports look like, and the objects made from it.
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
#include "verbena/verbs/detail/handle.hpp"
#include "verbena/verbs/detail/states.hpp"
#include "verbena/verbs/device_attributes.hpp"
#include "verbena/verbs/device_clock.hpp"
#include "verbena/verbs/gid_table.hpp"
#include "verbena/verbs/port_attributes.hpp"

namespace verbena::inline VERBENA_ABI {

class completion_channel;
class completion_queue;
struct completion_queue_options;
class extended_completion_queue;
struct extended_completion_queue_options;
class protection_domain;

/// A partition key of InfiniBand; its top bit says full membership.
using partition_key = strong_id<struct partition_key_tag, std::uint16_t>;

/// An open device, made by device::open() or open_device(). A cheap handle: copies share the
/// device, which is closed when the last handle and everything made from it are gone.
///
/// Queries and creations call the kernel or the software device: they may block shortly and
/// allocate. Their errors carry the verb's errno, and name the device and where it applies the
/// port. Threads: one handle by one thread at a time; copies may be used by several.
class context : public detail::handle<detail::context_state> {
 public:
  /// A context that the C API opened. `from` must be the provider that opened it.
  [[nodiscard]] static context adopt(ibv_context* native, const verbena::provider& from,
                                     ownership owner);
  /// A context that somebody else closes, kept alive by `keep_alive`.
  [[nodiscard]] static context borrow(ibv_context* native, const verbena::provider& from,
                                      std::shared_ptr<const void> keep_alive);

  /// How many completion vectors (interrupts) completion queues can be spread over; at least 0.
  [[nodiscard]] std::uint32_t completion_vectors() const;

  /// What the device can do: ibv_query_device(3).
  [[nodiscard]] result<device_attributes> query() const;
  /// What ibv_query_device_ex(3) adds. A provider without it yields the basic attributes, the rest
  /// zero.
  [[nodiscard]] result<extended_device_attributes> query_extended() const;
  /// A port, in whatever state it is. Ports count from 1.
  [[nodiscard]] result<port_attributes> query_port(port_number port) const;

  /// All valid entries of the GID tables of all ports, in the device's order.
  [[nodiscard]] result<std::vector<gid_entry>> gid_table() const;
  /// One entry. Errors: ENODATA for an empty one.
  [[nodiscard]] result<gid_entry> query_gid(port_number port, gid_index index) const;
  /// The entry of `port` that most likely reaches other hosts: RoCE v2 with an IPv4 address (no
  /// loopback address if there is another), then RoCE v2 with a routable IPv6 address, then the
  /// first one. Errors: `unavailable` when the port has none.
  [[nodiscard]] result<gid_entry> routable_gid(port_number port) const;
  /// The P_Key at a place of the port's table.
  [[nodiscard]] result<partition_key> query_pkey(port_number port, std::uint16_t index) const;

  /// What the device's clock shows, the one of completion timestamps: ibv_query_rt_values_ex(3).
  /// Does not block. Errors: `not_supported` for a device without a clock that can be read.
  [[nodiscard]] result<device_clock_time> read_clock() const;

  /// The descriptor to put into poll(2), epoll(7) or an event loop: readable when there is an
  /// asynchronous event. It stays the context's. Made non-blocking once, at the first call of these
  /// three functions, also for contexts that were adopted or borrowed.
  [[nodiscard]] int event_fd() const;
  /// Takes one event, or nothing if there is none. The event is acknowledged before it is returned:
  /// see async_event. Never blocks. Thread-safe: of several threads each event reaches one.
  /// Errors: the errno of ibv_get_async_event(3); EIO when the device is gone.
  [[nodiscard("an event comes only once: look at it")]] result<std::optional<async_event>>
  poll_event() const;
  /// Waits for an event until the deadline and not shorter; nothing when it passes. Signals and
  /// events that another thread takes are waited out. Blocks. Thread-safe.
  /// Errors: the errno of poll(2) or ibv_get_async_event(3).
  [[nodiscard("an event comes only once: look at it")]] result<std::optional<async_event>>
  wait_event(deadline until) const;

  /// A new protection domain: ibv_alloc_pd(3).
  [[nodiscard]] result<protection_domain> allocate_pd() const;

  /// A new completion queue of at least `capacity` entries: see completion_queue.hpp.
  [[nodiscard]] result<completion_queue> create_cq(std::uint32_t capacity) const;
  /// The same with options.
  [[nodiscard]] result<completion_queue> create_cq(std::uint32_t capacity,
                                                   const completion_queue_options& options) const;
  /// A new completion queue with lazy reads: see extended_completion_queue.hpp.
  [[nodiscard]] result<extended_completion_queue> create_extended_cq(std::uint32_t capacity) const;
  /// The same with options.
  [[nodiscard]] result<extended_completion_queue> create_extended_cq(
      std::uint32_t capacity, const extended_completion_queue_options& options) const;
  /// A new completion channel: see completion_channel.hpp.
  [[nodiscard]] result<completion_channel> create_completion_channel() const;

  /// Closes the device now. Hands the context back when it is shared, by copies or by objects made
  /// from it, or when the verb refuses.
  close_result<context> close() && { return close_handle(std::move(*this)); }

 private:
  friend struct detail::internals;
  [[nodiscard]] result<void> stop_blocking_for_events() const;
  using handle::handle;
};

}  // namespace verbena::inline VERBENA_ABI
