// SPDX-License-Identifier: MIT
// Determines the libraries of a program with its dynamic loader.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace verbena::tool {

/// How a program depends on libibverbs.
enum class dependence : std::uint8_t {
  linked,      ///< the program or a library of it needs libibverbs.so.1, which is installed
  missing,     ///< the program needs libibverbs.so.1, which is not installed
  not_linked,  ///< the program does not need libibverbs.so.1, but may load it at run time
  not_known,   ///< the loader did not list the libraries
};

/// The libraries of a program. Threads: immutable value.
struct loaded_libraries {
  dependence on_libibverbs = dependence::not_known;
  std::vector<std::string> paths;  ///< of all libraries that were found
};

/// Runs `loader --list executable` in the current environment, without running the program. Blocks
/// for a few milliseconds.
[[nodiscard]] loaded_libraries ask_loader(const std::string& loader, const std::string& executable);

/// Parses the output of the loader.
[[nodiscard]] loaded_libraries read_loader_list(const std::string& list);

}  // namespace verbena::tool
