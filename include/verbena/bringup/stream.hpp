// SPDX-License-Identifier: MIT
// A connection between two sides that bring up queue pairs: TCP, or a socket of the program.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "verbena/base/attributes.hpp"
#include "verbena/base/deadline.hpp"
#include "verbena/base/fd.hpp"
#include "verbena/base/result.hpp"
#include "verbena/base/steps.hpp"
#include "verbena/bringup/address.hpp"
#include "verbena/bringup/frame.hpp"

namespace verbena::inline VERBENA_ABI::bringup {

namespace detail {
class carrier;
class greeter;
}  // namespace detail

/// Limits of a stream. Threads: immutable value.
struct stream_options {
  /// The largest blob to send or to receive. A peer can make this side allocate this many bytes.
  std::size_t max_blob_bytes = 64 * 1024;
};

/// Options of stream::connect(). Threads: immutable value.
struct connect_options {
  /// How long to repeat a connection request that the host refuses because no process listens yet,
  /// at intervals of 200 ms. 0: do not repeat it. The deadline applies as well.
  std::chrono::nanoseconds retry_refused = std::chrono::nanoseconds(0);
  stream_options stream = {};  ///< limits of the stream
};

/// A connection with a peer that has sent its greeting. Transfers blobs of limited size in both
/// directions; each call has a deadline. Threads: one thread at a time.
///
/// After an error, all later calls return ENOTCONN, with two exceptions. After a failed send(),
/// receive() returns what the peer had sent, for example its reason to close the connection. After
/// a failed receive(), refuse() sends the reason of this side. A call of a moved-from or released
/// stream stops the program.
///
/// Errors of all calls: `timed_out`; `protocol` if the peer violates the format or the order of
/// calls; ECONNRESET if the peer closed the connection; ECONNABORTED with the peer's reason if the
/// peer gave up; otherwise the errno of the system call. All errors name the peer.
class stream {
 public:
  /// Resolves `to`, connects to one of its addresses and exchanges greetings. Blocks. A host name
  /// is resolved on a separate thread, so the deadline applies to that step as well.
  [[nodiscard]] static result<stream> connect(const address& to, deadline until,
                                              const connect_options& options = {});
  /// Connects in steps that do not block.
  [[nodiscard]] static steps<stream> connect_in_steps(address to, deadline until,
                                                      connect_options options = {});

  /// Takes over a connected stream socket of the program (TCP, AF_UNIX, socketpair(2)), and
  /// exchanges greetings. The peer calls adopt() for its end, or uses connect() or a listener.
  /// Takes ownership of the socket, even if this function fails, and makes it non-blocking. If the
  /// sides exchanged bytes before, both must have read all of them. Blocks.
  ///
  /// Errors: `invalid_argument` for a descriptor that is not a stream socket, or that listens;
  /// ENOTCONN for a socket that is not connected.
  [[nodiscard]] static result<stream> adopt(unique_fd socket, deadline until,
                                            const stream_options& options = {});
  /// Takes over a socket in steps that do not block.
  [[nodiscard]] static steps<stream> adopt_in_steps(unique_fd socket, deadline until,
                                                    stream_options options = {});

  /// Sends one blob; returns when the kernel has accepted all bytes.
  [[nodiscard]] result<void> send(std::span<const std::byte> blob, deadline until);
  /// Receives one blob.
  [[nodiscard]] result<std::vector<std::byte>> receive(deadline until);
  /// Sends one blob and receives one, in any order: both sides may call this at the same time, with
  /// blobs of any permitted length.
  [[nodiscard]] result<std::vector<std::byte>> exchange(std::span<const std::byte> blob,
                                                        deadline until);
  /// Sends a frame of type `type` and receives one of this type.
  [[nodiscard]] result<std::vector<std::byte>> exchange(frame_type type,
                                                        std::span<const std::byte> payload,
                                                        deadline until);

  /// Performs send(), receive() or exchange() in steps that do not block. The bytes are copied.
  /// Until the steps have ended, the stream must not be moved or used in any other way, except that
  /// a send can be performed during a receive. If the steps are destroyed before the end, all later
  /// calls return ENOTCONN.
  /// @{
  [[nodiscard]] steps<void> send_in_steps(std::span<const std::byte> blob, deadline until);
  [[nodiscard]] steps<std::vector<std::byte>> receive_in_steps(deadline until);
  [[nodiscard]] steps<std::vector<std::byte>> exchange_in_steps(std::span<const std::byte> blob,
                                                                deadline until);
  [[nodiscard]] steps<std::vector<std::byte>> exchange_in_steps(frame_type type,
                                                                std::span<const std::byte> payload,
                                                                deadline until);
  /// @}

  /// Sends the reason of the failure to the peer, and ends the stream. The peer's pending or next
  /// call returns `reason`. Does not block: if the socket buffer is full or ends with a part of a
  /// frame, the peer sees a closed connection.
  void refuse(std::string_view reason) noexcept;
  /// Ends the stream in both directions; the descriptor stays open until destruction.
  void shut_down() noexcept;

  /// Changes stream_options::max_blob_bytes for later calls, for example to a limit that the sides
  /// have agreed on.
  void set_max_blob_bytes(std::size_t bytes) noexcept { options_.max_blob_bytes = bytes; }
  /// Returns the peer's name: `192.0.2.1:4711`, or `process 4711` for a local socket.
  [[nodiscard]] const std::string& peer() const noexcept VERBENA_LIFETIMEBOUND { return peer_; }
  /// Returns the version of the protocol that both sides use.
  [[nodiscard]] std::uint16_t version() const noexcept { return version_; }
  /// Returns the non-blocking socket, for poll(2), or for bytes of the program between two calls:
  /// the stream reads nothing beyond the last frame. The stream keeps the ownership.
  [[nodiscard]] int fd() const noexcept { return socket_.get(); }
  /// Returns the socket, which is non-blocking, to the program. No byte beyond the last frame has
  /// been read. The stream must not be used afterwards.
  [[nodiscard]] unique_fd release() && noexcept { return std::move(socket_); }

 private:
  friend class detail::greeter;
  friend class detail::carrier;
  stream(unique_fd socket, std::string peer, stream_options options) noexcept
      : socket_(std::move(socket)), peer_(std::move(peer)), options_(options) {}

  // Ends the stream if steps fail or are destroyed, because a frame may be incomplete.
  class in_use {
   public:
    in_use(stream& of, bool receives) noexcept : of_(&of), receives_(receives) {}
    in_use(const in_use&) = delete;
    in_use& operator=(const in_use&) = delete;
    ~in_use() {
      if (of_ == nullptr) return;
      of_->usable_ = false;
      if (receives_) of_->can_receive_ = false;
    }
    void end() noexcept { of_ = nullptr; }

   private:
    stream* of_;
    bool receives_;
  };
  steps<void> greet(deadline until);
  void check_owned() const;
  result<void> check_usable(const char* call, std::size_t bytes) const;
  [[nodiscard]] error ended(const char* call) const;
  steps<void> write_all(std::span<const std::byte> bytes, deadline until);
  result<bool> write_some(std::span<const std::byte>& left);
  result<void> read_some(std::span<std::byte> room, std::size_t& count);
  steps<frame> run(const char* call, std::span<const std::byte> out, deadline until);
  result<std::vector<std::byte>> expect(const char* call, frame_type type, frame got);
  void end_with(std::span<const std::byte> bytes) noexcept;
  error broken(error why) noexcept;

  unique_fd socket_;
  std::string peer_;
  stream_options options_;
  std::uint16_t version_ = 0;
  bool usable_ = true;       // no call has failed
  bool can_receive_ = true;  // no frame was received in part
  bool can_refuse_ = true;   // no frame was sent in part
};

}  // namespace verbena::inline VERBENA_ABI::bringup
