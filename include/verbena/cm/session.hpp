// SPDX-License-Identifier: MIT
// A connection with its queues, completions, buffers, and the advertised buffers of the peer.
// session_connector.hpp creates it on the active side, session_listener.hpp on the passive side.
//
//   auto inbox = session.create_buffer(4096).value();
//   session.receive({.id = 1}, inbox.slice()).value();
//   session.send({.id = 2, .signaled = true}, outbox.slice(0, 5)).value();
//   session.wait(cm::session_queue::send, 1, deadline::after(1s)).value();
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "verbena/base/deadline.hpp"
#include "verbena/base/result.hpp"
#include "verbena/bringup/advertisement.hpp"
#include "verbena/cm/connection.hpp"
#include "verbena/cm/session_base.hpp"
#include "verbena/cm/session_options.hpp"
#include "verbena/verbs/completion.hpp"

namespace verbena::inline VERBENA_ABI::cm {

/// A buffer of the peer, from session::wait_advertisement(). A buffer that the program describes
/// itself has the number 0.
using remote_buffer = bringup::advertised_buffer;

/// A reliable connection with queues, buffers and completions; it processes their events itself.
/// Both ends must be sessions if buffers are advertised, and always on iWARP; otherwise the peer
/// may be any program. Destroying it closes the connection.
///
/// Threads: thread-safe, except for moves and destruction, during which no other call may run.
/// Posting takes a lock. Only the functions whose names begin with `wait` block; one of the waiting
/// threads watches the device for all, and disconnect() wakes all of them.
class [[nodiscard]] session : public session_base {
 public:
  /// Moves the session; the other object must not be used afterwards.
  session(session&&) noexcept = default;
  /// Closes this session and moves the other one.
  session& operator=(session&&) noexcept = default;
  ~session() = default;

  /// Posts a send: a slice, a list of slices, or an empty list for a message without bytes. The
  /// memory must not change until this request or a later one completes. A successful request
  /// generates a completion only if it is `.signaled`; at least one of `max_send_wr` requests must
  /// be signaled. Does not block. Errors: those of receive().
  template <class Data>
    requires memory_slices<const Data&>
  [[nodiscard]] result<void> send(send_request request, const Data& data) {
    return post_send(request, detail::as_list(data));
  }
  /// Posts a write of `data` to `offset` in `to`. The rest of the description of send() also
  /// applies to write(). Errors: `invalid_argument` if the data exceeds `to`, or if `to` does not
  /// permit writes; ENOENT if the peer revoked `to`; those of send().
  template <class Data>
    requires memory_slices<const Data&>
  [[nodiscard]] result<void> write(send_request request, const Data& data, const remote_buffer& to,
                                   std::uint64_t offset = 0) {
    return post_write(request, detail::as_list(data), to, offset);
  }
  /// Posts a read from `offset` in `from` into all of `into`. The program must not access the
  /// memory until this request or a later one completes. If the device supports fewer slices per
  /// read, as on iWARP, several reads are posted, each with an entry in the queue. If the queue has
  /// entries only for some of them, the connection is closed as by disconnect(), and read() returns
  /// ECONNABORTED; the memory may be in use until the session has been destroyed. Errors: those of
  /// write().
  template <class Data>
    requires memory_slices<const Data&>
  [[nodiscard]] result<void> read(send_request request, const Data& into, const remote_buffer& from,
                                  std::uint64_t offset = 0) {
    return post_read(request, detail::as_list(into), from, offset);
  }

  /// Waits for `out.size()` completions of `queue`, oldest first. Blocks until `until`.
  ///
  /// Errors: that of the first failed request, with its id and the reason of the device; ECONNRESET
  /// if the peer closed the connection, ECONNABORTED if this side did; `timed_out`; those of
  /// polling. Other completions remain for later calls.
  [[nodiscard]] result<void> wait(session_queue queue, std::span<completion> out, deadline until);
  /// Waits for `count` completions and returns them. Allocates.
  [[nodiscard]] result<std::vector<completion>> wait(session_queue queue, std::size_t count,
                                                     deadline until);

  /// Advertises a buffer to the peer, with access flags and a name of at most 44 printable
  /// characters, which may be empty. The message consumes the peer's next receive, which must be
  /// one of expect_advertisement(). Returns the number of the buffer. The buffer must exist until
  /// the peer releases it or the connection ends. Does not block. Errors: those of
  /// bringup::advertisement_table::advertise(); ENOBUFS if session_options::max_messages are
  /// outstanding; those of send().
  [[nodiscard]] result<std::uint32_t> advertise(const local_buffer& buffer, access_flags access,
                                                std::string_view name = {});
  /// Revokes a buffer of this side: requests that the peer releases it. Does not block. Errors:
  /// those of bringup::advertisement_table::revoke() and of advertise().
  [[nodiscard]] result<void> revoke(std::uint32_t number);
  /// Releases a buffer of the peer, revoked or not. No request to it may be outstanding. Does not
  /// block. Errors: ENOENT for an unknown buffer; those of advertise().
  [[nodiscard]] result<void> release(const remote_buffer& buffer);
  /// Returns whether the peer has not released this buffer of this side.
  [[nodiscard]] bool is_advertised(std::uint32_t number) const;
  /// Returns whether new requests may use this buffer: the peer has not revoked it.
  [[nodiscard]] bool is_usable(const remote_buffer& buffer) const;
  /// Returns the advertised buffer of this name, or `nullopt`.
  [[nodiscard]] std::optional<remote_buffer> find(std::string_view name) const;

  /// Waits for the next advertised buffer of the peer. Blocks until `until`.
  /// Errors: ENOMSG if there is none and no expect_advertisement() is outstanding; `protocol` if
  /// the message is not an advertisement message; otherwise those of wait().
  [[nodiscard]] result<remote_buffer> wait_advertisement(deadline until);
  /// Waits until the peer revokes one of its buffers, or releases one of this side. Blocks until
  /// `until`. Errors: those of wait_advertisement().
  [[nodiscard]] result<bringup::advertisement_update> wait_update(deadline until);

  /// Closes the connection: flushes outstanding requests, notifies the peer and ends all waiting
  /// calls. A second call has no effect. Errors: those of connection::disconnect().
  [[nodiscard]] result<void> disconnect();
  /// Waits until either side closes the connection. Returns false if the deadline passes. Blocks.
  [[nodiscard]] result<bool> wait_disconnected(deadline until);

  /// Returns the private data of the peer's request or reply, padded with zeros by the transport.
  [[nodiscard]] std::span<const std::byte> peer_private_data() const;
  /// Returns the connection, for calls that this class does not offer. Not thread-safe: no other
  /// call of the session may run while it is used.
  [[nodiscard]] cm::connection& connection();

 private:
  friend class session_connector;
  friend class session_request;
  using session_base::session_base;
  [[nodiscard]] result<void> post_send(send_request request, std::span<const local_slice> data);
  [[nodiscard]] result<void> post_write(send_request request, std::span<const local_slice> data,
                                        const remote_buffer& to, std::uint64_t offset);
  [[nodiscard]] result<void> post_read(send_request request, std::span<const local_slice> into,
                                       const remote_buffer& from, std::uint64_t offset);
};

}  // namespace verbena::inline VERBENA_ABI::cm
