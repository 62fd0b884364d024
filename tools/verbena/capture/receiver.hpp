// SPDX-License-Identifier: MIT
// Receives the packets of several processes and writes them to one stream.
#pragma once

#include <string>

#include "tools/verbena/capture/blocks.hpp"
#include "verbena/base/fd.hpp"

namespace verbena::tool {

/// A socket in a folder of this user, and the stream to which its packets are written. Threads: one
/// thread at a time.
class receiver {
 public:
  /// Creates the socket. Throws std::system_error.
  explicit receiver(int output);
  ~receiver();
  receiver(const receiver&) = delete;
  receiver& operator=(const receiver&) = delete;

  /// Returns the value of VERBENA_SOFTDEV_CAPTURE for the processes.
  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  /// Waits for packets for at most 50 ms, and writes those that arrive.
  void receive();
  /// Writes the packets that have arrived. Does not wait.
  void drain();
  /// Returns the numbers of written packets, and of packets that could not be written.
  [[nodiscard]] const packet_count& count() const noexcept { return count_; }
  /// Returns the errno of writing to the stream; 0 if all packets were written.
  [[nodiscard]] int failure() const noexcept { return failure_; }

 private:
  [[nodiscard]] bool receive_one(int flags);

  const int output_;
  std::string folder_;
  std::string path_;
  unique_fd socket_;
  bool begun_ = false;  ///< the header was written
  int failure_ = 0;     ///< errno of a failed write, after which packets are discarded
  packet_count count_;
};

}  // namespace verbena::tool
