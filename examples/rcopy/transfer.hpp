// SPDX-License-Identifier: MIT
// The two sides of a copy after negotiation. For `put` the client sends; for `get` the server
// sends.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "examples/rcopy/conversation.hpp"
#include "examples/rcopy/files.hpp"
#include "examples/rcopy/progress.hpp"
#include "examples/rcopy/protocol.hpp"
#include "examples/rcopy/transfer_parameters.hpp"
#include "verbena/base/result.hpp"

namespace rcopy {

/// The result of a copy.
struct outcome {
  std::uint64_t file_bytes = 0;
  checksum sum{};
  double copy_seconds = 0;   ///< for the transfer of the chunks
  double store_seconds = 0;  ///< after the transfer, until the file is on disk
  time_shares sender;        ///< until the last chunk is sent
  time_shares receiver;      ///< until the last chunk is written
};

/// Sends the whole file and waits until the receiver has stored it. Errors: a refusal of the
/// receiver, a read error or a connection error. Local failures are sent to the peer.
[[nodiscard]] verbena::result<outcome> send_file(outgoing_file& file,
                                                 const transfer_parameters& parameters,
                                                 const conversation& with, progress& shown);

/// Receives the whole file, verifies it and stores it. Errors: a different checksum, a write error
/// or a connection error. Local failures are sent to the peer; an incomplete file is removed.
[[nodiscard]] verbena::result<outcome> receive_file(incoming_file file, std::uint64_t file_bytes,
                                                    const transfer_parameters& parameters,
                                                    const conversation& with, progress& shown);

/// Formats an error as one line for the user.
[[nodiscard]] std::string one_line(const verbena::error& failure);

}  // namespace rcopy
