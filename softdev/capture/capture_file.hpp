// SPDX-License-Identifier: MIT
// Where captured packets go: a file in the format pcapng, which several processes append to, or the
// socket of a program that reads them.
#pragma once

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

/// What is stored with a packet besides its bytes.
struct packet_notes {
  enum class way : std::uint8_t { unknown, inbound, outbound };
  way direction = way::unknown;
  std::string_view comment;  ///< at most capture_file::max_comment_bytes; empty: none
};

/// Blocks of packets, which are written together. A packet that cannot be written is counted, and
/// the next one that can says how many are missing before it. Threads: one thread at a time.
class capture_file {
 public:
  /// Opens `path`. A file that does not exist is made, for this user only; one that exists must be
  /// a regular file of this user and a capture of soft0, and is continued. Errors:
  /// `invalid_argument` for another file, or the errno of the system.
  [[nodiscard]] static result<capture_file> open(const std::string& path);

  /// Adds a packet of `original_bytes`, of which `captured` are stored; writes what was added
  /// before if there is no room. Time: nanoseconds since 1970. Preconditions: `captured` has at
  /// most max_captured_bytes, and the comment max_comment_bytes. Does not allocate.
  void add(std::uint64_t time_ns, std::span<const std::byte> captured, std::size_t original_bytes,
           const packet_notes& notes = {}) noexcept;
  /// Counts a packet that could not be made.
  void note_lost() noexcept { ++lost_; }
  /// Writes what was added. Waits for the reader of a socket, at most longest_wait_ms; after a
  /// reader that was slower, not until it has read several times.
  void flush() noexcept;

  static constexpr std::size_t max_captured_bytes = 5000;
  static constexpr std::size_t max_comment_bytes = 64;
  static constexpr int longest_wait_ms = 200;

 private:
  static constexpr std::size_t buffer_bytes = 32768;
  static constexpr int after_slow_reader = 16;
  enum class medium : std::uint8_t { file, socket };
  capture_file(unique_fd fd, medium kind) : fd_(std::move(fd)), medium_(kind) {}
  [[nodiscard]] static result<capture_file> connect(const std::string& path);
  [[nodiscard]] ssize_t send_all() noexcept;
  [[nodiscard]] bool write_all() noexcept;

  unique_fd fd_;
  medium medium_;
  bool stopped_ = false;        ///< a block was written in part: what followed it could not be read
  int sends_without_wait_ = 0;  ///< so many must succeed before the reader is waited for
  std::uint64_t lost_ = 0;      ///< packets that no written block has reported
  std::uint64_t reported_ = 0;  ///< of them, in the buffer
  std::uint32_t packets_ = 0;   ///< in the buffer
  std::size_t filled_ = 0;
  std::vector<std::byte> buffer_ = std::vector<std::byte>(buffer_bytes);
};

}  // namespace verbena::softdev::capture
