// SPDX-License-Identifier: MIT
// Which file a command means, and which executable the kernel would start for it.
#pragma once

#include <string>
#include <vector>

#include "tools/verbena/run/refusal.hpp"

namespace verbena::tool {

/// A program that can be brought to the software device. Threads: immutable value.
struct program {
  std::string file;  ///< what is given to exec: a path
  std::vector<std::string>
      interpreters;        ///< of a script, outermost first; the last is `executable`
  std::string executable;  ///< the ELF file that the loader will see
  std::string loader;      ///< of the executable
};

/// Finds `name` as a shell does, in PATH unless it has a slash, and follows `#!` to an executable.
/// Refuses what does not exist, cannot be executed, is not for this machine, is linked statically,
/// or would run with other rights than the user's. Reads files.
[[nodiscard]] outcome<program> find_program(const std::string& name);

}  // namespace verbena::tool
