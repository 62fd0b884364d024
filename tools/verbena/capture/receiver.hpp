// SPDX-License-Identifier: MIT
// Receives the packets of several processes and writes them to one stream.
#pragma once

#include <string>

#include "tools/verbena/capture/blocks.hpp"
#include "verbena/base/fd.hpp"

namespace verbena::tool {

/// A socket in a folder of this user, and the stream that it feeds. Threads: one thread at a time.
class receiver {
 public:
  /// Makes the socket. Throws std::system_error.
  explicit receiver(int output);
  ~receiver();
  receiver(const receiver&) = delete;
  receiver& operator=(const receiver&) = delete;

  /// The value of VERBENA_SOFTDEV_CAPTURE for the processes.
  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  /// Writes what arrives within 50 ms.
  void receive();
  /// Writes what has arrived.
  void drain();
  [[nodiscard]] const packet_count& count() const noexcept { return count_; }

 private:
  [[nodiscard]] bool receive_one(int flags);

  const int output_;
  std::string folder_;
  std::string path_;
  unique_fd socket_;
  bool begun_ = false;   ///< the header was written
  bool broken_ = false;  ///< the stream has no reader any more
  packet_count count_;
};

}  // namespace verbena::tool
