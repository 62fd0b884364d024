// SPDX-License-Identifier: MIT
// The destination of captured packets: a pcapng file, to which several processes append, or the
// socket of a program that reads the packets.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "verbena/base/fd.hpp"
#include "verbena/base/result.hpp"

namespace verbena::softdev::capture {

/// The data that is stored with a packet besides its bytes.
struct packet_notes {
  enum class way : std::uint8_t { unknown, inbound, outbound };
  way direction = way::unknown;
  std::string_view comment;  ///< at most capture_file::max_comment_bytes; empty: none
};

/// Collects the blocks of packets and writes them together. Counts packets that cannot be written;
/// the next written packet states how many are missing before it. Threads: one thread at a time.
class capture_file {
 public:
  /// Opens a file, or connects to the socket at `path`. Creates a file that does not exist, for
  /// this user only. An existing file must be a regular file of this user, and empty or a capture
  /// of soft0; packets are appended to it. A part of a block at its end, of a process that was
  /// killed, is removed. Errors: `invalid_argument` for another file, or the errno of the failed
  /// call.
  [[nodiscard]] static result<capture_file> open(const std::string& path);

  /// Adds a packet of `original_bytes` bytes, of which `captured` is stored. If the buffer has no
  /// room, first writes the packets in it. `time_ns`: nanoseconds since 1970. Preconditions:
  /// `captured` has at most max_captured_bytes, and the comment max_comment_bytes. Does not
  /// allocate.
  void add(std::uint64_t time_ns, std::span<const std::byte> captured, std::size_t original_bytes,
           const packet_notes& notes = {}) noexcept;
  /// Counts a packet that could not be recorded.
  void note_lost() noexcept { ++lost_; }
  /// Writes the packets in the buffer. Waits for the reader of a socket, at most longest_wait_ms,
  /// and for another process that writes to the file, at most longest_wait_for_file_ms. After a
  /// timeout, does not wait again until several calls have succeeded.
  void flush() noexcept;

  static constexpr std::size_t max_captured_bytes = 5000;
  static constexpr std::size_t max_comment_bytes = 64;
  static constexpr int longest_wait_ms = 200;
  static constexpr int longest_wait_for_file_ms = 2000;

 private:
  static constexpr std::size_t buffer_bytes = 32768;
  static constexpr int after_slow_reader = 16;
  enum class medium : std::uint8_t { file, socket };
  capture_file(unique_fd fd, medium kind) : fd_(std::move(fd)), medium_(kind) {}
  [[nodiscard]] static result<capture_file> connect(const std::string& path);
  [[nodiscard]] ssize_t send_all() noexcept;
  [[nodiscard]] ssize_t append_all() noexcept;
  [[nodiscard]] bool write_all() noexcept;

  unique_fd fd_;
  medium medium_;
  off_t end_ = 0;               ///< where a block of the file ends; all before are whole
  int sends_without_wait_ = 0;  ///< sends that must succeed before the next wait
  std::uint64_t lost_ = 0;      ///< lost packets that no written block reports
  std::uint64_t reported_ = 0;  ///< lost packets that a block in the buffer reports
  std::uint32_t packets_ = 0;   ///< packets in the buffer
  std::size_t filled_ = 0;
  std::vector<std::byte> buffer_ = std::vector<std::byte>(buffer_bytes);
};

}  // namespace verbena::softdev::capture
