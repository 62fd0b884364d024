// SPDX-License-Identifier: MIT
// The list of hosts of `verbena launch`.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "verbena/base/result.hpp"

namespace verbena::tool {

/// A host that runs ranks. Threads: immutable value.
struct launch_host {
  std::string name;
  std::string user;         ///< empty: chosen by ssh
  std::uint16_t port = 0;   ///< 0: chosen by ssh
  std::uint32_t slots = 1;  ///< the number of ranks
  std::uint32_t most_slots = ~0U;
};

/// Reads lines `[USER@]HOST [slots=N] [max_slots=N] [user=USER] [port=PORT]`, the syntax of Open
/// MPI and the port; `#` begins a comment. Slots of several lines with one host, user and port are
/// added. Errors: `invalid_argument` names the line and the word.
[[nodiscard]] result<std::vector<launch_host>> parse_hosts(std::string_view text,
                                                           std::string_view name);

/// Reads a file; see parse_hosts(). Errors: the errno of opening it.
[[nodiscard]] result<std::vector<launch_host>> read_hosts(const std::string& file);

/// Reduces the slots to `ranks`, in the order of the file; 0: one rank for each slot. Hosts without
/// ranks are removed. Errors: `invalid_argument` if there are fewer slots.
[[nodiscard]] result<std::vector<launch_host>> place_ranks(std::vector<launch_host> hosts,
                                                           std::uint32_t ranks,
                                                           std::string_view name);

}  // namespace verbena::tool
