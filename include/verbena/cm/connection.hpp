// SPDX-License-Identifier: MIT
// A connected queue pair with its connection manager identifier. connector.hpp and listener.hpp
// create it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "verbena/base/attributes.hpp"
#include "verbena/base/deadline.hpp"
#include "verbena/base/function_ref.hpp"
#include "verbena/base/owned_function.hpp"
#include "verbena/base/result.hpp"
#include "verbena/cm/event_channel.hpp"
#include "verbena/cm/identifier.hpp"
#include "verbena/verbs/prepared_queue_pair.hpp"
#include "verbena/verbs/queue_pair.hpp"
#include "verbena/verbs/shared_receive_queue.hpp"

namespace verbena::inline VERBENA_ABI::cm {

/// The side that sends the first message. On iWARP the passive side must not send before it has
/// received; see connection_options::first.
enum class first_sender : std::uint8_t {
  active,   ///< the connector
  passive,  ///< the listener
};

/// Refers to a function that posts the receives for the peer's first messages, before the peer can
/// send. It is called during the call that it is passed to.
using receive_poster = function_ref<result<void>(queue_pair<rc>&)>;
/// A receive_poster that is kept, for operations in steps.
using kept_receive_poster = owned_function<result<void>(queue_pair<rc>&)>;

/// Options of connector::connect() and connection_request::accept(). Threads: immutable value.
struct connection_options {
  /// Private data for the peer: at most 56 bytes in a request, 196 in a reply.
  std::span<const std::byte> private_data = {};
  /// Reads and atomics of the peer that this side serves at once. If not set: `read_depth` of the
  /// queue pair's options, reduced to the limit of the device and, on the passive side, to the
  /// responder resources of the request. A set value is not reduced; above the limit of the device,
  /// connect() or accept() returns `invalid_argument`.
  std::optional<std::uint8_t> responder_resources = {};
  /// Reads and atomics that this side may have in flight. If not set: `read_depth` of the queue
  /// pair's options, reduced to the limit of the device and, on the passive side, to the initiator
  /// depth of the request. A set value is not reduced; above a limit, connect() or accept() returns
  /// `invalid_argument`. On iWARP the request is not a limit of a set value.
  std::optional<std::uint8_t> initiator_depth = {};
  /// Both sides must set equal values. With `passive` on iWARP, accept() returns when the passive
  /// side may send. To permit that, connect() writes 8 bytes to the peer three times within 50 ms;
  /// the writes occupy three entries of its send queue until the next signaled request completes.
  /// The maximum length of the private data of the reply is then 21 bytes less.
  first_sender first = first_sender::active;
};

/// A reliable connection. Destroying it closes the connection, even if other copies keep the
/// identifier alive, and flushes outstanding requests. Threads: one thread at a time.
class [[nodiscard]] connection {
 public:
  /// Moves the connection; the other object must not be used afterwards.
  connection(connection&&) noexcept;
  /// Closes this connection and moves the other one.
  connection& operator=(connection&& other) noexcept;
  ~connection();

  /// Returns the queue pair, in the state RTS. On iWARP the active side sends first, and the
  /// passive side must not send before it has received, except with connection_options::first.
  [[nodiscard]] queue_pair<rc>& qp() & noexcept VERBENA_LIFETIMEBOUND { return queue_; }
  queue_pair<rc>& qp() && = delete;  // a temporary closes the connection
  /// Moves the queue pair to a new owner, which must destroy it before this connection and must
  /// flush it: disconnect() and is_disconnected() no longer do so. qp() must not be used
  /// afterwards. With first_sender::passive on iWARP, this connection also keeps the protection
  /// domain of the queue pair, in which it has a memory region.
  [[nodiscard]] queue_pair<rc> take_qp() noexcept {
    owns_queue_ = false;
    return std::move(queue_);
  }
  /// Returns the private data of the peer's request or reply, padded with zeros by the transport.
  [[nodiscard]] std::span<const std::byte> peer_private_data() const noexcept
      VERBENA_LIFETIMEBOUND {
    return said_;
  }
  /// Returns the local address.
  [[nodiscard]] std::optional<socket_address> local_address() const;
  /// Returns the peer's address.
  [[nodiscard]] std::optional<socket_address> peer_address() const;
  /// Returns the identifier, for calls that this class does not offer.
  [[nodiscard]] identifier& id() & noexcept VERBENA_LIFETIMEBOUND { return id_; }
  identifier& id() && = delete;

  /// Returns a descriptor for poll(2), readable if there are events: then call is_disconnected().
  [[nodiscard]] int fd() const { return channel_.fd(); }
  /// Returns whether either side closed the connection. Processes pending events; if the connection
  /// is closed, flushes the queue pair. Never blocks. Errors: those of event_channel::poll_event().
  [[nodiscard]] result<bool> is_disconnected();
  /// Waits until either side closes the connection. Returns false if the deadline passes. Blocks.
  [[nodiscard]] result<bool> wait_disconnected(deadline until);

  /// Closes the connection: flushes outstanding requests and notifies the peer. Does not wait for
  /// the peer; wait_disconnected() does. A second call has no effect.
  [[nodiscard]] result<void> disconnect();
  /// Treats the connection as established after the queue pair's event
  /// `communication_established`: see identifier::notify().
  [[nodiscard]] result<void> notify_established();

 private:
  friend class connector;
  friend class connection_request;
  connection(event_channel channel, identifier id, queue_pair<rc> queue,
             std::vector<std::byte> said) noexcept;
  void close() noexcept;
  [[nodiscard]] result<void> flush();

  event_channel channel_;
  identifier id_;
  std::vector<std::byte> said_;
  bool closed_ = false;        // this side closed it
  bool disconnected_ = false;  // reported by the connection manager
  bool owns_queue_ = true;     // take_qp() was not called
  queue_pair<rc> queue_;       // destroyed before the identifier
  // Owns the memory region for first_sender; destroyed first.
  std::shared_ptr<const void> ready_word_;
};

/// A connection that is not established yet: the device that reaches the peer is known. Base of
/// connector and connection_request. Threads: one thread at a time.
class pending_connection {
 public:
  /// Returns the device, to create protection domain, completion queues and memory.
  [[nodiscard]] result<verbena::context> context() const;
  /// Returns the port of the device that the connection uses.
  [[nodiscard]] port_number port() const;
  /// Returns the local address.
  [[nodiscard]] std::optional<socket_address> local_address() const;
  /// Returns the peer's address.
  [[nodiscard]] std::optional<socket_address> peer_address() const;
  /// Returns the identifier, for calls that this class does not offer.
  [[nodiscard]] identifier& id() noexcept { return id_; }

  /// Creates a queue pair at the port of the connection; arguments and errors as for
  /// protection_domain::create_qp().
  [[nodiscard]] result<prepared_queue_pair<rc>> create_qp(
      const protection_domain& pd, const completion_queue& send, const completion_queue& receive,
      queue_pair_options<rc> options = {}) const;
  /// Creates a queue pair that uses a shared receive queue.
  [[nodiscard]] result<prepared_queue_pair<rc>> create_qp(
      const protection_domain& pd, const completion_queue& send, const completion_queue& receive,
      const shared_receive_queue& shared, queue_pair_options<rc> options = {}) const;

 protected:
  pending_connection(event_channel channel, identifier id) noexcept
      : channel_(std::move(channel)), id_(std::move(id)) {}

  event_channel channel_;
  identifier id_;
};

}  // namespace verbena::inline VERBENA_ABI::cm
