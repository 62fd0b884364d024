// SPDX-License-Identifier: MIT
// Commands that inject events and faults.
#pragma once

#include <functional>
#include <string>

#include "softdev/host/host.hpp"
#include "softdev/shim/word_reader.hpp"

namespace verbena::softdev {

/// Executes a command: 0 or an errno.
using command = std::function<int(host& home)>;

/// Commands of one kind. `read` returns an empty function if the next word names none of them; any
/// other error is the reader's problem. `names` lists them, for the error message.
struct command_family {
  command (*read)(word_reader& words);
  std::string (*names)();
};

/// Reads a command of any family; an empty function if it is invalid. script.cpp
[[nodiscard]] command read_command(word_reader& words);

/// Events of the device and its port; device_commands.cpp.
[[nodiscard]] command_family device_commands() noexcept;
/// Faults of requests; fault_commands.cpp.
[[nodiscard]] command_family fault_commands() noexcept;
/// Faults of memory regions, completion queues and peers; object_commands.cpp.
[[nodiscard]] command_family object_commands() noexcept;

}  // namespace verbena::softdev
