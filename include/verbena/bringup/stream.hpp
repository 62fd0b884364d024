// SPDX-License-Identifier: MIT
// One TCP connection between two sides that bring up queue pairs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "verbena/base/deadline.hpp"
#include "verbena/base/fd.hpp"
#include "verbena/base/result.hpp"
#include "verbena/bringup/address.hpp"
#include "verbena/bringup/frame.hpp"

namespace verbena::inline VERBENA_ABI::bringup {

/// What a stream lets through. Threads: immutable value.
struct stream_options {
  /// Longer blobs are refused, sent or received. A peer can make this side allocate that much.
  std::size_t max_blob_bytes = 64 * 1024;
};

/// A connected peer that greeted: bounded blobs cross in both directions, each call with a deadline
/// that covers all of it. Threads: one thread at a time.
///
/// After an error the stream is of no further use: every later call returns ENOTCONN. Errors of all
/// calls: `timed_out`; `protocol` when the peer breaks the format or the order of calls;
/// ECONNRESET when it closed the connection, ECONNABORTED with its words when it gave up; otherwise
/// the errno of the system call. All name the peer.
class stream {
 public:
  /// Resolves `to`, connects to its addresses in turn and greets. Blocks; a host name is looked up
  /// on a thread of its own, so that the deadline holds for that too.
  [[nodiscard]] static result<stream> connect(const address& to, deadline until,
                                              stream_options options = {});

  /// Sends one blob; returns when the kernel has all of it.
  [[nodiscard]] result<void> send(std::span<const std::byte> blob, deadline until);
  /// Receives one blob.
  [[nodiscard]] result<std::vector<std::byte>> receive(deadline until);
  /// Sends one blob and receives one, whichever comes first: both sides may call this at once with
  /// blobs of any permitted length.
  [[nodiscard]] result<std::vector<std::byte>> exchange(std::span<const std::byte> blob,
                                                        deadline until);
  /// The same with frames of type `type`; the peer must send that type. For bring-up itself.
  [[nodiscard]] result<std::vector<std::byte>> exchange(frame_type type,
                                                        std::span<const std::byte> payload,
                                                        deadline until);
  /// Tells the peer why this side gives up, as far as that is possible without blocking, and ends
  /// the stream. The peer's pending or next call returns `reason`.
  void refuse(std::string_view reason) noexcept;
  /// Ends the stream in both directions; the descriptor stays open until destruction.
  void shut_down() noexcept;

  /// The peer as `192.0.2.1:4711`.
  [[nodiscard]] const std::string& peer() const noexcept { return peer_; }
  /// The version of the protocol that both speak.
  [[nodiscard]] std::uint16_t version() const noexcept { return version_; }
  /// The non-blocking socket, for poll(2), or for bytes without frames between two calls: nothing
  /// beyond the last frame was read from it. The stream keeps owning it.
  [[nodiscard]] int fd() const noexcept { return socket_.get(); }

 private:
  friend class listener;
  stream(unique_fd socket, std::string peer, stream_options options) noexcept
      : socket_(std::move(socket)), peer_(std::move(peer)), options_(options) {}

  result<void> greet(deadline until);
  result<void> check_usable(const char* call, std::size_t bytes) const;
  result<void> write_all(std::span<const std::byte> bytes, deadline until);
  result<bool> write_some(std::span<const std::byte>& left);
  result<void> read_some(std::span<std::byte> room, std::size_t& count);
  result<frame> run(const char* call, std::span<const std::byte> out, deadline until);
  error silent(const char* call, bool in_the_middle) const;
  result<std::vector<std::byte>> expect(const char* call, frame_type type, frame got);
  error broken(error why) noexcept;

  unique_fd socket_;
  std::string peer_;
  stream_options options_;
  std::uint16_t version_ = 0;
  bool usable_ = true;
};

}  // namespace verbena::inline VERBENA_ABI::bringup
