// SPDX-License-Identifier: MIT
// Commands that inject events and faults.
#pragma once

#include <functional>
#include <string>

#include "softdev/host/host.hpp"
#include "softdev/shim/word_reader.hpp"

namespace verbena::softdev {

/// A command. Returns 0 or an errno.
using command = std::function<int(host& home)>;

/// Commands of one kind. `read` returns an empty function if the next word is not the name of such
/// a command; it reports other errors through word_reader::problem(). `names` returns the names,
/// for error messages.
struct command_family {
  command (*read)(word_reader& words);
  std::string (*names)();
};

/// Reads a command of any family; script.cpp. If it is invalid, words.problem() is set.
[[nodiscard]] command read_command(word_reader& words);

/// Events of the device and its port; device_commands.cpp.
[[nodiscard]] command_family device_commands() noexcept;
/// Faults of requests; fault_commands.cpp.
[[nodiscard]] command_family fault_commands() noexcept;
/// Faults of memory regions, completion queues and peers; object_commands.cpp.
[[nodiscard]] command_family object_commands() noexcept;

}  // namespace verbena::softdev
