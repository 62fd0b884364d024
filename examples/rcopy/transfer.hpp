// SPDX-License-Identifier: MIT
// Both ends of a copy, once the way is chosen. Put and get differ only in who is at which end.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "examples/rcopy/conversation.hpp"
#include "examples/rcopy/files.hpp"
#include "examples/rcopy/progress.hpp"
#include "examples/rcopy/protocol.hpp"
#include "examples/rcopy/way.hpp"
#include "verbena/base/result.hpp"

namespace rcopy {

/// The result of a copy.
struct outcome {
  std::uint64_t file_bytes = 0;
  checksum sum{};
  double copy_seconds = 0;   ///< from the first chunk until the last one was taken
  double store_seconds = 0;  ///< until the receiver's disk had it
};

/// Sends the whole file and waits until the receiver has stored it. Errors: the receiver's words;
/// reading; the connection. Local failures are sent to the peer.
[[nodiscard]] verbena::result<outcome> send_file(outgoing_file& file, const way& by,
                                                 const conversation& with, progress& shown);

/// Receives the whole file, verifies it and stores it. Errors: a different checksum; writing; the
/// connection. Local failures are sent to the peer; an incomplete file is removed.
[[nodiscard]] verbena::result<outcome> receive_file(incoming_file file, std::uint64_t file_bytes,
                                                    const way& by, const conversation& with,
                                                    progress& shown);

/// An error as one line for the user.
[[nodiscard]] std::string one_line(const verbena::error& why);

}  // namespace rcopy
