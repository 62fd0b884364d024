// SPDX-License-Identifier: MIT
// The server's side of one copy.
#pragma once

#include <string>

#include "examples/rcopy/files.hpp"
#include "examples/rcopy/options.hpp"
#include "examples/rcopy/transfer.hpp"
#include "verbena/bringup/stream.hpp"
#include "verbena/verbs/context.hpp"

namespace rcopy {

/// The result of one client's request.
struct session_report {
  std::string line;  ///< for the server's log
  bool ok = false;
};

/// Serves one client. Blocks until the copy has ended or `interrupted_fd` is readable.
[[nodiscard]] session_report serve_client(verbena::bringup::stream& client, const directory& files,
                                          const verbena::context& device,
                                          const serve_options& options, int interrupted_fd);

}  // namespace rcopy
