// SPDX-License-Identifier: MIT
// What the server does for one client.
#pragma once

#include <string>

#include "examples/rcopy/files.hpp"
#include "examples/rcopy/options.hpp"
#include "examples/rcopy/transfer.hpp"
#include "verbena/bringup/stream.hpp"
#include "verbena/verbs/context.hpp"

namespace rcopy {

/// A description of the client's actions for the server's log.
struct session_report {
  std::string line;
  bool ok = false;
};

/// Serves one client to its end, good or bad. Blocks. `interrupted_fd` ends it early.
[[nodiscard]] session_report serve_client(verbena::bringup::stream& client, const directory& files,
                                          const verbena::context& device,
                                          const serve_options& options, int interrupted_fd);

}  // namespace rcopy
