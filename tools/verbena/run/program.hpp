// SPDX-License-Identifier: MIT
// Finds the file of a command, and the executable that the kernel starts for it.
#pragma once

#include <string>
#include <vector>

#include "tools/verbena/run/refusal.hpp"

namespace verbena::tool {

/// A program that can use the software device. Threads: immutable value.
struct program {
  std::string file;  ///< the path for execv(3)
  std::vector<std::string>
      interpreters;        ///< of a script, outermost first; the last is `executable`
  std::string executable;  ///< the ELF file that the kernel starts
  std::string loader;      ///< loader of the executable
};

/// Finds `name` as a shell does, in PATH unless it has a slash, and follows `#!` to an executable.
/// Refuses files that do not exist, cannot be executed, are for another machine, are statically
/// linked, or would run with privileges that differ from those of the user. Reads files.
[[nodiscard]] outcome<program> find_program(const std::string& name);

}  // namespace verbena::tool
