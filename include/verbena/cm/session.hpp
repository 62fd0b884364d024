// SPDX-License-Identifier: MIT
// A connection with what a program needs to use it: queues, completions, buffers, and buffers of
// the peer. It comes from caller.hpp on the side that asks, and from server.hpp on the other.
//
//   auto inbox = session.create_buffer(4096).value();
//   session.receive({.id = 1}, inbox.slice()).value();
//   session.send({.id = 2, .signaled = true}, outbox.slice(0, 5)).value();
//   session.await(cm::session_queue::send, 1, deadline::after(1s)).value();
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
#include "verbena/cm/detail/session_side.hpp"
#include "verbena/cm/session_options.hpp"
#include "verbena/verbs/completion.hpp"

namespace verbena::inline VERBENA_ABI::cm {

/// A buffer of the peer, from session::wait_advertisement(); or described by other means, with the
/// number 0: address, length, key and rights.
using remote_buffer = bringup::advertised_buffer;

/// A reliable connection with queues, buffers and completions; it takes the events of all of them
/// itself. Both ends are sessions if they advertise buffers, and on iWARP in any case; else the
/// peer may be any program. Dropping it closes the connection.
///
/// Threads: thread-safe, but for moving and dropping it: no other call may be under way then.
/// Posting takes a lock; no call but await() and those that wait blocks. Of threads that wait, one
/// looks after the device for all, and disconnect() wakes each.
class [[nodiscard]] session : public detail::session_side {
 public:
  /// Takes over the session of the other, which must not be used afterwards.
  session(session&&) noexcept = default;
  /// Closes its own session and takes over the other's.
  session& operator=(session&&) noexcept = default;
  ~session() = default;

  /// Posts a message for the peer's next receive: a slice or a list of slices, or an empty list for
  /// a message without bytes. The memory must not change until the completion of this request or of
  /// a later one was there. Only those that are `.signaled` complete when they succeed; among as
  /// many as the queue holds, one must be. Does not block.
  /// Errors: as receive().
  template <class Data>
    requires memory_slices<const Data&>
  [[nodiscard]] result<void> send(send_request request, const Data& data) {
    return post_send(request, detail::as_list(data));
  }
  /// Posts a write of `data` to `offset` in `to`. Otherwise as send(). Errors: `invalid_argument`
  /// when it does not fit into `to`, or `to` must not be written; ENOENT when the peer wanted `to`
  /// back.
  template <class Data>
    requires memory_slices<const Data&>
  [[nodiscard]] result<void> write(send_request request, const Data& data, const remote_buffer& to,
                                   std::uint64_t offset = 0) {
    return post_write(request, detail::as_list(data), to, offset);
  }
  /// Posts a read from `offset` in `from` that fills `into`, which must be left alone until the
  /// completion of this request or of a later one was there. A device that takes fewer slices for a
  /// read, as iWARP does, gets several reads, each of which takes a place in the queue.
  /// Errors: as write().
  template <class Data>
    requires memory_slices<const Data&>
  [[nodiscard]] result<void> read(send_request request, const Data& into, const remote_buffer& from,
                                  std::uint64_t offset = 0) {
    return post_read(request, detail::as_list(into), from, offset);
  }

  /// Waits until all of `out` are completions of `queue`, oldest first. Blocks until `until`.
  ///
  /// Errors: that of the first request that failed, with its id and the device's reason; why the
  /// connection is over, when no more can come: ECONNRESET when the peer closed it, ECONNABORTED
  /// when this side did; `timed_out`; the device's. Completions of other requests stay for later.
  [[nodiscard]] result<void> await(session_queue queue, std::span<completion> out, deadline until);
  /// The same for `count` of them. Allocates.
  [[nodiscard]] result<std::vector<completion>> await(session_queue queue, std::size_t count,
                                                      deadline until);

  /// Tells the peer of a buffer, with the rights that it has there and a name of up to 44 printable
  /// characters, which may be empty. The message goes into the peer's next receive, which must be
  /// one of expect_advertisement(). Returns the number of the buffer, which must stay until the
  /// peer gave it back or the connection is over. Does not block.
  /// Errors: those of bringup::advertisement_book::advertise(); ENOBUFS when as many messages are
  /// outstanding as session_options::max_messages says; as send().
  [[nodiscard]] result<std::uint32_t> advertise(const local_buffer& buffer, access_flags rights,
                                                std::string_view name = {});
  /// Asks the peer to give a buffer of this side back. Does not block. Errors: as
  /// bringup::advertisement_book::revoke(), and as advertise().
  [[nodiscard]] result<void> revoke(std::uint32_t number);
  /// Gives a buffer back, whether the peer asked for it or not; no request to it may be
  /// outstanding. Does not block. Errors: ENOENT for one that this side does not have; as
  /// advertise().
  [[nodiscard]] result<void> give_back(const remote_buffer& buffer);
  /// Whether the peer has this buffer of this side and did not give it back.
  [[nodiscard]] bool is_lent(std::uint32_t number) const;
  /// Whether requests to a buffer of the peer may be begun: the peer did not want it back.
  [[nodiscard]] bool is_usable(const remote_buffer& buffer) const;
  /// A buffer of the peer by its name, if it was told of by now.
  [[nodiscard]] std::optional<remote_buffer> find(std::string_view name) const;

  /// The next buffer of the peer that was not handed out yet. Blocks until `until`.
  /// Errors: ENOMSG when none is there and no expect_advertisement() is outstanding; `protocol`
  /// when the message was not about buffers; otherwise as await().
  [[nodiscard]] result<remote_buffer> wait_advertisement(deadline until);
  /// The next message of the peer about a buffer that is known: it wants one of its own back, or
  /// gives one of this side back. Blocks until `until`. Errors: as wait_advertisement().
  [[nodiscard]] result<bringup::advertisement_news> wait_news(deadline until);

  /// Closes the connection: what is outstanding is flushed, the peer is told, and every call that
  /// waits ends. A second call does nothing. Errors: as connection::disconnect().
  [[nodiscard]] result<void> disconnect();
  /// Waits until either side closes the connection; false when the deadline passes. Blocks.
  [[nodiscard]] result<bool> wait_disconnected(deadline until);

  /// What the peer said in its request or its answer, filled up with zeros by the transport.
  [[nodiscard]] std::span<const std::byte> peer_private_data() const;
  /// The connection, for what this class does not offer. Not thread-safe: no other call of the
  /// session may be under way while it is used.
  [[nodiscard]] cm::connection& connection();

 private:
  friend class caller;
  friend class client;
  using session_side::session_side;
  [[nodiscard]] result<void> post_send(send_request request, std::span<const local_slice> data);
  [[nodiscard]] result<void> post_write(send_request request, std::span<const local_slice> data,
                                        const remote_buffer& to, std::uint64_t offset);
  [[nodiscard]] result<void> post_read(send_request request, std::span<const local_slice> into,
                                       const remote_buffer& from, std::uint64_t offset);
};

}  // namespace verbena::inline VERBENA_ABI::cm
