// SPDX-License-Identifier: MIT
// A connected queue pair that the connection manager watches over. It comes from connector.hpp or
// listener.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "verbena/base/deadline.hpp"
#include "verbena/base/result.hpp"
#include "verbena/cm/event_channel.hpp"
#include "verbena/cm/identifier.hpp"
#include "verbena/verbs/memory_region.hpp"
#include "verbena/verbs/prepared_queue_pair.hpp"
#include "verbena/verbs/queue_pair.hpp"
#include "verbena/verbs/shared_receive_queue.hpp"

namespace verbena::inline VERBENA_ABI::cm {

/// Which side's program sends the first message. On iWARP the answering side may not send before it
/// has received, and the library sees to that: see connection_options::first.
enum class first_sender : std::uint8_t {
  asking,     ///< the connector's
  answering,  ///< the listener's
};

/// Posts the receives that the peer's first messages need, to a queue pair that takes them already
/// while the peer cannot send yet.
using receive_poster = std::function<result<void>(queue_pair<rc>&)>;

/// How to answer or to ask. Threads: immutable value.
struct connection_options {
  /// Bytes for the peer's program: of a request at most 56, of an answer at most 196.
  std::span<const std::byte> private_data = {};
  /// Reads and atomics of the peer that this side answers at once. Not given: `read_depth` of the
  /// queue pair's options, reduced to what the device can and the peer asks for.
  std::optional<std::uint8_t> responder_resources = {};
  /// Reads and atomics that this side has under way at once. Not given: the same.
  std::optional<std::uint8_t> initiator_depth = {};
  /// Both sides have to say the same. With `answering` on iWARP, accept() returns when this side
  /// may send: connect() has written 8 bytes to the peer three times within 50 ms, with three
  /// places in its send queue until the next signaled request has completed. The answer has room
  /// for 21 bytes less of private data.
  first_sender first = first_sender::asking;
};

/// A reliable connection. Dropping it closes the connection at once, also when other handles keep
/// the identifier alive; requests outstanding are flushed. Threads: one thread at a time.
class [[nodiscard]] connection {
 public:
  /// Takes over the connection of the other, which must not be used afterwards.
  connection(connection&&) noexcept = default;
  /// Closes its own connection and takes over the other's.
  connection& operator=(connection&& other) noexcept;
  ~connection();

  /// The queue pair, ready for everything. On iWARP the side that asked sends first, and the other
  /// one must not send before it has received, but for connection_options::first.
  [[nodiscard]] queue_pair<rc>& queue() noexcept { return queue_; }
  /// Hands the queue pair to an owner who destroys it before this connection goes, and who flushes
  /// it: disconnect() and is_disconnected() then do not. queue() must not be used afterwards.
  [[nodiscard]] queue_pair<rc> take_queue() noexcept {
    owns_queue_ = false;
    return std::move(queue_);
  }
  /// What the peer said in its request or its answer, filled up with zeros by the transport.
  [[nodiscard]] std::span<const std::byte> peer_private_data() const noexcept { return said_; }
  /// The address of this side.
  [[nodiscard]] std::optional<socket_address> local_address() const { return id_.local_address(); }
  /// The address of the peer.
  [[nodiscard]] std::optional<socket_address> peer_address() const { return id_.peer_address(); }
  /// The identifier, for what this class does not offer.
  [[nodiscard]] identifier& id() noexcept { return id_; }

  /// Readable when the connection has something to say: then call is_disconnected().
  [[nodiscard]] int event_fd() const { return channel_.fd(); }
  /// Whether either side closed the connection. Takes what the connection manager has to say, and
  /// flushes the queue pair when it is the end. Never blocks. Errors: as
  /// event_channel::poll_event().
  [[nodiscard]] result<bool> is_disconnected();
  /// Waits until either side closes the connection; false when the deadline passes. Blocks.
  [[nodiscard]] result<bool> wait_disconnected(deadline until);

  /// Closes the connection: the requests outstanding are flushed, and the peer is told. Does not
  /// wait for the peer; wait_disconnected() does. A second call does nothing.
  [[nodiscard]] result<void> disconnect();
  /// Takes the connection for established when the queue pair reports `communication_established`:
  /// see identifier::notify().
  [[nodiscard]] result<void> notify_established() {
    return id_.notify(async_event_kind::communication_established);
  }

 private:
  friend class connector;
  friend class connection_request;
  connection(event_channel channel, identifier id, queue_pair<rc> queue,
             std::vector<std::byte> said) noexcept
      : channel_(std::move(channel)),
        id_(std::move(id)),
        said_(std::move(said)),
        queue_(std::move(queue)) {}
  void close() noexcept;
  [[nodiscard]] result<void> flush();

  event_channel channel_;
  identifier id_;
  std::vector<std::byte> said_;
  bool closed_ = false;                    // this side closed it
  bool disconnected_ = false;              // the connection manager said so
  bool owns_queue_ = true;                 // nobody took it
  queue_pair<rc> queue_;                   // goes before the identifier
  std::optional<memory_region> go_ahead_;  // the word of first_sender; goes before all
};

namespace detail {

/// What an asking and an asked side have in common before they are connected: a device is known.
/// Threads: one thread at a time.
class bound {
 public:
  /// The device: make the protection domain, the completion queues and the memory from it.
  [[nodiscard]] result<verbena::context> context() const { return id_.context(); }
  /// The port of the device that the connection goes by.
  [[nodiscard]] port_number port() const { return id_.port().value_or(port_number(1)); }
  /// The address of this side.
  [[nodiscard]] std::optional<socket_address> local_address() const { return id_.local_address(); }
  /// The address of the peer.
  [[nodiscard]] std::optional<socket_address> peer_address() const { return id_.peer_address(); }
  /// The identifier, for what this class does not offer.
  [[nodiscard]] identifier& id() noexcept { return id_; }

  /// A queue pair at the port of the connection; arguments and errors as of
  /// protection_domain::create_queue_pair().
  [[nodiscard]] result<prepared_queue_pair<rc>> create_queue_pair(
      const protection_domain& pd, const completion_queue& send, const completion_queue& receive,
      queue_pair_options<rc> options = {}) const {
    options.port = port();
    return pd.create_queue_pair<rc>(send, receive, options);
  }
  /// The same with the receives of a shared queue.
  [[nodiscard]] result<prepared_queue_pair<rc>> create_queue_pair(
      const protection_domain& pd, const completion_queue& send, const completion_queue& receive,
      const shared_receive_queue& shared, queue_pair_options<rc> options = {}) const {
    options.port = port();
    return pd.create_queue_pair<rc>(send, receive, shared, options);
  }

 protected:
  bound(event_channel channel, identifier id) noexcept
      : channel_(std::move(channel)), id_(std::move(id)) {}

  event_channel channel_;
  identifier id_;
};

}  // namespace detail

}  // namespace verbena::inline VERBENA_ABI::cm
